"""The state that the recorder and its open operations share: the clock, operation numbers, and open operations."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Any, Protocol

from orjson import OPT_APPEND_NEWLINE, dumps

from ..errors import UsageError
from .event_log import EventLog

Fields = dict[str, Any]
ERRORS = ("error", "reason")  # texts that clients wrote


class InterruptiblePoll(Protocol):
    """A poll that a callback may interrupt."""

    def suspend(self) -> None:
        """Complete it, as a callback interrupts it."""

    def resume(self) -> None:
        """Begin it again, after the callback."""


class OpenTransaction(Protocol):
    """A transaction without an outcome."""

    def unfinished(self) -> Fields:
        """The line that completes it as `info`."""

    def info(self, error: object = "") -> None:
        """Complete it as `info`."""


def line_of(event: Fields) -> bytes:
    """An event as a line of the history, with escapes for what is not Unicode in an error's text.

    Raises UsageError if other text is not Unicode.
    """
    try:
        return dumps(event, None, OPT_APPEND_NEWLINE)
    except TypeError:
        escaped = {name: event[name].encode(errors="backslashreplace").decode() for name in ERRORS if name in event}
    try:
        return dumps({**event, **escaped}, None, OPT_APPEND_NEWLINE)
    except TypeError as error:
        raise UsageError(f"{event['f']}: found {error}, expected text that UTF-8 can encode, and numbers") from error


def name_of(name: Any, field: str) -> str:
    """A process or a topic. Raises UsageError if it is no text: files of a run are sorted by such names."""
    if not isinstance(name, str):
        raise UsageError(f"{field}: found {name!r:.80}, expected a name (str)")
    return name


class Journal:
    """Events of a run, as lines of its history."""

    def __init__(self, path: Path, before_flush: Callable[[], None]) -> None:
        self.start = monotonic_ns()
        self.lock = threading.Lock()  # around the choice of an operation's outcome
        self.polls: dict[str, InterruptiblePoll] = {}  # the open poll of each process
        self.transactions: dict[int, OpenTransaction] = {}  # that are open, by op
        self.next_op = itertools.count(1).__next__
        self.log = EventLog(path, before_flush)
        self.append = self.log.append

    def now(self) -> int:
        """The time since the start, ns."""
        return monotonic_ns() - self.start

    def write(self, process: str, op: int, type_: str, f: str, fields: Fields) -> None:
        """Append an event of now. Raises UsageError if the process is no text."""
        name_of(process, "process")
        event = {"time": self.now(), "process": process, "op": op, "type": type_, "f": f, **fields}
        self.append(line_of(event))

    def begin(self, process: str, f: str, fields: Fields) -> int:
        """Write an invocation and return its op. Raises LogjudgeError if nothing more is recorded."""
        self.log.check()
        op = self.next_op()
        self.write(process, op, "invoke", f, fields)
        return op

    def suspend_poll(self, process: str) -> None:
        """Close the poll around a callback, as polls overlap with nothing else of their process (docs/format.md)."""
        if process in self.polls:
            self.polls[process].suspend()

    def resume_poll(self, process: str) -> None:
        """Begin the poll of a process again, after the callback."""
        if process in self.polls:
            self.polls[process].resume()
