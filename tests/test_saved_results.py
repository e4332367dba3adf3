"""Saved results: drawn and reported again, old, changed or damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from command_line import invoke
from figure_cases import FINAL, REAL, judged, lossy, write_run
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.figures import merge_figures
from logjudge.analysis.verdict.document import report_of
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError, UsageError
from logjudge.plots.report.saved import load, load_figures, write_result
from report_pages import Page, save


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = judged(next(path for path in REAL if path.name == "unclean-election-a"))
    return save(run, tmp_path_factory.mktemp("saved") / "out")


def test_plot_draws_from_saved_results(saved: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.svg"
    arguments = ["plot", str(saved), "around", "--finding", "nonmonotonic-poll/orders-0/0", "--out", str(target)]
    result = invoke(*arguments)
    assert result.exit_code == 0
    assert b"nonmonotonic-poll in orders-0" in target.read_bytes()


def test_all_lost_values_are_printed(saved: Path, tmp_path: Path) -> None:
    findings = pl.read_parquet(saved / "findings.parquet").filter(rule="lost-write")
    lost = [(f"{row['topic']}-{row['partition']}", value) for row in findings.to_dicts() for value in row["values"]]
    assert len(lost) == findings["count"].sum() > 0
    assert [tuple(line.split("\t")) for line in invoke("values", saved).stdout.splitlines()] == lost
    none = invoke("values", saved, "ownership")
    assert (none.stdout, none.stderr) == ("", "no breach of ownership was found\n")
    assert isinstance(invoke("values", tmp_path).exception, InputError)


def test_results_from_before_a_column_was_added_are_read(saved: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(saved, tmp_path / "old")
    findings = pl.read_parquet(folder / "findings.parquet")
    findings.drop("topic_generation").write_parquet(folder / "findings.parquet")
    assert load(folder).findings.equals(findings)
    result = invoke("report", folder)
    assert result.exit_code == 0
    assert "lost-write" in Page((folder / "report.html").read_text()).text
    findings.drop("sentence").write_parquet(folder / "findings.parquet")
    with pytest.raises(InputError, match="sentence"):
        load(folder)


def test_plot_judges_a_run_first(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", lossy(), FINAL)
    target = tmp_path / "x.png"
    result = invoke("plot", run, "offsets", "--out", target)
    assert result.exit_code == 0
    assert target.read_bytes().startswith(b"\x89PNG")


def test_plots_of_two_runs_do_not_replace_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        write_run(tmp_path / name, lossy(), FINAL)
        assert invoke("plot", name, "glance").stdout == f"{name}-glance.png\n"
    assert len([*tmp_path.glob("*.png")]) == 2


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["offsets", "--partition", "nope"], "expected one of orders-"),
        (["glance", "--finding", "x"], "does not take a finding"),
        (["glance", "--out", "x.pdf"], "ends in .png or .svg"),
        (["glance", "--out", "/nonexistent/x.png"], "no such folder"),
    ],
)
def test_wrong_options_of_plot_are_a_sentence(saved: Path, arguments: list[str], expected: str) -> None:
    result = invoke("plot", saved, *arguments)
    assert isinstance(result.exception, UsageError)
    assert expected in str(result.exception)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has /dev/full")
@pytest.mark.parametrize("name", ["verdict.json", "findings.parquet", "quarantine.jsonl", "figures.json", "report.md"])
def test_a_full_disk_is_an_error_of_the_system(name: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", lossy(), FINAL)
    with (run / "history.jsonl").open("a") as file:
        file.write("no line\n")
    results = judge_run(open_run(run))
    report = report_of(results, "local")
    figures = merge_figures(results.records, results.context, results.run.settings)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        write_result(tmp_path / "out", report, results, figures, "none")


def test_a_plot_without_a_subject_names_what_the_run_lacks(tmp_path: Path) -> None:
    events = [event for event in lossy() if event.get("f") != "fault"]
    run = write_run(tmp_path / "run", events, FINAL)
    lacks = {"cycles": "cycles of transactions", "swimlane": "changes of leader or ISR", "transactions": "transactions"}
    for name, what in lacks.items():
        assert f"the run has no {what}" in str(invoke("plot", run, name, "--out", tmp_path / "x.png").exception)


def test_a_bug_is_not_reported_as_a_change_by_hand(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("logjudge.plots.glance.draw", broken)
    arguments = ["plot", str(saved), "glance", "--out", str(tmp_path / "x.png")]
    assert isinstance(invoke(*arguments).exception, KeyError)
    run = write_run(tmp_path / "run", lossy(), FINAL)
    assert isinstance(invoke("plot", run, *arguments[2:]).exception, KeyError)
    for file in ("verdict.json", "findings.parquet", "figures.json"):
        (tmp_path / file).write_bytes((saved / file).read_bytes())
    (tmp_path / "verdict.json").write_bytes((saved / "verdict.json").read_bytes().replace(b"lost-write", b"lost"))
    assert isinstance(invoke("plot", tmp_path, *arguments[2:]).exception, InputError)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("verdict.json", None, "no verdict.json"),
        ("verdict.json", b"{", "verdict.json: found no JSON (Expecting property name"),
        ("verdict.json", b"[" * 100_000, "verdict.json: found JSON that is nested too deeply"),
        ("figures.json", None, "figures.json: no such file"),
        ("figures.json", b'{"format": 2}', "found format 2"),
        ("figures.json", b'{"format": 1}', "found no key 'name'"),
        ("findings.parquet", b"PAR1", "findings.parquet: found"),
    ],
)
def test_damaged_results_are_a_sentence(
    saved: Path, name: str, content: bytes | None, expected: str, tmp_path: Path
) -> None:
    for file in ("verdict.json", "findings.parquet", "figures.json"):
        (tmp_path / file).write_bytes((saved / file).read_bytes())
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)
    result = invoke("report", tmp_path)
    assert isinstance(result.exception, InputError)
    assert expected in str(result.exception)
    assert "logjudge check" in str(result.exception)


def test_figures_with_more_bins_than_a_plot_has_are_refused(saved: Path, tmp_path: Path) -> None:
    for file in ("verdict.json", "findings.parquet", "figures.json"):
        (tmp_path / file).write_bytes((saved / file).read_bytes())
    figures = json.loads((tmp_path / "figures.json").read_bytes())
    figures["bins"]["count"] = 10**9
    (tmp_path / "figures.json").write_text(json.dumps(figures))
    with pytest.raises(InputError, match=r"found bins\.count = 1000000000, expected a number from 0 to"):
        load_figures(tmp_path)
