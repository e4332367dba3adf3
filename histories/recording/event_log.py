"""Writes history.jsonl during a run: any thread appends lines, and they are on disk within a fraction of a second.

One thread writes the lines that were appended since it last wrote. A killed process loses at most the lines since
then. The file always ends with a whole line, even if the disk is full.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ..errors import LogjudgeError

FLUSH_SECONDS = 0.2


class EventLog:
    """An append-only file of lines. `before_flush` runs before each flush, in the thread that flushes."""

    def __init__(self, path: Path, before_flush: Callable[[], None]) -> None:
        """Raises OSError if the file exists or cannot be created."""
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        self._lines: deque[bytes] = deque()
        self._before_flush = before_flush
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._written = 0  # bytes
        self._error = ""
        self.is_stopped = False  # whether `check` raises
        self.is_closed = False
        self.append = self._lines.append  # a whole line with its line feed; appending to a deque is atomic
        self._thread = threading.Thread(target=self._flush_regularly, name="logjudge-recorder", daemon=True)

    def start(self) -> None:
        """Start the thread that writes; the interpreter's exit writes the last lines."""
        self._thread.start()
        atexit.register(self.flush)

    def check(self) -> None:
        """Raises LogjudgeError if no more lines are written: the file is closed, or writing failed."""
        if self._error:
            raise LogjudgeError(self._error)
        if self._closing.is_set():
            raise LogjudgeError(f"{self._path}: the recorder is finished, so it records no further operation")

    def flush(self) -> None:
        """Write every line that was appended. An error is stored, and `check` raises it."""
        with self._writing:
            if self._error or self._file < 0:
                return
            try:
                try:
                    self._before_flush()
                finally:
                    self._write(b"".join([self._lines.popleft() for _ in range(len(self._lines))]))
            except (OSError, LogjudgeError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                self._error = f"{self._path}: cannot be written ({reason}); the events before that are complete"
                self.is_stopped = True

    def _write(self, text: bytes) -> None:
        rest = memoryview(text)
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError:
            whole = text.rfind(b"\n", 0, len(text) - len(rest)) + 1
            self._written += whole
            os.ftruncate(self._file, self._written)
            raise
        self._written += len(text)

    def _flush_regularly(self) -> None:
        while not self._closing.wait(FLUSH_SECONDS):
            self.flush()

    def close(self) -> None:
        """Write the remaining lines and close the file. Raises LogjudgeError if writing failed."""
        if self._closing.is_set():
            return
        self._closing.set()
        self.is_stopped = self.is_closed = True
        self._thread.join()
        self.flush()
        atexit.unregister(self.flush)
        os.close(self._file)
        self._file = -1
        if self._error:
            raise LogjudgeError(self._error)
