"""Shrinks a history that is not linearizable to a few operations that show it: delta debugging.

Dropping operations would end with *a read of 5*, the write of 5 dropped before it, and that shows nothing. So an
operation is not dropped but doubted: it may take effect at any time after its call, or never. Whatever is
linearizable stays so when it is doubted, and when an observation is left out. The few operations that are not
doubted in the end prove the failure, whatever all others did. The more are certain, the surer the failure, which is
what delta debugging needs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ..models.operations import Model, Operation
from ..models.porcupine import Part, check_operations

SECONDS, MEMORY = 2.0, 512 << 20  # of one check; a set of operations that takes longer does not count
FIRST_WINDOW = 4  # operations


class _Shrinker:
    """Checks which operations, certain among doubted ones, show the failure; operations are indices."""

    def __init__(
        self, model: Model[Any], operations: Sequence[Operation], before: list[int], deadline: float
    ) -> None:
        self.model, self.operations, self.before, self.deadline = model, operations, before, deadline
        self.doubted = {i for i in before if not model.observes(operations[i].action)}

    def is_over(self) -> bool:
        return time.monotonic() >= self.deadline

    def fails(self, certain: set[int]) -> bool:
        """Whether no linearization has the certain operations in their intervals."""
        history = [
            self.operations[i] if i in certain else self.operations[i]._replace(end=None)
            for i in self.before
            if i in certain or i in self.doubted
        ]
        seconds = min(SECONDS, max(0.01, self.deadline - time.monotonic()))
        return check_operations(self.model, history, seconds, MEMORY).verdict == "illegal"

    def shrink(self, certain: list[int]) -> list[int]:
        """Zeller's ddmin, complements only: doubt ever smaller chunks while what is left still fails."""
        chunk = max(1, len(certain) // 2)
        while not self.is_over():
            start, doubted = 0, False
            while start < len(certain) and not self.is_over():
                rest = certain[:start] + certain[start + chunk :]
                if rest and self.fails(set(rest)):
                    certain, doubted = rest, True
                else:
                    start += chunk
            if chunk == 1 and not doubted:
                break
            chunk = max(1, chunk // 2)
        return certain


def minimal_failure(
    model: Model[Any], operations: Sequence[Operation], part: Part, seconds: float = 20
) -> list[int] | None:
    """A few operations that cannot all be placed, whatever the others did: indices, in the order of their calls.

    `part` is what the engine says of the history. After `seconds` it is the fewest found so far; None if none were.
    """
    if part.blocked is None or part.verdict != "illegal":
        return None
    blocked = operations[part.blocked]
    assert blocked.end is not None
    # What was called after the end of the operation that could not be placed has no say in it.
    before = sorted(
        (i for i in part.operations if operations[i].call <= blocked.end), key=lambda i: operations[i].call
    )
    shrinker = _Shrinker(model, operations, before, time.monotonic() + seconds)
    completed = [i for i in before if operations[i].end is not None]
    completed.sort(key=lambda i: operations[i].end or 0)
    # Those that ended by then, the last first: most failures are young.
    upto = completed[: completed.index(part.blocked) + 1]
    window = FIRST_WINDOW
    while not shrinker.is_over():
        recent = upto[-window:]
        if shrinker.fails(set(recent)):
            return sorted(shrinker.shrink(recent), key=lambda i: operations[i].call)
        if window >= len(upto):
            break
        window *= 2
    return None
