"""Reads histories of general operations in JSON, one object a line.

Either events, `{"process": 1, "type": "invoke", "f": "write", "value": 3}` and later the same process with `ok`,
`fail` or `info` (and `"result"`, or the result in `"value"`), or complete operations, `{"process": 1, "f": "write",
"value": 3, "call": 0, "end": 10}` with `"result"`. Without `end`, or with null, the outcome is unknown. `"key"` is
the object where there are several. Each event may have a `"time"`; otherwise their order is the order of time.
`{"note": "text"}` and events of the process "nemesis" are annotations.
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
from .lines import first_line
from .operation_lines import OneLine, OperationLine

NAME = "jsonl"
CONTENT = OPERATIONS
_OBJECT = re.compile(rb'\{\s*["}]')
# Only histories of logs number their operations.
_OF_A_LOG = re.compile(rb'"f":\s*"(send|poll|txn|assign|subscribe|seek|commit|handle|end_offsets)"')
_BOOLEANS = {True: Word("true"), False: Word("false")}


def recognises(head: bytes) -> bool:
    """Whether the first line begins a JSON object and is no numbered operation on a log."""
    first = first_line(head)
    return bool(_OBJECT.match(first)) and not (b'"op":' in first and _OF_A_LOG.search(first))


def freeze(value: Any) -> Hashable:
    """A hashable value that is only equal to equal JSON: true is not 1."""
    if isinstance(value, bool):
        return _BOOLEANS[value]
    if isinstance(value, list):
        return tuple(map(freeze, value))
    if isinstance(value, dict):
        return FrozenMap((key, freeze(item)) for key, item in value.items())
    frozen: Hashable = value
    return frozen


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is not JSON")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object with the same key twice")
    return made


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object_without_duplicates)


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
        given = event["result"]
        result = given if f in ("cas", "contains") and isinstance(given, bool) else freeze(given)
    value, key, client = freeze(event.get("value")), freeze(event.get("key")), freeze(process)
    if "call" in event:
        # A complete operation gets its own process, as its client may have concurrent operations.
        own_process = OneLine()
        yield OperationLine(
            line, own_process, "invoke", f, value, key, time=_time(event, "call", source, line), client=client
        )
        if event.get("end") is not None:
            yield OperationLine(line, own_process, "ok", f, value, key, result, _time(event, "end", source, line))
        return
    kind = event.get("type")
    if kind not in TYPES:
        raise InputError(source, f"type {kind!r}", f"one of {', '.join(TYPES)}", line=line)
    if process is None:
        raise InputError(source, "an event without process", "its process", line=line)
    yield OperationLine(line, client, kind, f, value, key, result, time)


def _lines(text: str) -> Iterator[str]:
    """The lines, one by one: a list of all would take as much memory as the text."""
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def read(text: str, source: str) -> Iterator[OperationLine]:
    """The events of a history. Raises InputError for a malformed line."""
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
