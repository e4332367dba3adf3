"""The result of each cause for a finding (`Attempt`), and of all causes together (`Explanation`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..timelines.facts import Fact


@dataclass
class Explanation:
    """A cause with its proof, or the reason why none is proved.

    cause: a name of CAUSES, or "unknown". chain: the facts that prove it, in order of time. prevented_by:
    measures that would have prevented it. missing: for "unknown", the evidence that would be needed.
    readings: if the evidence conflicts, every cause that it supports, each with its own chain.
    """

    cause: str
    chain: list[Fact] = field(default_factory=list)
    prevented_by: list[str] = field(default_factory=list)
    citation: str = ""
    missing: list[str] = field(default_factory=list)
    readings: list[Explanation] = field(default_factory=list)


@dataclass
class Attempt:
    """The result of one cause: proved by its chain; or undecided, as evidence is `missing`; or excluded (neither)."""

    proved: bool = False
    chain: list[Fact] = field(default_factory=list)
    prevented_by: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


NOT_THE_CASE = Attempt()


def needs(*missing: str) -> Attempt:
    """An undecided attempt, for which this evidence is missing."""
    return Attempt(missing=list(missing))
