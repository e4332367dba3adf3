"""The verdict on a terminal is one screen: of recorded runs, and of findings that are many, long or hostile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import report_of
from logjudge.cli.output import MAX_LINES, render
from logjudge.histories.bundle import open_run

Report = dict[str, Any]
EVIL = "\x1b[2J\u202e" + "x" * 3000 + " " + "word " * 900
WIDTHS = pytest.mark.parametrize("width", [80, 100, 120])


def screen(report: Report, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = click.unstyle(render(report, "logjudge-out/run", 1.0)).splitlines()
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= width
    assert lines[-1] == "Report, plots and all findings: logjudge-out/run"
    return lines


@pytest.fixture(scope="module")
def reports(unpacked: Callable[[str], Path]) -> dict[str, Report]:
    names = ("kip-101-c", "disk-truncate-m", "clean-a")
    headline = {"headline": "None of 5,610 acknowledged writes was lost, and no guarantee was broken."}
    return {name: {**report_of(judge_run(open_run(unpacked(name))), "local"), **headline} for name in names}


def huge(report: Report, text: str) -> Report:
    """A verdict where 40 partitions are lost, all rules broken and no assumption holds; `text` is in every sentence."""
    finding, incident = report["findings"][0], report["incidents"][0]
    lost = {**incident["lost"][0], "topic": text}
    broken = {
        "verdict": "invalid",
        "count": 10**9,
        "findings": 10**6,
        "permitted": 10**6,
        "permitted_count": 10**9,
        "notes": 0,
    }
    return {
        **report,
        "headline": text,
        "input": {**report["input"], "name": text, "system": {"name": text, "version": text}},
        "rules": dict.fromkeys([*report["rules"], *(f"rule-number-{n}" for n in range(9))], broken),
        "findings": [{**finding, "sentence": f"{text} is gone", "topic": text}] * 40,
        "incidents": [{**incident, "cause": "unknown", "headline": text, "missing": [text] * 9, "lost": [lost]}] * 40,
        "assumptions": [{**item, "holds": None, "says": text} for item in report["assumptions"]],
    }


@pytest.mark.sampled(3)
@WIDTHS
@pytest.mark.parametrize("name", ["kip-101-c", "disk-truncate-m", "clean-a"])
def test_a_recorded_run(reports: dict[str, Report], name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = screen(reports[name], width, monkeypatch)
    broken = [rule for rule, judged in reports[name]["rules"].items() if judged["verdict"] == "invalid"]
    assert all(any(line.startswith(f"  {rule} ") for line in lines) for rule in broken)
    assert name == "clean-a" or any("high-watermark-truncation" in line or "last-replica" in line for line in lines)


@WIDTHS
@pytest.mark.parametrize("name", ["kip-101-c", "disk-truncate-m"])
def test_no_citation_is_cut(reports: dict[str, Report], name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = screen(reports[name], width, monkeypatch)
    incidents = "\n".join(lines[lines.index("Incidents") : lines.index("Assumptions")])
    assert incidents.count("[") == incidents.count("]")


def test_few_rules_that_were_not_judged_are_named(reports: dict[str, Report], monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(" ".join(screen(reports["kip-101-c"], 100, monkeypatch)).split())
    rules = reports["kip-101-c"]["rules"]
    names = [name for name, rule in rules.items() if rule["verdict"] == "not-judged"]
    # Where there is room for them, all are named.
    assert f"not-judged: {len(names)} rules are not applicable" in text or f"not-judged: {', '.join(names)}" in text
    few = {name: rule for name, rule in rules.items() if name not in names[4:]}
    text = " ".join(" ".join(screen({**reports["kip-101-c"], "rules": few}, 100, monkeypatch)).split())
    assert f"not-judged: {', '.join(names[:4])}" in text


def test_a_run_with_only_notes_has_no_incidents(reports: dict[str, Report], monkeypatch: pytest.MonkeyPatch) -> None:
    report = reports["kip-101-c"]
    notes = [{**incident, "severity": "note"} for incident in report["incidents"]]
    assert "Notes (no breach)" in screen({**report, "incidents": notes}, 100, monkeypatch)
    assert "Incidents" in screen({**report, "incidents": [*notes, *report["incidents"]]}, 100, monkeypatch)


@pytest.mark.sampled(4)
@WIDTHS
@pytest.mark.parametrize("text", ["orders", "t" * 249, "v " * 2000, EVIL], ids=["short", "topic", "words", "evil"])
def test_huge_reports_fit_the_screen(
    reports: dict[str, Report], text: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = screen(huge(reports["kip-101-c"], text), width, monkeypatch)
    assert lines[0].endswith(": INVALID")
    assert all(line.isprintable() for line in lines)
    assert "Incidents" in lines
    assert "Assumptions" in lines
    assert any(line.strip().endswith("more incidents in the report") for line in lines)
    assert any("more rules with findings" in line for line in lines)


def test_a_terminal_of_a_few_columns_gets_a_verdict(
    reports: dict[str, Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "3")
    assert "clean-a: VALID" in click.unstyle(render(reports["clean-a"], None, 1.0))
