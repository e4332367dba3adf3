"""Reads general operations in EDN: Jepsen's history.edn, and the key-value histories of Porcupine's test data.

An event is a map with :process, :type, :f and :value. Where there are several objects it has :key, or each value is a
pair [key value], as Jepsen's `independent` writes them. Events of processes other than numbers (:nemesis) are
annotations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import intern
from typing import Any, NamedTuple

from ...models.operations import UNKNOWN
from ..errors import InputError
from ..tables import TYPES
from .contents import OPERATIONS
from .edn import EdnError, Word, forms
from .lines import first_line
from .operation_lines import OperationLine

NAME = "edn"
CONTENT = OPERATIONS
_FORM = re.compile(rb'\{(?!\s*["}])|[\[#;(]')  # a map that begins with a string is JSON
_OF_A_LOG = re.compile(rb"\[:(?:send|poll)\b")  # a step of the kafka workload
_PROCESS, _TYPE, _F, _VALUE = Word(":process"), Word(":type"), Word(":f"), Word(":value")
_KEY, _RESULT = Word(":key"), Word(":result")
_BOOLEANS = {Word("true"): True, Word("false"): False}


def recognises(head: bytes) -> bool:
    """Whether the text begins as EDN does, and its first line has no step on a log."""
    first = first_line(head)
    return bool(_FORM.match(first)) and not _OF_A_LOG.search(first)


def _name(event: dict[Any, Any], key: Word, source: str, line: int) -> str:
    """The name in a keyword or a string."""
    value = event.get(key)
    if isinstance(value, Word) and value.text.startswith(":"):
        return intern(value.text[1:])
    if isinstance(value, str):
        return value
    found = f"an event without {key}" if value is None else f"{key} {value!r}"
    raise InputError(source, found, f"{key} with a keyword", line=line)


def _event(line: int, event: Any, source: str) -> OperationLine:
    if not isinstance(event, dict):
        raise InputError(source, f"{event!r:.60}", "one map for each event", line=line)
    process = event.get(_PROCESS)
    f = _name(event, _F, source, line)
    value = event.get(_VALUE)
    if not isinstance(process, int):
        if process is None:
            raise InputError(source, "an event without :process", "its process", line=line)
        return OperationLine(line, None, "info", f, f"{process!r} {f} {value!r}".replace(":", ""))
    kind = _name(event, _TYPE, source, line)
    if kind not in TYPES:
        raise InputError(source, f":type :{kind}", "one of :invoke, :ok, :fail and :info", line=line)
    result = event.get(_RESULT, UNKNOWN)
    if f in ("cas", "contains"):
        result = _BOOLEANS.get(result, result)
    return OperationLine(line, process, kind, f, value, event.get(_KEY), result)


class PairCounts(NamedTuple):
    """What the invocations of a history, or of a part of it, show about pairs of a key and a register's value."""

    may_be_pairs: bool  # all values may be pairs
    reads: int  # with a pair

    @property
    def is_independent(self) -> bool:
        """Whether the values of the whole history have keys, as with Jepsen's `independent`."""
        return self.may_be_pairs and self.reads > 0


def counted_pairs(lines: list[OperationLine]) -> PairCounts:
    """The counts of a history, or of a part of it."""
    reads = 0
    for line in lines:
        if line.process is None or line.type != "invoke":
            continue
        pair = isinstance(line.value, tuple) and len(line.value) == 2
        if line.key is not None or not pair or line.f not in ("read", "write", "cas"):
            return PairCounts(False, reads)
        if line.f == "cas" and not (isinstance(line.value[1], tuple) and len(line.value[1]) == 2):
            return PairCounts(False, reads)
        if line.f == "read":
            if line.value[1] is not None:
                return PairCounts(False, reads)
            reads += 1
    return PairCounts(True, reads)


def _split_key(line: OperationLine, source: str) -> OperationLine:
    """The line with the key of its pair as key."""
    if line.process is None:
        return line
    if not (isinstance(line.value, tuple) and len(line.value) == 2):
        if line.type in ("info", "fail"):
            return line._replace(value=None)
        raise InputError(
            source, f"the value {line.value!r}", "a pair of key and value, as in the other lines", line=line.line
        )
    return line._replace(key=line.value[0], value=line.value[1])


def _forms(text: str, source: str) -> Iterator[tuple[int, Any]]:
    """The forms with their lines, also of a vector around all of them."""
    line, counted = 1, 0
    try:
        for position, form in forms(text, exact=True, unwrap=True):
            line += text.count("\n", counted, position)
            counted = position
            yield line, form
    except EdnError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(source, error.found, error.expected, line=line) from error


def events(text: str, source: str) -> list[OperationLine]:
    """The events of a history, or of a part of one, as they are written. Raises InputError for a malformed form."""
    return [_event(line, event, source) for line, event in _forms(text, source)]


def without_pairs(lines: list[OperationLine], source: str, is_independent: bool) -> Iterator[OperationLine]:
    """The events with the keys of their values' pairs, if these have keys. Raises InputError for other values."""
    for line in lines:
        if is_independent:
            line = _split_key(line, source)
        elif line.f == "get" and line.type == "invoke":  # its argument is an empty string in some histories
            line = line._replace(value=None)
        yield line


def read(text: str, source: str) -> Iterator[OperationLine]:
    """The events of a history. Raises InputError for a malformed form."""
    lines = events(text, source)
    return without_pairs(lines, source, counted_pairs(lines).is_independent)
