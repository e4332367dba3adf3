"""`logjudge` from the command line: results, errors, help."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import jsonschema
import polars as pl
import pytest
from click.testing import CliRunner
from command_line import CLEAN, LOSSY, ROOT, check, invoke, shell, verdict_in
from logjudge.analysis.rules import ANOMALIES, RULES
from logjudge.cli.judging import Judged
from logjudge.cli.main import COMMANDS, cli
from logjudge.histories.errors import LogjudgeError


def test_a_misspelt_command_is_answered_with_a_similar_one() -> None:
    assert "No such command 'chek'; did you mean check?" in str(invoke("chek").exception)


def test_only_names_that_are_close_are_suggested() -> None:
    assert str(invoke("explian").exception).endswith("did you mean explain?")
    assert "did you mean" not in str(invoke("check", "x", "--engine", "polars").exception)


def test_help_lists_every_command() -> None:
    result = invoke("--help")
    assert "Judge a replicated log" in result.output
    for name, (_, about) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(about)}$", result.output, re.MULTILINE), name


def test_a_lost_write_is_exit_1_with_the_verdict_on_one_screen(tmp_path: Path) -> None:
    result = check(LOSSY, "--out", tmp_path / "out")
    assert result.return_value == 1
    assert "unclean-election-a: INVALID" in result.output
    assert "753 records in 2 findings" in result.output
    text = " ".join(result.output.split())
    lost = "753 acknowledged writes were lost: orders-1 at offsets 224 to 600"
    assert f"unclean-election, 2026-11-21 09:25:04 to 09:25:21 UTC: {lost}" in text
    assert text.index(lost) < text.index("lost-write") < text.index("Assumptions")  # a reader wants the incident first
    assert "orders-0 at offsets 255 to 630" in text
    assert len(result.output.splitlines()) <= 40
    # The last line names the folder, however long its path is.
    assert max(map(len, result.output.splitlines()[:-1])) <= 100


def test_everything_is_written(tmp_path: Path) -> None:
    result = invoke("check", LOSSY, "--engine", "local", "--out", tmp_path / "out")
    assert result.return_value == 1
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {
        *("verdict.json", "findings.parquet", "quarantine.jsonl"),
        *("report.html", "report.md", "figures.json", "plots"),
    }
    assert {path.suffix for path in (tmp_path / "out" / "plots").iterdir()} == {".svg"}
    assert pl.read_parquet(tmp_path / "out" / "findings.parquet")["id"].n_unique() == 16
    assert list(tmp_path.iterdir()) == [tmp_path / "out"], "no temporary folder is left"


def test_verdict_json_follows_its_schema(tmp_path: Path) -> None:
    schema = json.loads((ROOT / "docs" / "verdict.schema.json").read_text())
    for source, verdict in ((LOSSY, "invalid"), (CLEAN, "valid")):
        report = json.loads(check(source, "--out", tmp_path / verdict, "--json").stdout)
        jsonschema.validate(report, schema)
        assert report["verdict"] == verdict
        assert report == verdict_in(tmp_path / verdict)


def test_a_closed_stdout_is_no_breach(tmp_path: Path) -> None:
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
    assert verdict_in(tmp_path / "out")["verdict"] == "valid"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("check", "nowhere"), "nowhere: no such file or folder; check the path"),
        (
            ("check", str(CLEAN), "--only", "lost-writ"),
            "did you mean lost-write or lost-update? `logjudge rules` lists all",
        ),
        (("check", str(CLEAN), "--only", "unseen", "--skip", "unseen"), "found no rule left after --only and --skip"),
        (("check", str(CLEAN), "--allow", "lost-write:acks=7"), "expected RULE or RULE:acks=1"),
        (("check", str(CLEAN), "--conf", "x"), "expected KEY=VALUE"),
        (("check", str(CLEAN), "--engine", "local", "--master", "local[1]"), "--engine spark"),
        (("rules", "xyz"), "there is no rule xyz; `logjudge rules` lists all"),
        (("rules", "unclean-election"), "a cause, not a rule; `logjudge causes unclean-election` explains it"),
        (("causes", "lost-write"), "a rule, not a cause; `logjudge rules lost-write` explains it"),
        (("rules", "lost-writes"), "; did you mean lost-write"),
        (
            ("values", "x", "log-corrupt"),
            "no rule log-corrupt; did you mean log-corruption? `logjudge rules` lists all",
        ),
        (("plot", "x", "swimlane-orders-0"), "did you mean swimlane --partition orders-0?"),
        (("scenarios", "run", "kip-101-los"), "; did you mean kip-101-loss"),
        (
            ("simulate", "--out", "x", "--set", "min.isr=2"),
            "there is no setting 'min.isr'; did you mean min.insync.replicas",
        ),
        (("simulate", "--out", "x", "--faults", "crsh"), "; did you mean crash"),
        (("search", "--variant", "kraft", "--faults", "crsh"), "; did you mean crash"),
        (
            ("record", "--bootstrap-server", "h:1", "--workload", "x"),
            "there is no workload x, expected one of append-and-read, ",
        ),
        (
            ("diff", str(LOSSY), str(CLEAN)),
            "expected TOPIC-PARTITION: diff compares the replicas of one run; to compare two",
        ),
        (("timeline", str(CLEAN), "orders"), "found orders, expected TOPIC-PARTITION, such as orders-0"),
        (("timeline", str(CLEAN), "x" * 5_000 + "-0"), "x…x"),
        (("explain", str(CLEAN), "x" * 5_000), "x…x"),
        (("convert", str(CLEAN), "x.csv"), "unknown ending"),
        (("report", "nowhere"), "nowhere"),
    ],
)
def test_a_users_error_is_one_sentence(arguments: tuple[str, ...], expected: str) -> None:
    error = invoke(*arguments).exception
    assert isinstance(error, LogjudgeError)
    assert expected in str(error)
    assert "\n" not in str(error)


def test_a_threshold_that_is_no_number_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", "256M")
    assert "found LOGJUDGE_LARGE_BYTES=256M, expected a number of bytes" in str(invoke("check", str(CLEAN)).exception)


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("check exa", "file,exa"),
        ("check --out exa", "file,exa"),
        ("convert exa", "file,exa"),
        ("check --only lost-w", "plain,lost-write"),
        ("check --skip lost-w", "plain,lost-write"),
        ("check --allow lost-w", "plain,lost-write"),
        ("rules unse", "plain,unseen"),
        ("scenarios run incident", "plain,incident-152-153"),
        ("simulate --faults crash,blac", "plain,crash,blackout"),
        ("search --invariant no-acknow", "plain,no-acknowledged-loss"),
    ],
)
def test_the_shell_completes_files_and_names(words: str, completed: str) -> None:
    environment = {"COMP_WORDS": f"logjudge {words}", "COMP_CWORD": str(len(words.split()))}
    result = CliRunner().invoke(
        cli, [], prog_name="logjudge", env={**environment, "_LOGJUDGE_COMPLETE": "bash_complete"}
    )
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
def test_a_run_that_waits_for_spark_by_default_mentions_the_local_engine_once(
    options: tuple[str, ...], operations: int, hinted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = {"verdict": "valid", "counts": {"operations": operations}, "rules": {}, "assumptions": []}
    report["input"] = {"engine": "spark"}
    monkeypatch.chdir(tmp_path)
    judged = Judged("r", "r", "r", datetime.now(UTC), 1.0, report, "no breach")
    monkeypatch.setattr("logjudge.cli.judging.judge", lambda *_: judged)
    monkeypatch.setattr("logjudge.cli.check.render", lambda *_: "")
    assert invoke("check", "one", "two", *options).stderr == ""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert invoke("check", "one", "two", *options).stderr.count("small run: --engine local") == hinted


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("check", "unread", "--engine", "local", "--no-plots", "--out", "out"), "unread: judging 0 of 1 partitions"),
        (("check", "unread", "--engine", "local", "--no-plots", "--json"), "unread: judging 0 of 1 partitions"),
        (
            ("check", "unread", "--engine", "local", "--no-plots", "--format", "junit"),
            "unread: judging 0 of 1 partitions",
        ),
        (("search", "--variant", "high-watermark", "--runs", "50"), "high-watermark: shrinking 0 of 1 schedules"),
        (("explain", "unread"), "unread: reading 0 of 1 parts"),
        (("explain", "unread", "--json"), "unread: reading 0 of 1 parts"),
    ],
)
def test_long_work_reports_its_progress_on_stderr(
    arguments: tuple[object, ...], expected: str, unread: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(unread.parent)
    monkeypatch.setattr("logjudge.cli.progress.INTERVAL", 3600)
    assert expected not in invoke(*arguments).stderr
    monkeypatch.setattr("logjudge.cli.progress.INTERVAL", -1)
    result = invoke(*arguments)
    assert result.stderr.splitlines().count(expected) == 1
    assert expected not in result.stdout
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert expected not in invoke(*arguments).stderr  # a live line, which is cleared at the end


@pytest.mark.parametrize("command", [("check", CLEAN), ("search", "--variant", "kraft"), ("linearize", CLEAN)])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--engine", "local", "--master", "local[1]"), "found --master, --remote or --conf with --engine local"),
        (("--engine", "spark", "--master", "local[1]", "--remote", "sc://x"), "found --master and --remote"),
        (("--engine", "spark", "--conf", "x"), "found --conf x, expected KEY=VALUE"),
    ],
)
def test_the_engine_is_chosen_alike_everywhere(
    command: tuple[object, ...], options: tuple[str, ...], expected: str
) -> None:
    result = invoke(*command, *options)
    assert isinstance(result.exception, LogjudgeError)
    assert expected in str(result.exception)


def test_closed_streams_and_full_disks_cost_no_traceback(tmp_path: Path) -> None:
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
    ("arguments", "expected"),
    [
        (("scenarios", "kip-101-loss"), "scenarios run kip-101-loss"),
        (("plot", "nope", "offsets", "--out", "no/such.png"), "no such folder"),
        (("linearize", "nope", "--picture", "no/such.html"), "no such folder"),
        (("plot", "nope", "glance", "--format", "png"), "expected --out FILE.png or --out FILE.svg"),
        (("linearize", "nope", "--picture", "why.png"), "--picture why.png: expected a file that ends in .html"),
    ],
)
def test_endless_inputs_are_refused_at_once(arguments: tuple[str, ...], expected: str) -> None:
    result = invoke(*arguments)
    assert isinstance(result.exception, LogjudgeError)
    assert expected in str(result.exception)


def test_convert_keeps_the_verdict(tmp_path: Path) -> None:
    for ending in ("parquet", "jsonl", "jsonl.gz", "jsonl.zst"):
        folder = tmp_path / ending
        folder.mkdir()
        shutil.copy(LOSSY / "run.json", folder)
        assert invoke("convert", LOSSY, folder / f"history.{ending}").return_value == 0
        assert check(folder, "--out", tmp_path / f"{ending}-out").return_value == 1
    tables = [
        pl.read_parquet(tmp_path / f"{ending}-out" / "findings.parquet").drop("evidence")
        for ending in ("parquet", "jsonl", "jsonl.gz", "jsonl.zst")
    ]
    assert all(table.equals(tables[0]) for table in tables)
    assert len(tables[0]) == 12  # no brokers beside the converted history


def test_convert_names_what_it_leaves_behind(tmp_path: Path) -> None:
    assert "run.json" in invoke("convert", LOSSY, tmp_path / "history.parquet").stderr
    assert "no such folder" in str(invoke("convert", LOSSY, tmp_path / "nowhere" / "a.parquet").exception)


def test_a_folder_of_runs_is_no_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(CLEAN, tmp_path / name)
    expected = (
        f"found 2 run bundles in it (one, two), expected one run; name them all: $(dirname {tmp_path}/*/run.json)"
    )
    assert expected in str(check(tmp_path).exception)


def test_rules_explains_with_an_example() -> None:
    output = invoke("rules", "lost-write").output
    parts = ("Breach: ", "Not a breach: ", "Unknown when: ", "In Jepsen histories: ")
    assert [line for line in parts if f"\n{line}" in output] == [*parts]
    assert "p:a@0" in output
    listed = [line.split(" ")[0] for line in invoke("rules").output.splitlines()]
    assert listed[: len(RULES)] == [*RULES]
    assert listed[-len(ANOMALIES) :] == [*ANOMALIES]
    assert "It rules out read-atomic, and all stronger models." in " ".join(invoke("rules", "internal").output.split())
    assert all(text.endswith(".") for rule in RULES.values() for _, text in rule.texts)


def test_doctor_names_a_remedy_for_missing_java(monkeypatch: pytest.MonkeyPatch) -> None:
    from logjudge.cli import doctor

    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    found = doctor.java()
    assert found.state == "missing"
    assert "--engine local" in found.remedy
    assert invoke("doctor").return_value == 2


def test_without_java_spark_is_refused_before_its_scripts_run() -> None:
    code = "from logjudge.analysis.engines.spark.session import open_session\nopen_session()"
    found = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False
    )
    error = "MissingComponentError: Spark needs Java 17 or newer, which was not found; `logjudge doctor` prints how"
    assert error in found.stderr.splitlines()[-1]
    assert "JAVA_HOME is not set" not in found.stderr


def test_doctor_looks_at_every_dependency(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == "orjson":
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr("logjudge.cli.doctor.version", version)
    result = invoke("doctor", "--json")
    checks = {check["name"]: check for check in json.loads(result.stdout)}
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[^\w-]", one)[0] for one in needed} <= set(checks)
    assert (checks["orjson"]["state"], checks["orjson"]["remedy"]) == ("missing", "pip install logjudge")
    assert not {"pytest", "mypy", "logjudge"} & set(checks)
    assert result.return_value == 2
