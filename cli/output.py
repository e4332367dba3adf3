"""The verdict on a terminal, in one screen; the report has the rest."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..analysis.verdict.assumptions import broken_assumptions
from ..analysis.wording import NOTES, allow_options, clipped, duration, plural, printable
from ..histories.settings import UNDATED

if TYPE_CHECKING:
    from ..analysis.incidents.incident import Incident

COLOURS = {
    **{"valid": "green", "invalid": "red", "unknown": "yellow", "not-judged": "bright_black"},
    "not yet": "yellow",  # until the end of the run
}
MAX_LINES = 40
MAX_PLACES = 3  # of an incident


class Room(NamedTuple):
    """The space on the screen for each part."""

    width: int  # columns
    rules: int  # rules with findings
    items: int  # incidents, and broken assumptions
    lines: int  # lines of each item


def render(report: dict[str, Any], folder: str | None, seconds: float) -> str:
    """The text for stdout; click removes the colours if stdout is not a terminal."""
    width = max(40, min(shutil.get_terminal_size((100, 40)).columns, 120))
    lines: list[str] = []
    for sizes in ((16, 3, 9), (16, 3, 7), (16, 3, 5), (12, 3, 4), (10, 3, 3), (10, 2, 3), (8, 2, 2), (6, 2, 2)):
        lines = _screen(report, seconds, Room(width, *sizes))
        if len(lines) + 2 * bool(folder) <= MAX_LINES:
            break
    return "\n".join([*lines, *(["", f"Report, plots and all findings: {folder}"] if folder else [])])


def _screen(report: dict[str, Any], seconds: float, room: Room) -> list[str]:
    lines = [
        _verdict(report, room),
        *_wrap_lines(report["headline"], room),
        *_wrap_lines(_scope(report, seconds), room),
        "",
    ]
    if "consistency" in report:
        lines += [*_wrap_lines(f"{report['consistency']['demanded']} demanded", room), ""]
    if report["incidents"]:
        only_notes = all(incident.get("severity") == "note" for incident in report["incidents"])
        heading = NOTES if only_notes else "Incidents"
        lines += [click.style(heading, bold=True), *_incidents(report, room), "", click.style("Rules", bold=True)]
    lines += _rules(report, room)
    return [*lines, "", click.style("Assumptions", bold=True), *_assumptions(report, room)]


def _verdict(report: dict[str, Any], room: Room) -> str:
    verdict = report["verdict"]
    name = clipped(printable(report["input"]["name"]), room.width - len(f": {verdict}"))
    return f"{name}: " + click.style(verdict.upper(), fg=COLOURS[verdict], bold=True)


def _scope(report: dict[str, Any], seconds: float) -> str:
    counts, source = report["counts"], report["input"]
    where = plural(counts["partitions"], "partition")
    if "consistency" in report:
        where = plural(counts.get("keys", 0), "key")
    parts = [
        f"{plural(counts.get('operations', 0), 'operation')} ({counts.get('ok', 0):,} ok,"
        f" {counts.get('fail', 0):,} failed, {counts.get('info', 0):,} indeterminate) on {where}"
    ]
    if not counts.get("operations") and counts.get("evidence files"):
        parts = [_broker_files(counts, where)]
    if len(source["files"]) > 1:
        parts.append(f"in {len(source['files']):,} histories of one run")
    if source["span_ns"] and source["span_ns"][1] > source["span_ns"][0]:
        parts.append(f"over {duration(source['span_ns'][1] - source['span_ns'][0])}")
    system = source["system"] if isinstance(source["system"], dict) else {}
    if system:
        simulated = "simulated " if system.get("simulated") is True else ""
        parts.append(f"on {simulated}{system.get('name', '')} {system.get('version', '')}".rstrip())
    return ", ".join([" ".join(parts), f"judged in {seconds:.1f} s (engine {source['engine']})"])


def _broker_files(counts: dict[str, Any], where: str) -> str:
    """The judged files of a run without a client history, as text."""
    files = plural(counts["evidence files"], "broker file")
    if not counts.get("batches") and not counts.get("kept records"):
        return f"no history of clients and no partition logs; {files} (`logjudge timeline` lists their events)"
    batches = plural(counts["batches"], "batch", "batches") if counts.get("batches") else "dumps"
    return f"no history of clients; {plural(counts['kept records'], 'record')} in {batches} on {where}, {files}"


def _rules(report: dict[str, Any], room: Room) -> list[str]:
    lines = []
    found = [
        (name, rule) for name, rule in report["rules"].items() if rule["verdict"] == "invalid" or rule["permitted"]
    ]
    # If not all fit, violations come before permitted findings.
    shown = sorted(found, key=lambda item: item[1]["verdict"] != "invalid")[: room.rules]
    for name, rule in found:
        if (name, rule) in shown:
            text = f"  {clipped(name, 22):22} " + click.style(f"{rule['verdict']:10} ", fg=COLOURS[rule["verdict"]])
            counts = _rule_counts(name, rule, report.get("allowed", ()))
            lines += _wrap_lines(counts, room, first=text, indent=" " * len(click.unstyle(text)))
    if len(found) > len(shown):
        lines.append(f"  … {plural(len(found) - len(shown), 'more rule')} with findings")
    others = {name: rule["verdict"] for name, rule in report["rules"].items() if not rule["permitted"]}
    others |= dict.fromkeys(others.keys() & {*report.get("not_yet", ())}, "not yet")
    for verdict in ("not yet", "unknown", "valid", "not-judged"):
        names = [name for name, own in others.items() if own == verdict]
        if verdict == "not-judged" and len(names) > 2 * room.lines:
            names = [f"{len(names)} rules are not applicable: the run has no such data (verdict.json names them)"]
        if names:
            label = click.style(f"  {verdict}: ", fg=COLOURS[verdict])
            lines += _wrap_lines(", ".join(names), room, first=label, indent="    ")
    if report["skipped"]:
        named = f"{plural(len(report['skipped']), 'rule')} by --only or --skip: {', '.join(report['skipped'])}"
        label = click.style("  skipped: ", fg=COLOURS["not-judged"])
        lines += _wrap_lines(named, room._replace(lines=1), first=label)
    return lines


def _rule_counts(name: str, rule: dict[str, Any], allowed: Iterable[str]) -> str:
    """The numbers of records and findings of a rule: violations, and what --allow or the configuration permits."""
    from ..analysis.rules.anomalies import count_text

    accepted, accepted_count = rule.get("accepted", 0), rule.get("accepted_count", 0)
    permitted, permitted_count = rule["permitted"] - accepted, rule["permitted_count"] - accepted_count
    counts = [count_text(name, rule["count"], rule["findings"])] if rule["findings"] else []
    others = [count_text(name, accepted_count, accepted) + f" accepted by {allow_options(allowed)}"] if accepted else []
    others += [count_text(name, permitted_count, permitted) + " permitted by the configuration"] if permitted else []
    return "; ".join([*counts, *others]) if counts else f"({'; '.join(others)})"


def _incidents(report: dict[str, Any], room: Room) -> list[str]:
    """The worst incidents, each with its time, cause and prevention; the report has their sequences of events."""
    from ..plots.report.incident_times import when_of

    incidents, started = _incidents_of(report), report["input"]["started_at"]
    if not started and not report["counts"].get("operations"):
        started = UNDATED  # brokers' times count from 1970
    violations = [incident for incident in incidents if incident.severity == "violation"]
    shown = incidents if len(incidents) <= room.items else (violations or incidents)[: room.items]
    lines: list[str] = []
    for incident, sentence, citation in with_causes(shown):
        name = incident.cause if incident.was_investigated or not incident.rules else incident.rules[0].rule
        colour = "yellow" if incident.was_investigated and not incident.is_known else None
        severity = f" ({incident.severity})" if incident.findings and incident.severity != "violation" else ""
        when = when_of(incident, started)
        first = f"  {click.style(name, bold=True, fg=colour)}{severity}{f', {when}' if when else ''}: "
        text, place = sentence + _where(report, incident), _where(report, incident, 1)
        # A truncated citation or place is useless; the report has them.
        forms = (text + citation, text, sentence + place, sentence)
        wrapped = [_wrap_lines(each, room, first=first, indent="    ") for each in forms]
        lines += next((each for each in wrapped if not each[-1].endswith("…")), wrapped[-1])
    if len(incidents) > len(shown):
        lines.append(f"  … {plural(len(incidents) - len(shown), 'more incident')} in the report")
    return lines


def _incidents_of(report: dict[str, Any]) -> list[Incident]:
    from ..analysis.incidents.incident import Incident

    return [Incident.from_record(record) for record in report["incidents"]]


def _where(report: dict[str, Any], incident: Incident, most: int = MAX_PLACES) -> str:
    """At most so many places that prove an incident, in brackets: those of its worst finding.

    If none of them is in a file of the brokers, the first such place of its other findings or of its cause is added.
    """
    found = {one["id"]: one["evidence"] for one in report["findings"]}
    evidence = (_place(**item) for name in incident.findings for item in found.get(name, ()))
    places = [place for item in found.get(next(iter(incident.findings), ""), ()) if (place := _place(**item))]
    shown = list(dict.fromkeys(places))[:most]
    facts = incident.chain if incident.is_known else ()
    others = [*places, *evidence, *(_place(fact.source, fact.line, fact.byte) for fact in facts)]
    of_broker = next((place for place in others if place and place.is_of_broker), None)
    if of_broker is not None and not any(place.is_of_broker for place in shown):
        shown = [*shown[: most - 1], of_broker]
    sources = list(dict.fromkeys(place.source for place in shown))
    shown.sort(key=lambda place: (sources.index(place.source), place.number))
    # The source of adjacent places is named once.
    texts = [
        f"{'' if n and place.source == shown[n - 1].source else place.source}{place.separator}{place.number}"
        for n, place in enumerate(shown)
    ]
    return f" [{', '.join(text.strip() for text in texts)}]" if texts else ""


class _Place(NamedTuple):
    """A line or a byte of a file."""

    source: str
    number: int
    separator: str

    @property
    def is_of_broker(self) -> bool:
        """Whether it is in a broker's file."""
        return self.separator != ":" or self.source.startswith(("brokers/", "snapshots/"))


def _place(source: str | None, line: int | None, byte: int | None = None, **_: Any) -> _Place | None:
    """The place of an item of evidence or of a chain; None if it has none."""
    if source and line is not None:
        return _Place(source, line, ":")
    return _Place(source, byte, " byte ") if source and byte is not None else None


class IncidentSentence(NamedTuple):
    """An incident in words."""

    incident: Incident
    sentence: str
    citation: str


def with_causes(incidents: Iterable[Incident]) -> list[IncidentSentence]:
    """The incidents in words. Prevention and citation are given once per cause."""
    from ..plots.report.incidents import sentence_of

    cited: set[str] = set()
    sentences = []
    for incident in incidents:
        sentences.append(IncidentSentence(incident, *sentence_of(incident, incident.cause not in cited)))
        cited.add(incident.cause)
    return sentences


def causes_of(report: dict[str, Any], finding: str | None = None) -> list[IncidentSentence]:
    """The explained incidents of a run in words, or those with the given finding."""
    explained = [
        incident
        for incident in _incidents_of(report)
        if incident.was_investigated and (finding is None or finding in incident.findings)
    ]
    return with_causes(explained)


def _assumptions(report: dict[str, Any], room: Room) -> list[str]:
    """Broken assumptions in full, and the names of those that hold; the report has the evidence of all."""
    lines: list[str] = []
    broken = broken_assumptions(report)
    for item in broken[: room.items]:
        mark = click.style("BROKEN", fg="yellow")
        lines += _wrap_lines(f"{item['name']}: {item['says']}", room, first=f"  {mark} ", indent="    ")
    if len(broken) > room.items:
        lines.append(f"  … {plural(len(broken) - room.items, 'more broken assumption')} in the report")
    unbroken = [item["name"] for item in report["assumptions"] if item["holds"] is True]
    if unbroken:
        lines += _wrap_lines("; ".join(unbroken), room, first=f"  {click.style('hold:', fg='green')} ", indent="    ")
    return lines


def _wrap_lines(text: str, room: Room, first: str = "  ", indent: str = "  ") -> list[str]:
    bare = len(click.unstyle(first))
    body = textwrap.wrap(
        printable(text),
        room.width - 2,
        initial_indent=" " * bare,
        subsequent_indent=indent,
        break_on_hyphens=False,
        max_lines=room.lines,
        placeholder=" …",
    ) or [""]
    return [first + body[0][bare:], *body[1:]]
