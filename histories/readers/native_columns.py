"""Makes columns of the arrays that native_scan.py fills. Texts are Arrow string views, so only numbers are copied."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from .. import arrow
from ..tables import EVENTS, FUNCTIONS, TYPES, complete
from . import native_scan as scanned
from .json_tokens import COPIED, INLINE, LINE_FEED, OBJECT, Longs
from .native_scan import FIELDS, FLAGS, ITEM_WIDTH, LISTS, SLOTS, TEXTS, WIDTH

_RECORD_FIELDS = ("topic", "partition", "offset", "key", "value", "timestamp")
_STEP_FIELDS = ("f", *_RECORD_FIELDS)
_OFFSET_FIELDS = ("topic", "partition", "offset", "start")
_SMALL = {"partition": pa.int32()}


def _views(words: tuple[str, ...]) -> Longs:
    """Arrow's views of words of at most INLINE letters."""
    views = [len(word).to_bytes(4, "little") + word.encode().ljust(INLINE, b"\0") for word in words]
    return np.frombuffer(b"".join(views), np.int64).reshape(-1, 2)


_WORDS = {"type": _views(TYPES), "f": _views(FUNCTIONS)}


class OtherLine(NamedTuple):
    """A line that is not plain: its number and its bytes."""

    number: int
    text: bytes


def read(blob: bytes) -> tuple[pl.DataFrame, list[OtherLine]]:
    """EVENTS of the plain lines, and the other lines. `blob` has complete lines in UTF-8."""
    buf = np.frombuffer(blob, np.uint8)
    lines, braces = 1 + scanned.count(buf, LINE_FEED), 1 + scanned.count(buf, OBJECT)
    events, steps = _table(min(lines, braces), WIDTH), _table(braces, WIDTH)
    items = [_table(braces, ITEM_WIDTH) for _ in range(4)]
    ends, step_ends = _table(min(lines, braces), 4), _table(braces, 4)
    others, filled = np.empty((lines, 3), np.int64), np.zeros(scanned.COUNTERS, np.int64)
    texts, copied = np.empty(len(blob), np.uint8), np.zeros((COPIED + 1, 3), np.int64)
    tables = (events, *items, steps, ends, step_ends)
    rows, other_rows = scanned.scan(buf, tables, others, texts, copied, filled, filled.copy())
    long = pa.py_buffer(texts[: copied[COPIED, 0]].copy())
    names = (_RECORD_FIELDS, _OFFSET_FIELDS) * 2  # of events, then of steps
    lists = [_struct(_columns(table[: filled[n]], names[n], long)) for n, table in enumerate(items)]
    columns = _columns(events[:rows], [name for name in FIELDS if name in EVENTS], long)
    for number, name in enumerate(LISTS):
        columns[name] = arrow.lists(ends[:rows, 1 + number], lists[number], _has(events[:rows], name))
    transactions = _has(events[:rows], "ops")
    if transactions.any():
        struct = _steps(steps[: filled[scanned.STEPS]], step_ends, lists[len(LISTS) :], long)
        columns["ops"] = arrow.lists(ends[:rows, 3], struct, transactions)
    columns["line"] = arrow.numbers(ends[:rows, 0])
    frame = pl.DataFrame({name: pl.Series(name, column) for name, column in columns.items()})
    return (
        complete(frame, EVENTS).cast(EVENTS),  # type: ignore[arg-type]
        [OtherLine(int(number), blob[start:end]) for number, start, end in others[:other_rows]],
    )


def _table(rows: int, width: int) -> Longs:
    """An array that is filled by rows and read by columns, so each column is contiguous.

    It has at least two rows, as numba gives one row another type.
    """
    return np.empty((rows + 1, width), np.int64, order="F")


def _struct(columns: dict[str, pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _steps(table: Longs, ends: Longs, lists: list[pa.StructArray], long: pa.Buffer) -> pa.StructArray:
    columns = _columns(table, _STEP_FIELDS, long)
    for number, name in enumerate(LISTS):
        columns[name] = arrow.lists(ends[: len(table), 1 + number], lists[number], _has(table, name))
    return _struct(columns)


def _columns(table: Longs, names: list[str] | tuple[str, ...], long: pa.Buffer) -> dict[str, pa.Array]:
    """The columns of the fields. A field that no row has is all null."""
    in_any_row = int(np.bitwise_or.reduce(table[:, scanned.PRESENT])) if len(table) else 0
    return {name: _column(table, name, long, in_any_row) for name in names}


def _column(table: Longs, name: str, long: pa.Buffer, in_any_row: int) -> pa.Array:
    slot, bit = SLOTS[name], FIELDS.index(name)
    kind = pa.string_view() if name in TEXTS or name in _WORDS else pa.bool_() if name in FLAGS else pa.int64()
    kind = _SMALL.get(name, kind)
    if not in_any_row >> bit & 1:
        return pa.nulls(len(table), kind)
    has = table[:, scanned.PRESENT] & 1 << bit != 0
    if name in TEXTS:
        views = np.stack([table[:, slot] * has, table[:, slot + 1] * has], axis=1)  # empty texts where it has none
        return pa.Array.from_buffers(kind, len(table), [arrow.validity(has), pa.py_buffer(views), long])
    if name in _WORDS:
        views = _WORDS[name].take(table[:, slot] * has, axis=0)
        return pa.Array.from_buffers(kind, len(table), [arrow.validity(has), pa.py_buffer(views)])
    if name in FLAGS:
        return arrow.flags(table[:, slot] != 0, has)
    return arrow.numbers(table[:, slot].astype(np.int32 if name in _SMALL else np.int64), has)


def _has(table: Longs, name: str) -> npt.NDArray[np.bool_]:
    has: npt.NDArray[np.bool_] = table[:, scanned.PRESENT] & 1 << scanned.NAMES.index(name) != 0
    return has
