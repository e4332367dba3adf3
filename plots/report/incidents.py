"""Incidents as text: root causes with dated steps, and the worst incidents and events for the report.

Each list is bounded, and comes with the number of items left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl

from ...analysis.causes import title_of
from ...analysis.causes.cases import LOSSES, UNKNOWN, Explanation
from ...analysis.incidents.incident import Incident
from ...analysis.rules import RULES
from ...analysis.timelines.facts import RESTART, Fact
from ...analysis.timelines.fault_kinds import DEATHS, fault_kind
from ...analysis.wording import either, nodes_of, plural, some
from ...histories.settings import UNDATED
from ..time_axis import clock
from .incident_times import when_of
from .rescue import rescue_of

MAX_STEPS = 40  # of an incident; verdict.json has all
MAX_CAUSES = 3  # causes in the headlines

Record = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One fact of a chain."""

    seconds: str  # since the start of the run; empty without a time or a client history
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
    when: str = ""  # the time of the incident
    rescue: str = ""  # where its lost records are

    @property
    def is_known(self) -> bool:
        """Whether the cause is proved."""
        return self.cause != UNKNOWN


def root_cause_of(incident: Incident, started_at: str | None) -> RootCause:
    """The root cause of an incident, with its steps in seconds since `started_at` and as times of day."""
    when, rescue = when_of(incident, started_at), rescue_of(incident)
    return replace(_root_cause(incident, started_at), incident=incident, when=when, rescue=rescue)


def _root_cause(of: Explanation, started_at: str | None) -> RootCause:
    readings = [_root_cause(one, started_at) for one in of.readings]
    steps, left_out = steps_of(of.chain, started_at)
    about = (of.prevented_by, of.citation, of.missing, readings)
    return RootCause(None, of.cause, title_of(of.cause), steps, left_out, *about)


def steps_of(chain: Sequence[Fact], started_at: str | None) -> tuple[list[Step], int]:
    """The steps of a chain in order of time, and the number left out."""
    facts = shown_facts(chain)
    return [step_of(fact, started_at or "") for fact in facts], len(chain) - len(facts)


def shown_facts(chain: Sequence[Fact]) -> list[Fact]:
    """The facts of a chain; if it is too long, those of the cluster and of as many whole partitions as fit."""
    if len(chain) <= MAX_STEPS:
        return list(chain)
    counts = Counter(fact.partition for fact in chain)
    room = MAX_STEPS - counts.pop(None, 0)
    shown: set[str | None] = {None}
    for name, count in counts.items():
        if count <= room or len(shown) == 1:  # the first partition in any case
            shown.add(name)
            room -= count
    return [fact for fact in chain if fact.partition in shown][: 2 * MAX_STEPS]


def sentence_of(incident: Incident, cited: bool) -> tuple[str, str]:
    """An incident and its prevention in a sentence, and its citation; prevention and citation only if `cited`."""
    text, citation = incident.headline, ""
    if incident.is_known:
        text += f". Prevented by {either(incident.prevented_by)}" if cited and incident.prevented_by else ""
        citation = f" [{incident.citation}]" if cited and incident.citation else ""
    elif incident.was_investigated:
        text += f"; {_unknown_cause(incident)}"
    elif incident.lost:
        names = list(dict.fromkeys(lost.name for lost in incident.lost))
        text += f"; without broker files of {some(names)} the cause is not known"
    return text, citation


def _unknown_cause(incident: Incident) -> str:
    if incident.readings:
        return "the evidence supports several causes: " + " and ".join(one.cause for one in incident.readings)
    return f"the cause is not known; missing evidence: {'; '.join(incident.missing[:3])}"


def step_of(fact: Fact, started_at: str) -> Step:
    """A fact as a step, with its time in seconds and as time of day."""
    time = fact.time
    return Step(
        "" if time is None or started_at == UNDATED else f"{time / 1e9:.3f}",
        "" if time is None else clock(started_at, time),
        fact.sentence,
        fact.source_text,
    )


def cause_headlines(incidents: Iterable[Incident]) -> list[str]:
    """The causes of the breaches with their prevention, a line each; none if no cause was searched.

    Permitted losses have causes, too, but are no breaches.
    """
    breaches = [one for one in incidents if one.severity == "violation"]
    if not any(one.was_investigated for one in breaches):
        return []
    causes: dict[str, Incident] = {}  # by name: the first incident of the cause with a loss, or else without
    for one in sorted(breaches, key=lambda one: not one.lost):
        if one.is_known:
            causes.setdefault(one.cause, one)
    if not causes:
        return ["The cause is not known."]
    has_losses = any(one.lost for one in breaches)
    explains_loss = any(one.lost for one in causes.values())
    first = ["The cause of the loss is not known."] if has_losses and not explains_loss else []
    return [*first, *_known_causes([*causes.values()], has_losses), *_unknown_causes(breaches, explains_loss)]


def _known_causes(incidents: Sequence[Incident], has_losses: bool) -> Iterator[str]:
    """A sentence for each of the first causes with its prevention, and the number of the others."""
    named: set[str] = set()
    for one in incidents[:MAX_CAUSES]:
        of_what = " of other breaches" if has_losses and not one.lost else ""
        title = title_of(one.cause)
        cause = f"{one.cause} ({title})" if title else one.cause
        yield f"Cause{of_what}: {cause}.{_prevention(one.prevented_by, named)}"
        named.update(one.prevented_by)
    if len(incidents) > MAX_CAUSES:
        yield f"{plural(len(incidents) - MAX_CAUSES, 'more cause')} below."


def _unknown_causes(breaches: Iterable[Incident], explains_loss: bool) -> Iterator[str]:
    """Sentences about the breaches without a known cause, if other breaches have one."""
    unknown = [one for one in breaches if not one.is_known and (one.was_investigated or one.lost)]
    records = sum(one.records for one in unknown)
    if records and explains_loss:
        yield f"The cause of {records:,} of the lost writes is not known."
    if not all(one.lost for one in unknown):
        yield "The cause of the other breaches is not known."


def _prevention(measures: Sequence[str], named: set[str]) -> str:
    """What prevents a cause, as a sentence; measures that were `named` before are "the same"."""
    new = [measure for measure in measures if measure not in named]
    prevented = either(new if len(new) == len(measures) else ["the same", *new])
    return f" Prevented by: {prevented}." if measures else ""


class CauseImpact(NamedTuple):
    """The lost records that a cause explains."""

    cause: str
    lost: int
    read: int | None  # those that had been read; None if not known


def impact_by_cause(incidents: Iterable[Incident]) -> list[CauseImpact]:
    """The impact of each cause, the greatest first."""
    totals: dict[str, tuple[int, int | None]] = {}
    for one in (one for one in incidents if one.was_investigated):
        for lost in one.lost:
            count, read = totals.get(one.cause, (0, 0))
            unknown = read is None or lost.read is None
            totals[one.cause] = (count + lost.count, None if unknown else (read or 0) + (lost.read or 0))
    impacts = [CauseImpact(name, *both) for name, both in totals.items()]
    return sorted(impacts, key=lambda impact: (-impact.lost, impact.cause))


MAX_INCIDENTS = 25
MAX_FINDINGS = 9  # of an incident
MAX_EVENTS = 60


@dataclass(frozen=True)
class IncidentFindings:
    """An incident with its worst findings."""

    incident: Incident
    finding: Record  # the worst
    others: list[Record]  # the other listed findings
    left_out: int  # findings that are not listed
    permitted: int  # findings that the configuration permits

    @property
    def counted(self) -> str:
        """The number of findings, permitted ones apart."""
        others = len(self.incident.findings) - self.permitted
        permitted = f"{self.permitted:,} permitted" if self.permitted else ""
        return " and ".join(filter(None, [plural(others, "finding") if others else "", permitted]))

    @property
    def findings(self) -> list[Record]:
        """The listed findings, the worst first."""
        return [self.finding, *self.others]


class RankedEvent(NamedTuple):
    """An event that may be a line of the timeline. If not all fit, those of the least rank are chosen."""

    rank: int
    time: int  # ns since the start
    kind: str
    text: str


@dataclass(frozen=True)
class Event:
    """A line of the timeline."""

    time: int  # ns since the start
    clock: str  # UTC, or empty if the start of the run is not known
    kind: str  # fault, heal, fact, finding
    text: str


def worst_incidents(incidents: Sequence[Incident], findings: pl.DataFrame) -> tuple[list[IncidentFindings], int]:
    """The worst incidents that have findings, and the number of findings that belong to none of these."""
    found = [incident for incident in incidents if incident.findings][:MAX_INCIDENTS]
    names = [name for incident in found for name in incident.findings[:MAX_FINDINGS]]
    rows = {row["id"]: row for row in findings.filter(pl.col("id").is_in(names)).iter_rows(named=True)}
    accepted = set(findings.filter(severity="permitted")["id"])
    listed = []
    for incident in found:
        worst, *others = (rows[name] for name in incident.findings[:MAX_FINDINGS])
        left_out, permitted = len(incident.findings) - 1 - len(others), len(accepted.intersection(incident.findings))
        listed.append(IncidentFindings(incident, worst, others, left_out, permitted))
    shown = {name for incident in found for name in incident.findings}
    return listed, len(findings) - len(shown)


def timeline(
    listed: Sequence[IncidentFindings], figures: dict[str, Any], incidents: Sequence[Incident] = ()
) -> tuple[list[Event], int]:
    """At most MAX_EVENTS faults, facts of known causes, and findings in order of time, and the number left out.

    The least severe kinds are left out first, and of one kind the latest events."""
    # The chain of a known cause is shown if it dates a loss, or findings that no operation of a client dates.
    undated = {entry.incident.number for entry in listed if any(map(of_brokers, entry.findings))}
    known = [one for one in incidents if one.is_known and (one.lost or one.number in undated)]
    losses = {name for incident in known for name in incident.findings if name.split("/")[0] in LOSSES}
    events = [*_faults(figures)]
    for rank, entry in enumerate(listed, 1):
        for finding in entry.findings:
            if finding["id"] not in losses and not of_brokers(finding):
                events += _events_of(finding, figures["times"].get(finding["id"]), rank)
    events += [*_facts(known, figures), *_leadership(known, figures)]
    chosen = sorted(events, key=lambda event: (event.rank, event.time))[:MAX_EVENTS]
    chosen.sort(key=lambda event: (event.time, event.rank))
    started = figures["started_at"]
    shown = [Event(time, clock(started, time), kind, text) for _, time, kind, text in chosen]
    return shown, len(events) - len(chosen)


def _faults(figures: dict[str, Any]) -> Iterator[RankedEvent]:
    """The begin and the end of each fault."""
    for band in figures["faults"]:
        nodes, place = nodes_of(band["nodes"]) if band["nodes"] else "", band.get("place", "")
        named = fault_kind(band["kind"]) + (f" of {nodes}" if nodes else "") + (f": {place}" if place else "")
        yield RankedEvent(0, band["from"], "fault", f"fault: {named}")
        if band["to"] not in (None, band["from"]):
            ended = f"{nodes} restarted" if band["kind"] == "kill" and nodes else named
            yield RankedEvent(0, band["to"], "heal", f"fault ended: {ended}")


def _facts(known: Sequence[Incident], figures: dict[str, Any]) -> list[RankedEvent]:
    """The dated facts of the chains of known causes, each once, without those that are listed as faults."""
    deaths = [band for band in figures["faults"] if band["kind"] in DEATHS]
    listed = {(kind, node) for band in deaths for node in band["nodes"] for kind in (band["kind"], RESTART)}
    facts = [fact for incident in known for fact in shown_facts(incident.chain)]
    shown = [one for one in facts if listed.isdisjoint((each.kind, each.broker) for each in (one, *one.also))]
    dated = {(fact.time, fact.sentence): None for fact in shown}
    return [RankedEvent(0, time, "fact", text) for time, text in dated if time is not None]


def _leadership(known: Sequence[Incident], figures: dict[str, Any]) -> Iterator[RankedEvent]:
    """Leader changes and truncations of partitions that have figures but no cause with these facts."""
    stated = {(fact.time, fact.partition, fact.broker) for incident in known for fact in shown_facts(incident.chain)}
    for part in figures["partitions"]:
        replicas = part.get("replicas")
        if not replicas or part.get("causes"):
            continue
        name = part["name"]
        for term in replicas["terms"][1:]:
            if term["time"] is not None and (term["time"], name, term["leader"]) not in stated:
                how = f" ({term['how']})" if term["how"] else ""
                text = f"broker {term['leader']} led {name} in epoch {term['epoch']}{how}"
                yield RankedEvent(1, term["time"], "fact", text)
        for time, broker, end, was in replicas["cuts"]:
            before = f" from offset {was}" if was is not None else ""
            if (time, name, broker) not in stated:
                yield RankedEvent(1, time, "fact", f"broker {broker} truncated {name}{before} to offset {end}")


def _events_of(finding: Record, times: Record | None, rank: int) -> list[RankedEvent]:
    """The events of a finding; for a loss its first and last acknowledgement."""
    if times is None or times["to"] is None:
        return []
    if finding["rule"] == "lost-write" and times["acked_from"] is not None:
        where = place_of(finding)
        first, last = times["acked_from"], times["acked_to"]
        if finding["count"] == 1:
            return [RankedEvent(rank, first, "finding", f"acknowledged, lost later: {where}")]
        lost = plural(finding["count"], "record")
        return [
            RankedEvent(rank, first, "finding", f"first acknowledgement of {lost}, lost later: {where}"),
            RankedEvent(rank, last, "finding", f"last acknowledgement of these records: {where}"),
        ]
    return [RankedEvent(rank, times["to"], "finding", f"{finding['rule']}: {finding['sentence']}")]


def place_of(finding: Record) -> str:
    """orders-0@255-630, without parts that are not known."""
    if finding["topic"] is None:
        return ""
    name = f"{finding['topic']}-{finding['partition']}"
    first, last = finding["first_offset"], finding["last_offset"]
    if first is None:
        return name
    return f"{name}@{first}" if last in (None, first) else f"{name}@{first}-{last}"


def of_brokers(finding: Record) -> bool:
    """Whether only brokers' files show the finding, so that no operation of a client dates it."""
    rule = RULES.get(finding["rule"])
    return rule is not None and rule.is_of_brokers


def found_in(listed: Sequence[IncidentFindings]) -> str:
    """Where the breaches were found: "the clients' history", "the brokers' files", or both."""
    breaches = [one for entry in listed for one in entry.findings if one["severity"] == "violation"]
    sources = {"the brokers' files" if of_brokers(one) else "the clients' history" for one in breaches}
    return " and ".join(sorted(sources, reverse=True))


class FirstSign(NamedTuple):
    """A finding of the first breach that a client could see."""

    time: int  # ns
    clock: str  # the time of day; empty if the start of the run is not recorded
    finding: Record


def first_sign(listed: list[IncidentFindings], figures: dict[str, Any]) -> FirstSign | None:
    """The first breach that a client could see. A loss is not seen when its records are acknowledged."""
    seen = []
    for entry in listed:
        for finding in entry.findings:
            times = figures["times"].get(finding["id"])
            is_breach = finding["severity"] == "violation" and finding["rule"] not in LOSSES
            if is_breach and not of_brokers(finding) and times and times["to"] is not None:
                seen.append((times["to"], finding["id"], finding))
    if not seen:
        return None
    time, _, finding = min(seen, key=lambda item: item[:2])
    return FirstSign(time, clock(figures["started_at"], time), finding)


def faults_before(listed: list[IncidentFindings], figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Faults that overlap the time from the first lost acknowledgement to the last evidence of a breach."""
    times = [figures["times"].get(entry.finding["id"]) for entry in listed if entry.finding["severity"] == "violation"]
    known = [row for row in times if row and row["to"] is not None]
    if not known:
        return []
    first = min(row["acked_from"] if row["acked_from"] is not None else row["from"] for row in known)
    last = max(row["to"] for row in known)
    return [band for band in figures["faults"] if band["from"] <= last and (band["to"] is None or band["to"] >= first)]
