"""Selects the worst incidents with their findings, and the most important events of the run, for the report.

Each list is bounded, and comes with the number of items left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...analysis.causes.cases import LOSSES
from ...analysis.causes.incidents import Incident
from ...analysis.timelines.facts import RESTART
from ...analysis.timelines.timeline import DEATHS
from ...analysis.wording import brokers, plural
from ..style import fault_kind
from ..time_axis import clock
from .root_causes import shown_facts

MAX_INCIDENTS = 25
MAX_FINDINGS = 9  # of an incident
MAX_MOMENTS = 60

Row = dict[str, Any]


@dataclass(frozen=True)
class IncidentFindings:
    """An incident with its worst findings."""

    incident: Incident
    finding: Row  # the worst
    others: list[Row]  # the other listed findings
    left_out: int  # findings that are not listed


@dataclass(frozen=True)
class Moment:
    """A line of the timeline."""

    time: int  # ns since the start
    clock: str  # UTC, or empty if the start of the run is not known
    kind: str  # fault, heal, fact, finding
    text: str


def worst_incidents(incidents: Sequence[Incident], findings: pl.DataFrame) -> tuple[list[IncidentFindings], int]:
    """The worst incidents that have findings, and the number of findings that only belong to other incidents."""
    found = [incident for incident in incidents if incident.findings][:MAX_INCIDENTS]
    ids = {incident.number: incident.findings[:MAX_FINDINGS] for incident in found}
    names = [name for listed in ids.values() for name in listed]
    rows = {row["id"]: row for row in findings.filter(pl.col("id").is_in(names)).iter_rows(named=True)}
    shown = {name for incident in found for name in incident.findings}
    return [
        IncidentFindings(
            incident, rows[first], [rows[name] for name in others], len(incident.findings) - 1 - len(others)
        )
        for incident in found
        for first, *others in [ids[incident.number]]
    ], len(findings) - len(shown)


def timeline(
    listed: Sequence[IncidentFindings], figures: dict[str, Any], incidents: Sequence[Incident] = ()
) -> tuple[list[Moment], int]:
    """At most MAX_MOMENTS faults, facts of known causes, and findings in order of time, and the number left out.

    The least severe kinds are left out first, and of one kind the latest moments."""
    moments = []
    for band in figures["faults"]:
        nodes, place = ", ".join(band["nodes"]), band.get("place", "")
        named = fault_kind(band["kind"]) + (f" of {nodes}" if nodes else "") + (f": {place}" if place else "")
        moments.append((0, band["from"], "fault", f"fault: {named}"))
        if band["to"] not in (None, band["from"]):
            ended = f"{brokers(band['nodes'])} restarted" if band["kind"] == "kill" and band["nodes"] else named
            moments.append((0, band["to"], "heal", f"fault ended: {ended}"))
    known = [incident for incident in incidents if incident.known and incident.lost]
    dated = {name for incident in known for name in incident.findings if name.split("/")[0] in LOSSES}  # by the chain
    for rank, entry in enumerate(listed):
        for finding in [entry.finding, *entry.others]:
            if finding["id"] not in dated:
                moments += [(rank + 1, *moment) for moment in _moments_of(finding, figures["times"].get(finding["id"]))]
    moments += [*_facts(known, figures), *_leadership(figures)]
    chosen = sorted(moments, key=lambda moment: (moment[0], moment[1]))[:MAX_MOMENTS]
    chosen.sort(key=lambda moment: (moment[1], moment[0]))
    started = figures["started_at"]
    shown = [Moment(time, clock(started, time), kind, text) for _, time, kind, text in chosen]
    return shown, len(moments) - len(chosen)


def _facts(known: Sequence[Incident], figures: dict[str, Any]) -> list[tuple[int, int, str, str]]:
    """The dated facts of the chains of known losses, each once, without those that are listed as faults."""
    stopped = [(band["kind"], node) for band in figures["faults"] for node in band["nodes"] if band["kind"] in DEATHS]
    faults = {(of_kind, node) for kind, node in stopped for of_kind in (kind, RESTART)}
    facts = [fact for incident in known for fact in shown_facts(incident.chain)]
    dated = {
        (fact["time"], fact["says"]): None for fact in facts if (fact.get("kind"), fact.get("broker")) not in faults
    }
    return [(0, time, "fact", text) for time, text in dated if time is not None]


def _leadership(figures: dict[str, Any]) -> list[tuple[int, int, str, str]]:
    """Leader changes and truncations of partitions that have figures but no cause with these facts."""
    moments: list[tuple[int, int, str, str]] = []
    for part in figures["partitions"]:
        replicas = part.get("replicas")
        if not replicas or part.get("causes"):
            continue
        name = part["name"]
        for term in replicas["terms"][1:]:
            if term["time"] is not None:
                how = f" ({term['how']})" if term["how"] else ""
                text = f"broker {term['leader']} led {name} in epoch {term['epoch']}{how}"
                moments.append((1, term["time"], "fact", text))
        for time, broker, end, was in replicas["cuts"]:
            before = f" from offset {was}" if was is not None else ""
            moments.append((1, time, "fact", f"broker {broker} truncated {name}{before} to offset {end}"))
    return moments


def _moments_of(finding: Row, times: Row | None) -> list[tuple[int, str, str]]:
    """The moments of a finding as time (ns), kind and text; for a loss its first and last acknowledgement."""
    if times is None or times["to"] is None:
        return []
    if finding["rule"] == "lost-write" and times["acked_from"] is not None:
        where = place_of(finding)
        first, last = times["acked_from"], times["acked_to"]
        if finding["count"] == 1:
            return [(first, "finding", f"acknowledged, lost later: {where}")]
        lost = plural(finding["count"], "record")
        return [
            (first, "finding", f"first acknowledgement of {lost}, lost later: {where}"),
            (last, "finding", f"last acknowledgement of these records: {where}"),
        ]
    return [(times["to"], "finding", f"{finding['rule']}: {finding['sentence']}")]


def place_of(finding: Row) -> str:
    """orders-0@255-630, without parts that are not known."""
    if finding["topic"] is None:
        return ""
    name = f"{finding['topic']}-{finding['partition']}"
    first, last = finding["first_offset"], finding["last_offset"]
    if first is None:
        return name
    return f"{name}@{first}" if last in (None, first) else f"{name}@{first}-{last}"


def first_sign(listed: list[IncidentFindings], figures: dict[str, Any]) -> tuple[int, Row] | None:
    """The earliest time (ns) at which a client could see a breach, and its finding; acknowledgements do not count."""
    seen = []
    for entry in listed:
        for finding in [entry.finding, *entry.others]:
            times = figures["times"].get(finding["id"])
            is_breach = finding["severity"] == "violation" and finding["rule"] not in LOSSES
            if is_breach and times and times["to"] is not None:
                seen.append((times["to"], finding["id"], finding))
    if not seen:
        return None
    time, _, finding = min(seen, key=lambda item: item[:2])
    return time, finding


def faults_before(listed: list[IncidentFindings], figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Faults that overlap the time from the first lost acknowledgement to the last evidence of a breach."""
    times = [figures["times"].get(entry.finding["id"]) for entry in listed if entry.finding["severity"] == "violation"]
    known = [row for row in times if row and row["to"] is not None]
    if not known:
        return []
    first = min(row["acked_from"] if row["acked_from"] is not None else row["from"] for row in known)
    last = max(row["to"] for row in known)
    return [band for band in figures["faults"] if band["from"] <= last and (band["to"] is None or band["to"] >= first)]
