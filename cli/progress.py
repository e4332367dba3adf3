"""Progress on stderr: a live bar on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import Timer
from typing import Any

from ..analysis.wording import printable

INTERVAL = 10  # seconds between two lines
_IS_SILENT = ContextVar("is_silent", default=False)


@contextmanager
def silenced() -> Iterator[None]:
    """A context in which no progress and no notes are printed."""
    token = _IS_SILENT.set(True)
    try:
        yield
    finally:
        _IS_SILENT.reset(token)


def note(text: str) -> None:
    """Prints a remark on stderr, which --quiet leaves out."""
    if not _IS_SILENT.get():
        print(text, file=sys.stderr, flush=True)


@contextmanager
def note_if_slow(text: str, seconds: float) -> Iterator[None]:
    """A context that prints a remark on stderr, as `note` does, if it lasts longer than that."""
    timer = Timer(seconds, copy_context().run, [note, text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Progress:
    """A context manager; call it with the current step and its progress."""

    def __init__(self, name: str, quiet: bool = False) -> None:
        self._name, self._quiet = printable(name), quiet or _IS_SILENT.get()
        self._live: Any = None
        self._task: Any = None
        self._printed_at = time.monotonic()
        self._printed = ""

    def __enter__(self) -> Progress:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._live = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.completed:,} of {task.total:,} {task.fields[unit]}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._live.add_task(f"{self._name}: opening", total=1, unit="parts")
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def __call__(self, step: str, done: int, total: int, unit: str = "parts") -> None:
        if self._live:
            self._live.update(
                self._task, description=f"{self._name}: {step}", completed=done, total=max(total, 1), unit=unit
            )
        elif not self._quiet and time.monotonic() - self._printed_at > INTERVAL:
            line = f"{self._name}: {step} {done:,} of {total:,} {unit}"
            if line != self._printed:
                self._printed_at, self._printed = time.monotonic(), line
                print(line, file=sys.stderr, flush=True)
