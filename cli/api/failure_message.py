"""The AssertionError of a run that is not valid: its breaches, their causes, and broken assumptions."""

from __future__ import annotations

import textwrap
from typing import Any

from .analysis.verdict.assumptions import broken_assumptions
from .analysis.wording import printable

SHOWN = 5  # findings, causes and assumptions of a message
WIDTH = 110  # columns


def raise_unless_valid(report: dict[str, Any], headline: str) -> None:
    """Raise an AssertionError that explains the verdict, unless it is valid."""
    __tracebackhide__ = True
    if report["verdict"] != "valid":
        raise AssertionError("\n".join(_explanation(report, headline)))


def _explanation(report: dict[str, Any], headline: str) -> list[str]:
    lines = [f"{report['input']['name']}: {report['verdict']}. {headline}"]
    breaches = [finding for finding in report["findings"] if finding["severity"] == "violation"]
    for finding in breaches[:SHOWN]:
        lines += _item(f"{finding['rule']}: {finding['sentence']}{_place(finding)}")
    total = sum(rule["findings"] for rule in report["rules"].values())
    if total > SHOWN:
        lines.append(f"  … {total - SHOWN:,} more findings")
    causes = [incident for incident in report.get("incidents", ()) if incident.get("cause") not in (None, "unknown")]
    for incident in causes[:SHOWN]:
        lines += _item(f"cause {incident['cause']}: {incident['headline']}")
    for item in broken_assumptions(report)[:SHOWN]:
        lines += _item(f"broken assumption {item['name']}: {item['says']}")
    return lines


def _place(finding: dict[str, Any]) -> str:
    places = [f"{item['source']}:{item['line']}" for item in finding["evidence"] if item["line"] is not None]
    return f" [{', '.join(dict.fromkeys(places[:3]))}]" if places else ""


def _item(text: str) -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
