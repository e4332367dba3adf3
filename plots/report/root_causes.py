"""Incidents as text: their steps with times and sources, causes for a headline, and what each cause lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...analysis.causes.incidents import UNKNOWN, Incident
from ...analysis.wording import either, plural
from ..clock import clock

MAX_STEPS = 40  # of an incident; verdict.json has all
MAX_BLAMED = 3

Record = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One fact of a chain."""

    seconds: str  # since the start of the run; empty without a time
    clock: str  # UTC, or empty
    says: str
    source: str  # file:line or file byte N


@dataclass(frozen=True)
class RootCause:
    """Why an incident happened, as text; of conflicting evidence with a root cause for each reading."""

    incident: Incident | None
    cause: str
    steps: list[Step]
    steps_left_out: int
    prevented_by: Sequence[str]
    citation: str
    missing: Sequence[str]
    readings: list[RootCause]

    @property
    def known(self) -> bool:
        return self.cause != UNKNOWN


def root_cause_of(incident: Incident, started_at: str | None) -> RootCause:
    """The root cause of an incident, with its steps in seconds since `started_at` and as times of day."""
    readings = [
        RootCause(None, one["cause"], *steps_of(one["chain"], started_at), one["prevented_by"], one["citation"], [], [])
        for one in incident.readings
    ]
    steps = steps_of(incident.chain, started_at)
    return RootCause(
        incident, incident.cause, *steps, incident.prevented_by, incident.citation, incident.missing, readings
    )


def steps_of(chain: Sequence[Record], started_at: str | None) -> tuple[list[Step], int]:
    """The steps of a chain in order of time, and how many are left out."""
    facts = shown_facts(chain)
    return [step_of(fact, started_at or "") for fact in facts], len(chain) - len(facts)


def shown_facts(chain: Sequence[Record]) -> list[Record]:
    """A chain, or where it is too long the facts of the cluster and of as many partitions as fit.

    A partition's facts stay together, as a part of them would explain nothing.
    """
    if len(chain) <= MAX_STEPS:
        return list(chain)
    many = Counter(fact.get("partition") for fact in chain)
    room = MAX_STEPS - many.pop(None, 0)
    shown: set[str | None] = {None}
    for name, facts in many.items():
        if facts <= room or len(shown) == 1:
            shown.add(name)
            room -= facts
    return [fact for fact in chain if fact.get("partition") in shown][: 2 * MAX_STEPS]


def sentence_of(incident: Incident, cited: bool) -> tuple[str, str]:
    """What an incident lost or broke and what would have prevented it, in a sentence, and its citation behind that;
    both measures and citation only where they are to be `cited`."""
    says, citation = incident.headline, ""
    if incident.known and cited:
        says += f". Prevented by {either(incident.prevented_by)}" if incident.prevented_by else ""
        citation = f" [{incident.citation}]" if incident.citation else ""
    elif not incident.known and incident.explained:
        needed = [f"{len(incident.readings)} readings conflict"] if incident.readings else incident.missing
        says += f"; the cause is not known, needed: {'; '.join(needed[:3])}"
    return says, citation


def step_of(fact: Record, started_at: str) -> Step:
    """A fact with its time in seconds and as time of day."""
    time = fact["time"]
    return Step(
        "" if time is None else f"{time / 1e9:.3f}",
        "" if time is None else clock(started_at, time),
        fact["says"],
        source_of(fact),
    )


def source_of(fact: Record) -> str:
    """Where a fact is written: file:line, or the byte in the file; of all files that have it."""
    if fact.get("also"):
        return "; ".join(source_of({**one, "also": None}) for one in (fact, *fact["also"]))
    source = fact["source"] or ""
    if fact["line"] is not None:
        return f"{source}:{fact['line']}"
    return f"{source} byte {fact['byte']}" if fact["byte"] is not None else source


def blame(incidents: Iterable[Incident]) -> str:
    """The causes of the breaches, each with what would have prevented it, for a headline; empty where no cause was
    looked for. What the configuration permits has causes too, but is no breach."""
    asked = [one for one in incidents if one.severity == "violation" and one.explained]
    causes = {one.cause: one.prevented_by for one in asked if one.known}
    if asked and not causes:
        return "The cause is not known."
    sentences = [
        f"Cause: {cause}" + (f", which would have been prevented by {either(prevented)}." if prevented else ".")
        for cause, prevented in list(causes.items())[:MAX_BLAMED]
    ]
    if len(causes) > MAX_BLAMED:
        sentences.append(f"{plural(len(causes) - MAX_BLAMED, 'more cause')} below.")
    if not all(one.known for one in asked):
        sentences.append("The cause of the rest is not known.")
    return " ".join(sentences)


def impact_by_cause(incidents: Iterable[Incident]) -> list[tuple[str, int, int | None]]:
    """Cause, lost records, and how many of them were consumed before (None where that is not known)."""
    totals: dict[str, tuple[int, int | None]] = {}
    for one in (one for one in incidents if one.explained):
        for lost in one.lost:
            count, read = totals.get(one.cause, (0, 0))
            unknown = read is None or lost.read is None
            totals[one.cause] = (count + lost.count, None if unknown else (read or 0) + (lost.read or 0))
    return sorted(((name, *both) for name, both in totals.items()), key=lambda row: (-row[1], row[0]))
