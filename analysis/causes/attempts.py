"""Attempts of single causes (a proof, missing evidence, or excluded), and the explanation that they combine to."""

from __future__ import annotations

from collections.abc import Mapping
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


def combine_attempts(attempts: Mapping[str, tuple[Attempt, str]], otherwise: str) -> Explanation:
    """The explanation from all attempts, by the name of their cause and with its citation.

    One proof is the cause, and two are a conflict. Without a proof the cause is unknown, and the explanation lists the
    missing evidence, or `otherwise` if no attempt names any.
    """
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
    missing = dict.fromkeys(item for attempt, _ in attempts.values() for item in attempt.missing)
    return Explanation("unknown", missing=list(missing) or [otherwise])


def needs(*missing: str) -> Attempt:
    """An inconclusive attempt, which needs this evidence."""
    return Attempt(missing=list(missing))
