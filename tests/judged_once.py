"""Recorded runs that no test changes are read and judged once in a process, as tests look at what follows from that."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT
from logjudge.analysis.engines import local
from logjudge.analysis.inspect import open_partitions
from logjudge.histories.bundle import Run

CONSTANT = [ROOT / "examples", ROOT / "tests" / "data"]  # folders whose runs no test changes


def constant(folder: Path) -> Path:
    """Declares that no test changes a run in the folder, and returns it."""
    CONSTANT.append(folder)
    return folder


def _once(work: Callable[..., Any]) -> Callable[..., Any]:
    """Does the work once for equal settings of a constant run. Each call gets a copy, which it may change."""
    done: dict[str, Any] = {}

    def once(run: Run, progress: Any = None, offset: int | None = None) -> Any:
        rest = (progress or (lambda *_: None), *(() if offset is None else (offset,)))
        if not any(Path(run.path).resolve().is_relative_to(folder) for folder in CONSTANT):
            return work(run, *rest)
        key = repr((run.path, run.settings, run.splits, run.evidence, offset))
        if key not in done:
            done[key] = work(run, *rest)
        return copy.deepcopy(done[key])

    return once


def judging_once() -> Iterator[None]:
    """Lets the commands with the local engine judge and read such runs once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "judge_run", _once(local.judge_run))
        patch.setattr(open_partitions, "gather", _once(open_partitions.gather))
        yield
