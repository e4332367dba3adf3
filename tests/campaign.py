"""The number of random examples of a test: few before every commit, many with scripts/test --all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Set

from hypothesis import settings

IS_CAMPAIGN = bool(os.environ.get("LOGJUDGE_CAMPAIGN"))


def examples(some: int, many: int) -> settings:
    return settings(max_examples=many if IS_CAMPAIGN else some)


class Selection:
    """Chooses random histories: some of each kind, such as a breach that a naive twin finds, and of none.

    To make a history and to ask the twin costs a millisecond, to judge it a hundred. A campaign takes all.
    """

    def __init__(self, each: int) -> None:
        self.each = each
        self.met: Counter[Hashable] = Counter()

    def takes(self, kinds: Set[Hashable]) -> bool:
        """Whether to judge a history of these kinds."""
        kinds = kinds or {"none"}
        is_taken = IS_CAMPAIGN or min(self.met[kind] for kind in kinds) < self.each
        self.met.update(kinds if is_taken else ())
        return is_taken
