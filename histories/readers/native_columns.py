"""Makes columns of the arrays that native_scan.py fills. Texts are Arrow string views, so only numbers are copied."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from ...models.arrays import Bytes, Ints, Mask
from .. import arrow
from ..files import count
from ..tables import EVENTS, FUNCTIONS, POSITION, RECORD, TYPES, complete
from . import native_scan as scanned
from .json_tokens import COPIED, INLINE, PADDING, text_of
from .native_scan import FIELDS, FLAG, FUNCTION, INTEGER, ITEM_WIDTH, LISTS, NAMES, SLOTS, TEXT, TYPE, WIDTH

_ARROW = {INTEGER: pa.int64(), FLAG: pa.bool_(), **dict.fromkeys((TEXT, TYPE, FUNCTION), pa.string_view())}
_SMALL = {"partition": pa.int32()}


def _views(words: tuple[str, ...]) -> Ints:
    """Arrow's views of words of at most INLINE letters."""
    views = [len(word).to_bytes(4, "little") + word.encode().ljust(INLINE, b"\0") for word in words]
    return np.frombuffer(b"".join(views), np.int64).reshape(-1, 2)


_WORDS = {TYPE: _views(TYPES), FUNCTION: _views(FUNCTIONS)}


class OtherLine(NamedTuple):
    """A line that is not plain: its number and its bytes."""

    number: int
    text: bytes


def read(blob: bytes) -> tuple[pl.DataFrame, list[OtherLine]]:
    """EVENTS of the plain lines, and the other lines. `blob` has complete lines in UTF-8."""
    lines, objects = 1 + count(blob, b"\n"), 1 + count(blob, b"{")
    first, second, third, fourth = (_memory.table(f"items {number}", objects, ITEM_WIDTH) for number in range(4))
    out = scanned.Output(
        events=_memory.table("events", min(lines, objects), WIDTH),
        steps=_memory.table("steps", objects, WIDTH),
        items=(first, second, third, fourth),
        filled=np.zeros(scanned.TABLES, np.int64),
        long=_memory.bytes("long", len(blob)),
        copied=np.zeros((COPIED + 1, 3), np.int64),
    )
    text = text_of(blob, _memory.bytes("text", len(blob) + PADDING))
    others = _memory.table("others", lines, 3)
    rows, other_rows = scanned.scan(text, len(blob), out, others, out.filled.copy())
    long = pa.py_buffer(out.long[: out.copied[COPIED, 0]].copy())
    names = (RECORD, POSITION) * 2  # of events, then of steps
    lists = [_struct(_columns(table[: out.filled[n]], names[n], long)) for n, table in enumerate(out.items)]
    events = out.events[:rows]
    columns = _columns(events, [name for name in FIELDS if name in EVENTS], long) | _lists(events, LISTS, lists)
    if _has(events, "ops").any():
        table = out.steps[: out.filled[scanned.STEPS]]
        steps = _struct(_columns(table, ["f", *RECORD], long) | _lists(table, LISTS, lists[len(LISTS) :]))
        columns |= _lists(events, ("ops",), [steps])
    columns["line"] = arrow.numbers(events[:, SLOTS["line"]].copy())
    frame = pl.DataFrame({name: pl.Series(name, column) for name, column in columns.items()})
    return (
        complete(frame, EVENTS).cast(EVENTS),  # type: ignore[arg-type]
        [OtherLine(int(number), blob[start:end]) for number, start, end in others[:other_rows]],
    )


MAX_REUSED = 16 << 20  # numbers in an array; only blocks with huge lines need larger ones


class _Memory(threading.local):
    """What this thread used for its last block, by purpose. New memory would cost half as much time as the scan."""

    def __init__(self) -> None:
        self.used: dict[str, Ints] = {}

    def numbers(self, purpose: str, size: int) -> Ints:
        """An array of at least this size, valid until the next block."""
        if size > MAX_REUSED:
            return np.empty(size, np.int64)
        if len(self.used.get(purpose, ())) < size:
            self.used[purpose] = np.empty(size, np.int64)
        return self.used[purpose]

    def bytes(self, purpose: str, size: int) -> Bytes:
        """Likewise, of bytes."""
        return self.numbers(purpose, size // 8 + 1).view(np.uint8)

    def table(self, purpose: str, rows: int, width: int) -> Ints:
        """A table that is filled by rows and read by columns, so each column is contiguous.

        It has at least two rows, as numba gives one row another type.
        """
        shape = rows + 1, width
        return self.numbers(purpose, math.prod(shape))[: math.prod(shape)].reshape(shape, order="F")


_memory = _Memory()


def _struct(columns: dict[str, pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _lists(table: Ints, names: tuple[str, ...], items: list[pa.StructArray]) -> dict[str, pa.Array]:
    """The columns of lists, each of its items."""
    return {
        name: arrow.lists(table[:, SLOTS[name]], item, _has(table, name))
        for name, item in zip(names, items, strict=False)
    }


def _columns(table: Ints, names: Iterable[str], long: pa.Buffer) -> dict[str, pa.Array]:
    """The columns of the fields. A field that no row has is all null."""
    in_any_row = int(np.bitwise_or.reduce(table[:, scanned.PRESENT])) if len(table) else 0
    return {
        name: _column(table, name, long)
        if in_any_row >> NAMES.index(name) & 1
        else pa.nulls(len(table), _SMALL.get(name, _ARROW[FIELDS[name]]))
        for name in names
    }


def _column(table: Ints, name: str, long: pa.Buffer) -> pa.Array:
    kind, slot, has = FIELDS[name], SLOTS[name], _has(table, name)
    if kind == FLAG:
        return arrow.flags(table[:, slot] != 0, has)
    if kind == INTEGER:
        return arrow.numbers(table[:, slot].astype(np.int32 if name in _SMALL else np.int64), has)
    if kind == TEXT:
        views = np.stack([table[:, slot] * has, table[:, slot + 1] * has], axis=1)  # empty texts where it has none
    else:
        views = _WORDS[kind].take(table[:, slot] * has, axis=0)
    buffers = [arrow.validity(has), pa.py_buffer(views), *([long] if kind == TEXT else [])]
    return pa.Array.from_buffers(_ARROW[kind], len(table), buffers)


def _has(table: Ints, name: str) -> Mask:
    has: Mask = table[:, scanned.PRESENT] & 1 << NAMES.index(name) != 0
    return has
