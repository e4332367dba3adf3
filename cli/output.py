"""The verdict on a terminal: one screen, whatever was found; the report has the rest."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..analysis.wording import plural

if TYPE_CHECKING:
    from ..analysis.causes.incidents import Incident

COLOURS = {"valid": "green", "invalid": "red", "unknown": "yellow", "not-judged": "bright_black"}
SCREEN = 40  # lines


class Room(NamedTuple):
    """How much of the screen is given to each part."""

    width: int  # columns
    rules: int  # that found something
    shown: int  # incidents and broken assumptions
    lines: int  # of each


def render(report: dict[str, Any], folder: str | None, seconds: float) -> str:
    """The text for stdout; colours are taken out by click where they are not wanted."""
    width = max(40, min(shutil.get_terminal_size((100, 40)).columns, 120))
    lines: list[str] = []
    for rules, shown, most in ((16, 3, 5), (12, 3, 4), (10, 3, 3), (10, 2, 3), (8, 2, 2), (6, 2, 2)):
        lines = _screen(report, seconds, Room(width, rules, shown, most))
        if len(lines) + 2 * bool(folder) <= SCREEN:
            break
    return "\n".join([*lines, *(["", f"Report, plots and all findings: {folder}"] if folder else [])])


def _screen(report: dict[str, Any], seconds: float, room: Room) -> list[str]:
    lines = [_headline(report, room), *_wrapped(_scope(report, seconds), room), "", *_rules(report, room)]
    if report["incidents"]:
        lines += ["", click.style("Incidents", bold=True), *_incidents(report, room)]
    return [*lines, "", click.style("Assumptions", bold=True), *_assumptions(report, room)]


def _headline(report: dict[str, Any], room: Room) -> str:
    verdict = report["verdict"]
    name = _clipped(printable(report["input"]["name"]), room.width - len(f": {verdict}"))
    return f"{name}: " + click.style(verdict.upper(), fg=COLOURS[verdict], bold=True)


def _scope(report: dict[str, Any], seconds: float) -> str:
    counts, given = report["counts"], report["input"]
    where = plural(counts["partitions"], "partition")
    parts = [
        f"{plural(counts.get('operations', 0), 'operation')} ({counts.get('ok', 0):,} ok,"
        f" {counts.get('fail', 0):,} failed, {counts.get('info', 0):,} undecided) on {where}"
    ]
    if not counts.get("operations") and counts.get("evidence files"):
        parts = [_kept(counts, where)]
    if given["span_ns"] and given["span_ns"][1] > given["span_ns"][0]:
        parts.append(f"over {(given['span_ns'][1] - given['span_ns'][0]) / 1e9:,.1f} s")
    system = given["system"] if isinstance(given["system"], dict) else {}
    if system:
        parts.append(f"of {system.get('name', '')} {system.get('version', '')}".rstrip())
    return ", ".join([" ".join(parts), f"judged by {given['engine']} in {seconds:.1f} s"])


def _kept(counts: dict[str, Any], where: str) -> str:
    """What was judged where nobody recorded clients."""
    files = plural(counts["evidence files"], "file") + " of brokers"
    if not counts.get("batches") and not counts.get("kept records"):
        return f"no history of clients and no logs of partitions; {files}: `logjudge timeline` tells what they say"
    batches = plural(counts["batches"], "batch", "batches") if counts.get("batches") else "dumps"
    return f"no history of clients; {plural(counts['kept records'], 'record')} in {batches} on {where}, {files}"


def _rules(report: dict[str, Any], room: Room) -> list[str]:
    lines = []
    found = [
        (name, rule) for name, rule in report["rules"].items() if rule["verdict"] == "invalid" or rule["permitted"]
    ]
    # Where not all can be told, what is broken goes before what is permitted.
    told = sorted(found, key=lambda item: item[1]["verdict"] != "invalid")[: room.rules]
    for name, rule in found:
        if (name, rule) in told:
            text = f"  {_clipped(name, 22):22} " + click.style(f"{rule['verdict']:10}", fg=COLOURS[rule["verdict"]])
            said = []
            if rule["findings"]:
                said.append(_found(rule["count"], rule["findings"]))
            if rule["permitted"]:
                but = "but for " if rule["verdict"] == "valid" else ""
                said.append(but + _found(rule["permitted_count"], rule["permitted"]) + ", permitted")
            lines.append(f"{text} {_clipped('; '.join(said), room.width - len(click.unstyle(text)) - 1)}")
    if len(found) > len(told):
        lines.append(f"  … {len(found) - len(told)} more rules found something")
    for verdict in ("unknown", "valid", "not-judged"):
        names = [name for name, rule in report["rules"].items() if rule["verdict"] == verdict and not rule["permitted"]]
        if verdict == "not-judged" and len(names) > 2 * room.lines:
            names = [f"{len(names)} rules, of what this run does not carry (verdict.json names them)"]
        if names:
            label = click.style(f"  {verdict}: ", fg=COLOURS[verdict])
            lines += _wrapped(", ".join(names), room, first=label, indent="    ")
    if report["skipped"]:
        named = f"{plural(len(report['skipped']), 'rule')} by --only or --skip: {', '.join(report['skipped'])}"
        label = click.style("  skipped: ", fg=COLOURS["not-judged"])
        lines += _wrapped(named, room._replace(lines=1), first=label)
    return lines


def _found(records: int, findings: int) -> str:
    return f"{plural(records, 'record')} in {plural(findings, 'finding')}"


def _incidents(report: dict[str, Any], room: Room) -> list[str]:
    """The worst incidents, each with its cause and what would have prevented it; the report has the sequences of
    events."""
    all_of_them = _incidents_of(report)
    shown = [one for one in all_of_them if one.severity == "violation"][: room.shown] or all_of_them[: room.shown]
    lines: list[str] = []
    for incident, says, cited in with_causes(shown):
        name = incident.cause if incident.explained or not incident.rules else incident.rules[0]["rule"]
        colour = "yellow" if incident.explained and not incident.known else None
        first = f"  {click.style(name, bold=True, fg=colour)}: "
        says += _where(report, incident)
        whole = _wrapped(says + cited, room, first=first, indent="    ")
        # A citation that is cut leads nowhere; the report has it.
        lines += _wrapped(says, room, first=first, indent="    ") if whole[-1].endswith("…") else whole
    if len(all_of_them) > len(shown):
        lines.append(f"  … {plural(len(all_of_them) - len(shown), 'more incident')} in the report")
    return lines


def _incidents_of(report: dict[str, Any]) -> list[Incident]:
    from ..analysis.causes.incidents import from_record

    return [from_record(record) for record in report["incidents"]]


def _where(report: dict[str, Any], incident: Incident) -> str:
    """Lines that prove the worst finding of an incident."""
    worst = next((one for one in report["findings"] if one["id"] in incident.findings[:1]), None)
    lines = [(e["source"], e["line"]) for e in (worst["evidence"] if worst else ()) if e["line"] is not None]
    where = list(dict.fromkeys(lines))[:3]
    # A file is named once where all are lines of it.
    named = [f"{'' if n and source == where[0][0] else source}:{line}" for n, (source, line) in enumerate(where)]
    return f" [{', '.join(named)}]" if named else ""


def with_causes(incidents: Iterable[Incident]) -> list[tuple[Incident, str, str]]:
    """Each incident with a sentence, and its citation behind that; what would have prevented it, and the citation,
    stand once a cause."""
    from ..plots.report.root_causes import sentence_of

    cited: set[str] = set()
    sentences = []
    for incident in incidents:
        sentences.append((incident, *sentence_of(incident, incident.cause not in cited)))
        cited.add(incident.cause)
    return sentences


def causes_of(report: dict[str, Any], finding: str | None = None) -> list[tuple[str, str, str]]:
    """The cause, the sentence and the citation of each explained incident of a run, or of one that has a finding."""
    asked = [one for one in _incidents_of(report) if one.explained and (finding is None or finding in one.findings)]
    return [(incident.cause, says, cited) for incident, says, cited in with_causes(asked)]


def _assumptions(report: dict[str, Any], room: Room) -> list[str]:
    """Broken ones in full; those that hold by name, as the report says what was seen of them."""
    lines: list[str] = []
    broken = [item for item in report["assumptions"] if item["holds"] is not True]
    for item in broken[: room.shown]:
        mark = click.style("BROKEN", fg="yellow")
        lines += _wrapped(f"{item['name']}: {item['says']}", room, first=f"  {mark} ", indent="    ")
    if len(broken) > room.shown:
        lines.append(f"  … {len(broken) - room.shown:,} more broken ones in the report")
    held = [item["name"] for item in report["assumptions"] if item["holds"] is True]
    if held:
        lines += _wrapped("; ".join(held), room, first=f"  {click.style('hold:', fg='green')} ", indent="    ")
    return lines


def _clipped(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def printable(text: str) -> str:
    """Control characters of hostile values must not reach a terminal."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _wrapped(text: str, room: Room, first: str = "  ", indent: str = "  ") -> list[str]:
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
