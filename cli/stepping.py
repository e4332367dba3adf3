"""The engine of `check --state` and `watch`: the local engine, on what was appended since the last call."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..histories.errors import UsageError
from .engines import Fill, LocalEngine
from .progress import Progress

if TYPE_CHECKING:
    from ..analysis.incremental.judging import Call
    from ..analysis.incremental.state import State
    from ..analysis.results import Results
    from ..histories.bundle import Run


class SteppingEngine(LocalEngine):
    """Judges on from the state in a file. The file gets the new state after the results are written."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before: State | None = None
        self.last: Call | None = None

    @property
    def lines_before(self) -> int:
        """Lines that calls before the last one read."""
        return sum(position.lines for position in self._before.positions.values()) if self._before else 0

    def check_target(self, folder: str, progress: Progress) -> None:
        from ..analysis.incremental.state import load_state

        super().check_target(folder, progress)
        if not self._file.parent.is_dir():
            raise UsageError(f"{self._file}: found no folder {self._file.parent}, expected one for the state; make it")
        self._before = load_state(self._file)

    def judge(self, run: Run, progress: Progress) -> Results:
        from ..analysis.engines.local import is_transactional
        from ..analysis.incremental.judging import judge_appended

        if is_transactional(run):
            raise UsageError(f"{run.path}: found transactions on lists or registers, expected a log to judge in steps")
        signal.siginterrupt(signal.SIGINT, True)  # as in LocalEngine
        self.last = judge_appended(run, self._before, str(self._file), progress)
        total = self.last.results.run.bytes
        read = f"read {self.last.read:,} of {total:,} bytes"
        self.remark = f"{read}; the whole history, as {self.last.whole}" if self.last.whole else read
        return self.last.results

    def described(self, report: dict[str, Any], results: Results) -> dict[str, Any]:
        from ..analysis.incremental.judging import not_yet

        assert self.last is not None
        positions = self.last.state.positions
        if positions:  # a hash of a file that grows says nothing of what was judged
            inputs = [{"file": name, "bytes": one.bytes, "sha256": None} for name, one in sorted(positions.items())]
            report["provenance"]["inputs"] = inputs
        return {**report, "not_yet": not_yet(report, results)}

    def write(self, folder: str, fill: Fill) -> None:
        from ..analysis.incremental.state import save_state

        assert self.last is not None
        super().write(folder, fill)
        save_state(self._file, self.last.state)
