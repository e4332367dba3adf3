"""Plots drawn by another process: the same files as if drawn here, and none is missing when it fails."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from figure_cases import FINAL, judged, lossy, write_run
from logjudge.plots import painting
from logjudge.plots.painting import jobs_of, painted, start_painter


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return judged(write_run(tmp_path_factory.mktemp("painting") / "run", lossy(), FINAL)).figures


@pytest.fixture
def painter(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The process's id. Afterwards no process of its session is left."""
    painting._stop_painter()
    monkeypatch.setattr(painting, "_cores", lambda: 2)
    start_painter()
    start_painter()
    [process] = painting._painters
    yield process.pid
    painting._stop_painter()
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def drawn(folder: Path, figures: dict[str, Any]) -> tuple[list[str], dict[str, bytes]]:
    folder.mkdir()
    with painted(folder, figures, jobs_of(figures), ("svg", "png")) as headings:
        return headings(), {path.name: path.read_bytes() for path in folder.iterdir()}


def forbid_drawing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("drawn in this process")

    monkeypatch.setattr(painting, "_paint_one", fail)


@pytest.mark.thorough
@pytest.mark.usefixtures("painter")
def test_the_process_draws_the_same_files(
    figures: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        forbid_drawing_here(patch)
        found = drawn(tmp_path / "there", figures)
        assert drawn(tmp_path / "again", figures) == found, "one process draws for several requests"
    painting._stop_painter()
    assert drawn(tmp_path / "here", figures) == found
    assert len(found[1]) == 2 * len(found[0]) == 2 * len(jobs_of(figures)) > 0


def test_figures_of_a_killed_process_are_drawn_here(figures: dict[str, Any], tmp_path: Path, painter: int) -> None:
    os.killpg(painter, signal.SIGKILL)
    headings, files = drawn(tmp_path / "out", figures)
    assert len(files) == 2 * len(headings)
    assert not painting._painters


@pytest.mark.usefixtures("painter")
def test_a_figure_that_fails_is_drawn_here_and_raises(figures: dict[str, Any], tmp_path: Path) -> None:
    jobs = jobs_of(figures)
    wrong = [jobs[0], jobs[1]._replace(subject={"partition": "none-9"}), *jobs[2:]]
    (tmp_path / "out").mkdir()
    with pytest.raises(StopIteration), painted(tmp_path / "out", figures, wrong, ("svg",)) as headings:
        headings()
    assert (tmp_path / "out" / f"{jobs[-1].stem}.svg").is_file(), "the others were drawn"


@pytest.mark.usefixtures("painter")
def test_an_error_of_the_caller_ends_the_drawing(figures: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(OSError, match="full"), painted(tmp_path, figures, jobs_of(figures), ("svg",)):
        raise OSError("full")
    assert not painting._painters


def test_no_process_is_started_for_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    painting._stop_painter()
    monkeypatch.setattr(painting, "_cores", lambda: 1)
    start_painter()
    assert not painting._painters
