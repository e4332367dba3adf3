"""Histories of general operations, for the linearizability engine.

A reader yields the events of a file as `OperationLine`s; `pair_operations` makes operations of them:
- an operation lasts from its `invoke` to its `ok`;
- one with `info`, or without a completion, may have taken effect at any later time, or never;
- one with `fail` had no effect, and is left out.
The order of the lines is the order of time, unless every line has a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from ..models.operations import UNKNOWN, Action, Operation
from .errors import InputError, UsageError
from .files import HEAD_BYTES, check_path, read_whole
from .readers import LOG, OPERATIONS, READERS, readers_of, recognise
from .readers.operation_lines import OneLine, OperationLine

EXPECTED = "a file of operations on objects"
LOGS_HINT = "logjudge check judges what clients did to a log"
# Functions without a result; a history may repeat the argument in its place.
WITHOUT_RESULT = frozenset(("write", "put", "add", "subtract", "remove", "enqueue", "acquire", "release"))


@dataclass(frozen=True)
class Note:
    """Something that happened beside the operations, such as a fault."""

    time: float
    text: str


@dataclass(frozen=True)
class History:
    """The operations of one file, or of some keys of it; `lines` has the line of each one's invocation."""

    source: str
    format: str
    operations: list[Operation] = field(repr=False)
    lines: list[int] = field(repr=False)
    notes: list[Note]
    others: int = 0  # operations of the file that are not in the list


class Paired(NamedTuple):
    """An operation, with the order of its invocation among all events, and the line of it."""

    order: int
    line: int
    operation: Operation


def _result(line: OperationLine) -> Any:
    """The result of an `ok`."""
    if line.result is not UNKNOWN:
        return line.result
    if line.f == "cas":
        return True
    return None if line.f in WITHOUT_RESULT else line.value


class BoundaryEvent(NamedTuple):
    """An event at an end of a piece of a history."""

    order: int  # its number among all events
    line: OperationLine
    is_open: bool  # an invocation that a later piece may complete; others only show that the process was free before


class Pairing:
    """Makes operations of invocations and completions, which are added in the order of lines.

    They are those of a whole file, or of a piece of it. A piece that is not the first may begin with completions of
    earlier invocations; `boundary_events` has what `add_boundary_event` joins across pieces.
    """

    def __init__(self, source: str, is_first: bool = True) -> None:
        self.source = source
        self.operations: list[Paired] = []  # in the order of their completions
        self.notes: list[Note] = []
        self.first: OperationLine | None = None  # all events have a time if this one has
        self.open: dict[Hashable, tuple[int, OperationLine]] = {}  # invocations without a completion, by process
        # The first event of each process in a piece that is not the first.
        self.heads: dict[Hashable, tuple[int, OperationLine]] | None = None if is_first else {}

    def add(self, order: int, line: OperationLine) -> None:
        """Add an event; `order` is its number among all events. Raises InputError if it does not fit."""
        process = line.process
        if process is None:
            self.notes.append(Note(order if line.time is None else line.time, str(line.value)))
            return
        if self.first is None:
            self.first = line
        elif (self.first.time is None) != (line.time is None):
            raise time_error(self.source, line.line, line.time is not None)
        is_invocation = line.type == "invoke"
        if self.heads is not None and process not in self.heads and type(process) is not OneLine:
            self.heads[process] = order, line
            if not is_invocation:
                return
        if is_invocation:
            if process in self.open:
                before = f"the completion of its operation of line {self.open[process][1].line} first"
                raise InputError(self.source, f"an invocation by process {process!r}", before, line=line.line)
            self.open[process] = order, line
            return
        if process not in self.open:
            found = f"a completion by process {process!r}"
            raise InputError(self.source, found, "its invocation before it", line=line.line)
        called, invoked = self.open.pop(process)
        if invoked.f != line.f:
            expected = f"one of {invoked.f!r}, invoked at line {invoked.line}"
            raise InputError(self.source, f"a completion of {line.f!r}", expected, line=line.line)
        if line.type == "ok":
            self._append(called, invoked, _result(line), order if line.time is None else line.time)
        elif line.type == "info":
            self._append(called, invoked)

    def _append(self, order: int, invoked: OperationLine, result: Any = UNKNOWN, end: float | None = None) -> None:
        action = Action(invoked.f, invoked.value, result, invoked.key)
        call = order if invoked.time is None else invoked.time
        client = invoked.client if type(invoked.process) is OneLine else invoked.process
        self.operations.append(Paired(order, invoked.line, Operation(action, call, end, client)))

    def close(self, of_one_line: bool = False) -> None:
        """Take open invocations as operations of unknown outcome: all, or those that no other line can complete."""
        for process, (order, invoked) in list(self.open.items()):
            if not of_one_line or type(process) is OneLine:
                del self.open[process]
                self._append(order, invoked)

    def boundary_events(self) -> Iterator[BoundaryEvent]:
        """The events at the ends of a piece."""
        opened = {order for order, _ in self.open.values()}
        for event in (self.heads or {}).values():
            if event[0] not in opened:
                yield BoundaryEvent(*event, is_open=False)
        for event in self.open.values():
            yield BoundaryEvent(*event, is_open=True)

    def add_boundary_event(self, order: int, line: OperationLine, is_open: bool) -> None:
        """Add a boundary event of a piece, in the order of all pieces. Raises InputError if it does not fit."""
        self.add(order, line)
        if line.type == "invoke" and not is_open:
            del self.open[line.process]


def time_error(source: str, line: int, has_time: bool) -> InputError:
    """The error of an event with a time after one without, or the other way round."""
    found = f"a line {'with' if has_time else 'without'} a time"
    return InputError(source, found, "a time on every line or on none", line=line)


def pair_operations(lines: Iterable[OperationLine], source: str, format_name: str) -> History:
    """Make operations of invocations and completions. Raises InputError with the line that does not fit."""
    pairing = Pairing(source)
    for order, line in enumerate(lines):
        pairing.add(order, line)
    pairing.close()
    return history_of(pairing.operations, source, format_name, pairing.notes)


def history_of(paired: list[Paired], source: str, format_name: str, notes: list[Note], others: int = 0) -> History:
    """The history of operations, which are sorted by the order of their invocations."""
    paired.sort(key=itemgetter(0))
    operations, lines = [each.operation for each in paired], [each.line for each in paired]
    return History(source, format_name, operations, lines, notes, others)


def read_operations(path: str, format_name: str | None = None) -> History:
    """Read the history of operations in a file, in the named format or else in the recognised one.

    Raises InputError for a file that cannot be read, and UsageError for a format that does not exist.
    """
    check_format(format_name)
    check_file(path)
    try:
        data = read_whole(Path(path))
    except OSError as error:
        raise InputError(path, error.strerror or "a file that cannot be read", EXPECTED) from error
    except ValueError as error:
        raise damage_error(path, str(error)) from error
    text = decode(data, path)
    name = format_name or recognise_format(data[: max(HEAD_BYTES, data.find(b"\n"))], path)
    del data
    return pair_operations(READERS[name].read(text, path), path, name)


def check_format(name: str | None) -> None:
    """Raises UsageError for a format that does not exist; None is to recognise it."""
    formats = readers_of(OPERATIONS)
    if name is not None and name not in formats:
        raise UsageError(f"found the format {name!r}, expected one of {', '.join(formats)}")


def check_file(path: str) -> None:
    """Raises InputError unless there is a file that can be read."""
    check_path(Path(path), EXPECTED)
    if Path(path).is_dir():
        raise InputError(path, "a folder", EXPECTED, LOGS_HINT)


def damage_error(source: str, problem: str) -> InputError:
    """The error of a compressed file that cannot be decompressed."""
    return InputError(source, problem, "a complete compressed file")


def decode(data: bytes, source: str, is_first: bool = True) -> str:
    """The text of a file, or of a later piece of one. Raises InputError with the line of a byte that is not UTF-8."""
    try:
        return data.decode("utf-8-sig" if is_first else "utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(source, f"the byte 0x{data[error.start]:02x}", "UTF-8", line=line) from error


def recognise_format(head: bytes, source: str) -> str:
    """The name of the format of a file's first lines. Raises InputError if no reader of operations recognises them."""
    name = recognise(head, OPERATIONS)
    if name is not None and READERS[name].CONTENT == LOG:
        raise InputError(source, f"a history of a log ({name})", EXPECTED, LOGS_HINT, line=1)
    if name is None:
        first = head.decode("utf-8-sig", "replace").lstrip().split("\n", 1)[0]
        found = repr(first[:60]) if first else "an empty file"
        expected = f"a history ({', '.join(readers_of(OPERATIONS))})"
        raise InputError(source, found, expected, "name its format with --from", line=1)
    return name
