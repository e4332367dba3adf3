"""logjudge as a user calls it: exit codes, what is printed, what is written and what is refused."""

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
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import polars as pl
import pytest
from click.testing import CliRunner, Result
from logjudge.analysis.rules import RULES
from logjudge.cli import output
from logjudge.cli.main import COMMANDS, cli
from logjudge.histories.errors import LogjudgeError

ROOT = Path(__file__).parents[1]
LOSSY = ROOT / "examples" / "unclean-election"
CLEAN = ROOT / "tests" / "data" / "real" / "clean-a"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)


def check(*arguments: object) -> Result:
    return run("check", "--engine", "local", "--no-plots", *arguments)


def shell(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "logjudge.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_a_misspelt_command_is_told_with_what_is_close() -> None:
    assert "No such command 'chek'; did you mean check?" in CliRunner().invoke(cli, ["chek"]).output


def test_help_lists_every_command() -> None:
    result = run("--help")
    assert "Judge a replicated log" in result.output
    for name, (_, about) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(about)}$", result.output, re.MULTILINE), name


def test_a_lost_write_is_exit_1_with_the_verdict_on_one_screen(tmp_path: Path) -> None:
    result = check(LOSSY, "--out", tmp_path / "out")
    assert result.return_value == 1
    assert "unclean-election-a: INVALID" in result.output
    assert "753 records in 2 findings" in result.output
    text = " ".join(result.output.split())
    assert "unclean-election: 753 acknowledged writes are gone: orders-1 at offsets 224 to 600" in text
    assert "orders-0 at offsets 255 to 630" in text
    assert len(result.output.splitlines()) <= 40
    # The last line names the folder, however long its path is.
    assert max(map(len, result.output.splitlines()[:-1])) <= 100


def test_everything_is_written(tmp_path: Path) -> None:
    result = run("check", LOSSY, "--engine", "local", "--out", tmp_path / "out")
    assert result.return_value == 1
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {
        *("verdict.json", "findings.parquet", "quarantine.jsonl"),
        *("report.html", "report.md", "figures.json", "plots"),
    }
    assert {path.suffix for path in (tmp_path / "out" / "plots").iterdir()} == {".png", ".svg"}
    assert pl.read_parquet(tmp_path / "out" / "findings.parquet")["id"].n_unique() == 16
    assert list(tmp_path.iterdir()) == [tmp_path / "out"], "no temporary folder is left"


def test_verdict_json_follows_its_schema(tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs" / "verdict.schema.json").read_text())
    for source, verdict in ((LOSSY, "invalid"), (CLEAN, "valid")):
        report = json.loads(check(source, "--out", tmp_path / verdict, "--json").output)
        jsonschema.validate(report, schema)
        assert report["verdict"] == verdict
        assert report == json.loads((tmp_path / verdict / "verdict.json").read_text())


def test_an_output_that_nobody_reads_is_no_breach(tmp_path: Path) -> None:
    command = f"{sys.executable} -m logjudge.cli rules --markdown | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (141, "")


def test_several_runs_are_judged_each_on_its_own(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text("no history\n")
    done = shell(
        "check",
        broken,
        LOSSY,
        CLEAN,
        "--engine",
        "local",
        "--json",
        "--no-plots",
        "--out",
        tmp_path / "o",
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr  # a breach that was proved outweighs what could not be read
    lossy, clean, unread = json.loads(done.stdout)
    assert (lossy["verdict"], clean["verdict"], unread["input"]) == ("invalid", "valid", {"name": "broken"})
    assert unread["error"] in done.stderr
    assert "broken.jsonl" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["clean-a", "index.html", "unclean-election"]


def test_equal_names_do_not_collide(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(CLEAN, tmp_path / name / "run")
    check(tmp_path / "a" / "run", tmp_path / "b" / "run", "--out", tmp_path / "o")
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["a-run", "b-run", "index.html"]


def test_a_foreign_folder_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    done = shell("check", CLEAN, "--engine", "local", "--no-plots", "--out", tmp_path / "mine", cwd=tmp_path)
    assert done.returncode == 2
    assert "other files" in done.stderr
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_notes_beside_a_result_are_never_lost(tmp_path: Path) -> None:
    out = tmp_path / "out"
    check(CLEAN, "--out", out)
    (out / "notes.txt").write_text("what we know")
    assert "found a folder with other files" in str(check(CLEAN, "--out", out).exception)
    run_folder = shutil.copytree(CLEAN, tmp_path / "run")
    for forged in ('["rules"]', '"our rules"', '{"rules": {}, "verdict": "valid"}'):
        (run_folder / "verdict.json").write_text(forged)
        assert "found a folder with other files" in str(check(run_folder, "--out", run_folder).exception)
    assert (run_folder / "history.jsonl.gz").exists() or (run_folder / "history.jsonl").exists()


def test_an_earlier_result_is_replaced_whole(tmp_path: Path) -> None:
    check(LOSSY, "--out", tmp_path / "out")
    (tmp_path / "out" / "plots").mkdir(exist_ok=True)
    (tmp_path / "out" / "plots" / "left-over").touch()
    assert check(CLEAN, "--out", tmp_path / "out").return_value == 0
    assert not (tmp_path / "out" / "plots" / "left-over").exists()
    assert json.loads((tmp_path / "out" / "verdict.json").read_text())["verdict"] == "valid"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("check", "nowhere"), "no such file or folder, expected"),
        (("check", str(CLEAN), "--only", "lost"), "expected one of lost-write"),
        (("check", str(CLEAN), "--only", "unseen", "--skip", "unseen"), "found no rule left after --only and --skip"),
        (("check", str(CLEAN), "--allow", "lost-write:acks=7"), "expected RULE or RULE:acks=1"),
        (("check", str(CLEAN), "--conf", "x"), "expected KEY=VALUE"),
        (("check", str(CLEAN), "--engine", "local", "--master", "local[1]"), "--engine spark"),
        (("rules", "lost"), "expected one of"),
        (("check", str(CLEAN), "--only", "lost-writes"), "explains them; did you mean lost-write"),
        (("rules", "lost-writes"), "; did you mean lost-write"),
        (("scenarios", "run", "kip-101-los"), "; did you mean kip-101-loss"),
        (
            ("simulate", "--out", "x", "--set", "min.isr=2"),
            "`logjudge simulate --help` lists; did you mean min.in",
        ),
        (("simulate", "--out", "x", "--faults", "crsh"), "; did you mean crash"),
        (("search", "--variant", "kraft", "--faults", "crsh"), "; did you mean crash"),
        (
            ("diff", str(LOSSY), str(CLEAN)),
            "expected TOPIC-PARTITION: diff compares the replicas of one run; to compare two",
        ),
        (("convert", str(CLEAN), "x.csv"), "unknown ending"),
        (("report", "nowhere"), "nowhere"),
    ],
)
def test_a_users_error_is_one_sentence(arguments: tuple[str, ...], says: str) -> None:
    error = run(*arguments).exception
    assert isinstance(error, LogjudgeError)
    assert says in str(error)
    assert "\n" not in str(error)


def test_a_threshold_that_is_no_number_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", "256M")
    assert "found LOGJUDGE_LARGE_BYTES=256M, expected a number of bytes" in str(run("check", str(CLEAN)).exception)


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("check exa", "file,exa"),
        ("check --out exa", "file,exa"),
        ("convert exa", "file,exa"),
        ("check --only lost", "plain,lost-write"),
        ("check --skip lost", "plain,lost-write"),
        ("check --allow lost", "plain,lost-write"),
        ("rules unse", "plain,unseen"),
        ("scenarios run kip-101-l", "plain,kip-101-loss"),
        ("simulate --faults crash,blac", "plain,crash,blackout"),
        ("search --invariant no-acknow", "plain,no-acknowledged-loss"),
    ],
)
def test_the_shell_completes_files_and_names(words: str, completed: str) -> None:
    asked = {"COMP_WORDS": f"logjudge {words}", "COMP_CWORD": str(len(words.split()))}
    result = CliRunner().invoke(cli, [], prog_name="logjudge", env={**asked, "_LOGJUDGE_COMPLETE": "bash_complete"})
    assert result.output.splitlines() == [completed]


@pytest.mark.parametrize(
    ("options", "operations", "hinted"),
    [
        ((), 1000, True),
        ((), 1_000_000, False),
        (("--engine", "spark"), 1000, False),
        (("--engine", "local"), 1000, False),
        (("--master", "local[1]"), 1000, False),
        (("--out", "s3a://bucket/out"), 1000, False),
    ],
)
def test_who_waits_for_spark_unasked_is_told_of_the_local_engine_once(
    options: tuple[str, ...], operations: int, hinted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = {"verdict": "valid", "counts": {"operations": operations}, "rules": {}, "assumptions": []}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("logjudge.cli.check._judge", lambda *_: (report, "no breach"))
    assert run("check", "one", "two", *options).stderr == ""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert run("check", "one", "two", *options).stderr.count("small run: --engine local") == hinted


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("check", CLEAN, "--engine", "local", "--no-plots", "--out", "out"), "clean-a: judging 2 of 3 partitions"),
        (("plot", CLEAN, "offsets", "--out", "plot.png"), "clean-a: judging 2 of 3 partitions"),
        (("search", "--variant", "kip-320", "--runs", "3"), "kip-320: searching 3 of 3 schedules"),
        (("search", "--variant", "high-watermark", "--runs", "50"), "high-watermark: shrinking 0 of 1 schedules"),
        (("explain", CLEAN), "clean-a: reading 0 of 1 parts"),
    ],
)
def test_long_work_says_on_stderr_how_far_it_is(
    arguments: tuple[object, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says not in run(*arguments).stderr  # as it takes less than ten seconds
    monkeypatch.setattr("logjudge.cli.progress.INTERVAL", -1)
    result = run(*arguments)
    assert says in result.stderr.splitlines()
    assert says not in result.stdout
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert says not in run(*arguments).stderr  # a live line, which is gone in the end


@pytest.mark.parametrize("command", [("check", CLEAN), ("search", "--variant", "kraft"), ("linearize", CLEAN)])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--engine", "local", "--master", "local[1]"), "found --master, --remote or --conf with --engine local"),
        (("--engine", "spark", "--master", "local[1]", "--remote", "sc://x"), "found --master and --remote"),
        (("--engine", "spark", "--conf", "x"), "found --conf x, expected KEY=VALUE"),
    ],
)
def test_the_engine_is_chosen_alike_everywhere(
    command: tuple[object, ...], options: tuple[str, ...], says: str
) -> None:
    result = run(*command, *options)
    assert isinstance(result.exception, LogjudgeError)
    assert says in str(result.exception)


def test_who_closes_the_streams_or_fills_the_disk_gets_no_traceback(tmp_path: Path) -> None:
    def called(words: str, redirected: str) -> subprocess.CompletedProcess[str]:
        command = f"{sys.executable} -m logjudge.cli {words} {redirected}"
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False)

    assert [called("rules", closed).returncode for closed in (">&-", "2>&-", ">&- 2>&-")] == [0, 0, 0]
    assert called("rules nope", "2>&-").returncode == 2
    full = called("rules", ">/dev/full")
    assert full.returncode == 2
    assert full.stderr.startswith("logjudge: no space left to write (No space left on device)")
    assert full.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("scenarios", "kip-101-loss"), "scenarios run kip-101-loss"),
        (("plot", "nope", "offsets", "--out", "no/such.png"), "no such folder"),
        (("linearize", "nope", "--picture", "no/such.html"), "no such folder"),
    ],
)
def test_what_cannot_come_to_an_end_is_refused_before_it_begins(arguments: tuple[str, ...], says: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, LogjudgeError)
    assert says in str(result.exception)


def test_only_skip_allow_and_strict(tmp_path: Path) -> None:
    def verdict(*options: str) -> tuple[str, set[str]]:
        report = json.loads(check(LOSSY, "--json", "--out", tmp_path / "out", *options).output)
        return report["verdict"], {finding["rule"] for finding in report["findings"]}

    assert verdict("--only", "lost-write") == ("invalid", {"lost-write"})
    assert verdict("--only", "duplicate") == ("valid", set())
    assert "lost-write" not in verdict("--skip", "lost-write")[1]
    assert verdict("--only", "lost-write", "--allow", "lost-write") == ("valid", {"lost-write"})
    assert verdict("--only", "lost-write", "--allow", "lost-write:acks=1")[0] == "invalid"
    assert verdict("--only", "nonmonotonic-send")[0] == "valid"
    assert verdict("--only", "nonmonotonic-send", "--strict")[0] == "invalid"
    assert verdict("--only", "nonmonotonic-send", "--strict", "--allow", "nonmonotonic-send")[0] == "valid"


def test_an_allowed_loss_of_a_real_run_is_valid_with_all_that_follows_from_it(tmp_path: Path) -> None:
    source = CLEAN.parent / "acks1-failover-a"
    result = check(source, "--allow", "lost-write:acks=1", "--json", "--out", tmp_path / "allowed")
    assert result.return_value == 0
    permitted = {finding["rule"] for finding in json.loads(result.output)["findings"]}
    assert permitted >= {"lost-write", "inconsistent-offsets", "realtime-order"}
    assert check(source, "--out", tmp_path / "plain").return_value == 1


def test_rules_that_were_left_out_are_named_and_nothing_is_claimed_of_them(tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs" / "verdict.schema.json").read_text())
    screen = check(LOSSY, "--only", "duplicate", "--out", tmp_path / "only").output
    verdict = json.loads((tmp_path / "only" / "verdict.json").read_text())
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
    assert "| lost | not judged |\n| lost after being consumed | not judged |\n| duplicated | 0 |" in report
    check(CLEAN, "--out", tmp_path / "all")
    assert json.loads((tmp_path / "all" / "verdict.json").read_text())["skipped"] == []
    assert "kipped" not in (tmp_path / "all" / "report.md").read_text()


def test_what_is_permitted_is_counted_in_records_and_findings_and_under_strict_a_breach(tmp_path: Path) -> None:
    only = (LOSSY, "--only", "nonmonotonic-send", "--out", tmp_path / "out")
    permitted = check(*only).output
    assert re.search(
        r"nonmonotonic-send +valid +\(\d+ records in \d+ findings permitted by the configuration\)\n", permitted
    )
    strict = check(*only, "--strict").output
    assert re.search(r"nonmonotonic-send +invalid +\d+ records in \d+ findings\n", strict)
    report = json.loads((tmp_path / "out" / "verdict.json").read_text())
    told = report["rules"]["nonmonotonic-send"]
    assert told["permitted"] == told["permitted_count"] == 0
    assert told["findings"] == len(report["findings"])
    assert {finding["severity"] for finding in report["findings"]} == {"violation"}


# Without final reads nobody knows whether what was acknowledged is still there.
UNREAD = """{"process":"p","op":0,"type":"invoke","f":"send","topic":"x","partition":0,"value":"a","time":1}
{"process":"p","op":0,"type":"ok","f":"send","topic":"x","partition":0,"offset":0,"value":"a","time":2}
"""
PREVENTED = "Prevented by unclean.leader.election.enable=false"


@pytest.fixture
def unread(tmp_path: Path) -> Path:
    (tmp_path / "unread").mkdir()
    (tmp_path / "unread" / "history.jsonl").write_text(UNREAD)
    return tmp_path / "unread"


def test_junit(tmp_path: Path) -> None:
    suite = ElementTree.fromstring(check(LOSSY, "--format", "junit", "--out", tmp_path / "o").output)[0]
    cases = {case.get("name"): [child.tag for child in case] for case in suite.findall("testcase")}
    assert cases["lost-write"] == ["failure"]
    assert cases["unseen"] == []
    assert cases["consumer-loss"] == ["skipped"]
    assert cases["final reads complete"] == []
    assert PREVENTED in str(suite.findtext("testcase[@name='lost-write']/failure"))
    told = str(suite.findtext("system-out"))
    assert told.startswith("unclean-election-a: INVALID\nunclean-election: ")
    assert PREVENTED in told


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, 'lacks "final": true and a process with the role final'),
        ({"final": True}, "as run.json lacks a process with the role final"),
        ({"processes": {"c": {"role": "final"}}}, 'as run.json lacks "final": true'),
        ({"final": True, "processes": {"c": {"role": "final"}}}, "as c did not read after the last heal"),
        ({"final": True, "processes": {"c": {"role": "finall"}}}, "unknown roles (c: finall), expected prod"),
    ],
)
def test_how_final_reads_become_known_is_told(config: dict[str, Any], says: str, unread: Path, tmp_path: Path) -> None:
    (unread / "run.json").write_text(json.dumps(config))
    told = json.loads(check(unread, "--json", "--out", tmp_path / "o").output)["assumptions"]
    (final,) = [item for item in told if item["name"] == "final reads complete"]
    assert says in final["says"]


def test_junit_of_what_is_unknown_has_errors(unread: Path, tmp_path: Path) -> None:
    result = check(unread, "--format", "junit", "--skip", "unseen", "--out", tmp_path / "o")
    suite = ElementTree.fromstring(result.output)[0]
    assert result.return_value == 3
    errors = {case.get("name"): str(case[0].get("message")) for case in suite.findall("testcase[error]")}
    assert suite.get("errors") == str(len(errors))
    assert "no final read of x-0 is recorded" in errors["final reads complete"]
    assert "no final read of x-0 is recorded" in errors["lost-write"]
    assert suite.findtext("system-out") == "unread: UNKNOWN (skipped by --only or --skip: unseen)"
    assert suite.find("testcase[@name='unseen']/skipped").get("message") == "by --only or --skip"  # type: ignore[union-attr]


def test_what_is_unknown_is_said_once_in_the_report(unread: Path, tmp_path: Path) -> None:
    check(unread, "--out", tmp_path / "o")
    for name in ("report.md", "report.html"):
        assert (tmp_path / "o" / name).read_text().count("Nothing can be said for sure") == 1


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
    (told,) = run_of_tool["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"].startswith("unclean-election-a: INVALID. unclean-election: ")
    for result in run_of_tool["results"]:
        for location in (*result["locations"][:1], *result["relatedLocations"]):
            assert Path(location["physicalLocation"]["artifactLocation"]["uri"]).is_file()
        assert len(result["locations"]) == 1, result["ruleId"]
    assert "replica-divergence" in {result["ruleId"] for result in run_of_tool["results"]}


def test_sarif_of_what_is_unknown_has_open_results(unread: Path, tmp_path: Path) -> None:
    output = check(unread, "--format", "sarif", "--out", tmp_path / "o").output
    (result,) = json.loads(output)["runs"][0]["results"]
    assert (result["ruleId"], result["kind"], result["level"]) == ("assumption", "open", "none")
    assert result["message"]["text"].startswith("unread: UNKNOWN. Unknown: final reads complete: nobody is known")
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
        "::warning file=history.jsonl,title=final reads complete::unknown: final reads complete: nobody is known"
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
    (row,) = [json.loads(line) for line in (tmp_path / "o" / "quarantine.jsonl").read_text().splitlines()]
    assert (row["source"], row["line"]) == ("history.jsonl", 11)


def test_convert_keeps_the_verdict(tmp_path: Path) -> None:
    for ending in ("parquet", "jsonl", "jsonl.gz", "jsonl.zst"):
        folder = tmp_path / ending
        folder.mkdir()
        shutil.copy(LOSSY / "run.json", folder)
        assert run("convert", LOSSY, folder / f"history.{ending}").return_value == 0
        assert check(folder, "--out", tmp_path / f"{ending}-out").return_value == 1
    tables = [
        pl.read_parquet(tmp_path / f"{ending}-out" / "findings.parquet").drop("evidence")
        for ending in ("parquet", "jsonl", "jsonl.gz", "jsonl.zst")
    ]
    assert all(table.equals(tables[0]) for table in tables)
    assert len(tables[0]) == 12  # no brokers beside the converted history


def test_convert_says_what_it_leaves_behind(tmp_path: Path) -> None:
    assert "run.json" in run("convert", LOSSY, tmp_path / "history.parquet").stderr
    assert "no such folder" in str(run("convert", LOSSY, tmp_path / "nowhere" / "a.parquet").exception)


def test_a_folder_of_runs_is_no_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(CLEAN, tmp_path / name)
    said = f"found 2 run bundles in it (one, two), expected one run; name them all: $(dirname {tmp_path}/*/run.json)"
    assert said in str(check(tmp_path).exception)


def test_no_colour_where_nobody_sees_it(tmp_path: Path) -> None:
    done = shell("check", CLEAN, "--engine", "local", "--no-plots", cwd=tmp_path)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stderr == ""
    assert (tmp_path / "logjudge-out" / "clean-a" / "verdict.json").exists()


def on_a_terminal(*arguments: object, **env: str) -> str:
    """What a user sees: stdout and stderr are a terminal."""
    try:
        seen, terminal = pty.openpty()
    except OSError as error:  # a chroot without /dev/pts
        pytest.skip(f"no pseudo-terminal here: {error}")
    command = [sys.executable, "-m", "logjudge.cli", *map(str, arguments)]
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment = {**plain, "TERM": "xterm-256color", **env}
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment):
        os.close(terminal)
        told = b""
        with contextlib.suppress(OSError):  # EIO: nobody has the terminal any more
            while block := os.read(seen, 4096):
                told += block
    os.close(seen)
    return told.decode()


def test_no_color_takes_the_colours_off_a_terminal(unread: Path, tmp_path: Path) -> None:
    asked = ("check", unread, "--engine", "local", "--no-plots", "--out", tmp_path / "out")
    coloured, plain = on_a_terminal(*asked), on_a_terminal(*asked, NO_COLOR="1")
    assert "unread: \x1b[33m\x1b[1mUNKNOWN\x1b[0m" in coloured
    assert "unread: UNKNOWN" in plain
    assert not re.search(r"\x1b\[[\d;]*m", plain)


def test_rules_explains_with_an_example() -> None:
    output = run("rules", "lost-write").output
    parts = ("Breach: ", "Not a breach: ", "Unknown when: ", "In Jepsen histories: ")
    assert [line for line in parts if f"\n{line}" in output] == [*parts]
    assert "p:a@0" in output
    assert len(run("rules").output.splitlines()) == len(RULES)
    assert all(text.endswith(".") for rule in RULES.values() for _, text in rule.parts)


def test_doctor_names_a_remedy_for_missing_java(monkeypatch: pytest.MonkeyPatch) -> None:
    from logjudge.cli import doctor

    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    found = doctor.java()
    assert found.state == "missing"
    assert "--engine local" in found.remedy
    assert run("doctor").return_value == 2


def test_doctor_looks_at_every_dependency(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "orjson":
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr("logjudge.cli.doctor.version", version)
    result = run("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(result.stdout)}
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[^\w-]", one)[0] for one in needed} <= set(checks)
    assert (checks["orjson"]["state"], checks["orjson"]["remedy"]) == ("missing", "pip install logjudge")
    assert not {"pytest", "mypy", "logjudge"} & set(checks)
    assert result.return_value == 2


@pytest.mark.parametrize("name", ["jepsen.edn", "verifiable-producer.jsonl", "verifiable-consumer.jsonl"])
def test_histories_of_others_stay_what_they_are_in_parquet(name: str, tmp_path: Path) -> None:
    history = Path(__file__).with_name("data") / name
    assert run("convert", history, tmp_path / "history.parquet").return_value == 0
    one, other = [
        json.loads(run("check", path, "--engine", "local", "--json", "--out", tmp_path / path.suffix).stdout)
        for path in (history, tmp_path / "history.parquet")
    ]
    for same in ("rules", "counts"):
        assert one[same] == other[same]
    assert one["input"]["dialect"] == other["input"]["dialect"]


def test_a_key_of_jepsens_is_explained_by_its_name() -> None:
    history = Path(__file__).with_name("data") / "jepsen.edn"
    by_key, by_partition = run("explain", history, "0@0").stdout, run("explain", history, "0-0@0").stdout
    assert by_key == by_partition
    assert by_key.startswith("0-0@0")


OVERWRITTEN = (
    UNREAD
    + """{"process":"p","op":1,"type":"invoke","f":"send","topic":"x","partition":0,"value":"b","time":3}
{"process":"p","op":1,"type":"ok","f":"send","topic":"x","partition":0,"offset":0,"value":"b","time":4}
"""
)


@pytest.mark.parametrize("place", [(), ("x-0",), ("x-0@0",)])
def test_a_loss_that_nobody_can_explain_is_told_with_why(place: tuple[str, ...], tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text(UNREAD + OVERWRITTEN)
    assert check(history, "--out", tmp_path / "out").return_value == 1
    for source in (history, tmp_path / "out"):
        told = run("explain", source, *place).stdout
        assert "lost-write: a was acknowledged at x-0@0" in told
        assert "[history.jsonl:1]" in told
        assert "The run has no broker files of x-0, so the cause is not known." in told
        assert "no breach was found" not in told
        assert "explain the run itself" not in told


def test_of_many_breaches_without_a_cause_the_worst_are_told() -> None:
    history = Path(__file__).with_name("data") / "jepsen.edn"
    told = run("explain", history).stdout
    assert [line.split()[1] for line in told.splitlines() if line.startswith("  - ")] == 4 * ["lost-write:"] + 8 * [
        "unseen:"
    ]
    assert "… and 26 more" in told
    of_key = run("explain", history, "10-0").stdout
    assert "lost-write: 21 was sent by 6" in of_key
    assert of_key.rstrip().endswith("Events\n  The run has no broker files that record events of this partition.")


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ((), {"causes"}),
        (("orders-0",), {"causes", "moments"}),
        (("orders-0@300",), {"causes", "sent", "read", "held", "led", "found"}),
    ],
)
def test_explain_prints_json(place: tuple[str, ...], keys: set[str]) -> None:
    told = json.loads(run("explain", LOSSY, *place, "--json").stdout)
    assert keys <= set(told)
    assert told["causes"][0]["cause"] == "unclean-election"
    assert {"says", "source", "line"} <= set(told["causes"][0]["chain"][0])
    assert (told["unexplained"], told["unexplained_left_out"], told["why_no_cause"]) == ([], 0, [])


@pytest.mark.parametrize("place", [(), ("orders-0",), ("orders-0@255",)])
def test_breaches_without_a_cause_are_in_json_too(place: tuple[str, ...], tmp_path: Path) -> None:
    """Without what brokers kept, no cause is told; the text says the same."""
    shutil.copytree(LOSSY, tmp_path / "bare", ignore=shutil.ignore_patterns("brokers"))
    check(tmp_path / "bare", "--out", tmp_path / "out")
    told, saved = (json.loads(run("explain", tmp_path / name, *place, "--json").stdout) for name in ("bare", "out"))
    first = told["unexplained"][0]
    assert (first["id"], first["source"]) == (
        "lost-write/orders-0/0" if place else "lost-write/orders-1/0",
        "history.jsonl.gz",
    )
    assert first["line"] > 0
    assert "place" not in first
    assert told["why_no_cause"][0].startswith("The run has no broker files of orders-")
    assert {name: told[name] for name in saved} == saved
    says = " ".join(run("explain", tmp_path / "bare", *place).stdout.split())
    assert all(" ".join(one["says"].split()) in says for one in told["unexplained"][:3])
    assert told["why_no_cause"][0] in says


def test_results_are_explained_in_json_as_the_run_is(tmp_path: Path) -> None:
    check(LOSSY, "--out", tmp_path / "out")
    saved = json.loads(run("explain", tmp_path / "out", "--json").stdout)
    assert saved["causes"] == json.loads((tmp_path / "out" / "verdict.json").read_text())["causes"]


def test_a_line_is_cited_once() -> None:
    report = {"findings": [{"rule": "r", "severity": "note", "sentence": "s"}], "rules": {}}
    report["findings"][0]["evidence"] = [{"source": "h", "line": line} for line in (11, 11, 12)]
    assert "".join(output._worst(report, output.Room(100, 9, 9, 9))).endswith("s [h:11, :12]")


def test_a_history_of_jepsens_needs_no_run_json(tmp_path: Path) -> None:
    operations = [("invoke", "send", "[[:send 0 1]]"), ("fail", "send", "[[:send 0 1]]")]
    operations += [("invoke", "poll", "[[:poll]]"), ("ok", "poll", "[[:poll {0 [[0 1]]}]]")]
    lines = [
        f"{{:index {n}, :time {n}, :type :{kind}, :process 0, :f :{f}, :value {value}}}"
        for n, (kind, f, value) in enumerate(operations)
    ]
    history = tmp_path / "history.edn"
    history.write_text("\n".join(lines))
    report = json.loads(check(history, "--json", "--out", tmp_path / "out").stdout)
    assert report["rules"]["aborted-read"]["verdict"] == "invalid"
    assert "configuration recorded" not in {assumption["name"] for assumption in report["assumptions"]}


def test_machine_formats_have_what_their_schemas_require(tmp_path: Path) -> None:
    """What JUnit's XSD (windyroad/JUnit-Schema) and SARIF 2.1.0 require of what is written; neither is copied here."""
    suite = ElementTree.fromstring(check(LOSSY, "--format", "junit", "--out", tmp_path / "o").output)[0]
    assert {"name", "timestamp", "hostname", "id", "package", "tests", "failures", "errors", "time"} <= set(
        suite.attrib
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    assert float(suite.attrib["time"]) > 0
    order = ["properties", *["testcase"] * int(suite.attrib["tests"]), "system-out", "system-err"]
    assert [child.tag for child in suite] == order
    for case in suite.findall("testcase"):
        assert {"name", "classname", "time"} == set(case.attrib)
        assert all("type" in child.attrib for child in case if child.tag in ("failure", "error"))
    (tool,) = json.loads(check(LOSSY, "--format", "sarif", "--out", tmp_path / "o").output)["runs"]
    driver = tool["tool"]["driver"]
    assert driver["informationUri"].startswith("https://")
    assert all(rule["helpUri"].startswith("https://") for rule in driver["rules"] if rule["id"] in RULES)
    prints = [result["partialFingerprints"]["logjudge/v1"] for result in tool["results"]]
    assert len(set(prints)) == len(prints)
    again = json.loads(check(LOSSY, "--only", "lost-write", "--format", "sarif", "--out", tmp_path / "o").output)
    assert again["runs"][0]["results"][0]["partialFingerprints"]["logjudge/v1"] in prints
    assert {result["level"] for result in tool["results"]} <= {"none", "note", "warning", "error"}
    assert {result["ruleId"] for result in tool["results"]} <= {rule["id"] for rule in driver["rules"]}


@pytest.mark.parametrize("form", ["github", "junit", "sarif"])
def test_no_format_passes_control_or_bidirectional_characters(form: str, unread: Path, tmp_path: Path) -> None:
    text = (unread / "history.jsonl").read_text()
    (unread / "history.jsonl").write_text(text.replace('"x"', json.dumps("x\u202e\x1b[31m")))
    output = check(unread, "--format", form, "--out", tmp_path / "o").output
    assert not {char for char in output if char not in "\n" and not char.isprintable()}
    if form == "sarif":
        told = [result["message"]["text"] for result in json.loads(output)["runs"][0]["results"]]
        assert all(text.isprintable() for text in told)
