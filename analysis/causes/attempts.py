"""What a cause answers: a proof with its chain, what it lacks, or that it is not so; and what all answers come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..timelines.facts import Fact


@dataclass
class Explanation:
    """A cause with its chain, or why there is none.

    cause: a name of CAUSES, or "unknown". chain: the facts that carry it, in order of time. prevented_by:
    what would have prevented it. missing: for "unknown", the evidence that would be needed.
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
    """What a cause makes of the evidence: proved with a chain, or in want of `missing`, or not the case."""

    proved: bool = False
    chain: list[Fact] = field(default_factory=list)
    prevented_by: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


NOT_THE_CASE = Attempt()


def combine_attempts(attempts: Mapping[str, tuple[Attempt, str]], otherwise: str) -> Explanation:
    """What attempts of causes, each by its name and with its citation, come to: one proof is the cause, two are a
    conflict, and without any it is unknown for what they lack, or else `otherwise`."""
    proved = [
        Explanation(name, attempt.chain, attempt.prevented_by, citation)
        for name, (attempt, citation) in attempts.items()
        if attempt.proved
    ]
    if len(proved) == 1:
        return proved[0]
    if proved:
        conflict = "the evidence conflicts: it supports " + " and ".join(each.cause for each in proved)
        return Explanation("unknown", missing=[conflict], readings=proved)
    missing = dict.fromkeys(lacking for attempt, _ in attempts.values() for lacking in attempt.missing)
    return Explanation("unknown", missing=list(missing) or [otherwise])


def needs(*missing: str) -> Attempt:
    """An attempt that this evidence neither proves nor excludes."""
    return Attempt(missing=list(missing))
