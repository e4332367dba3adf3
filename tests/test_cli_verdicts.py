"""Output of `check`: verdicts for people and for CI systems."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import polars as pl
import pytest
from command_line import CLEAN, LOSSY, ROOT, UNREAD, check, json_lines, shell, verdict_in
from logjudge.analysis.rules import RULES
from logjudge.histories.bundle import open_run
from logjudge.histories.convert import convert
from logjudge.histories.errors import InputError
from notation import judge, parse


def test_only_skip_allow_and_strict(tmp_path: Path) -> None:
    loss = "p:a@0 p:b@1 p:e@2 nemesis:kill q:x@1 r:k@6 r:l@5 final:<a@0,x@1,l@5,k@6"
    run = parse(f"{{r.enable.idempotence=false}} {loss}").write(tmp_path / "run")

    def verdict(*options: str) -> tuple[str, set[str]]:
        report = json.loads(check(run, "--json", "--out", tmp_path / "out", *options).stdout)
        return report["verdict"], {finding["rule"] for finding in report["findings"]}

    assert verdict("--only", "lost-write") == ("invalid", {"lost-write"})
    assert verdict("--only", "duplicate") == ("valid", set())
    assert "lost-write" not in verdict("--skip", "lost-write")[1]
    assert verdict("--only", "lost-write", "--allow", "lost-write") == ("valid", {"lost-write"})
    assert verdict("--only", "lost-write", "--allow", "lost-write:acks=1")[0] == "invalid"
    assert verdict("--only", "nonmonotonic-send")[0] == "valid"
    assert verdict("--only", "nonmonotonic-send", "--strict")[0] == "invalid"
    assert verdict("--only", "nonmonotonic-send", "--strict", "--allow", "nonmonotonic-send")[0] == "valid"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("empty", [b"", gzip.compress(b""), "no rows"], ids=["plain", "gzip", "Parquet"])
def test_an_empty_history_beside_others_keeps_the_verdict_from_valid(tmp_path: Path, empty: bytes | str) -> None:
    """Either a client recorded nothing, or its lines were lost; the file does not show which."""
    run = shutil.copytree(CLEAN, tmp_path / "run")
    (run / "history").mkdir()
    history = (run / "history.jsonl.gz").rename(run / "history" / "a.jsonl.gz")
    assert check(run, "--out", tmp_path / "whole").output.splitlines()[0].endswith(": VALID")
    if isinstance(empty, bytes):
        name = "b.jsonl"
        (run / "history" / name).write_bytes(empty)
    else:
        name = "b.parquet"
        convert(open_run(history), tmp_path / name)
        pl.read_parquet(tmp_path / name).clear().write_parquet(run / "history" / name)
    result = check(run, "--out", tmp_path / "beside")
    assert result.return_value == 3
    assert f"BROKEN clients recorded: history/{name} is empty" in result.output


def test_a_run_of_only_empty_histories_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run" / "history").mkdir(parents=True)
    for name in "ab":
        (tmp_path / "run" / "history" / f"{name}.jsonl").touch()
    with pytest.raises(InputError, match="run: found 2 empty histories, expected a history"):
        open_run(tmp_path / "run")


def test_an_allowed_loss_of_a_real_run_is_valid_with_all_that_follows_from_it(tmp_path: Path) -> None:
    source = CLEAN.parent / "acks1-failover-a"
    result = check(source, "--allow", "lost-write:acks=1", "--out", tmp_path / "allowed")
    assert result.return_value == 0
    report = verdict_in(tmp_path / "allowed")
    jsonschema.validate(report, json.loads((ROOT / "docs" / "verdict.schema.json").read_text()))
    permitted = {finding["rule"] for finding in report["findings"]}
    assert permitted >= {"lost-write", "inconsistent-offsets", "realtime-order"}
    assert check(source, "--out", tmp_path / "plain").return_value == 1

    shown = " ".join(result.output.split())
    assert re.search(r"lost-write valid \(\d+ records in \d+ findings? accepted by --allow lost-write:acks=1\)", shown)
    accepted = {name for name, rule in report["rules"].items() if rule["accepted"]}
    assert accepted >= {"lost-write", "inconsistent-offsets"}
    assert report["allowed"] == ["lost-write:acks=1"]
    assert "--allow lost-write:acks=1 accepts the breaches of lost-write, " in report["headline"]
    plain = verdict_in(tmp_path / "plain")
    assert not any(rule["accepted"] for rule in plain["rules"].values())
    assert "--allow" not in plain["headline"]


def test_skipped_rules_are_named_and_have_no_verdict(tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs" / "verdict.schema.json").read_text())
    screen = check(LOSSY, "--only", "duplicate", "--out", tmp_path / "only").output
    verdict = verdict_in(tmp_path / "only")
    jsonschema.validate(verdict, schema)
    assert verdict["skipped"] == [name for name in RULES if name != "duplicate"]
    assert f"  skipped: {len(RULES) - 1} rules by --only or --skip: lost-write, " in screen
    for name in ("report.md", "report.html"):
        text = (tmp_path / "only" / name).read_text()
        assert "No breach of the rules that were judged." in text
        assert "every guarantee" not in text
        assert "no breach was found" not in text
        assert "not judged" in text
        assert ", ".join(verdict["skipped"]) in text
    assert "| lost | not judged |" in (tmp_path / "only" / "report.md").read_text()
    check(LOSSY, "--skip", "lost-write", "--out", tmp_path / "skip")
    report = (tmp_path / "skip" / "report.md").read_text()
    assert "| lost | not judged |\n| lost after being read | not judged |\n| duplicated | 0 |" in report
    check(CLEAN, "--out", tmp_path / "all")
    assert verdict_in(tmp_path / "all")["skipped"] == []
    assert "kipped" not in (tmp_path / "all" / "report.md").read_text()


def test_permitted_findings_are_counted_and_are_breaches_under_strict(tmp_path: Path) -> None:
    only = (LOSSY, "--only", "nonmonotonic-send", "--out", tmp_path / "out")
    permitted = check(*only).output
    assert re.search(
        r"nonmonotonic-send +valid +\(\d+ records in \d+ findings permitted by the configuration\)\n", permitted
    )
    strict = check(*only, "--strict").output
    assert re.search(r"nonmonotonic-send +invalid +\d+ records in \d+ findings\n", strict)
    report = verdict_in(tmp_path / "out")
    counts = report["rules"]["nonmonotonic-send"]
    assert counts["permitted"] == counts["permitted_count"] == 0
    assert counts["findings"] == len(report["findings"])
    assert {finding["severity"] for finding in report["findings"]} == {"violation"}


PREVENTED = "Prevented by unclean.leader.election.enable=false"


def test_junit(tmp_path: Path) -> None:
    suite = ElementTree.fromstring(check(LOSSY, "--format", "junit", "--out", tmp_path / "o").stdout)[0]
    cases = {case.get("name"): [child.tag for child in case] for case in suite.findall("testcase")}
    assert cases["lost-write"] == ["failure"]
    assert cases["unseen"] == []
    assert cases["consumer-loss"] == ["skipped"]
    assert cases["final reads complete"] == []
    assert PREVENTED in str(suite.findtext("testcase[@name='lost-write']/failure"))
    output = str(suite.findtext("system-out"))
    assert output.startswith("unclean-election-a: INVALID\nunclean-election: ")
    assert PREVENTED in output


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, 'as there is no run.json with "final": true and a process with the role final'),
        ({}, 'a Recorder writes both: recorder.finish(final_read="PROCESS")'),
        ({"final": True}, "as run.json lacks a process with the role final"),
        ({"processes": {"c": {"role": "final"}}}, 'as run.json lacks "final": true'),
        ({"final": True, "processes": {"c": {"role": "final"}}}, "as c recorded no read, or none after the last heal"),
        ({"final": True, "processes": {"c": {"role": "finall"}}}, "unknown roles (c: finall), expected prod"),
    ],
)
def test_the_way_to_name_final_reads_is_reported(
    config: dict[str, Any], expected: str, unread: Path, tmp_path: Path
) -> None:
    (unread / "run.json").write_text(json.dumps(config))
    assumptions = json.loads(check(unread, "--json", "--out", tmp_path / "o").stdout)["assumptions"]
    (final,) = [item for item in assumptions if item["name"] == "final reads complete"]
    assert expected in final["says"]


@pytest.mark.parametrize(
    ("text", "is_doubted"),
    [
        ("p:a@0 final:assign=0 final:<", True),
        ("p:a@0 end=0 final:assign=0 final:<", False),
        ("p:a@0 p:b@1 final:<a@0", False),
        ("final:<", False),
    ],
)
def test_final_reads_that_return_nothing_rest_on_run_json(text: str, is_doubted: bool, tmp_path: Path) -> None:
    assumptions = judge(text, tmp_path).verdict["assumptions"]
    [complete] = [one["says"] for one in assumptions if one["name"] == "final reads complete"] or [""]
    assert ("x-0 returned nothing, and only run.json shows" in complete) == is_doubted


def test_final_reads_of_kafkas_tools_need_a_run_json(tmp_path: Path) -> None:
    """Their times count from 1970, which is no setting of a run.json."""
    sent = {"timestamp": 1, "name": "producer_send_success", "value": "1", "offset": 0, "topic": "t", "partition": 0}
    (tmp_path / "producer.log").write_text(json.dumps(sent) + "\n")
    assert "as there is no run.json with" in " ".join(check(tmp_path, "--out", tmp_path / "o").output.split())


def test_a_timeout_that_is_called_a_failure_counts_as_indeterminate(tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_text(UNREAD.replace('"ok"', '"fail"').replace(',"offset":0', ',"error":"timeout"'))
    screen = check(tmp_path / "h.jsonl", "--out", tmp_path / "o").output
    assert "1 operation (0 ok, 0 failed, 1 indeterminate)" in screen
    assert re.search(r"judged in \d+\.\d s \(engine local\)", " ".join(screen.split()))
    assert "1 send recorded as fail with an error that proves nothing: judged as info" in " ".join(screen.split())


def test_junit_of_what_is_unknown_has_errors(unread: Path, tmp_path: Path) -> None:
    result = check(unread, "--format", "junit", "--skip", "unseen", "--out", tmp_path / "o")
    suite = ElementTree.fromstring(result.stdout)[0]
    assert result.return_value == 3
    errors = {case.get("name"): str(case[0].get("message")) for case in suite.findall("testcase[error]")}
    assert suite.get("errors") == str(len(errors))
    assert "no final read of x-0 is recorded" in errors["final reads complete"]
    assert "no final read of x-0 is recorded" in errors["lost-write"]
    assert suite.findtext("system-out") == "unread: UNKNOWN (skipped by --only or --skip: unseen)"
    assert suite.find("testcase[@name='unseen']/skipped").get("message") == "by --only or --skip"  # type: ignore[union-attr]


def test_unknowns_appear_once_in_the_report(unread: Path, tmp_path: Path) -> None:
    check(unread, "--out", tmp_path / "o")
    for name in ("report.md", "report.html"):
        assert (tmp_path / "o" / name).read_text().count("No breach was found, but lost-write, unseen are unknown") == 1


def test_sarif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    output = check("examples/unclean-election", "--format", "sarif", "--out", tmp_path / "o").output
    (run_of_tool,) = json.loads(output)["runs"]
    first = run_of_tool["results"][0]
    assert first["ruleId"] == "lost-write"
    assert PREVENTED in first["message"]["text"]
    where = first["locations"][0]["physicalLocation"]
    assert where == {"artifactLocation": {"uri": "examples/unclean-election/history.jsonl.gz"}}
    assert "[history.jsonl.gz:999, " in first["message"]["text"]
    (notification,) = run_of_tool["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"].startswith("unclean-election-a: INVALID. unclean-election: ")
    for result in run_of_tool["results"]:
        for location in (*result["locations"][:1], *result["relatedLocations"]):
            assert Path(location["physicalLocation"]["artifactLocation"]["uri"]).is_file()
        assert len(result["locations"]) == 1, result["ruleId"]
    assert "replica-divergence" in {result["ruleId"] for result in run_of_tool["results"]}


def test_sarif_of_what_is_unknown_has_open_results(unread: Path, tmp_path: Path) -> None:
    output = check(unread, "--format", "sarif", "--out", tmp_path / "o").output
    (result,) = json.loads(output)["runs"][0]["results"]
    assert (result["ruleId"], result["kind"], result["level"]) == ("assumption", "open", "none")
    assert result["message"]["text"].startswith("unread: UNKNOWN. Unknown: final reads complete: no final read of x-0")
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == (unread / "history.jsonl").as_uri()


def test_github(tmp_path: Path, unread: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "examples")
    lines = check("unclean-election", "--format", "github", "--out", tmp_path / "o").output.splitlines()
    assert lines[0].startswith("::error title=logjudge::unclean-election-a: INVALID. unclean-election: ")
    assert PREVENTED in lines[0]
    assert lines[1].startswith("::error title=lost-write::377 writes")
    assert "[history.jsonl.gz:999, " in lines[1]
    assert not any(".gz,line=" in line for line in lines)
    monkeypatch.chdir(unread)
    verdict, why = check("history.jsonl", "--format", "github", "--out", tmp_path / "u").output.splitlines()
    assert verdict == "::warning title=logjudge::history: UNKNOWN"
    assert why.startswith(
        "::warning file=history.jsonl,title=final reads complete::unknown: final reads complete: no final read of x-0"
    )


def test_evidence_lines_are_the_lines_of_the_file(tmp_path: Path) -> None:
    check(LOSSY, "--out", tmp_path / "o")
    lines = gzip.decompress((LOSSY / "history.jsonl.gz").read_bytes()).decode().splitlines()
    losses = pl.read_parquet(tmp_path / "o" / "findings.parquet").filter(pl.col("rule") == "lost-write")
    for finding in losses.iter_rows(named=True):
        acknowledged = json.loads(lines[finding["evidence"][1]["line"] - 1])
        assert acknowledged["value"] == finding["values"][0]
        assert (acknowledged["type"], acknowledged["offset"]) == ("ok", finding["first_offset"])


def test_malformed_lines_are_quarantined_and_make_it_unknown(tmp_path: Path) -> None:
    history = gzip.decompress((CLEAN / "history.jsonl.gz").read_bytes()).decode().splitlines()
    shutil.copy(CLEAN / "run.json", tmp_path / "run.json")
    (tmp_path / "history.jsonl").write_text("\n".join([*history[:10], "garbage", *history[10:]]))
    result = check(tmp_path, "--out", tmp_path / "o")
    assert result.return_value == 3
    assert "1 line was left out (quarantine.jsonl), history.jsonl:11: " in result.output
    (row,) = json_lines(tmp_path / "o" / "quarantine.jsonl")
    assert (row["source"], row["line"]) == ("history.jsonl", 11)


def test_no_colour_in_a_pipe_or_file(tmp_path: Path) -> None:
    done = shell("check", CLEAN, "--engine", "local", "--no-plots", cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert (tmp_path / "logjudge-out" / "clean-a" / "verdict.json").exists()


def on_a_terminal(*arguments: object, **env: str) -> str:
    """The output on a terminal (stdout and stderr)."""
    try:
        seen, terminal = pty.openpty()
    except OSError as error:  # a chroot without /dev/pts
        pytest.skip(f"no pseudo-terminal here: {error}")
    command = [sys.executable, "-m", "logjudge.cli", *map(str, arguments)]
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment = {**plain, "TERM": "xterm-256color", **env}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment):
        os.close(terminal)
        received = b""
        with contextlib.suppress(OSError):  # EIO: the terminal is closed
            while block := os.read(seen, 4096):
                received += block
    os.close(seen)
    return received.decode()


def test_no_color_removes_colours_on_a_terminal(unread: Path, tmp_path: Path) -> None:
    command = ("check", unread, "--engine", "local", "--no-plots", "--out", tmp_path / "out")
    coloured, plain = on_a_terminal(*command), on_a_terminal(*command, NO_COLOR="1")
    assert "unread: \x1b[33m\x1b[1mUNKNOWN\x1b[0m" in coloured
    assert "unread: UNKNOWN" in plain
    assert not re.search(r"\x1b\[[\d;]*m", plain)


@pytest.mark.parametrize("form", ["github", "junit", "sarif"])
def test_no_format_passes_control_or_bidirectional_characters(form: str, unread: Path, tmp_path: Path) -> None:
    text = (unread / "history.jsonl").read_text()
    (unread / "history.jsonl").write_text(text.replace('"x"', json.dumps("x\u202e\x1b[31m")))
    output = check(unread, "--format", form, "--out", tmp_path / "o").output
    assert not {char for char in output if char not in "\n" and not char.isprintable()}
    if form == "sarif":
        messages = [result["message"]["text"] for result in json.loads(output)["runs"][0]["results"]]
        assert all(text.isprintable() for text in messages)
