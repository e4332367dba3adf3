"""Events of a run as lines of its history.

Any thread appends lines of history.jsonl, and one thread writes them to disk every FLUSH_SECONDS. A killed process
loses at most the lines since then. The file always ends with a whole line, even if the disk is full.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orjson import OPT_APPEND_NEWLINE, dumps

from ..errors import LogjudgeError, UsageError

Fields = dict[str, Any]
ERRORS = ("error", "reason")  # fields with texts of clients
FLUSH_SECONDS = 0.2


def line_of(event: Fields) -> bytes:
    """An event as a line of the history. Texts of ERRORS are escaped where they are not Unicode.

    Raises UsageError if another text is not Unicode.
    """
    try:
        return dumps(event, None, OPT_APPEND_NEWLINE)
    except TypeError:
        escaped = {name: event[name].encode(errors="backslashreplace").decode() for name in ERRORS if name in event}
    try:
        return dumps({**event, **escaped}, None, OPT_APPEND_NEWLINE)
    except TypeError as error:
        raise UsageError(f"{event['f']}: found {error}, expected text that UTF-8 can encode, and numbers") from error


def require_name(name: Any, field: str) -> str:
    """The name of a process or topic. Raises UsageError if it is empty or no str: a run is sorted by names."""
    if not isinstance(name, str) or not name:
        raise UsageError(f"{field}: found {name!r:.80}, expected a name (str)")
    return name


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
        """Write all appended lines. An error is stored, and `check` raises it."""
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
