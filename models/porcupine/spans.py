"""What monitors share: verdicts, and the times of operations, which are places among all events."""

from __future__ import annotations

from typing import NamedTuple

from ..compiled import Ints

LINEARIZABLE, ILLEGAL, UNDECIDED = range(3)


class Spans(NamedTuple):
    """The calls and ends of one part's operations, by operation; an end of `never` is an unknown outcome."""

    call: Ints
    end: Ints
    never: int
