"""Options that commands share, standard input, the rules and causes that help texts list."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from command_line import LOSSY, invoke, verdict_in
from logjudge.analysis import causes as cause_modules
from logjudge.analysis.causes import catalogue
from logjudge.analysis.rules import RULES
from logjudge.cli.causes import document
from logjudge.cli.check import EXITS
from logjudge.cli.check import command as check_command
from logjudge.histories.errors import InputError, LogjudgeError, UsageError
from logjudge.histories.readers import native

ROOT = Path(__file__).parents[1]
EVENTS = [
    {"process": "p", "op": 0, "type": kind, "f": "send", "topic": "x", "partition": 0, "value": "a", "time": time}
    for time, kind in enumerate(("invoke", "ok"))
]
HISTORY = "".join(json.dumps({**event, "offset": 0}) + "\n" for event in EVENTS).encode()


@pytest.mark.parametrize("stdin", [HISTORY, gzip.compress(HISTORY, mtime=0)])
@pytest.mark.parametrize(
    ("words", "shows"),
    [
        (("check", "-", "--engine", "local", "--no-plots"), "stdin: UNKNOWN"),
        (("explain", "-", "x-0@0"), "[stdin:2]"),
        (("timeline", "-"), "x-0"),
        (("diff", "-"), "x-0"),
        (("convert", "-", "out.jsonl"), "2 events written"),
    ],
)
def test_standard_input_is_read(
    words: tuple[str, ...], shows: str, stdin: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*words, stdin=stdin)
    assert result.exception is None
    assert shows in result.output


def test_an_error_about_standard_input_names_no_copy_of_it() -> None:
    command = [sys.executable, "-m", "logjudge.cli", "check", "-", "--engine", "local"]
    done = subprocess.run(command, input=b"no history\n", capture_output=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"logjudge: stdin: found a first line like")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("check", "-", "--engine", "lcoal"), "'lcoal' is not one of 'spark', 'local'; did you mean local?"),
        (("plot", "nope", "swimlan"), "; did you mean swimlane?"),
        (("search", "--variant", "kip101"), "; did you mean kip-101"),
    ],
)
def test_a_misspelt_choice_gets_suggestions(words: tuple[str, ...], expected: str) -> None:
    error = invoke(*words).exception
    assert isinstance(error, click.BadParameter)
    assert expected in error.message


def test_quiet_prints_nothing_and_open_shows_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda uri: shown.append(uri) or True)
    words = ("check", "-", "--engine", "local", "--no-plots", "--quiet", "--open", "--out", tmp_path / "out")
    result = invoke(*words, stdin=HISTORY)
    assert (result.return_value, result.output) == (3, "")
    assert shown == [(tmp_path / "out" / "report.html").as_uri()]
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    assert f"the report is {tmp_path / 'out' / 'report.html'}" in invoke(*words, stdin=HISTORY).stderr


@pytest.mark.parametrize("command", [("explain",), ("diff",), ("timeline",), ("plot", "glance")])
def test_the_format_may_be_named_wherever_a_run_is_read(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "h").write_text("#\n" * 60 + HISTORY.decode())  # not recognised from its first lines
    name, *rest = command
    if rest:
        rest += ["--out", str(tmp_path / "plot.png")]
    assert "found a first line like" in str(invoke(name, tmp_path / "h", *rest).exception)
    assert invoke(name, tmp_path / "h", *rest, "--from", "native").exception is None


@pytest.mark.parametrize("command", [("check", "-"), ("linearize", "-"), ("search", "--variant", "kraft")])
def test_two_engines_are_refused(command: tuple[str, ...]) -> None:
    for options in (("--spark", "--engine", "local"), ("--engine", "local", "--spark")):
        error = invoke(*command, *options).exception
        assert isinstance(error, LogjudgeError)
        assert "found --spark with --engine local" in str(error)


def test_help_lists_every_rule_once_by_group_and_examples() -> None:
    printed = invoke("check", "--help").output
    grouped = dict(line.strip().split(": ") for line in printed.split("explains them):")[1].splitlines() if line)
    assert {name: group.strip() for group, names in grouped.items() for name in names.strip().split(", ")} == {
        rule.name: rule.group for rule in RULES.values()
    }
    assert "zcat history.jsonl.gz | logjudge check -" in printed


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"records": [[1, 2]]}, "records[0]: expected an object, found a list"),
        ({"records": [{"offset": "x"}]}, 'records[0].offset: expected an integer of 64 bits, found "x"'),
        ({"records": [{"offset": 1}, {"partition": {}}]}, "records[1].partition: expected an integer of 32 bits"),
        ({"topics": {}}, "found an object as topics, expected a list"),
        ({"ops": [{"f": "send"}, 7]}, "ops[1]: expected an object, found 7"),
        ({"partition": 2**40}, "found 1099511627776 as partition, expected an integer of 32 bits"),
    ],
)
def test_the_reason_of_a_malformed_line_names_its_field_and_shape(change: dict[str, object], reason: str) -> None:
    line = json.dumps({**EVENTS[0], "fault": {"kind": "kill"}, **change}).encode()
    _, refused = native.parse(line)
    assert reason in refused["reason"][0]
    assert "dtype" not in refused["reason"][0]


def test_causes_are_documented_with_evidence_remedy_and_links() -> None:
    assert (ROOT / "docs" / "causes.md").read_text() == document(), "logjudge causes --markdown > docs/causes.md"
    known = catalogue()
    assert list(known) == list(cause_modules.CAUSES)
    for cause in known.values():
        assert all((cause.title, cause.evidence, cause.remedy, cause.citation)), cause.name
    printed = invoke("causes", "unclean-election").output
    assert "Evidence needed: the new leader" in printed
    assert "Remedy: unclean.leader.election.enable=false" in printed
    assert "https://issues.apache.org/jira/browse/KAFKA-1211" in printed
    assert "did you mean unclean-election" in str(invoke("causes", "unclean").exception)


@pytest.mark.parametrize(
    ("offset", "options", "drawn"),
    [
        (0, ["--plots", "findings"], False),
        (7, ["--plots", "findings"], True),
        (0, ["--plots", "all"], True),
        (0, [], False),
        (7, [], True),
        (7, ["--plots", "none"], False),
        (7, ["--no-plots"], False),
    ],
)
def test_plots_are_drawn_as_the_options_say(offset: int, options: list[str], drawn: bool, tmp_path: Path) -> None:
    """A value that is acknowledged at one offset and read at another is a finding."""
    read = [
        {"process": "c", "op": 1, "type": kind, "f": "poll", "time": 2 + time}
        for time, kind in enumerate(("invoke", "ok"))
    ]
    read[1]["records"] = [{"topic": "x", "partition": 0, "offset": offset, "value": "a"}]
    history = HISTORY + "".join(json.dumps(event) + "\n" for event in read).encode()
    result = invoke("check", "-", "--engine", "local", "--out", tmp_path / "out", *options, stdin=history)
    assert result.exception is None
    findings = verdict_in(tmp_path / "out")["findings"]
    assert bool(findings) == bool(offset)
    assert bool(list((tmp_path / "out").glob("plots/*.svg"))) == drawn
    assert bool(list((tmp_path / "out").glob("plots/*.png"))) == ("all" in options)
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("diff", ROOT / "examples" / "unclean-election"), 1),
        (("convert", "-", "h.jsonl"), 0),
        (("plot", "-", "glance", "--out", "glance.png"), 0),
        (("linearize", ROOT / "tests" / "data" / "porcupine" / "c01-bad.txt"), 1),
        (("simulate", "--ops", "20", "--out", "run"), 0),
        (("search", "--variant", "kraft", "--runs", "1"), 0),
        (("scenarios", "run", "asynchronous"), 1),
    ],
)
def test_quiet_prints_nothing_and_changes_no_exit_code(
    words: tuple[object, ...], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*words, "--quiet", stdin=HISTORY)
    assert (result.stdout, result.stderr) == ("", "")
    assert (result.return_value or 0) == code
    assert result.exception is None


def test_a_json_array_and_an_empty_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"time": 1}]')
    (tmp_path / "e.jsonl").write_text("")
    assert "found a JSON array, expected one JSON object a line; `jq -c" in str(
        invoke("check", tmp_path / "a.json").exception
    )
    assert "found an empty file, expected events" in str(invoke("check", tmp_path / "e.jsonl").exception)


def test_a_format_that_does_not_fit_the_history_is_refused(tmp_path: Path) -> None:
    """Next to brokers' files, where the verdict would replace an earlier result."""
    error = invoke("check", LOSSY, "--engine", "local", "--from", "jepsen", "--out", tmp_path / "out").exception
    assert isinstance(error, InputError)
    assert "found a history of native, expected one of jepsen, as chosen with --from" in str(error)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "found"),
    [(("--model", "serializable"), "the model serializable"), (("--keys", "wfr"), "the keys' assumption wfr")],
)
def test_options_of_transactions_are_refused_for_other_histories(
    arguments: tuple[str, str], found: str, tmp_path: Path
) -> None:
    error = invoke("check", LOSSY, "--engine", "local", *arguments, "--out", tmp_path / "out").exception
    assert isinstance(error, UsageError)
    assert f"found {found}, expected a history of transactions" in str(error)
    assert f"leave out {arguments[0]}" in str(error)
    assert not (tmp_path / "out").exists()


def test_the_help_of_check_names_every_exit_code() -> None:
    [codes] = re.findall(r"Exit code: ([^.]+)\.", " ".join(str(check_command.help).split()))
    assert {int(code) for code in re.findall(r"\d+", codes)} == set(EXITS.values())
