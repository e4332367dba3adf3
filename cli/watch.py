"""`logjudge watch`: judges a run while it goes on, in rounds; each judges what was appended since the last one."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from ..histories.errors import InputError
from ..histories.files import local_path
from ..histories.output_folder import name_of
from .check import DEFAULT_OUT, EXITS
from .forms import from_option
from .judging import Judged, Task, judge
from .main import EXIT_UNKNOWN
from .output import printable
from .paths import LocalPath
from .progress import note
from .runs import check_index, write_page
from .stepping import SteppingEngine

if TYPE_CHECKING:
    from ..plots.report.live import Round

HISTORIES = ("*.jsonl", "history/*.jsonl")  # of a bundle
_AS_CHECK = {"allow": (), "strict": False, "ww_deps": False, "plots": "findings"}
_SILENT = {"quiet": True, "as_json": False, "form": None}


@click.command
@click.argument("run", metavar="RUN", type=LocalPath(readable=False, path_type=str))
@click.option(
    "--out",
    metavar="FOLDER",
    type=LocalPath(readable=False, path_type=str),
    default=DEFAULT_OUT,
    show_default=True,
    help="Folder for index.html (the live page), and for the report, which has a folder of its own.",
)
@click.option(
    "--state",
    metavar="FILE",
    type=LocalPath(readable=False),
    help="Judge on from this file, as `check --state` does [default: NAME.state in FOLDER].",
)
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 86_400),
    default=5.0,
    show_default=True,
    help="Time from the beginning of a round to the next.",
)
@click.option("--idle", metavar="SECONDS", type=click.FloatRange(0), help="End if nothing was appended for so long.")
@from_option
def command(run: str, out: str, state: Path | None, every: float, idle: float | None, reader: str | None) -> int:
    """Judge a run while it goes on: a line for each round, a live page, and a report.

    RUN is a run bundle or a history that grows. A round judges what was appended since the last one. Ctrl-C ends the
    watching: page, report and state stay as the last round wrote them, and `watch` or `check --state` goes on.

    Exit code: that of the last verdict, as of `check`; 3 without one.
    """
    name = name_of(run)
    check_index(out)
    watch = _Watch(Path(run), name, out, SteppingEngine(state or local_path(out) / f"{name}.state"), every, reader)
    local_path(out).mkdir(parents=True, exist_ok=True)
    appended = time.monotonic()
    try:
        while True:
            began = time.monotonic()
            done = watch.judge_on()
            now = time.monotonic()
            appended = now if done and done.lines else appended
            if idle is not None and now - appended >= idle:
                break
            # A round on the whole history takes long: at most half of the time, as the run needs the machine as well.
            time.sleep(max(began + every - now, now - began if done and done.whole else 0.0, 0.0))
    except KeyboardInterrupt:
        note(f"{printable(name)}: watching ended; the results are in {out}")
    return EXITS[watch.verdict] if watch.verdict else EXIT_UNKNOWN


class _Watch:
    """A run that is watched, with its rounds so far."""

    def __init__(
        self, run: Path, name: str, out: str, engine: SteppingEngine, every: float, reader: str | None
    ) -> None:
        self._run, self._name, self._out, self._every = run, name, out, every
        self._engine = engine
        self._options = {**_AS_CHECK, **_SILENT, "reader": reader}
        self._rounds: list[Round] = []  # the last ones
        self._count = 0
        self._size = 0  # bytes, at the beginning of the last round
        self._lines = 0  # that were judged
        self._judged: Judged | None = None
        self.verdict = ""

    def judge_on(self) -> Round | None:
        """One round: judges what was appended, prints a line and writes the page. None: there is no history yet."""
        from ..plots.report.live import SHOWN_ROUNDS, Round, page_of

        began, size = time.monotonic(), self._bytes()
        whole, lines = "", self._lines
        if self._judged is None or size != self._size:
            folder = f"{self._out.rstrip('/')}/{self._name}"
            try:
                self._judged = judge(Task(str(self._run), self._name, folder, (), self._options), self._engine)
            except InputError:
                if self._judged or self._has_begun() or not self._run.exists():
                    raise
                note(f"{printable(self._name)}: waiting for the first line of a history")
                return None
            call = self._engine.last
            assert call is not None
            whole, lines = call.whole, sum(position.lines for position in call.state.positions.values())
        report, headline = self._judged.report, self._judged.headline
        assert report is not None
        took, unread = time.monotonic() - began, max(self._bytes() - size, 0)
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        done = Round(at, lines - self._lines, took, took if unread else 0.0, unread, whole)
        self._rounds = [*self._rounds[1 - SHOWN_ROUNDS :], done]
        self._count, self._lines, self._size, self.verdict = self._count + 1, lines, size, report["verdict"]
        write_page(self._out, page_of(report, headline, quote(self._name), self._count, self._rounds, self._every))
        note(self._line(report, done))
        return done

    def _line(self, report: dict[str, Any], done: Round) -> str:
        parts = [f"{done.lines:,} lines ({done.rate:,.0f} a second)", f"{done.behind:.1f} s behind"]
        if report["not_yet"]:
            parts.append(f"not yet: {', '.join(report['not_yet'])}")
        if done.whole:
            parts.append(f"judged the whole history: {done.whole}")
        return f"{done.at[11:19]} {printable(self._name)}: {self.verdict.upper()}, {'; '.join(parts)}"

    def _files(self) -> list[Path]:
        found = [file for pattern in HISTORIES for file in self._run.glob(pattern)]
        return found if self._run.is_dir() else [self._run]

    def _bytes(self) -> int:
        return sum(file.stat().st_size for file in self._files() if file.is_file())

    def _has_begun(self) -> bool:
        """Whether a history has a whole line."""
        return any(b"\n" in file.open("rb").readline() for file in self._files() if file.is_file())
