"""Operations and judgements as bytes, for tasks on other machines: JSON, as reading it runs no code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import zstandard

from ...histories.operation_history import History, Paired
from ...histories.readers.edn import FrozenMap, Word
from ...models.operations import UNKNOWN, Action, Model, Operation
from ...models.porcupine import Part, Result
from .linearize import Judgement
from .minimal import Minimal

MAX_SENT = 100_000  # operations of one object that are sent for a picture; of a larger object CLOSEST
CLOSEST = 5_000
_SENT = ("verdict", "completed", "placed", "configurations", "reason", "method")  # fields of a Part


def pack(value: Any) -> bytes:
    """JSON values, with values of actions and processes among them, as bytes."""
    return zstandard.ZstdCompressor(1).compress(json.dumps(value, default=_encode).encode())


def unpack(payload: bytes) -> Any:
    """What `pack` was given, with lists for tuples; `decode` restores the values of actions."""
    return json.loads(zstandard.ZstdDecompressor().decompress(payload))


def _encode(value: Any) -> Any:
    """A value that JSON does not have."""
    if value is UNKNOWN:
        return {"unknown": True}
    if isinstance(value, FrozenMap):
        return {"map": [[key, item] for key, item in value]}
    if isinstance(value, frozenset):
        return {"set": list(value)}
    return {"word": value.text if isinstance(value, Word) else repr(value)}


def decode(value: Any) -> Any:
    """The value of an action that `pack` was given."""
    if isinstance(value, list):
        return tuple(map(decode, value))
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "unknown":
        return UNKNOWN
    if kind == "word":
        return Word(content)
    items = map(decode, content)
    return FrozenMap(items) if kind == "map" else frozenset(items)


def hash_of(value: Any) -> int:
    """A hash that is the same on all machines; equal values have equal hashes. 0 for values that no reader makes."""
    if isinstance(value, str | Word):
        return crc32(str(value).encode("utf-8", "surrogatepass"))
    if value is None or isinstance(value, int | float):
        return crc32(b"%d" % hash(value or 0))
    if isinstance(value, tuple):
        return crc32(b"".join(hash_of(item).to_bytes(4) for item in value))
    return sum(map(hash_of, value)) & 0xFFFFFFFF if isinstance(value, frozenset) else 0


def row_of(paired: Paired) -> tuple[Any, ...]:
    """An operation as a row."""
    order, line, operation = paired
    return order, line, *operation.action, operation.call, operation.end, operation.process


def paired_of(
    rows: Iterable[Sequence[Any]], orders: int = 0, lines: int = 0, has_times: bool = True
) -> Iterator[Paired]:
    """The operations of rows, after so many events and lines; without times the order of the events is their time."""
    for order, line, f, value, result, key, call, end, process in rows:
        action = Action(f, decode(value), decode(result), decode(key))
        if not has_times:
            call, end = call + orders, None if end is None else end + orders
        yield Paired(order + orders, line + lines, Operation(action, call, end, decode(process)))


def judgement_record(judgement: Judgement, minimal: Minimal | None, is_for_picture: bool) -> dict[str, Any]:
    """What is shown of a judgement: of its operations only the evidence, or those that a picture needs."""
    history, part = judgement.history, judgement.part
    assert part is not None
    chosen = {*part.witness, *({part.blocked} - {None}), *(minimal.operations if minimal else ())}
    is_whole = is_for_picture and len(part.operations) <= MAX_SENT
    if is_for_picture:
        calls = {i: history.operations[i].call for i in part.operations}
        last = max((calls[i] for i in chosen), default=float("inf"))
        earlier = sorted((i for i in part.operations if calls[i] <= last), key=calls.__getitem__)
        chosen |= set(part.operations if is_whole else earlier[-CLOSEST:])
    number = {index: place for place, index in enumerate(sorted(chosen))}
    fields = {name: getattr(part, name) for name in _SENT} | {
        "operations": [number[i] for i in part.operations if i in number],
        "others": len(part.operations) - len(number),
        "witness": [number[i] for i in part.witness],
        "blocked": None if part.blocked is None else number[part.blocked],
        "linearizations": [[number[i] for i in path] for path in part.linearizations] if is_whole else [],
    }
    return {
        "part": fields,
        "key": part.key,
        "states": [Word(judgement.model.describe_state(state)) for state in part.states],
        "rows": [row_of(Paired(i, history.lines[i], history.operations[i])) for i in number],
        "others": history.others + len(history.operations) - len(number),
        "minimal": minimal and ([number[i] for i in minimal.operations], len(minimal.before)),
    }


def judgement_of(sent: dict[str, Any], model: Model[Any], empty: History, seconds: float) -> Judgement:
    """The judgement in a `judgement_record`, as far as it was sent; `empty` is its history without operations."""
    paired = list(paired_of(sent["rows"]))
    operations, lines = [each.operation for each in paired], [each.line for each in paired]
    part = Part(key=decode(sent["key"]), states=[decode(state) for state in sent["states"]], **sent["part"])
    history = replace(empty, operations=operations, lines=lines, others=sent["others"])
    return Judgement(model, history, Result(part.verdict, seconds, [part]))


def minimal_of(sent: dict[str, Any]) -> Minimal | None:
    """The minimal failure in a `judgement_record`; of the operations before it, their number is sent."""
    if sent["minimal"] is None:
        return None
    operations, before = sent["minimal"]
    return Minimal(operations, list(range(before)))
