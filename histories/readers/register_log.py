"""Reads the log of a register under Jepsen, as in Porcupine's test data of etcd.

A line is `INFO  jepsen.util - PROCESS  :invoke|:ok|:fail|:info  :read|:write|:cas  VALUE`. Lines of other loggers and
text before `jepsen.util`, such as a time, are ignored. A failed cas did not match, which is a result; a failed write
had no effect; a failed read has no result. A process that timed out (`:info`) is not used again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..errors import InputError
from ..tables import TYPES
from .contents import OPERATIONS
from .lines import BOM, first_line
from .operation_lines import OperationLine

NAME = "register-log"
CONTENT = OPERATIONS

_LINE = re.compile(r".*?\bjepsen\.util\s+-\s+(\S+)\s+:(\w+)\s+:(\S+)\s*(.*?)\s*")
_PAIR = re.compile(r"\[\s*(-?\d+|nil)[\s,]+(-?\d+|nil)\s*\]")
_NUMBER = re.compile(r"-?\d{1,4000}|nil")


def recognises(head: bytes) -> bool:
    """Whether the first lines have the logger jepsen.util; those before it may be of others."""
    start = head.removeprefix(BOM).lstrip()[:10_000]
    first = first_line(start)
    return b"jepsen.util" in first or (first[:1] not in (b"{", b"[", b"#", b";", b"(") and b"jepsen.util" in start)


def _number(text: str) -> int | None:
    return None if text == "nil" else int(text)


def _value(f: str, kind: str, text: str, source: str, line: int) -> Any:
    """The argument or the result of a line. The text of an error, such as :timed-out, is not a value."""
    if f == "cas" and (pair := _PAIR.fullmatch(text)):
        return _number(pair[1]), _number(pair[2])
    if kind in ("info", "fail"):
        return None
    if f == "cas" or not _NUMBER.fullmatch(text):
        expected = "a pair as [1 2]" if f == "cas" else "a whole number or nil"
        raise InputError(source, repr(text[:60]), expected, line=line)
    return _number(text)


def read(text: str, source: str) -> Iterator[OperationLine]:
    """The events of a log. Raises InputError for a malformed line."""
    for number, line in enumerate(text.split("\n"), 1):
        if "jepsen.util" not in line:
            continue
        match = _LINE.fullmatch(line)
        if not match:
            raise InputError(source, repr(line[:80]), "PROCESS :TYPE :FUNCTION VALUE", line=number)
        process, kind, f, rest = match.groups()
        if not process.isdecimal():
            yield OperationLine(number, None, kind, f, f"{process} {f} {rest}".strip())
            continue
        if kind not in TYPES or f not in ("read", "write", "cas"):
            expected = ":invoke, :ok, :fail or :info of :read, :write or :cas"
            raise InputError(source, f":{kind} :{f}", expected, line=number)
        value = _value(f, kind, rest, source, number)
        if f == "cas" and kind in ("ok", "fail") and value is not None:
            # A pair after :fail is a cas that did not match; a word is an error, not a result.
            yield OperationLine(number, int(process), "ok", f, value, result=kind == "ok")
        else:
            yield OperationLine(number, int(process), kind, f, value)
