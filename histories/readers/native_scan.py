"""Compiled loops over the bytes of native JSON lines. They fill arrays, several times faster than a parser.

A history of ten million operations has gigabytes of short lines. One core reads 85 MB/s with polars, 74 MB/s with
pyarrow.json, 104 MB/s with orjson without columns, and about 300 MB/s with these loops. They only read plain lines
with the fields of the format. native.py reads all other lines with polars: those with an escape, a fraction, a
duplicate field, an item without offset, or anything else that is unexpected. So the loops are strict and need no
error messages.

The functions take a text (json_tokens.py) and a position `i`. They return the position after what they read, or -1
where the line is not plain.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ...models.arrays import Bytes, Ints
from ...models.compiled import compiled_inner_without_refcounts, compiled_into_callers, compiled_without_refcounts
from ..tables import FUNCTIONS, TYPES
from .json_tokens import (
    LINE_FEED,
    LIST,
    LIST_END,
    MINUS,
    NINE,
    NULL,
    OBJECT,
    OBJECT_END,
    QUOTE,
    TRUE,
    ZERO,
    after_value,
    byte_at,
    close_quote,
    integer,
    key_at,
    literal_end,
    skip_blanks,
    text_view,
    word_at,
    word_table,
)

INTEGER, TEXT, FLAG, TYPE, FUNCTION, IGNORED = range(6)
# The fields with one value, and its kind. The first seven are also those of list items.
FIELDS = dict.fromkeys(("partition", "offset", "start", "timestamp"), INTEGER)
FIELDS |= dict.fromkeys(("topic", "key", "value"), TEXT)
N_ITEM_FIELDS = len(FIELDS)
FIELDS |= {"time": INTEGER, "op": INTEGER, "process": TEXT, "acks": TEXT, "reason": TEXT, "error": TEXT}
FIELDS |= {"type": TYPE, "f": FUNCTION, "group": FLAG, "revoked": FLAG, "auto": FLAG}
N_FIELDS = len(FIELDS)
LISTS = ("records", "offsets")  # of an event or of a step of a transaction
# A name's index here is the field's number. Lines with a field after ops are not plain.
NAMES = (*FIELDS, *LISTS, "ops", "topics", "fault", "member", "generation", "assignment")
OPS = NAMES.index("ops")

# A row of a table has 64-bit slots: two sets of fields (bit masks by number), then the fields. A text takes two slots,
# an Arrow string view. A list takes the number of rows of its table that are filled after it.
PRESENT, SEEN = 0, 1  # the fields that are not null; the fields that the object has
_widths = (2 if FIELDS.get(name) == TEXT else 1 for name in NAMES[: OPS + 1])
SLOTS = dict(zip((*NAMES[: OPS + 1], "line"), accumulate(_widths, initial=2), strict=True))
WIDTH, ITEM_WIDTH = SLOTS["line"] + 1, SLOTS["time"]
_SLOT_OF = np.array([*SLOTS.values()])
_KIND_OF = np.array([*FIELDS.values(), IGNORED])  # the last is that of field -1
_NAMES, _TYPES, _FUNCTIONS = (word_table(words) for words in (NAMES, TYPES, FUNCTIONS))


def _bits(*names: str) -> int:
    return sum(1 << NAMES.index(name) for name in names)


NEEDED = _bits("time", "process", "op", "type", "f")
NEEDED_BY_ITEM = (_bits("topic", "partition", "offset"), _bits("topic", "partition"))  # of records, of offsets
HAS_F, HAS_TOPIC, HAS_PARTITION, HAS_OFFSET = map(_bits, ("f", "topic", "partition", "offset"))
F_SLOT, PARTITION_SLOT, OFFSET_SLOT = SLOTS["f"], SLOTS["partition"], SLOTS["offset"]
RECORDS_SLOT, OFFSETS_SLOT, OPS_SLOT, LINE_SLOT = (SLOTS[name] for name in (*LISTS, "ops", "line"))
SEND = FUNCTIONS.index("send")
# The numbers of tables: records and offsets of events, records and offsets of steps, steps.
OF_EVENTS, OF_STEPS, STEPS = 0, 2, 4
TABLES = 5


class Output(NamedTuple):
    """The arrays that the loops fill."""

    events: Ints  # rows of WIDTH slots
    steps: Ints
    items: tuple[Ints, Ints, Ints, Ints]  # rows of ITEM_WIDTH slots
    filled: Ints  # by number of a table: its rows that are filled
    long: Bytes  # texts that do not fit into a view
    copied: Ints  # a cache of `long`


@compiled_into_callers
def read_scalar(text: Ints, i: int, field: int, table: Ints, row: int, long: Bytes, copied: Ints) -> int:
    """Reads a string, number or literal into the slots of a field (-1: none)."""
    c, kind, start = byte_at(text, i), _KIND_OF[field], i
    value: Any = np.int64(0)
    if c == QUOTE:
        start += 1
        if kind >= TYPE and kind <= FUNCTION:
            value, stop = word_at(text, start, _TYPES if kind == TYPE else _FUNCTIONS)
            stop = stop if value >= 0 else -1
        else:
            stop = close_quote(text, start)
        after, fits = stop + 1, (kind != INTEGER) & (kind != FLAG)
    elif c == MINUS or ZERO <= c <= NINE:
        value, stop = integer(text, i)
        after, fits = stop, kind <= TEXT
    else:
        stop = literal_end(text, i)
        if c == NULL & 255:
            return stop
        value = np.int64(c == TRUE & 255)
        after, fits = stop, kind == FLAG
    if stop < 0 or not (fits or kind == IGNORED):
        return -1
    if kind == IGNORED:
        return after
    if kind == TEXT:
        text_view(text, start, stop, table, row, _SLOT_OF[field], long, copied)
    else:
        table[row, _SLOT_OF[field]] = value
    table[row, PRESENT] |= 1 << field
    return after


@compiled_inner_without_refcounts
def is_out_of_range(table: Ints, row: int) -> bool:
    """Whether the partition or the offset of a row is negative or too large."""
    present = table[row, PRESENT]
    if present & HAS_PARTITION and not 0 <= table[row, PARTITION_SLOT] < 1 << 31:
        return True
    return bool(present & HAS_OFFSET != 0 and table[row, OFFSET_SLOT] < 0)


@compiled_inner_without_refcounts
def read_item(text: Ints, i: int, table: Ints, row: int, long: Bytes, copied: Ints) -> int:
    """Reads an item into a row; i is the position after its opening brace. It has scalars only."""
    table[row, PRESENT] = 0
    seen = 0
    while True:
        field, i = key_at(text, i, _NAMES)
        if i < 0 or (field >= 0 and seen >> field & 1):
            return -1
        if field >= 0:
            seen |= 1 << field
        i = read_scalar(text, i, field if field < N_ITEM_FIELDS else -1, table, row, long, copied)
        i, closed = after_value(text, i, OBJECT_END)
        if i < 0 or closed:
            return i


@compiled_inner_without_refcounts
def read_items(text: Ints, i: int, number: int, out: Output) -> int:
    """Reads the list at i into the table of items with this number."""
    table, needed = out.items[number], NEEDED_BY_ITEM[number & 1]
    i = skip_blanks(text, i + 1)
    if byte_at(text, i) == LIST_END:
        return i + 1
    while byte_at(text, i) == OBJECT:
        row = out.filled[number]
        i = read_item(text, i + 1, table, row, out.long, out.copied)
        if i < 0 or table[row, PRESENT] & needed != needed or is_out_of_range(table, row):
            return -1
        out.filled[number] = row + 1
        i, closed = after_value(text, i, LIST_END)
        if i < 0 or closed:
            return i
        i = skip_blanks(text, i)
    return -1


@compiled_inner_without_refcounts
def read_fields(text: Ints, i: int, table: Ints, row: int, first_table: int, out: Output) -> tuple[int, bool]:
    """Reads the fields of an event or a step from i on. `first_table` is the number of the table of its records.

    Returns a position and True at the end of the object, or False where the list of its steps begins.
    """
    while True:
        field, i = key_at(text, i, _NAMES)
        if i < 0 or field > OPS or (field >= 0 and table[row, SEEN] >> field & 1):
            return -1, False
        if field >= 0:
            table[row, SEEN] |= 1 << field
        if field < N_FIELDS:
            i = read_scalar(text, i, field, table, row, out.long, out.copied)
        elif byte_at(text, i) == NULL & 255:
            i = literal_end(text, i)
        elif byte_at(text, i) != LIST:
            return -1, False
        else:
            table[row, PRESENT] |= 1 << field
            if field == OPS:
                return i, False
            i = read_items(text, i, first_table + field - N_FIELDS, out)
        i, closed = after_value(text, i, OBJECT_END)
        if i < 0 or closed:
            return i, closed


@compiled_inner_without_refcounts
def read_steps(text: Ints, i: int, out: Output) -> int:
    """Reads the steps of a transaction, whose list is at i, one row for each."""
    table, filled = out.steps, out.filled
    i = skip_blanks(text, i + 1)
    if byte_at(text, i) == LIST_END:
        return i + 1
    while byte_at(text, i) == OBJECT:
        row = filled[STEPS]
        table[row, PRESENT] = table[row, SEEN] = 0
        i, closed = read_fields(text, i + 1, table, row, OF_STEPS, out)
        if i < 0 or not closed or table[row, PRESENT] & HAS_F == 0 or is_out_of_range(table, row):
            return -1
        table[row, RECORDS_SLOT], table[row, OFFSETS_SLOT] = filled[OF_STEPS], filled[OF_STEPS + 1]
        filled[STEPS] = row + 1
        i, closed = after_value(text, i, LIST_END)
        if i < 0 or closed:
            return i
        i = skip_blanks(text, i)
    return -1


@compiled_inner_without_refcounts
def read_event(text: Ints, i: int, row: int, out: Output) -> int:
    """Reads an event into a row; i is the position after its opening brace. Returns the end of the line, or -1."""
    table = out.events
    table[row, PRESENT] = table[row, SEEN] = 0
    closed = False
    while not closed:
        i, closed = read_fields(text, i, table, row, OF_EVENTS, out)
        if i >= 0 and not closed:
            i, closed = after_value(text, read_steps(text, i, out), OBJECT_END)
        if i < 0:
            return -1
    i, present = skip_blanks(text, i), table[row, PRESENT]
    if byte_at(text, i) != LINE_FEED or present & NEEDED != NEEDED or is_out_of_range(table, row):
        return -1
    return i if table[row, F_SLOT] != SEND or present & HAS_TOPIC != 0 else -1


@compiled_inner_without_refcounts
def line_end(text: Ints, i: int) -> int:
    """The first line feed from i on."""
    while byte_at(text, i) != LINE_FEED:
        i += 1
    return i


@compiled_without_refcounts
def scan(text: Ints, size: int, out: Output, others: Ints, before: Ints) -> tuple[int, int]:
    """Reads all lines of a text of this size. Returns the numbers of plain lines and of others.

    others: number, start and end of each line that is not plain. before: scratch space, `filled` before a line.
    """
    filled = out.filled
    i, number, row, other = 0, 0, 0, 0
    while i < size:
        start = end = skip_blanks(text, i)
        if byte_at(text, start) != LINE_FEED:
            for k in range(TABLES):
                before[k] = filled[k]
            end = read_event(text, start + 1, row, out) if byte_at(text, start) == OBJECT else -1
            if end >= 0:
                out.events[row, RECORDS_SLOT], out.events[row, OFFSETS_SLOT] = filled[OF_EVENTS], filled[OF_EVENTS + 1]
                out.events[row, OPS_SLOT], out.events[row, LINE_SLOT] = filled[STEPS], number
                row += 1
            else:
                for k in range(TABLES):
                    filled[k] = before[k]
                end = line_end(text, start)
                others[other, 0], others[other, 1], others[other, 2] = number, i, end
                other += 1
        i = end + 1
        number += 1
    return row, other
