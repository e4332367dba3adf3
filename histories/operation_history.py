"""Histories of general operations, for the linearizability engine.

A reader yields the events of a file as `OperationLine`s; `pair_operations` makes operations of them:
- an operation lasts from its `invoke` to its `ok`;
- one with `info`, or without a completion, may have taken effect at any later time, or never;
- one with `fail` had no effect, and is left out.
The order of the lines is the order of time, unless every line has a time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..models.operations import UNKNOWN, Action, Operation
from .errors import InputError, UsageError
from .files import HEAD_BYTES, check_path, read_whole
from .readers import LOG, OPERATIONS, READERS, readers_of, recognise
from .readers.operation_lines import OperationLine

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
    """The operations of one file; `lines` has the line of each one's invocation."""

    source: str
    format: str
    operations: list[Operation] = field(repr=False)
    lines: list[int] = field(repr=False)
    notes: list[Note]


def _result(line: OperationLine) -> Any:
    """The result of an `ok`."""
    if line.result is not UNKNOWN:
        return line.result
    if line.f == "cas":
        return True
    return None if line.f in WITHOUT_RESULT else line.value


def pair_operations(lines: Iterable[OperationLine], source: str, format_name: str) -> History:
    """Make operations of invocations and completions. Raises InputError with the line that does not fit."""
    operations: list[Operation] = []
    starts: list[int] = []
    notes: list[Note] = []
    open_invocations: dict[Hashable, tuple[int, OperationLine]] = {}
    failed: set[int] = set()
    has_times: bool | None = None
    for order, line in enumerate(lines):
        if line.process is None:
            notes.append(Note(order if line.time is None else line.time, str(line.value)))
            continue
        if has_times is None:
            has_times = line.time is not None
        elif has_times != (line.time is not None):
            found = f"a line {'without' if has_times else 'with'} a time"
            raise InputError(source, found, "a time on every line or on none", line=line.line)
        now: float = order if line.time is None else line.time
        if line.type == "invoke":
            if line.process in open_invocations:
                found = f"an invocation by process {line.process!r}"
                before = f"the completion of its operation of line {open_invocations[line.process][1].line} first"
                raise InputError(source, found, before, line=line.line)
            open_invocations[line.process] = len(operations), line
            client = line.process if line.client is None else line.client
            operations.append(Operation(Action(line.f, line.value, UNKNOWN, line.key), now, None, client))
            starts.append(line.line)
            continue
        if line.process not in open_invocations:
            found = f"a completion by process {line.process!r}"
            raise InputError(source, found, "its invocation before it", line=line.line)
        index, invoked = open_invocations.pop(line.process)
        if invoked.f != line.f:
            expected = f"one of {invoked.f!r}, invoked at line {invoked.line}"
            raise InputError(source, f"a completion of {line.f!r}", expected, line=line.line)
        if line.type == "fail":
            failed.add(index)
        elif line.type == "ok":
            operation = operations[index]
            action = operation.action._replace(result=_result(line))
            operations[index] = operation._replace(action=action, end=now)
    if failed:
        effective = [index for index in range(len(operations)) if index not in failed]
        operations, starts = [operations[index] for index in effective], [starts[index] for index in effective]
    return History(source, format_name, operations, starts, notes)


def read_operations(path: str, format_name: str | None = None) -> History:
    """Read the history of operations in a file, in the named format or else in the recognised one.

    Raises InputError for a file that cannot be read, and UsageError for a format that does not exist.
    """
    formats = readers_of(OPERATIONS)
    if format_name is not None and format_name not in formats:
        raise UsageError(f"found the format {format_name!r}, expected one of {', '.join(formats)}")
    check_path(Path(path), EXPECTED)
    if Path(path).is_dir():
        raise InputError(path, "a folder", EXPECTED, LOGS_HINT)
    try:
        data = read_whole(Path(path))
    except OSError as error:
        raise InputError(path, error.strerror or "a file that cannot be read", EXPECTED) from error
    except ValueError as error:
        raise InputError(path, str(error), "a complete compressed file") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(path, f"the byte 0x{data[error.start]:02x}", "UTF-8", line=line) from error
    name = format_name or _recognised(data, path)
    del data
    return pair_operations(READERS[name].read(text, path), path, name)


def _recognised(data: bytes, source: str) -> str:
    """The name of the format of a file's bytes. Raises InputError if no reader of operations recognises them."""
    head = data[: max(HEAD_BYTES, data.find(b"\n"))]
    name = recognise(head, OPERATIONS)
    if name is not None and READERS[name].CONTENT == LOG:
        raise InputError(source, f"a history of a log ({name})", EXPECTED, LOGS_HINT, line=1)
    if name is None:
        first = head.decode("utf-8-sig", "replace").lstrip().split("\n", 1)[0]
        found = repr(first[:60]) if first else "an empty file"
        expected = f"a history ({', '.join(readers_of(OPERATIONS))})"
        raise InputError(source, found, expected, "name its format with --from", line=1)
    return name
