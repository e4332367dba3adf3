"""Incidents with their findings for the report, and what happened in the run in order of time; bounded lists, with
counts of the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...analysis.causes.incidents import Incident
from ...analysis.causes.losses import LOSSES
from ...analysis.timelines.facts import RESTART
from ...analysis.timelines.timeline import DEATHS
from ..clock import clock
from ..style import fault_kind
from .root_causes import shown_facts

MAX_INCIDENTS = 25
MAX_FINDINGS = 9  # of an incident
MAX_MOMENTS = 60

Row = dict[str, Any]


@dataclass(frozen=True)
class Story:
    """An incident with its worst findings."""

    incident: Incident
    finding: Row  # the worst
    consequences: list[Row]  # its other findings
    left_out: int  # findings that are not listed


@dataclass(frozen=True)
class Moment:
    """A line of the timeline."""

    time: int  # ns since the start
    clock: str  # UTC, or empty where the run does not say when it started
    kind: str  # fault, heal, fact, finding
    says: str


def stories_of(incidents: Sequence[Incident], findings: pl.DataFrame) -> tuple[list[Story], int]:
    """The worst incidents that have findings, and how many findings belong to the others only."""
    found = [incident for incident in incidents if incident.findings]
    listed = [(incident, incident.findings[:MAX_FINDINGS]) for incident in found[:MAX_INCIDENTS]]
    names = [name for _, ids in listed for name in ids]
    rows = {row["id"]: row for row in findings.filter(pl.col("id").is_in(names)).iter_rows(named=True)}
    stories = [
        Story(incident, rows[ids[0]], [rows[name] for name in ids[1:]], len(incident.findings) - len(ids))
        for incident, ids in listed
    ]
    shown = {name for incident, _ in listed for name in incident.findings}
    return stories, len(findings) - len(shown)


def timeline(
    stories: Sequence[Story], figures: dict[str, Any], incidents: Sequence[Incident] = ()
) -> tuple[list[Moment], int]:
    """Faults, the facts of known causes and findings in order of time, and how many are left out (the latest of the
    least severe first)."""
    moments = []
    for band in figures["faults"]:
        nodes, place = ", ".join(band["nodes"]), band.get("place", "")
        named = fault_kind(band["kind"]) + (f" of {nodes}" if nodes else "") + (f": {place}" if place else "")
        moments.append((0, band["from"], "fault", f"fault: {named}"))
        if band["to"] not in (None, band["from"]):
            moments.append((0, band["to"], "heal", f"fault ended: {named}"))
    known = [incident for incident in incidents if incident.known and incident.lost]
    dated = {name for incident in known for name in incident.findings if name.split("/")[0] in LOSSES}  # by the chain
    for rank, story in enumerate(stories):
        for finding in [story.finding, *story.consequences]:
            if finding["id"] not in dated:
                moments += [(rank + 1, *moment) for moment in _moments_of(finding, figures["times"].get(finding["id"]))]
    moments += [*_facts(known, figures), *_leadership(figures)]
    kept = sorted(moments, key=lambda moment: (moment[0], moment[1]))[:MAX_MOMENTS]
    kept.sort(key=lambda moment: (moment[1], moment[0]))
    started = figures["started_at"]
    told = [Moment(time, clock(started, time), kind, says) for _, time, kind, says in kept]
    return told, len(moments) - len(kept)


def _facts(known: Sequence[Incident], figures: dict[str, Any]) -> list[tuple[int, int, str, str]]:
    """What brokers and clients are known to have done on the way to a loss, each once; faults are told as such."""
    stopped = [(band["kind"], node) for band in figures["faults"] for node in band["nodes"] if band["kind"] in DEATHS]
    faults = {(told, node) for kind, node in stopped for told in (kind, RESTART)}
    facts = [fact for incident in known for fact in shown_facts(incident.chain)]
    told = {
        (fact["time"], fact["says"]): None for fact in facts if (fact.get("kind"), fact.get("broker")) not in faults
    }
    return [(0, time, "fact", says) for time, says in told if time is not None]


def _leadership(figures: dict[str, Any]) -> list[tuple[int, int, str, str]]:
    """Changes of leader and truncations, where causes don't tell them: of the partitions with figures of their own."""
    moments: list[tuple[int, int, str, str]] = []
    for part in figures["partitions"]:
        told = part.get("replicas")
        if not told or part.get("causes"):
            continue
        name = part["name"]
        for term in told["terms"][1:]:
            if term["time"] is not None:
                how = f" ({term['how']})" if term["how"] else ""
                says = f"broker {term['leader']} led {name} in epoch {term['epoch']}{how}"
                moments.append((1, term["time"], "fact", says))
        for time, broker, end, was in told["cuts"]:
            before = f" from {was}" if was is not None else ""
            moments.append((1, time, "fact", f"broker {broker} cut its log of {name}{before} to {end}"))
    return moments


def _moments_of(finding: Row, times: Row | None) -> list[tuple[int, str, str]]:
    if times is None or times["to"] is None:
        return []
    if finding["rule"] == "lost-write" and times["acked_from"] is not None:
        where = place_of(finding)
        first, last = times["acked_from"], times["acked_to"]
        if finding["count"] == 1:
            return [(first, "finding", f"acknowledged, later lost: {where}")]
        return [
            (
                first,
                "finding",
                f"first acknowledgement of {finding['count']} records that are later lost: {where}",
            ),
            (last, "finding", f"last acknowledgement of them: {where}"),
        ]
    return [(times["to"], "finding", f"{finding['rule']}: {finding['sentence']}")]


def place_of(finding: Row) -> str:
    """orders-0@255-630, as far as it is known."""
    if finding["topic"] is None:
        return ""
    name = f"{finding['topic']}-{finding['partition']}"
    first, last = finding["first_offset"], finding["last_offset"]
    if first is None:
        return name
    return f"{name}@{first}" if last in (None, first) else f"{name}@{first}-{last}"


def first_sign(stories: list[Story], figures: dict[str, Any]) -> tuple[int, Row] | None:
    """The earliest time (ns) at which a client saw something of a breach that is no mere acknowledgement."""
    seen = []
    for story in stories:
        for finding in [story.finding, *story.consequences]:
            times = figures["times"].get(finding["id"])
            if (
                finding["severity"] == "violation"
                and finding["rule"] not in LOSSES
                and times
                and times["to"] is not None
            ):
                seen.append((times["to"], finding["id"], finding))
    if not seen:
        return None
    time, _, finding = min(seen, key=lambda item: item[:2])
    return time, finding


def faults_before(stories: list[Story], figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Faults that lasted at some time between the first lost acknowledgement and the last evidence of a breach."""
    times = [figures["times"].get(story.finding["id"]) for story in stories if story.finding["severity"] == "violation"]
    known = [row for row in times if row and row["to"] is not None]
    if not known:
        return []
    first = min(row["acked_from"] if row["acked_from"] is not None else row["from"] for row in known)
    last = max(row["to"] for row in known)
    return [band for band in figures["faults"] if band["from"] <= last and (band["to"] is None or band["to"] >= first)]
