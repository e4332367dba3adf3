"""What `native_scan` filled, as columns: texts are Arrow string views, so nothing is copied but numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from .. import arrow
from ..tables import EVENTS, FUNCTIONS, TYPES, complete
from . import native_scan as scanned
from .json_tokens import COPIED, INLINE, Longs
from .native_scan import FIELDS, FLAGS, ITEM_WIDTH, LISTS, SLOTS, TEXTS, WIDTH

_RECORD_FIELDS = ("topic", "partition", "offset", "key", "value", "timestamp")
_STEP_FIELDS = ("f", *_RECORD_FIELDS)
_OFFSET_FIELDS = ("topic", "partition", "offset", "start")
_SMALL = {"partition": pa.int32()}


def _views(words: tuple[str, ...]) -> Longs:
    """Arrow's views of words of at most twelve letters."""
    views = [len(word).to_bytes(4, "little") + word.encode().ljust(INLINE, b"\0") for word in words]
    return np.frombuffer(b"".join(views), np.int64).reshape(-1, 2)


_WORDS = {"type": _views(TYPES), "f": _views(FUNCTIONS)}


class Other(NamedTuple):
    """A line that the scan left: its number and its bytes."""

    number: int
    text: bytes


def read(blob: bytes) -> tuple[pl.DataFrame, list[Other]]:
    """The plain events of whole lines (columns of EVENTS), and the lines that are none. `blob` is UTF-8."""
    buf = np.frombuffer(blob, np.uint8)
    lines, braces = 1 + scanned.count(buf, 10), 1 + scanned.count(buf, 123)
    events, steps = _table(min(lines, braces), WIDTH), _table(braces, WIDTH)
    items = [_table(braces, ITEM_WIDTH) for _ in range(4)]
    ends, step_ends = _table(min(lines, braces), 4), _table(braces, 4)
    others, filled = np.empty((lines, 3), np.int64), np.zeros(scanned.COUNTED, np.int64)
    texts, copied = np.empty(len(blob), np.uint8), np.zeros((COPIED + 1, 3), np.int64)
    tables = (events, *items, steps, ends, step_ends)
    rows, left = scanned.scan(buf, tables, others, texts, copied, filled)
    long = pa.py_buffer(texts[: copied[COPIED, 0]].copy())
    lists = [_struct(table[:count], names, long) for table, count, names in _item_lists(items, filled)]
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
        [Other(int(number), blob[start:end]) for number, start, end in others[:left]],
    )


def _table(rows: int, width: int) -> Longs:
    """Filled row by row and read column by column: each column is one piece of memory. Two rows at least, as one row
    is of another type to numba."""
    return np.empty((rows + 1, width), np.int64, order="F")


def _item_lists(items: list[Longs], filled: Longs) -> list[tuple[Longs, int, tuple[str, ...]]]:
    names = (_RECORD_FIELDS, _OFFSET_FIELDS) * 2
    return [(table, int(filled[number]), names[number]) for number, table in enumerate(items)]


def _struct(table: Longs, names: tuple[str, ...], long: pa.Buffer) -> pa.StructArray:
    columns = _columns(table, names, long)
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _steps(table: Longs, ends: Longs, lists: list[pa.StructArray], long: pa.Buffer) -> pa.StructArray:
    columns = _columns(table, _STEP_FIELDS, long)
    for number, name in enumerate(LISTS):
        columns[name] = arrow.lists(ends[: len(table), 1 + number], lists[number], _has(table, name))
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _columns(table: Longs, names: list[str] | tuple[str, ...], long: pa.Buffer) -> dict[str, pa.Array]:
    """The fields of the rows. Those that no row has are all null."""
    anywhere = int(np.bitwise_or.reduce(table[:, scanned.PRESENT])) if len(table) else 0
    return {name: _column(table, name, long, anywhere) for name in names}


def _column(table: Longs, name: str, long: pa.Buffer, anywhere: int) -> pa.Array:
    slot, bit = SLOTS[name], FIELDS.index(name)
    kind = pa.string_view() if name in TEXTS or name in _WORDS else pa.bool_() if name in FLAGS else pa.int64()
    kind = _SMALL.get(name, kind)
    if not anywhere >> bit & 1:
        return pa.nulls(len(table), kind)
    has = (table[:, scanned.PRESENT] >> bit & 1).astype(bool)
    if name in TEXTS:
        views = np.zeros((len(table), 2), np.int64)
        np.copyto(views, table[:, slot : slot + 2], where=has[:, None])
        return pa.Array.from_buffers(kind, len(table), [arrow.validity(has), pa.py_buffer(views), long])
    if name in _WORDS:
        views = _WORDS[name][np.where(has, table[:, slot], 0)]
        return pa.Array.from_buffers(kind, len(table), [arrow.validity(has), pa.py_buffer(views)])
    if name in FLAGS:
        return arrow.flags(table[:, slot] != 0, has)
    return arrow.numbers(table[:, slot].astype(np.int32 if name in _SMALL else np.int64), has)


def _has(table: Longs, name: str) -> npt.NDArray[np.bool_]:
    return (table[:, scanned.PRESENT] >> scanned.NAMES.index(name) & 1).astype(bool)
