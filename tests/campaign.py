"""How many random examples a test takes: some before every commit, many with scripts/test --all."""

from __future__ import annotations

import os

from hypothesis import settings

IS_CAMPAIGN = bool(os.environ.get("LOGJUDGE_CAMPAIGN"))


def examples(some: int, many: int) -> settings:
    return settings(max_examples=many if IS_CAMPAIGN else some)
