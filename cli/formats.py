"""Verdicts for machines: JUnit XML, SARIF 2.1.0 and GitHub's workflow commands."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any
from xml.etree import ElementTree

from ..analysis.rules import RULES
from ..analysis.rules.wording import plural

MOST = 1000  # GitHub shows 5,000 results at most and takes 25,000
_LEVELS = {"violation": "error", "permitted": "note", "note": "note"}


def junit(reports: list[dict[str, Any]]) -> str:
    """A suite a run, a case a rule; unknown is an error, what was not judged is skipped."""
    root = ElementTree.Element("testsuites")
    for report in reports:
        rules = report["rules"]
        verdicts = [rule["verdict"] for rule in rules.values()]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(f"logjudge {report['input']['name']}"),
            tests=str(len(rules)),
            failures=str(verdicts.count("invalid")),
            errors=str(verdicts.count("unknown")),
            skipped=str(verdicts.count("not-judged")),
        )
        for name, rule in rules.items():
            case = ElementTree.SubElement(suite, "testcase", classname=_xml(report["input"]["name"]), name=name)
            _outcome(case, name, rule, report)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _outcome(case: ElementTree.Element, name: str, rule: dict[str, Any], report: dict[str, Any]) -> None:
    if rule["verdict"] == "invalid":
        told = [f["sentence"] for f in report["findings"] if f["rule"] == name][:20]
        message = f"{plural(rule['count'], 'record')} in {plural(rule['findings'], 'finding')}"
        ElementTree.SubElement(case, "failure", message=message).text = _xml("\n".join(told))
    elif rule["verdict"] == "unknown":
        broken = [
            item["says"] for item in report["assumptions"] if name in item["touches"] and item["holds"] is not True
        ]
        ElementTree.SubElement(case, "error", message=_xml("; ".join(broken) or "unknown"))
    elif rule["verdict"] == "not-judged":
        ElementTree.SubElement(case, "skipped")


def _xml(text: str) -> str:
    """XML 1.0 has no way to write most control characters."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def sarif(reports: list[dict[str, Any]]) -> str:
    """The worst findings as results, located at the line of their first evidence."""
    results = [_result(finding) for report in reports for finding in report["findings"]][:MOST]
    driver = {
        "name": "logjudge",
        "version": version("logjudge"),
        "rules": [
            {"id": name, "shortDescription": {"text": rule.breach}, "fullDescription": {"text": rule.about}}
            for name, rule in RULES.items()
        ],
    }
    return json.dumps(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "results": results}],
        },
        indent=2,
    )


def _result(finding: dict[str, Any]) -> dict[str, Any]:
    locations = [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": item["source"]},
                "region": {"startLine": item["line"]},
            },
            "message": {"text": item["says"]},
        }
        for item in finding["evidence"]
        if item["source"] and item["line"]
    ]
    return {
        "ruleId": finding["rule"],
        "level": _LEVELS[finding["severity"]],
        "message": {"text": finding["sentence"]},
        "locations": locations[:1],
        "relatedLocations": locations[1:],
        "partialFingerprints": {"finding": finding["id"]},
    }


def github(reports: list[dict[str, Any]]) -> str:
    """One annotation a finding."""
    lines = []
    for report in reports:
        for finding in report["findings"][:MOST]:
            place = next(((e["source"], e["line"]) for e in finding["evidence"] if e["line"]), None)
            level = "error" if finding["severity"] == "violation" else "notice"
            where = f" file={_property(place[0])},line={place[1]}," if place else " "
            lines.append(f"::{level}{where}title={_property(finding['rule'])}::{_data(finding['sentence'])}")
    return "\n".join(lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS = {"junit": junit, "sarif": sarif, "github": github}
