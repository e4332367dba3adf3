"""Verdicts for machines: JUnit XML, SARIF 2.1.0 and GitHub's workflow commands."""

from __future__ import annotations

import json
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from ..analysis.rules import RULES
from ..analysis.wording import plural
from ..histories.files import is_uri, local_path
from .output import causes_of, printable

MOST = 1000  # GitHub shows 5,000 results at most and takes 25,000
ASSUMPTION = "assumption"  # the rule of what is unknown though no rule of ours concerns it
NO_OPERATIONS = "the run holds no operation, so there was nothing to judge"
_LEVELS = {"violation": "error", "permitted": "note", "note": "note"}
HOME = "https://pypi.org/project/logjudge/"
_NO_LINES = (".gz", ".zst", ".parquet")  # a line of what is packed is nowhere to be shown
_NOTICES = {"valid": "notice", "unknown": "warning", "invalid": "error"}


class Judged(NamedTuple):
    """A run as the caller named it, and what verdict.json says of it."""

    path: str
    report: dict[str, Any]
    began: datetime  # UTC
    seconds: float  # that the judging took

    @property
    def verdict(self) -> str:
        return f"{self.report['input']['name']}: {self.report['verdict'].upper()}"

    def summary(self) -> list[str]:
        """The verdict, which rules it leaves out, and each cause with what would have prevented it."""
        skipped = ", ".join(self.report["skipped"])
        told = [self.verdict + (f" (skipped by --only or --skip: {skipped})" if skipped else "")]
        return told + [f"{cause}: {says}{cited}" for cause, says, cited in causes_of(self.report)]

    def unknown(self) -> dict[str, str]:
        """What is unknown, by assumption or rule, each with the reason; what an assumption explains is told there."""
        broken = [item for item in self.report["assumptions"] if item["holds"] is not True]
        told = {item["name"]: item["says"] for item in broken}
        explained = {name for item in broken for name in item["touches"]}
        for name in self.unknown_rules():
            if name not in explained:
                told[name] = "its evidence is damaged, incomplete or ambiguous"
        if not told and self.report["verdict"] == "unknown":
            told["operations recorded"] = NO_OPERATIONS
        return told

    def unknown_rules(self) -> list[str]:
        return [name for name, rule in self.report["rules"].items() if rule["verdict"] == "unknown"]

    def whys_of(self, finding: dict[str, Any]) -> str:
        """The causes of a finding and what would have prevented them, as a sentence that goes on from its own."""
        causes = causes_of(self.report, finding["id"])
        return "".join(f". Why: {name}: {says}{cited}" for name, says, cited in causes)

    def source(self, name: str) -> str:
        """A file of the run as it is found from where the caller stands."""
        if is_uri(self.path):
            inside = not self.path.endswith(f"/{name}")
            return f"{self.path.rstrip('/')}/{name}" if inside else self.path
        given = local_path(self.path)
        found = (given if given.is_dir() or not name else given.parent) / name
        here = Path.cwd()
        return str(found.relative_to(here)) if found.is_relative_to(here) else str(found)

    def home(self) -> str:
        """Where a result without a file of its own is located: the first history, else the run itself."""
        files = self.report["input"]["files"]
        return self.source(files[0]) if files else self.source("")


def junit(runs: list[Judged]) -> str:
    """A suite a run, a case a rule and an assumption; unknown is an error, what was not judged is skipped."""
    root = ElementTree.Element("testsuites")
    for number, run in enumerate(runs):
        name = _xml(run.report["input"]["name"])
        suite = ElementTree.SubElement(root, "testsuite", name=f"logjudge {name}", id=str(number), package="logjudge")
        suite.set("timestamp", f"{run.began:%Y-%m-%dT%H:%M:%S}")
        suite.set("time", f"{run.seconds:.3f}")
        suite.set("hostname", "localhost")
        ElementTree.SubElement(suite, "properties")
        unknown = _errors(run)
        assumptions = [item["name"] for item in run.report["assumptions"]]
        for case in dict.fromkeys([*RULES, *assumptions, *unknown]):
            _outcome(_case(suite, name, case), case, run, unknown)
        for kind, tag in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(kind, str(len(suite.findall(f".//{tag}"))))
        ElementTree.SubElement(suite, "system-out").text = _xml("\n".join(run.summary()))
        ElementTree.SubElement(suite, "system-err")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def _case(suite: ElementTree.Element, classname: str, name: str) -> ElementTree.Element:
    """A test case; rules are judged together, so that none has a time of its own."""
    return ElementTree.SubElement(suite, "testcase", classname=classname, name=_xml(name), time="0")


def _errors(run: Judged) -> dict[str, str]:
    """What is unknown, with each rule that a broken assumption touches: a case of a rule fails by itself."""
    told = run.unknown()
    for name in run.unknown_rules():
        touching = [item for item in run.report["assumptions"] if name in item["touches"] and item["name"] in told]
        told.setdefault(name, "; ".join(f"{item['name']}: {item['says']}" for item in touching))
    return told


def _outcome(case: ElementTree.Element, name: str, run: Judged, unknown: dict[str, str]) -> None:
    rule = run.report["rules"].get(name, {"verdict": "valid"})
    if name in run.report["skipped"]:
        ElementTree.SubElement(case, "skipped", message="by --only or --skip")
    elif rule["verdict"] == "invalid":
        told = [f["sentence"] + run.whys_of(f) for f in run.report["findings"] if f["rule"] == name][:20]
        message = f"{plural(rule['count'], 'record')} in {plural(rule['findings'], 'finding')}"
        ElementTree.SubElement(case, "failure", message=message, type="violation").text = _xml("\n".join(told))
    elif name in unknown:
        ElementTree.SubElement(case, "error", message=_xml(f"unknown: {name}: {unknown[name]}"), type="unknown")
    elif rule["verdict"] == "not-judged":
        ElementTree.SubElement(case, "skipped", message="the run carries nothing that it is about")


def _xml(text: str) -> str:
    """XML 1.0 has no way to write most control characters."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def sarif(runs: list[Judged]) -> str:
    """What is unknown, then the worst findings, as results; the verdicts as notifications of the tool."""
    unknown = [_open(run, name, why) for run in runs for name, why in run.unknown().items()]
    found = [_result(run, finding) for run in runs for finding in run.report["findings"]]
    rules = [
        {
            "id": name,
            "shortDescription": {"text": rule.summary},
            "fullDescription": {"text": "\n".join(f"{heading}: {text}" for heading, text in rule.parts)},
            "help": {"text": f"logjudge rules {name} prints this text with an example"},
            "helpUri": f"{HOME}#{name}",
        }
        for name, rule in RULES.items()
    ]
    rules.append({"id": ASSUMPTION, "shortDescription": {"text": "what the verdict rests on is not known to hold"}})
    driver = {"name": "logjudge", "version": version("logjudge"), "informationUri": HOME, "rules": rules}
    # The run of the tool succeeded, whatever it says of the runs that it judged.
    invocation = {"executionSuccessful": True, "toolExecutionNotifications": [_notification(run) for run in runs]}
    return json.dumps(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": driver}, "invocations": [invocation], "results": [*unknown, *found][:MOST]}],
        },
        indent=2,
    )


def _notification(run: Judged) -> dict[str, Any]:
    level = "note" if run.report["verdict"] == "valid" else _NOTICES[run.report["verdict"]]
    return {"level": level, "message": {"text": printable(". ".join(run.summary()))}}


def _open(run: Judged, name: str, why: str) -> dict[str, Any]:
    return {
        "ruleId": name if name in RULES else ASSUMPTION,
        "kind": "open",
        "level": "none",  # SARIF knows no other of what is open
        "message": {"text": printable(f"{run.verdict}. Unknown: {name}: {why}")},
        "locations": [_located(run.home())],
        "partialFingerprints": {"logjudge/v1": _fingerprint(run, "unknown", name)},
    }


def _result(run: Judged, finding: dict[str, Any]) -> dict[str, Any]:
    locations = [
        _located(run.source(item["source"]), item["says"], item["line"])
        for item in finding["evidence"]
        if item["source"]
    ]
    # GitHub refuses all of a file in which one result has no location, and points at lines alone.
    locations.sort(key=lambda location: "region" not in location["physicalLocation"])
    return {
        "ruleId": finding["rule"],
        "level": _LEVELS[finding["severity"]],
        "message": {"text": printable(f"{run.verdict}. {finding['sentence']}{run.whys_of(finding)}{_lines(finding)}")},
        "locations": locations[:1] or [_located(run.home())],
        "relatedLocations": locations[1:],
        "partialFingerprints": {"logjudge/v1": _fingerprint(run, *(finding[name] for name in _IDENTITY))},
    }


_IDENTITY = ("rule", "topic", "partition", "first_offset", "last_offset", "sentence")


def _fingerprint(run: Judged, *parts: object) -> str:
    """The same for the same finding of the same run, whatever else is found."""
    return sha256(json.dumps([run.report["input"]["name"], *parts]).encode()).hexdigest()[:32]


def _lines(finding: dict[str, Any]) -> str:
    """Where the evidence stands in packed files, which no location can say."""
    packed = [f"{e['source']}:{e['line']}" for e in finding["evidence"] if e["line"] and _is_packed(e["source"])]
    return f" [{', '.join(dict.fromkeys(packed[:3]))}]" if packed else ""


def _is_packed(name: str) -> bool:
    return name.endswith(_NO_LINES)


def _located(path: str, says: str = "", line: int | None = None) -> dict[str, Any]:
    uri = path if is_uri(path) else Path(path).as_uri() if Path(path).is_absolute() else quote(path)
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if line and not _is_packed(path):
        physical["region"] = {"startLine": line}
    return {"physicalLocation": physical, **({"message": {"text": printable(says)}} if says else {})}


def github(runs: list[Judged]) -> str:
    """An annotation for the verdict with its causes, one for each unknown, and one a finding."""
    lines = []
    for run in runs:
        level = _NOTICES[run.report["verdict"]]
        lines.append(f"::{level} title=logjudge::{_data('. '.join(run.summary()))}")
        home = "" if _is_packed(run.home()) else f"file={_property(run.home())},"
        for name, why in run.unknown().items():
            lines.append(f"::warning {home}title={_property(name)}::{_data(f'unknown: {name}: {why}')}")
        for finding in run.report["findings"][:MOST]:
            level = "error" if finding["severity"] == "violation" else "notice"
            place = next((e for e in finding["evidence"] if e["line"] and not _is_packed(e["source"])), None)
            where = f"file={_property(run.source(place['source']))},line={place['line']}," if place else home
            message = _data(finding["sentence"] + run.whys_of(finding) + _lines(finding))
            lines.append(f"::{level} {where}title={_property(finding['rule'])}::{message}")
    return "\n".join(lines)


def _data(text: str) -> str:
    """Escapes a message; control and bidirectional characters could hide what it says."""
    text = "\n".join(printable(line) for line in text.splitlines())
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """Escapes the value of a property."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS = {"junit": junit, "sarif": sarif, "github": github}
