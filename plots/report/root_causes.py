"""Incidents as text: their steps with times and sources, causes for a headline, and what each cause lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...analysis.causes import title_of
from ...analysis.causes.incidents import UNKNOWN, Incident
from ...analysis.wording import either, plural, some
from ..time_axis import clock

MAX_STEPS = 40  # of an incident; verdict.json has all
MAX_BLAMED = 3

Record = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One fact of a chain."""

    seconds: str  # since the start of the run; empty without a time
    clock: str  # UTC, or empty
    text: str
    source: str  # file:line or file byte N


@dataclass(frozen=True)
class RootCause:
    """The cause of an incident as text; for conflicting evidence, a root cause per reading."""

    incident: Incident | None
    cause: str
    title: str  # the cause in a sentence without its full stop; empty for an unknown one
    steps: list[Step]
    steps_left_out: int
    prevented_by: Sequence[str]
    citation: str
    missing: Sequence[str]
    readings: list[RootCause]

    @property
    def known(self) -> bool:
        """Whether the cause is proved."""
        return self.cause != UNKNOWN


def root_cause_of(incident: Incident, started_at: str | None) -> RootCause:
    """The root cause of an incident, with its steps in seconds since `started_at` and as times of day."""

    def root_cause(of: Incident | None, cause: str, chain: Sequence[Record], *proof: Any) -> RootCause:
        return RootCause(of, cause, title_of(cause), *steps_of(chain, started_at), *proof)

    readings = [
        root_cause(None, one["cause"], one["chain"], one["prevented_by"], one["citation"], [], [])
        for one in incident.readings
    ]
    about = (incident.prevented_by, incident.citation, incident.missing, readings)
    return root_cause(incident, incident.cause, incident.chain, *about)


def steps_of(chain: Sequence[Record], started_at: str | None) -> tuple[list[Step], int]:
    """The steps of a chain in order of time, and the number left out."""
    facts = shown_facts(chain)
    return [step_of(fact, started_at or "") for fact in facts], len(chain) - len(facts)


def shown_facts(chain: Sequence[Record]) -> list[Record]:
    """The facts of a chain; if it is too long, those of the cluster and of as many whole partitions as fit."""
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
    """An incident and its prevention in a sentence, and its citation; prevention and citation only if `cited`."""
    text, citation = incident.headline, ""
    if incident.known and cited:
        text += f". Prevented by {either(incident.prevented_by)}" if incident.prevented_by else ""
        citation = f" [{incident.citation}]" if incident.citation else ""
    elif not incident.known and incident.explained:
        text += f"; {_unknown_cause(incident)}"
    elif incident.lost and not incident.known:
        names = list(dict.fromkeys(lost.name for lost in incident.lost))
        text += f"; without broker files of {some(names)} the cause is not known"
    return text, citation


def _unknown_cause(incident: Incident) -> str:
    if incident.readings:
        return "the evidence supports several causes: " + " and ".join(one["cause"] for one in incident.readings)
    return f"the cause is not known; missing evidence: {'; '.join(incident.missing[:3])}"


def step_of(fact: Record, started_at: str) -> Step:
    """A fact as a step, with its time in seconds and as time of day."""
    time = fact["time"]
    return Step(
        "" if time is None else f"{time / 1e9:.3f}",
        "" if time is None else clock(started_at, time),
        fact["says"],
        source_of(fact),
    )


def source_of(fact: Record) -> str:
    """The source of a fact: file:line, or the byte in the file; all files that have it."""
    if fact.get("also"):
        return "; ".join(source_of({**one, "also": None}) for one in (fact, *fact["also"]))
    source = fact["source"] or ""
    if fact["line"] is not None:
        return f"{source}:{fact['line']}"
    return f"{source} byte {fact['byte']}" if fact["byte"] is not None else source


def cause_headlines(incidents: Iterable[Incident]) -> list[str]:
    """The causes of the breaches with their prevention, a line each; none if no cause was searched.

    Losses that the configuration permits have causes too, but are not breaches.
    """
    breaches = [one for one in incidents if one.severity == "violation" and one.explained]
    losses, unknown = [one for one in breaches if one.lost], [one for one in breaches if not one.known]
    causes: dict[str, Sequence[str]] = {}
    for one in sorted(breaches, key=lambda one: not one.lost):
        if one.known:
            causes.setdefault(one.cause, one.prevented_by)
    if breaches and not causes:
        return ["The cause is not known."]
    of_losses = {one.cause for one in losses if one.known}
    sentences = ["The cause of the loss is not known."] if losses and not of_losses else []
    named: set[str] = set()
    for cause, measures in list(causes.items())[:MAX_BLAMED]:
        new = [measure for measure in measures if measure not in named]
        prevented = either(new if len(new) == len(measures) else ["the same", *new])
        named.update(measures)
        of_what = " of other breaches" if losses and cause not in of_losses else ""
        prevention = f" Prevented by: {prevented}." if measures else ""
        sentences.append(f"Cause{of_what}: {_cause_sentence(cause)}.{prevention}")
    if len(causes) > MAX_BLAMED:
        sentences.append(f"{plural(len(causes) - MAX_BLAMED, 'more cause')} below.")
    records = sum(one.records for one in unknown)
    if records and of_losses:
        sentences.append(f"The cause of {records:,} of the lost writes is not known.")
    if not all(one.lost for one in unknown):
        sentences.append("The cause of the other breaches is not known.")
    return sentences


def _cause_sentence(cause: str) -> str:
    """unclean-election (an out-of-sync replica was elected, …)."""
    title = title_of(cause)
    return f"{cause} ({title})" if title else cause


def impact_by_cause(incidents: Iterable[Incident]) -> list[tuple[str, int, int | None]]:
    """Per cause: its name, lost records, and those of them that had been read (None if not known)."""
    totals: dict[str, tuple[int, int | None]] = {}
    for one in (one for one in incidents if one.explained):
        for lost in one.lost:
            count, read = totals.get(one.cause, (0, 0))
            unknown = read is None or lost.read is None
            totals[one.cause] = (count + lost.count, None if unknown else (read or 0) + (lost.read or 0))
    return sorted(((name, *both) for name, both in totals.items()), key=lambda row: (-row[1], row[0]))
