"""Writes report.html, report.md and plots/ from only a verdict, its findings and the figure data."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from markupsafe import escape

from ...analysis.incidents.joining import saved_incidents
from ...analysis.rules import rules_of
from ...analysis.verdict.assumptions import broken_assumptions
from ...analysis.wording import NOTES, allow_options, duration, either, plural, some
from ...histories.references import Reference, with_links
from .. import PLOTS, style
from ..escaping import markdown
from ..painting import Job, jobs_of, painted
from .brokers_headline import broken_rules, headline_of_brokers, impact_without_clients
from .incidents import (
    cause_headlines,
    faults_before,
    first_sign,
    found_in,
    impact_by_cause,
    place_of,
    root_cause_of,
    timeline,
    worst_incidents,
)

MAX_ROOT_CAUSES = 12
FIRST = ("glance", "offsets", "replicas", "swimlane")  # plots beside the root causes; others are with the findings
VERDICTS = {
    "valid": "No breach: every guarantee that this run can show was kept.",
    "invalid": "A guarantee was broken.",
    "unknown": "No breach was found, but the evidence is incomplete, so the verdict is unknown.",
    "not-judged": "There was nothing to judge.",
}
PARTLY = "No breach of the rules that were judged."  # if the caller skipped some rules
_INK = {style.INK: "currentColor", style.PAPER: "var(--paper)", style.RULE: "var(--rule)", style.FAINT: "var(--faint)"}


def write_report(
    folder: Path,
    verdict: dict[str, Any],
    findings: pl.DataFrame,
    figures: dict[str, Any],
    plots: Sequence[str] = ("svg", "png"),
    meanwhile: Callable[[], object] = lambda: None,
) -> None:
    """Writes report.html, report.md and, if not empty, plots/ with these endings into an existing folder.

    `meanwhile` is called while another process draws.
    """
    jobs = jobs_of(figures) if plots else []
    if plots:
        (folder / "plots").mkdir(exist_ok=True)
    with painted(folder / "plots", figures, jobs, plots) as headings:
        meanwhile()
        # Loading the templates takes as long as drawing a figure.
        pages, values = [template("report.html"), template("report.md")], _template_values(verdict, findings, figures)
        pictures = _pictures(folder / "plots", jobs, headings(), plots)
    for name, page in zip(("report.html", "report.md"), pages, strict=True):
        text = page.render(values, pictures=pictures)
        # A part of the template that does not apply leaves its blank line.
        text = re.sub("\n{3,}", "\n\n", text) if name.endswith(".md") else text
        (folder / name).write_text(text, encoding="utf-8")


def first_screen(verdict: dict[str, Any], findings: pl.DataFrame, figures: dict[str, Any]) -> str:
    """The head of report.html as a separate page: verdict, headline, assumptions and numbers."""
    shown = _template_values(verdict, findings, figures)
    return str(template("first_screen.html").render(shown, pictures=[]))


def _pictures(folder: Path, jobs: list[Job], headings: list[str], endings: Sequence[str]) -> list[dict[str, Any]]:
    """The drawn figures: names, files, caption and SVG for the page."""
    pictures: list[dict[str, Any]] = []
    for job, heading in zip(jobs, headings, strict=True):
        svg = (folder / f"{job.stem}.svg").read_text(encoding="utf-8")
        title = " ".join(map(str, job.subject.values()))
        is_first = not pictures or pictures[-1]["plot"] != job.plot
        pictures.append(
            {
                "plot": job.plot,
                "stem": job.stem,
                "files": [f"plots/{job.stem}.{ending}" for ending in endings],
                "title": title,
                "label": style.printable(f"{PLOTS[job.plot].LABEL} {title}".strip()),
                "caption": PLOTS[job.plot].CAPTION if is_first else "",  # once per kind
                "svg": inline_svg(svg, job.stem, f"{PLOTS[job.plot].LABEL}: {' '.join(heading.split())}"),
            }
        )
    return pictures


def inline_svg(svg: str, stem: str, alternative: str) -> str:
    """The svg element alone, in the page's colours, with ids unique in the page and an alternative text."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    element = re.sub(r' id="([^"]*)"', rf' id="{stem}.\1"', element)
    element = re.sub(r"url\(#([^)]*)\)", rf"url(#{stem}.\1)", element)
    element = re.sub(r'xlink:href="#([^"]*)"', rf'xlink:href="#{stem}.\1"', element)
    for colour, variable in _INK.items():
        element = element.replace(colour, variable)
    element = re.sub(r' (width|height)="[\d.]+pt"', "", element, count=2)
    return element.replace("<svg", f'<svg role="img" aria-label="{escape(alternative)}"', 1)


def _template_values(verdict: dict[str, Any], findings: pl.DataFrame, figures: dict[str, Any]) -> dict[str, Any]:
    """The values that the templates show, except the pictures."""
    rules, skipped = verdict["rules"], verdict.get("skipped", [])
    known = rules_of(verdict["input"].get("dialect", ""))
    incidents = saved_incidents(verdict, findings)
    listed, findings_left_out = worst_incidents(incidents, findings)
    causes = [incident for incident in incidents if incident.was_investigated]
    events, events_left_out = timeline(listed, figures, incidents)
    summary, meaning = headline(verdict, figures["impact"]), _meaning(verdict)
    return {
        "verdict": verdict["verdict"],
        "meaning": "" if meaning == summary else meaning,
        "skipped": skipped,
        "name": figures["name"] or verdict["input"].get("name") or "run",
        "input": verdict["input"],
        "source": verdict["input"].get("path") or _source(verdict),
        "counts": verdict["counts"],
        "rules": rules,
        "guarantees": {name: known[name] for name in rules if name in known},
        "consistency": verdict.get("consistency"),
        "assumptions": verdict["assumptions"],
        "incomplete": broken_assumptions(verdict),
        "provenance": verdict.get("provenance"),
        "listed": listed,
        "notes_heading": NOTES,
        "findings_heading": NOTES if listed and listed[0].finding["severity"] == "note" else "Findings",
        "findings_left_out": findings_left_out,
        "breaches": [entry for entry in listed if entry.finding["severity"] == "violation"],
        "totals": {kind: sum(rule[kind] for rule in rules.values()) for kind in ("findings", "permitted", "notes")},
        "impact": _known_impact(figures["impact"], skipped, verdict["counts"]),
        "never_received": [_never_received(*row) for row in figures["never_received"]],
        "missed": rules.get("consumer-loss", {}).get("count", 0),
        "headline": summary,
        "cause_headlines": cause_headlines(incidents),
        "events": events,
        "events_left_out": events_left_out,
        "faults": faults_before(listed, figures),
        "root_causes": [root_cause_of(incident, figures["started_at"]) for incident in causes[:MAX_ROOT_CAUSES]],
        "root_causes_left_out": max(len(causes) - MAX_ROOT_CAUSES, 0),
        "impact_by_cause": impact_by_cause(incidents),
        "brokers_seen": bool(verdict["counts"].get("evidence files")),
        "clients_seen": bool(verdict["counts"].get("operations")),
        "impact_without_clients": impact_without_clients(verdict),
        "undated": verdict["input"]["started_at"] is None and not verdict["counts"].get("operations"),
        "found_in": found_in(listed),
        "sign": first_sign(listed, figures),
        "figures": figures,
    }


def headline(verdict: dict[str, Any], impact: dict[str, Any]) -> str:
    """The outcome of a run in one to three sentences. The last one names the --allow that accepted breaches."""
    outcome, accepted = _outcome(verdict, impact), _accepted_rules(verdict)
    if not accepted or outcome == _meaning(verdict):
        return outcome
    return f"{outcome} {allow_options(verdict['allowed'])} accepts the breaches of {some(accepted)}."


def _accepted_rules(verdict: dict[str, Any]) -> list[str]:
    """The rules with findings that --allow accepted."""
    return [name for name, rule in verdict.get("rules", {}).items() if rule.get("accepted")]


def _outcome(verdict: dict[str, Any], impact: dict[str, Any]) -> str:
    if not verdict["counts"].get("operations") and verdict["counts"].get("evidence files"):
        return headline_of_brokers(verdict)
    if impact["lost"] and "lost-write" not in verdict.get("skipped", []):
        return _loss(verdict["counts"], impact) + _assumed_of_losses(verdict)
    if found := verdict.get("consistency"):
        summary = f"{found['summary'][0].upper()}{found['summary'][1:]}."
        return summary if verdict["verdict"] != "unknown" else f"{summary} {_meaning(verdict)}"
    # Without final reads, or without the rule lost-write, it is not known whether records were lost.
    loss = verdict["rules"].get("lost-write", {}).get("verdict")
    if broken := broken_rules(verdict):
        return _broken_rules_text(verdict, impact, broken, loss == "valid")
    if verdict["verdict"] == "valid" and loss == "valid":
        acknowledged = plural(impact["acknowledged"], "acknowledged write")
        others = "no other guarantee that was judged" if verdict.get("skipped") else "no guarantee"
        legal = impact["legally_gone"]
        are = "is" if legal == 1 else "are"
        gone = f" {legal:,} of them {are} legally gone (deleted, expired or compacted)." if legal else ""
        return f"None of {acknowledged} was lost, and {others} was broken.{gone}"
    if verdict["verdict"] == "valid" and loss == "not-judged" and verdict["counts"].get("sends"):
        return f"{_meaning(verdict)} No send was acknowledged, so loss was not judged."
    return _meaning(verdict)


def _loss(counts: dict[str, int], impact: dict[str, Any]) -> str:
    """How many acknowledged writes were lost, and how many of them had been read."""
    were, them = ("was", "it") if impact["lost"] == 1 else ("were", "them")
    bound = "" if impact.get("lost_complete", True) else "At least "  # more may be lost
    read = f"No reads are recorded, so whether consumers had read {them} is not known"
    if counts.get("reads") != 0:
        read = _lost_read(impact["lost"], impact["lost_read"], counts.get("quarantined", 0))
    return f"{bound}{plural(impact['lost'], 'acknowledged write')} of {impact['acknowledged']:,} {were} lost. {read}."


def _assumed_of_losses(verdict: dict[str, Any]) -> str:
    """A sentence with the settings that decide what is a lost write, and that run.json does not set; empty if none."""
    missing = [item for item in verdict.get("assumptions", ()) if item["name"] == "configuration recorded"]
    return "".join(f" But {item['says']}." for item in missing if not item["holds"] and "lost-write" in item["touches"])


def _broken_rules_text(verdict: dict[str, Any], impact: dict[str, Any], broken: list[str], is_complete: bool) -> str:
    """The broken rules of a run without a lost write; `is_complete`: none was lost."""
    others = [name for name in broken if name != "unseen"]
    counted = ", ".join(f"{name} ({_count_of(verdict['rules'][name])})" for name in others)
    if len(others) == len(broken):
        start = "No acknowledged write was lost, but guarantees" if is_complete else "Guarantees"
        return f"{start} were broken: {counted}."
    rule = verdict["rules"]["unseen"]
    bound = "" if rule.get("complete", True) else "At least "
    unread = f"{bound}{plural(rule['count'], 'acknowledged write')} of {impact['acknowledged']:,}"
    if verdict["input"].get("dialect") == "jepsen":  # which has no final reads
        end = f": no ok poll returned {'it' if rule['count'] == 1 else 'them'}"
    else:
        end = ", although the final reads reached the end"
    unseen = f"{unread} {'was' if rule['count'] == 1 else 'were'} never read{end}."
    return f"{unseen} Guarantees were broken, too: {counted}." if others else unseen


def _count_of(rule: dict[str, Any]) -> str:
    """The number of records in breaches of a rule: a lower bound if its evidence is incomplete."""
    bound = "" if rule.get("complete", True) else "at least "
    return bound + plural(rule["count"], "record")


def _lost_read(lost: int, read: int, left_out: int) -> str:
    """The number of lost records that consumers had read; a lower bound if lines of the history were left out."""
    missing = f"; {plural(left_out, 'line')} of the evidence {'is' if left_out == 1 else 'are'} missing"
    missing = missing if left_out and read < lost else ""
    if not read:
        return f"No recorded consumer had read {'it' if lost == 1 else 'them'}{missing}"
    if lost == 1:
        return "A consumer had already read it"
    count = "all" if read == lost else f"{'at least ' if left_out else ''}{read:,}"
    return f"Consumers had already read {count} of them{missing}"


def _meaning(verdict: dict[str, Any]) -> str:
    partly = verdict["verdict"] == "valid" and verdict.get("skipped")
    if verdict["verdict"] == "valid" and any(rule["permitted"] for rule in verdict["rules"].values()):
        by = f"{allow_options(verdict['allowed'])} or " if _accepted_rules(verdict) else ""
        return f"No breach except those that {by}the configuration permits."
    if verdict["verdict"] == "unknown" and (undecided := _undecided(verdict)):
        return undecided
    return PARTLY if partly else VERDICTS.get(verdict["verdict"], "")


def _undecided(verdict: dict[str, Any]) -> str:
    """A sentence with the unknown rules and the assumptions that leave them unknown; empty if there are none."""
    unknown = [name for name, rule in verdict["rules"].items() if rule["verdict"] == "unknown"]
    broken = [item["name"] for item in broken_assumptions(verdict) if {*unknown} & {*item["touches"]}]
    if not unknown or not broken:
        return ""
    are, do = ("is" if len(unknown) == 1 else "are"), ("does" if len(broken) == 1 else "do")
    names = some([f'"{name}"' for name in broken])
    return f"No breach was found, but {some(unknown)} {are} unknown, as {names} {do} not hold."


def _never_received(process: str, partition: str, first: int, last: int, count: int) -> str:
    place = style.printable(f"{partition}@{first}" + (f"-{last}" if last != first else ""))
    return (
        f"{style.printable(process)} never received {plural(count, 'acknowledged record')} at {place}: it had read lost"
        f" records at these offsets, and continued after them. Seek it back to offset {first}."
    )


def _known_impact(impact: dict[str, Any], skipped: list[str], counts: dict[str, int]) -> dict[str, Any]:
    """The impact, with words for each number that is not known: its rule was skipped, or no reads are recorded."""
    rules = {"lost": "lost-write", "lost_read": "lost-write", "duplicated": "duplicate"}
    words = {"lost_read": "not known"} if impact["lost"] and counts.get("reads") == 0 else {}
    words |= {kind: "not judged" for kind, rule in rules.items() if rule in skipped}

    def known(numbers: list[int]) -> list[int | str]:
        return [words.get(kind, number) for kind, number in zip(rules, numbers, strict=True)]

    return {
        **impact,
        **words,
        "by_topic": [[name, acknowledged, *known(numbers)] for name, acknowledged, *numbers in impact["by_topic"]],
        "by_producer": [[name, *known(numbers)] for name, *numbers in impact["by_producer"]],
        "by_reader": [] if "lost" in words else impact["by_reader"],
    }


def _source(verdict: dict[str, Any]) -> str:
    """The judged files, as text."""
    files, logs = verdict["input"].get("files"), verdict["counts"].get("evidence files")
    if not files:
        return plural(logs, "file") + " of brokers" if logs else "an empty run"
    return _printable_names(files, 3) + (f" and {plural(logs, 'file')} of brokers" if logs else "")


def template(page: str) -> Any:
    """The template of a page, such as report.html."""
    return _environment().get_template(f"{page}.j2")


@cache
def _environment() -> Any:
    """The templates of this folder, with the filters that they share; StrictUndefined.

    Its compiled templates are cached on disk, as compiling takes longer than a report.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__package__),
        bytecode_cache=_template_cache(),
        optimized=False,  # optimizing would put the results of filters into the cache
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        shown=style.printable,
        md=markdown,
        number=lambda count: count if isinstance(count, str) else f"{count:,.0f}",
        duration=duration,
        seconds=lambda ns: f"{ns / 1e9:.3f}",
        place=place_of,
        some=_printable_names,
        linked=linked,
        either=either,
        svg=Markup,  # drawn by logjudge; matplotlib escaped its texts
    )
    environment.globals.update(fault_name=style.fault_name, FIRST=FIRST)
    return environment


def _template_cache() -> Any:
    """A cache beside the byte code of the modules, or None if it cannot be written."""
    from jinja2 import FileSystemBytecodeCache

    folder = Path(__file__).parent / "__pycache__"
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    return FileSystemBytecodeCache(str(folder), "template-%s.jinja") if os.access(folder, os.W_OK) else None


def linked(text: str, max_chars: int) -> Any:
    """Text as HTML with a link for each KIP and each Kafka issue."""
    from markupsafe import Markup

    return Markup(with_links(str(escape(style.printable(text, max_chars))), _link))


def _link(reference: Reference) -> str:
    return f'<a href="{escape(reference.url)}">{reference.title}</a>'


def _printable_names(values: list[str], max_shown: int = 6) -> str:
    """The first `max_shown` of untrusted names, as printable text."""
    return some([style.printable(value, 40) for value in values], max_shown)
