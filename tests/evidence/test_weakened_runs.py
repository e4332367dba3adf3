"""Copies of recorded runs with less evidence: no loss is invented, and no cause is another one."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from weakened_runs import ALL, RUNS, Draw, Judged, differences, main, runs_in

RUN = "acks1-failover-a"
WITHOUT_EFFECT = (
    "controller.log",
    "cluster metadata",
    "failures of power",
    "elections",
)  # the run lacks what these remove


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archive of one run."""
    return Path(shutil.copy(RUNS / f"{RUN}.tar.xz", tmp_path_factory.mktemp("runs"))).parent


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    [run] = runs_in(folder, tmp_path_factory.mktemp("unpacked"))
    return run


def test_copies_with_less_evidence_have_no_other_losses_and_causes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(6, 0, folder) == 0
    assert capsys.readouterr().out.startswith("0 of 6 copies have wrong results")


@pytest.mark.parametrize("name", ALL)
def test_each_weakness_removes_or_changes_something(name: str, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, copy := tmp_path / "copy")
    before = _content(copy)
    ALL[name](copy, Draw(7))
    assert (_content(copy) == before) == (name in WITHOUT_EFFECT)


def _content(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_comparison_would_notice(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Judged.of(run)
    causes = {cause for one in whole.causes.values() for cause in one}
    assert (whole.verdict, causes) == ("invalid", {"single-ack-failover"})
    assert list(differences(run, whole)) == []
    [invented] = differences(run, Judged("valid", {}))
    assert invented.startswith("lost records invented")
    [caused] = differences(run, Judged("invalid", {value: {"older-copy"} for value in whole.lost}))
    assert caused.endswith("has the cause single-ack-failover, expected ['older-copy']")
    monkeypatch.setattr(Judged, "of", lambda _: Judged("valid", {}))
    [valid] = differences(run, whole)
    assert valid == f"{len(whole.lost)} acknowledged records are lost, but the verdict is valid"
