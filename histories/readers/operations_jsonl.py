"""Histories of operations in JSON, an object a line.

Either events, `{"process": 1, "type": "invoke", "f": "write", "value": 3}` and later the same process with
`ok`, `fail` or `info` (and `"result"`, or the answer in `"value"`), or whole operations, `{"process": 1,
"f": "write", "value": 3, "call": 0, "end": 10}` with `"result"`, where an `end` of null or none at all means
that the outcome is unknown. `"key"` names the object where there are several. `"time"` may give the time of
every event; otherwise their order is the order of time. `{"note": "text"}` and events of the process
"nemesis" are annotations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator
from typing import Any, NoReturn

from ...models.operations import UNKNOWN
from ..errors import InputError
from ..tables import TYPES
from .contents import OPERATIONS
from .edn import FrozenMap, Word
from .operation_lines import OperationLine

NAME = "jsonl"
CONTENT = OPERATIONS
_OBJECT = re.compile(rb'\{\s*["}]')
# Only histories of logs number their operations.
_OF_A_LOG = re.compile(rb'"f":\s*"(send|poll|txn|assign|subscribe|seek|commit|handle|end_offsets)"')
_BOOLEANS = {True: Word("true"), False: Word("false")}


def recognises(head: bytes) -> bool:
    """Whether the first line begins a JSON object and is no numbered operation on a log."""
    first = head.removeprefix(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
    return bool(_OBJECT.match(first)) and not (b'"op":' in first and _OF_A_LOG.search(first))


def freeze(value: Any) -> Hashable:
    """A value of JSON as one that can be hashed and equals nothing that JSON tells apart: true is not 1."""
    if isinstance(value, bool):
        return _BOOLEANS[value]
    if isinstance(value, list):
        return tuple(map(freeze, value))
    if isinstance(value, dict):
        return FrozenMap((key, freeze(item)) for key, item in value.items())
    frozen: Hashable = value
    return frozen


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object with the same key twice")
    return made


_DECODER = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_no_duplicates)


def _time(event: dict[str, Any], key: str, source: str, line: int) -> float:
    time = event[key]
    if isinstance(time, bool) or not isinstance(time, int | float):
        raise InputError(source, f"{key} {time!r}", "a number", line=line)
    return time


def _events(line: int, event: dict[str, Any], source: str) -> Iterator[OperationLine]:
    if "note" in event:
        yield OperationLine(line, None, "info", "note", event["note"], time=event.get("time"))
        return
    f = event.get("f")
    if not isinstance(f, str):
        raise InputError(source, f"f {f!r}" if "f" in event else "an event without f", "f with a name", line=line)
    process = event.get("process")
    time = _time(event, "time", source, line) if "time" in event else None
    if process == "nemesis":
        yield OperationLine(line, None, "info", f, f"nemesis {f} {event.get('value') or ''}".strip(), time=time)
        return
    result: Hashable = UNKNOWN
    if "result" in event:
        asked = event["result"]
        result = asked if f in ("cas", "contains") and isinstance(asked, bool) else freeze(asked)
    value, key, by = freeze(event.get("value")), freeze(event.get("key")), freeze(process)
    if "call" in event:
        # A whole operation is a process of its own here: its client may have several under way.
        alone = ("operation", line, by)
        yield OperationLine(line, alone, "invoke", f, value, key, time=_time(event, "call", source, line), client=by)
        if event.get("end") is not None:
            yield OperationLine(line, alone, "ok", f, value, key, result, _time(event, "end", source, line))
        return
    kind = event.get("type")
    if kind not in TYPES:
        raise InputError(source, f"type {kind!r}", f"one of {', '.join(TYPES)}", line=line)
    if process is None:
        raise InputError(source, "an event without process", "one with it", line=line)
    yield OperationLine(line, by, kind, f, value, key, result, time)


def _lines(text: str) -> Iterator[str]:
    """The lines one by one: all of a large file at once would take as much again."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def read(text: str, source: str) -> Iterator[OperationLine]:
    """The events of a history."""
    for number, line in enumerate(_lines(text), 1):
        if not line.strip():
            continue
        try:
            event = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            found = "too deep a nesting" if isinstance(error, RecursionError) else f"{error}"
            raise InputError(source, f"{found} in {line[:60]!r}", "one JSON object a line", line=number) from error
        if not isinstance(event, dict):
            raise InputError(source, f"{line[:60]!r}", "one JSON object a line", line=number)
        yield from _events(number, event, source)
