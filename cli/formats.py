"""Verdicts for machines: JUnit XML, SARIF 2.1.0 and GitHub's workflow commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from ..analysis.rules import Rule, rules_of
from ..analysis.rules.anomalies import count_text
from ..analysis.verdict.assumptions import broken_assumptions
from ..analysis.wording import printable
from ..histories.files import is_uri, local_path
from .judging import Judged
from .output import causes_of

MAX_RESULTS = 1000  # GitHub accepts 25,000 and shows 5,000
ASSUMPTION = "assumption"  # the rule id of an unknown that belongs to no rule
NO_OPERATIONS = "the run has no operations, so there was nothing to judge"
_LEVELS = {"violation": "error", "permitted": "note", "note": "note"}
_NO_LINES = (".gz", ".zst", ".parquet")  # viewers cannot show a line of a compressed file
_NOTICES = {"valid": "notice", "unknown": "warning", "invalid": "error"}


class Run:
    """A judged run, and its verdict.json."""

    def __init__(self, judged: Judged) -> None:
        assert judged.report is not None
        self.path = judged.path  # as given on the command line
        self.report: dict[str, Any] = judged.report  # verdict.json

    @property
    def verdict(self) -> str:
        """The run's name and verdict."""
        return f"{self.report['input']['name']}: {self.report['verdict'].upper()}"

    def summary(self) -> list[str]:
        """The verdict, the skipped rules, and each cause with its prevention; for breaches without one the headline."""
        skipped = ", ".join(self.report["skipped"])
        verdict = self.verdict + (f" (skipped by --only or --skip: {skipped})" if skipped else "")
        causes = [f"{one.incident.cause}: {one.sentence}{one.citation}" for one in causes_of(self.report)]
        if not causes and self.report["verdict"] == "invalid":
            return [verdict, self.report["headline"].removesuffix(".")]
        return [verdict, *causes]

    def unknown(self) -> dict[str, str]:
        """The reason of each unknown, by assumption or rule; a rule that a broken assumption explains is left out."""
        broken = broken_assumptions(self.report)
        reasons = {item["name"]: item["says"] for item in broken}
        explained = {name for item in broken for name in item["touches"]}
        for name in self.unknown_rules():
            if name not in explained:
                reasons[name] = "its evidence is damaged, incomplete or ambiguous"
        if not reasons and self.report["verdict"] == "unknown":
            reasons["operations recorded"] = NO_OPERATIONS
        return reasons

    @property
    def known(self) -> dict[str, Rule]:
        """The rules that its dialect is judged by."""
        return rules_of(self.report["input"]["dialect"])

    def unknown_rules(self) -> list[str]:
        """The names of the rules whose verdict is unknown."""
        return [name for name, rule in self.report["rules"].items() if rule["verdict"] == "unknown"]

    def causes_text(self, finding: dict[str, Any]) -> str:
        """The causes of a finding with their prevention, to append to its sentence."""
        causes = causes_of(self.report, finding["id"])
        return "".join(f". Cause: {one.incident.cause}: {one.sentence}{one.citation}" for one in causes)

    def cause_names(self, finding: dict[str, Any]) -> str:
        """The names of a finding's causes, to append to its sentence beside a summary that explains them."""
        causes = dict.fromkeys(one.incident.cause for one in causes_of(self.report, finding["id"]))
        return f". Cause: {', '.join(causes)}" if causes else ""

    def source(self, name: str) -> str:
        """The path of a file of the run, relative to the current folder where possible."""
        if is_uri(self.path):
            inside = not self.path.endswith(f"/{name}")
            return f"{self.path.rstrip('/')}/{name}" if inside else self.path
        given = local_path(self.path)
        found = (given if given.is_dir() or not name else given.parent) / name
        here = Path.cwd()
        return str(found.relative_to(here)) if found.is_relative_to(here) else str(found)

    def default_source(self) -> str:
        """The location of a result without a file: the first history, else the run itself."""
        files = self.report["input"]["files"]
        return self.source(files[0]) if files else self.source("")


def failure_of(judged: Judged) -> str:
    """The sentence of a run without a verdict."""
    return f"{judged.name}: {'logjudge crashed' if judged.is_bug else 'the run cannot be read'}: {judged.headline}"


def junit(judged: Sequence[Judged]) -> str:
    """JUnit XML: one suite per run, one case per rule and assumption. Unknown is an error, not-judged is skipped.

    The suite of a run without a verdict has one case, with an error.
    """
    root = ElementTree.Element("testsuites")
    for number, each in enumerate(judged):
        name = _xml(each.report["input"]["name"] if each.report else each.name)
        suite = ElementTree.SubElement(root, "testsuite", name=f"logjudge {name}", id=str(number), package="logjudge")
        suite.set("timestamp", f"{each.began:%Y-%m-%dT%H:%M:%S}")
        suite.set("time", f"{each.seconds:.3f}")
        suite.set("hostname", "localhost")
        ElementTree.SubElement(suite, "properties")
        output, errors = (_rules_and_assumptions(suite, name, Run(each)), "") if each.report else ("", failure_of(each))
        if errors:
            kind = "crash" if each.is_bug else "unreadable"
            ElementTree.SubElement(_case(suite, name, "run judged"), "error", message=_xml(errors), type=kind)
        for kind, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(kind, str(len(suite.findall(f".//{tag}"))))
        ElementTree.SubElement(suite, "system-out").text = _xml(output)
        ElementTree.SubElement(suite, "system-err").text = _xml(errors)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _rules_and_assumptions(suite: ElementTree.Element, name: str, run: Run) -> str:
    """Adds the cases of a run, and returns its summary."""
    unknown = _errors(run)
    assumptions = [item["name"] for item in run.report["assumptions"]]
    for case in dict.fromkeys([*run.known, *assumptions, *unknown]):
        _outcome(_case(suite, name, case), case, run, unknown)
    return "\n".join(run.summary())


def _case(suite: ElementTree.Element, classname: str, name: str) -> ElementTree.Element:
    """A test case. Its time is 0: all rules are judged together."""
    return ElementTree.SubElement(suite, "testcase", classname=classname, name=_xml(name), time="0")


def _errors(run: Run) -> dict[str, str]:
    """The reason of each unknown, also for every rule that a broken assumption concerns."""
    reasons = run.unknown()
    for name in run.unknown_rules():
        touching = [item for item in run.report["assumptions"] if name in item["touches"] and item["name"] in reasons]
        reasons.setdefault(name, "; ".join(f"{item['name']}: {item['says']}" for item in touching))
    return reasons


def _outcome(case: ElementTree.Element, name: str, run: Run, unknown: dict[str, str]) -> None:
    rule = run.report["rules"].get(name, {"verdict": "valid"})
    if name in run.report["skipped"]:
        ElementTree.SubElement(case, "skipped", message="by --only or --skip")
    elif rule["verdict"] == "invalid":
        sentences = [f["sentence"] + run.causes_text(f) for f in run.report["findings"] if f["rule"] == name][:20]
        message = count_text(name, rule["count"], rule["findings"])
        ElementTree.SubElement(case, "failure", message=message, type="violation").text = _xml("\n".join(sentences))
    elif name in unknown:
        ElementTree.SubElement(case, "error", message=_xml(f"unknown: {name}: {unknown[name]}"), type="unknown")
    elif rule["verdict"] == "not-judged":
        ElementTree.SubElement(case, "skipped", message="not applicable: the run has no such data")


def _xml(text: str) -> str:
    """Replaces control characters, which XML 1.0 cannot represent."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def sarif(judged: Sequence[Judged]) -> str:
    """SARIF: unknowns, then the worst findings, as results; verdicts and failures as notifications of the tool."""
    runs = [Run(each) for each in judged if each.report]
    unknown = [_open(run, name, why) for run in runs for name, why in run.unknown().items()]
    found = [_result(run, finding) for run in runs for finding in run.report["findings"]]
    known = {name: rule for run in runs for name, rule in run.known.items()} or rules_of("native")
    rules = [
        {
            "id": name,
            "shortDescription": {"text": rule.summary},
            "fullDescription": {"text": "\n".join(f"{heading}: {text}" for heading, text in rule.texts)},
            "help": {"text": f"logjudge rules {name} prints this text with an example"},
            "helpUri": rule.source.url,
        }
        for name, rule in known.items()
    ]
    rules.append({"id": ASSUMPTION, "shortDescription": {"text": "an assumption of the verdict may not hold"}})
    driver = {"name": "logjudge", "version": version("logjudge"), "rules": rules}
    # The tool succeeded if it reached a verdict on each run, whatever the verdict.
    invocation = {
        "executionSuccessful": len(runs) == len(judged),
        "toolExecutionNotifications": [_notification(each) for each in judged],
    }
    return json.dumps(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [
                {"tool": {"driver": driver}, "invocations": [invocation], "results": [*unknown, *found][:MAX_RESULTS]}
            ],
        },
        indent=2,
    )


def _notification(judged: Judged) -> dict[str, Any]:
    if not judged.report:
        return {"level": "error", "message": {"text": printable(failure_of(judged))}}
    run = Run(judged)
    level = "note" if run.report["verdict"] == "valid" else _NOTICES[run.report["verdict"]]
    return {"level": level, "message": {"text": printable(". ".join(run.summary()))}}


def _open(run: Run, name: str, why: str) -> dict[str, Any]:
    return {
        "ruleId": name if name in run.known else ASSUMPTION,
        "kind": "open",
        "level": "none",  # SARIF requires it for kind "open"
        "message": {"text": printable(f"{run.verdict}. Unknown: {name}: {why}")},
        "locations": [_sarif_location(run.default_source())],
        "partialFingerprints": {"logjudge/v1": _fingerprint(run, "unknown", name)},
    }


def _result(run: Run, finding: dict[str, Any]) -> dict[str, Any]:
    locations = [
        _sarif_location(run.source(item["source"]), item["says"], item["line"])
        for item in finding["evidence"]
        if item["source"]
    ]
    # GitHub rejects a file if one result has no location, and shows only locations with a line.
    locations.sort(key=lambda location: "region" not in location["physicalLocation"])
    return {
        "ruleId": finding["rule"],
        "level": _LEVELS[finding["severity"]],
        "message": {
            "text": printable(f"{run.verdict}. {finding['sentence']}{run.causes_text(finding)}{_lines(finding)}")
        },
        "locations": locations[:1] or [_sarif_location(run.default_source())],
        "relatedLocations": locations[1:],
        "partialFingerprints": {"logjudge/v1": _fingerprint(run, *(finding[name] for name in _IDENTITY))},
    }


_IDENTITY = ("rule", "topic", "partition", "first_offset", "last_offset", "sentence")


def _fingerprint(run: Run, *parts: object) -> str:
    """An id that depends only on the run's name and the given parts."""
    return sha256(json.dumps([run.report["input"]["name"], *parts]).encode()).hexdigest()[:32]


def _lines(finding: dict[str, Any]) -> str:
    """The lines of evidence in compressed files, which a SARIF location cannot point to."""
    lines = [f"{e['source']}:{e['line']}" for e in finding["evidence"] if e["line"] and _is_compressed(e["source"])]
    return f" [{', '.join(dict.fromkeys(lines[:3]))}]" if lines else ""


def _is_compressed(name: str) -> bool:
    return name.endswith(_NO_LINES)


def _sarif_location(path: str, message: str = "", line: int | None = None) -> dict[str, Any]:
    uri = path if is_uri(path) else Path(path).as_uri() if Path(path).is_absolute() else quote(path)
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if line and not _is_compressed(path):
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical, **({"message": {"text": printable(message)}} if message else {})}


def github(judged: Sequence[Judged]) -> str:
    """GitHub workflow commands: one annotation for the verdict and its causes, one per unknown, one per finding.

    A run without a verdict has one annotation, its error.
    """
    lines = []
    for each in judged:
        if not each.report:
            lines.append(f"::error title=logjudge::{_data(failure_of(each))}")
            continue
        run = Run(each)
        level = _NOTICES[run.report["verdict"]]
        lines.append(f"::{level} title=logjudge::{_data('. '.join(run.summary()))}")
        home = "" if _is_compressed(run.default_source()) else f"file={_property(run.default_source())},"
        for name, why in run.unknown().items():
            lines.append(f"::warning {home}title={_property(name)}::{_data(f'unknown: {name}: {why}')}")
        for finding in run.report["findings"][:MAX_RESULTS]:
            level = "error" if finding["severity"] == "violation" else "notice"
            place = next((e for e in finding["evidence"] if e["line"] and not _is_compressed(e["source"])), None)
            where = f"file={_property(run.source(place['source']))},line={place['line']}," if place else home
            message = _data(finding["sentence"] + run.cause_names(finding) + _lines(finding))
            lines.append(f"::{level} {where}title={_property(finding['rule'])}::{message}")
    return "\n".join(lines)


def _data(text: str) -> str:
    """Escapes a message; control and bidirectional characters could hide its text."""
    text = "\n".join(printable(line) for line in text.splitlines())
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escapes the value of a property."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS = {"junit": junit, "sarif": sarif, "github": github}
