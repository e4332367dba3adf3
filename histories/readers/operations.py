"""Reads histories of operations for the linearizability engine: one dict of formats, recognised from content.

A reader gives the lines of a file as `Line`s; `pair` makes operations of them, the same way for every format:
- an operation lasts from its `invoke` to its `ok`;
- one that ends with `info`, or not at all, may have taken effect at any later time, or never;
- one that ends with `fail` certainly did not, and is left out.
The order of the lines is the order of time, unless every line has a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...models.operations import UNKNOWN, Action, Operation
from ..errors import InputError, UsageError
from ..files import check_path, whole
from .operation_lines import Line

# Functions whose answer is no more than *done*, though a history may repeat the argument in its place.
DONE = frozenset(("write", "put", "add", "subtract", "remove", "enqueue", "acquire", "release"))


@dataclass(frozen=True)
class Note:
    """Something that happened beside the operations, as a fault: an instant and what it was."""

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


Reader = Callable[[str, str], Iterable[Line]]  # of a text, named by a source for errors


def _result(line: Line) -> Any:
    """What an `ok` answers."""
    if line.result is not UNKNOWN:
        return line.result
    if line.f == "cas":
        return True
    return None if line.f in DONE else line.value


def pair(lines: Iterable[Line], source: str, format_name: str) -> History:
    """Make operations of invocations and completions. Raises InputError with the line that does not fit."""
    operations: list[Operation] = []
    starts: list[int] = []
    notes: list[Note] = []
    open_: dict[Hashable, tuple[int, Line]] = {}
    dropped: set[int] = set()
    timed: bool | None = None
    for order, line in enumerate(lines):
        if line.process is None:
            notes.append(Note(order if line.time is None else line.time, str(line.value)))
            continue
        if timed is None:
            timed = line.time is not None
        elif timed != (line.time is not None):
            raise InputError(source, "a line " + ("without" if timed else "with") + " a time",
                             "a time on every line or on none", line=line.line)  # fmt: skip
        now: float = order if line.time is None else line.time
        if line.type == "invoke":
            if line.process in open_:
                raise InputError(
                    source,
                    f"an invocation by process {line.process!r}",
                    f"the end of its operation of line {open_[line.process][1].line} first",
                    line=line.line,
                )
            open_[line.process] = len(operations), line
            client = line.process if line.client is None else line.client
            operations.append(Operation(Action(line.f, line.value, UNKNOWN, line.key), now, None, client))
            starts.append(line.line)
            continue
        if line.process not in open_:
            raise InputError(source, f"an end by process {line.process!r}", "its invocation before it", line=line.line)
        index, invoked = open_.pop(line.process)
        if invoked.f != line.f:
            raise InputError(
                source,
                f"an end of {line.f!r}",
                f"one of {invoked.f!r}, invoked at line {invoked.line}",
                line=line.line,
            )
        if line.type == "fail":
            dropped.add(index)
        elif line.type == "ok":
            operation = operations[index]
            action = operation.action._replace(result=_result(line))
            operations[index] = operation._replace(action=action, end=now)
    kept = [i for i in range(len(operations)) if i not in dropped]
    if dropped:
        operations, starts = [operations[i] for i in kept], [starts[i] for i in kept]
    return History(source, format_name, operations, starts, notes)


def _register_log(text: str, source: str) -> Iterator[Line]:
    from .register_log import read

    return read(text, source)


def _edn(text: str, source: str) -> Iterable[Line]:
    from .operations_edn import read

    return read(text, source)


def _jsonl(text: str, source: str) -> Iterator[Line]:
    from .operations_jsonl import read

    return read(text, source)


# A format is a module and a line here; each reader is imported when it is used.
OPERATION_READERS: dict[str, Reader] = {"register-log": _register_log, "edn": _edn, "jsonl": _jsonl}


OPERATIONS, OF_LOGS = "a file of operations on objects", "logjudge check judges what clients did to a log"
_OF_A_LOG = re.compile(r'"f":\s*"(send|poll|txn|assign|subscribe|seek|commit|handle|end_offsets)"')


def recognise(text: str, source: str) -> str:
    """The name of the format that the first line with anything on it is in."""
    start = text[:10_000].lstrip()
    first = start.split("\n", 1)[0]
    if "jepsen.util" in first or (first[:1] not in "{[#;(" and "jepsen.util" in start):
        return "register-log"
    inside = first[1:].lstrip()
    if first.startswith("{") and inside[:1] in ('"', "}"):
        # Only those of logs number their operations.
        if '"op":' in first and (found := _OF_A_LOG.search(first)):
            raise InputError(source, f"a history of a log ({found[1]})", OPERATIONS, OF_LOGS, line=1)
        return "jsonl"
    if first.startswith(("{", "[", "#", ";", "(")):
        return "edn"
    raise InputError(
        source,
        "nothing" if not first else repr(first[:60]),
        f"a history ({', '.join(OPERATION_READERS)})",
        "name its format with --from",
        line=1,
    )


def read_operations(path: str, format_name: str | None = None) -> History:
    """Read the history of operations in a file, in the format named or else recognised.

    Raises InputError for a file that cannot be read, and UsageError for a format that does not exist.
    """
    if format_name is not None and format_name not in OPERATION_READERS:
        raise UsageError(f"no format {format_name!r}; there are {', '.join(OPERATION_READERS)}")
    check_path(Path(path), OPERATIONS)
    if Path(path).is_dir():
        raise InputError(path, "a folder", OPERATIONS, OF_LOGS)
    try:
        data = whole(Path(path))
    except OSError as error:
        raise InputError(path, error.strerror or "a failure to read", OPERATIONS) from error
    except ValueError as error:
        raise InputError(path, str(error), "a whole compressed file") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(path, f"the byte 0x{data[error.start]:02x}", "UTF-8", line=line) from error
    del data
    name = format_name or recognise(text, path)
    return pair(OPERATION_READERS[name](text, path), path, name)
