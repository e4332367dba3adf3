"""The verdict on a terminal: one screen."""

from __future__ import annotations

import shutil
import textwrap
from typing import Any

import click

COLOURS = {"valid": "green", "invalid": "red", "unknown": "yellow", "not-judged": "bright_black"}
SHOWN = 3  # of findings and of causes
FEW = 4  # rules that were not judged are named up to this number


def render(report: dict[str, Any], folder: str | None, seconds: float) -> str:
    """The text for stdout; colours are taken out by click where they are not wanted."""
    width = min(shutil.get_terminal_size((100, 40)).columns, 120)
    lines = [_headline(report), *_wrapped(_scope(report, seconds), width), "", *_rules(report, width)]
    if report["findings"]:
        lines += ["", click.style("Worst findings", bold=True), *_worst(report, width)]
    lines += _why(report, width)
    lines += ["", click.style("Assumptions", bold=True), *_assumptions(report, width)]
    if folder:
        lines += ["", f"Report, plots and all findings: {folder}"]
    return "\n".join(lines)


def _headline(report: dict[str, Any]) -> str:
    verdict = report["verdict"]
    return f"{report['input']['name']}: " + click.style(verdict.upper(), fg=COLOURS[verdict], bold=True)


def _scope(report: dict[str, Any], seconds: float) -> str:
    counts, given = report["counts"], report["input"]
    where = _plural(counts["partitions"], "partition")
    parts = [
        f"{counts.get('operations', 0):,} operations ({counts.get('ok', 0):,} ok, {counts.get('fail', 0):,} failed,"
        f" {counts.get('info', 0):,} undecided) on {where}"
    ]
    if not counts.get("operations") and counts.get("evidence files"):
        parts = [_kept(counts, where)]
    if given["span_ns"]:
        parts.append(f"over {(given['span_ns'][1] - given['span_ns'][0]) / 1e9:,.1f} s")
    system = given["system"] if isinstance(given["system"], dict) else {}
    if system:
        parts.append(f"of {system.get('name', '')} {system.get('version', '')}".rstrip())
    return ", ".join([" ".join(parts), f"judged by {given['engine']} in {seconds:.1f} s"])


def _kept(counts: dict[str, Any], where: str) -> str:
    """What was judged where nobody recorded clients."""
    files = _plural(counts["evidence files"], "file") + " of brokers"
    if not counts.get("batches") and not counts.get("kept records"):
        return f"no history of clients and no logs of partitions; {files}: `logjudge timeline` tells what they say"
    batches = _plural(counts["batches"], "batch", "batches") if counts.get("batches") else "dumps"
    return f"no history of clients; {_plural(counts['kept records'], 'record')} in {batches} on {where}, {files}"


def _plural(count: int, noun: str, many: str = "") -> str:
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def _rules(report: dict[str, Any], width: int) -> list[str]:
    lines = []
    for name, rule in report["rules"].items():
        if rule["verdict"] == "invalid" or rule["permitted"]:
            text = f"  {name:22} " + click.style(f"{rule['verdict']:10}", fg=COLOURS[rule["verdict"]])
            said = []
            if rule["count"]:
                said.append(
                    f"{rule['count']:,} {_times('record', rule['count'])} in {_plural(rule['findings'], 'finding')}"
                )
            if rule["permitted"]:
                said.append(f"{rule['permitted']:,} permitted by the configuration")
            lines.append(text + " " + ", ".join(said))
    for verdict in ("unknown", "valid", "not-judged"):
        names = [name for name, rule in report["rules"].items() if rule["verdict"] == verdict and not rule["permitted"]]
        if verdict == "not-judged" and len(names) > FEW:
            names = [f"{len(names)} rules, of what this run does not carry"]
        if names:
            label = click.style(f"  {verdict}: ", fg=COLOURS[verdict])
            lines += _wrapped(", ".join(names), width, first=label, indent="    ")
    return lines


def _times(noun: str, count: int) -> str:
    return noun if count == 1 else noun + "s"


def _worst(report: dict[str, Any], width: int) -> list[str]:
    told = [finding for finding in report["findings"] if finding["severity"] == "violation"] or report["findings"]
    lines: list[str] = []
    for finding in told[:SHOWN]:
        label = f"  {click.style(finding['rule'], bold=True)}: "
        sentence = printable(finding["sentence"])
        where = [f"{e['source']}:{e['line']}" for e in finding["evidence"] if e["line"] is not None][:3]
        lines += _wrapped(sentence + (f" [{', '.join(where)}]" if where else ""), width, first=label, indent="    ")
    total = sum(rule["findings"] for rule in report["rules"].values())
    if total > SHOWN:
        lines.append(f"  … {total - SHOWN:,} more in findings.parquet")
    return lines


def _why(report: dict[str, Any], width: int) -> list[str]:
    """Each cause and what would have prevented it; the chains of facts stand in the report and in `explain`."""
    from ..plots.whys import whys_of

    whys = whys_of(report["causes"], None)
    lines: list[str] = ["", click.style("Why", bold=True)] if whys else []
    told: set[str] = set()
    for why in whys[:SHOWN]:
        name = click.style(why.cause, bold=True, fg=None if why.known else "yellow")
        said = why.title
        if why.known and why.cause not in told:
            prevented = f". Prevented by {'; '.join(why.prevented_by)}" if why.prevented_by else ""
            said += f"{prevented} [{why.citation}]"
        elif not why.known:
            needed = [f"{len(why.readings)} readings conflict"] if why.readings else why.missing
            said += f"; to know why, needed: {'; '.join(needed[:3])}"
        told.add(why.cause)
        lines += _wrapped(printable(said), width, first=f"  {name}: ", indent="    ")
    if len(whys) > SHOWN:
        lines.append(f"  … {len(whys) - SHOWN:,} more in the report")
    return lines


def _assumptions(report: dict[str, Any], width: int) -> list[str]:
    """Broken ones in full; those that hold by name, as the report says what was seen of them."""
    lines: list[str] = []
    for item in report["assumptions"]:
        if item["holds"] is not True:
            mark = click.style("BROKEN", fg="yellow")
            lines += _wrapped(printable(f"{item['name']}: {item['says']}"), width, first=f"  {mark} ", indent="    ")
    held = [item["name"] for item in report["assumptions"] if item["holds"] is True]
    if held:
        lines += _wrapped("; ".join(held), width, first=f"  {click.style('hold:', fg='green')} ", indent="    ")
    return lines


def printable(text: str) -> str:
    """Control characters of hostile values must not reach a terminal."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _wrapped(text: str, width: int, first: str = "  ", indent: str = "  ") -> list[str]:
    bare = len(click.unstyle(first))
    body = textwrap.wrap(text, width - 2, initial_indent=" " * bare, subsequent_indent=indent) or [""]
    return [first + body[0][bare:], *body[1:]]
