"""Attempts of single causes (a proof, missing evidence, or excluded), and explanations, which they combine to."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..timelines.facts import Fact


@dataclass
class Explanation:
    """A cause with its chain, or why there is none.

    cause: a name of CAUSES, or "unknown". chain: the facts that prove it, in order of time. prevented_by:
    measures that would have prevented it. missing: for "unknown", the evidence that would be needed.
    readings: where the evidence conflicts, the causes that it supports, each with its own chain.
    """

    cause: str
    chain: list[Fact] = field(default_factory=list)
    prevented_by: list[str] = field(default_factory=list)
    citation: str = ""
    missing: list[str] = field(default_factory=list)
    readings: list[Explanation] = field(default_factory=list)


@dataclass
class Attempt:
    """The result of one cause: proved by a chain, or inconclusive without the `missing` evidence, or excluded."""

    proved: bool = False
    chain: list[Fact] = field(default_factory=list)
    prevented_by: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


NOT_THE_CASE = Attempt()


def needs(*missing: str) -> Attempt:
    """An inconclusive attempt, which needs this evidence."""
    return Attempt(missing=list(missing))
