"""Several runs in one call: their names, the line of each, and the index of their reports."""

from __future__ import annotations

import json
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import unquote

import pytest
from click import unstyle
from click.testing import Result
from command_line import LOSSY, invoke, shell
from figure_cases import FINAL, HOSTILE, Script, lossy, write_run
from logjudge.cli import judging_processes
from logjudge.cli.judging import Judged, Task
from logjudge.cli.runs import names_of, render, write_index
from logjudge.histories.errors import MissingComponentError, UsageError
from report_pages import Page


def check(*paths: Path, out: Path, options: tuple[str, ...] = ()) -> Result:
    return invoke("check", *paths, "--engine", "local", "--no-plots", "--out", out, *options)


def valid() -> list[dict[str, object]]:
    return Script().send("p", "a", 0).poll("final", (0, "a")).events


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        (["/x/one.jsonl", "/x/two.jsonl.gz"], ["one", "two"]),
        (["/x/a/history.jsonl", "/x/b/history.jsonl"], ["a-history", "b-history"]),
        (["/x/a/run", "/x/b/run", "/x/c/other"], ["a-run", "b-run", "other"]),
        (["/x/1/s/r.edn", "/y/1/s/r.edn"], ["x-1-s-r", "y-1-s-r"]),
        (["/x/r.edn", "/x/r.edn"], ["x-r", "x-r-2"]),
        (["s3a://bucket/a/history.jsonl", "s3a://bucket/b/history.jsonl"], ["a-history", "b-history"]),
        (["/x/index.html", "/x/r"], ["index.html-2", "r"]),
    ],
)
def test_run_names_are_distinct(runs: list[str], names: list[str]) -> None:
    assert names_of(runs) == names


def test_each_run_has_a_line_and_a_row_the_worst_first(tmp_path: Path) -> None:
    good = write_run(tmp_path / "good", valid(), FINAL)
    bad = write_run(tmp_path / "bad", lossy(), FINAL)
    (tmp_path / "torn.jsonl").write_text("no history\n")
    result = check(good, tmp_path / "torn.jsonl", bad, out=tmp_path / "o")
    assert result.return_value == 1
    lines = result.output[result.output.index("3 runs: 1 invalid, 1 error, 1 ") :].splitlines()
    assert "bad: INVALID" in result.output
    assert "good: VALID" not in result.output  # a valid run only has its line
    assert [line.split()[1] for line in lines[1:4]] == ["bad", "torn", "good"]
    assert lines[-1] == f"Index of the reports: {tmp_path / 'o' / 'index.html'}"
    page = (tmp_path / "o" / "index.html").read_text()
    assert "2 acknowledged writes of 4 were lost" in page
    assert "Causes of breaches: unknown in 1 run" in lines
    assert page.count('<span class="faint">Cause:</span> unknown') == 1
    # A run without a verdict has no numbers.
    assert re.findall(r'class="n" data-label="(\w+)">(\d*)<', page)[2:4] == [("operations", ""), ("breaches", "")]
    assert re.findall(r'href="([^"]*)"', page) == ["bad/report.html", "good/report.html"]
    assert all((tmp_path / "o" / link).is_file() for link in re.findall(r'href="([^"]*)"', page))
    # A second call replaces its own index.
    assert check(good, bad, out=tmp_path / "o").return_value == 1
    assert "torn" not in (tmp_path / "o" / "index.html").read_text()


def test_a_single_run_has_no_index(tmp_path: Path) -> None:
    result = check(write_run(tmp_path / "good", valid(), FINAL), out=tmp_path / "o")
    assert "runs:" not in result.output
    assert not list(tmp_path.glob("**/index.html"))


def test_runs_without_a_name_of_their_own_get_one(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "history.jsonl")
        paths[-1].write_text("".join(json.dumps({"time": n, **event}) + "\n" for n, event in enumerate(valid())))
    reports = json.loads(check(*paths, out=tmp_path / "o", options=("--json",)).stdout)
    assert [report["input"]["name"] for report in reports] == ["a-history", "b-history"]


def test_a_foreign_index_is_refused_before_anything_is_judged(tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "index.html").write_text("<p>my site")
    runs = [write_run(tmp_path / name, valid(), FINAL) for name in ("a", "b")]
    result = check(*runs, out=tmp_path / "o")
    assert isinstance(result.exception, UsageError)
    assert "did not write" in str(result.exception)
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["index.html"]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_stay_text(name: str, tmp_path: Path) -> None:
    report = {"verdict": "valid", "counts": {}, "rules": {}, "assumptions": [{"name": name, "holds": False}]}
    began = datetime(2026, 1, 1, tzinfo=UTC)
    folder = f"{tmp_path}/{name.replace('/', '')}"
    runs = [Judged(name, name, folder, began, 1.0, report, name), Judged("x", "x", "", began, 1.0, None, name)]

    page = Page(text := write_index(str(tmp_path), runs).read_text())
    assert {*re.findall(r"var\((--[\w-]+)\)", text)} <= {*re.findall(r"(--[\w-]+):", text)}  # or it has a default
    assert not page.tags & {"script", "svg", "img", "b onload"}
    assert [unquote(link) for link in page.links] == [f"{name.replace('/', '')}/report.html"]
    assert all(line.isprintable() for line in render(runs, None).replace("\x1b", "").splitlines())


@pytest.mark.parametrize(("valid_runs", "expected"), [(20, 22), (21, 3)])
def test_many_valid_runs_share_a_line_below_the_others(valid_runs: int, expected: int) -> None:
    report = {"verdict": "valid", "counts": {}, "rules": {}, "assumptions": []}
    began = datetime(2026, 1, 1, tzinfo=UTC)
    runs = [Judged(name, name, "", began, 1.0, report, "kept") for name in map(str, range(valid_runs))]
    runs.append(Judged("bad", "bad", "", began, 1.0, {**report, "verdict": "invalid"}, "lost"))
    lines = unstyle(render(runs, None)).strip().splitlines()
    assert lines[:2] == [f"{valid_runs + 1} runs: 1 invalid, {valid_runs} valid", "  invalid    bad  lost"]
    assert len(lines) == expected
    assert valid_runs == 20 or lines[-1] == "  valid      21 runs, without a breach"


def test_a_result_of_another_run_is_not_replaced_without_a_notice(tmp_path: Path) -> None:
    first, second = (
        write_run(tmp_path / name / "1", events, FINAL) for name, events in (("x", valid()), ("y", lossy()))
    )
    words = ["check", "--engine", "local", "--no-plots"]
    assert "replaces" not in shell(*words, "x/1", cwd=tmp_path).stderr
    assert "replaces" not in shell(*words, f"{first}/", "--only", "lost-write", cwd=tmp_path).stderr
    shell(*words, "x/1", cwd=tmp_path)
    notice = shell(*words, "y/1", cwd=tmp_path).stderr
    assert "logjudge-out/1: replaces the result of `logjudge" in notice
    assert "x/1`, which judged another run; --out FOLDER keeps both" in notice
    (second / "history.jsonl").write_text("")
    write_run(second, valid(), FINAL)  # recorded anew: the same run to its user
    assert "replaces" not in shell(*words, "y/1", cwd=tmp_path).stderr
    scenario = tmp_path / "z.toml"
    for seed in (1, 2):  # the bundle in the folder z is another, of the same command
        scenario.write_text(f"seed = {seed}\n[config]\n'simulation.ops' = 20\n")
        assert "replaces" not in shell("scenarios", "run", "z.toml", cwd=tmp_path).stderr


def test_folders_of_single_brokers_are_one_run(tmp_path: Path) -> None:
    brokers = [LOSSY / "brokers" / name for name in ("1", "2")]
    hint = "Those of one cluster are one run"
    assert hint in check(*brokers, out=tmp_path / "out").output
    assert hint not in check(brokers[0], LOSSY, out=tmp_path / "other").output


def test_histories_in_one_folder_are_counted(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", valid())
    (run / "history").mkdir()
    shutil.copyfile(run / "history.jsonl", run / "history" / "other.jsonl")
    assert "in 2 histories of one run" in " ".join(check(run, out=tmp_path / "out").output.split())


def test_many_small_runs_are_judged_in_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = [write_run(tmp_path / f"r{number}", lossy() if number % 3 else valid(), FINAL) for number in range(8)]
    (tmp_path / "torn.jsonl").write_text("no history\n")
    runs.insert(5, tmp_path / "torn.jsonl")
    many = check(*runs, out=tmp_path / "o", options=("--json",))
    printed = capfd.readouterr().err
    monkeypatch.setattr(judging_processes, "MIN_RUNS", 100)
    one = check(*runs, out=tmp_path / "o", options=("--json",))
    assert many.return_value == one.return_value == 1
    assert printed == one.stderr
    assert untimed(many) == untimed(one)
    assert [report["input"]["name"] for report in untimed(one)][:6] == ["r0", "r1", "r2", "r3", "r4", "r5"]


def untimed(result: Result) -> list[dict[str, Any]]:
    """The printed reports, without the time of each judging."""
    reports = json.loads(result.stdout)
    for report in reports:
        report.pop("provenance", None)
    return list(reports)


def test_a_process_that_dies_costs_only_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [write_run(tmp_path / f"r{number}", valid(), FINAL) for number in range(8)]
    begun = judging_processes._Worker.judge

    def killed(self: Any, task: Task) -> Judged | None:
        if task.name == "r3":
            self._process.kill()
        return begun(self, task)

    monkeypatch.setattr(judging_processes._Worker, "judge", killed)
    result = check(*runs, out=tmp_path / "o")
    assert result.return_value == 70
    assert "8 runs: 1 error, 7 valid" in result.output
    assert "ended with code -9" in result.output


def test_an_error_that_every_run_would_meet_ends_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [write_run(tmp_path / f"r{number}", valid(), FINAL) for number in range(8)]
    missing = MissingComponentError("found no matplotlib")
    monkeypatch.setattr(judging_processes._Worker, "judge", lambda *_: None)  # as a process replies to such an error
    monkeypatch.setattr("logjudge.cli.judging.judge", Mock(side_effect=missing))
    assert check(*runs, out=tmp_path / "o").exception is missing
