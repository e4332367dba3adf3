"""Loops over the bytes of a segment: walk headers, check CRCs, decode records.

aiokafka's parser makes a Python object for each record, at about a microsecond with its fields. These loops fill
arrays. Layouts are those of Kafka's DefaultRecordBatch (v2) and LegacyRecord (v0, v1). Nothing raises: a status and a
position report bytes that cannot be decoded.

Each loop is written once, in the part of Python that numba compiles. A byte is never shifted: the result would be
unsigned, and sums with it floats. Loading the compiled loops takes half a second, and compiling them on a new machine
20 seconds, so the loops run uncompiled on the first bytes of a process.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from .batch_layout import (
    ATTRIBUTES,
    BAD_LENGTH,
    BAD_MAGIC,
    BASE,
    BASE_TIMESTAMP,
    BYTE,
    COUNT,
    CRC2,
    EPOCH,
    LAST,
    MAGIC,
    MAX_TIMESTAMP,
    MIN_LEGACY_LENGTH,
    OK,
    PRODUCER,
    PRODUCER_EPOCH,
    SEQUENCE,
    SIZE,
    TORN,
    V2_OVERHEAD,
    ZEROS,
    Bytes,
)  # fmt: skip

# Bytes that loops of this process read before it loads the compiled ones. Four loops read each segment.
COMPILED_FROM = 10 << 20
MAX, MIN = (1 << 63) - 1, -(1 << 63)
FNV_PRIME, FNV_BASIS = 0x100000001B3, 0xCBF29CE484222325 - (1 << 64)
BITS = (1 << 64) - 1  # of a product that are kept: Python's integers do not overflow. Compiled: all (-1)


def crc(table: Any, buf: Any, start: int, end: int) -> int:
    """The CRC of the bytes from start to end, by one of the tables."""
    c = 0xFFFFFFFF
    i = start
    while i + 8 <= end:
        a = c ^ (buf[i] + buf[i + 1] * 0x100 + buf[i + 2] * 0x10000 + buf[i + 3] * 0x1000000)
        c = (
            table[1792 + (a & 0xFF)]
            ^ table[1536 + ((a >> 8) & 0xFF)]
            ^ table[1280 + ((a >> 16) & 0xFF)]
            ^ table[1024 + (a >> 24)]
            ^ table[768 + buf[i + 4]]
            ^ table[512 + buf[i + 5]]
            ^ table[256 + buf[i + 6]]
            ^ table[buf[i + 7]]
        )
        i += 8
    while i < end:
        c = table[(c ^ buf[i]) & 0xFF] ^ (c >> 8)
        i += 1
    return c ^ 0xFFFFFFFF


def be(buf: Any, pos: int, width: int) -> int:
    """A signed big-endian integer of `width` bytes."""
    value = -1 if buf[pos] > 0x7F else 0
    for i in range(pos, pos + width):
        value = (value << 8) | buf[i]
    return value


def check_header(buf: Any, pos: int, end: int) -> tuple[int, int]:
    """The status of the batch at pos, and its size in bytes."""
    if pos + 12 > end:
        return TORN, 0
    length = be(buf, pos + 8, 4)
    if length == 0 and be(buf, pos, 8) == 0:
        return ZEROS, 0
    if length < MIN_LEGACY_LENGTH:
        return BAD_LENGTH, 0
    if pos + 17 > end:
        return TORN, 0
    magic = buf[pos + 16]
    if magic > 2:
        return BAD_MAGIC, 0
    if magic == 2 and length < V2_OVERHEAD - 12:
        return BAD_LENGTH, 0
    if magic == 1 and length < MIN_LEGACY_LENGTH + 8:
        return BAD_LENGTH, 0
    if pos + 12 + length > end:
        return TORN, length + 12
    return OK, length + 12


def has_right_crc(buf: Any, pos: int, size: int, table_old: Any, table_new: Any) -> bool:
    """Whether the CRC of the batch at pos matches its bytes."""
    if buf[pos + 16] == 2:
        return crc(table_new, buf, pos + 21, pos + size) == be(buf, pos + 17, 4) & 0xFFFFFFFF
    return crc(table_old, buf, pos + 16, pos + size) == be(buf, pos + 12, 4) & 0xFFFFFFFF


def count_batches(buf: Any, pos: int, end: int) -> tuple[int, int, int]:
    """The number of batches from pos on, the position where the walk stopped, and the status there."""
    n = 0
    while pos < end:
        status, size = check_header(buf, pos, end)
        if status != OK:
            return n, pos, status
        n += 1
        pos += size
    return n, pos, OK


def skip(buf: Any, pos: int, end: int, target: int) -> tuple[int, int, int]:
    """The first batch at or after `target`: its position, the status there, and the last base offset."""
    last = -1
    while pos < end and pos < target:
        status, size = check_header(buf, pos, end)
        if status != OK:
            return pos, status, last
        last = be(buf, pos, 8)
        pos += size
    return pos, OK, last


def sum_of(one: int, other: int) -> int:
    """The sum as 64 bits overflow."""
    if one > 0 and other > MAX - one:
        return (one + MIN) + (other + MIN)
    if one < 0 and other < MIN - one:
        return (one - MIN) + (other - MIN)
    return one + other


def scan(buf: Any, pos: int, n: int, table_old: Any, table_new: Any, out: Any) -> int:
    """Fills `out` with the headers of the n batches that start at pos."""
    for row in range(n):
        size = be(buf, pos + 8, 4) + 12
        magic = buf[pos + 16]
        base = be(buf, pos, 8)
        is_right = has_right_crc(buf, pos, size, table_old, table_new)
        out[row, BASE] = base
        out[row, MAGIC] = magic
        out[row, BYTE] = pos
        out[row, SIZE] = size
        if magic == 2:
            out[row, LAST] = sum_of(base, be(buf, pos + 23, 4))
            out[row, EPOCH] = be(buf, pos + 12, 4)
            out[row, CRC2] = (be(buf, pos + 17, 4) & 0xFFFFFFFF) * 2 + is_right
            out[row, ATTRIBUTES] = be(buf, pos + 21, 2)
            out[row, BASE_TIMESTAMP] = be(buf, pos + 27, 8)
            out[row, MAX_TIMESTAMP] = be(buf, pos + 35, 8)
            out[row, PRODUCER] = be(buf, pos + 43, 8)
            out[row, PRODUCER_EPOCH] = be(buf, pos + 51, 2)
            out[row, SEQUENCE] = be(buf, pos + 53, 4)
            out[row, COUNT] = be(buf, pos + 57, 4)
        else:
            time = be(buf, pos + 18, 8) if magic == 1 else -1
            out[row, LAST] = base
            out[row, EPOCH] = -1
            out[row, CRC2] = (be(buf, pos + 12, 4) & 0xFFFFFFFF) * 2 + is_right
            out[row, ATTRIBUTES] = buf[pos + 17]
            out[row, BASE_TIMESTAMP] = time
            out[row, MAX_TIMESTAMP] = time
            out[row, PRODUCER] = -1
            out[row, PRODUCER_EPOCH] = -1
            out[row, SEQUENCE] = -1
            out[row, COUNT] = 1
        pos += size
    return pos


def resync(buf: Any, pos: int, end: int, min_offset: int, table_old: Any, table_new: Any) -> int:
    """The next position of a complete batch with a right CRC and an offset from `min_offset` on; `end` if none."""
    while pos + 26 <= end:
        if buf[pos + 16] <= 2:
            status, size = check_header(buf, pos, end)
            # Offsets of one segment are at most 2^31 apart: its index holds them as 32-bit integers.
            if (
                status == OK
                and min_offset <= be(buf, pos, 8) < min_offset + 2147483648
                and has_right_crc(buf, pos, size, table_old, table_new)
            ):
                return pos
        pos += 1
    return end


def varint(buf: Any, pos: int, end: int) -> tuple[int, int]:
    """The value of a zigzag varint and the position after it; the position is -1 if the varint does not end."""
    value = 0
    shift = 0
    while pos < end and shift < 64:
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & MAX) ^ -(value & 1), pos
        shift += 7
    return 0, -1


def decode_v2(buf: Any, starts: Any, ends: Any, counts: Any, out: Any, row_of: Any, good: Any) -> int:
    """Decodes the records of v2 batches with payloads at starts..ends. Returns the number of rows.

    out: offset delta, timestamp delta, key start, key length (-1 null), value start, value length, headers
    start, headers end. row_of: the batch of each row. good: the decoded records of each batch.
    """
    n = 0
    for b in range(len(starts)):
        pos = starts[b]
        end = ends[b]
        good[b] = 0
        for _ in range(counts[b]):
            length, pos = varint(buf, pos, end)
            if pos < 0 or length < 0 or length > end - pos:  # a sum could overflow
                break
            stop = pos + length
            time, pos = varint(buf, pos + 1, stop)  # after the attributes of the record, unused
            if pos < 0:
                break
            delta, pos = varint(buf, pos, stop)
            if pos < 0:
                break
            key, key_at = varint(buf, pos, stop)
            if key_at < 0 or key > stop - key_at:
                break
            value, value_at = varint(buf, key_at + max(key, 0), stop)
            if value_at < 0 or value > stop - value_at:
                break
            out[n, 0] = delta
            out[n, 1] = time
            out[n, 2] = key_at
            out[n, 3] = key
            out[n, 4] = value_at
            out[n, 5] = value
            out[n, 6] = value_at + max(value, 0)
            out[n, 7] = stop
            row_of[n] = b
            pos = stop
            n += 1
            good[b] += 1
    return n


def decode_legacy(buf: Any, starts: Any, ends: Any, out: Any, row_of: Any, good: Any) -> int:
    """Decodes uncompressed v0 and v1 messages into the columns of `decode_v2`, without headers and deltas."""
    n = 0
    for b in range(len(starts)):
        good[b] = 0
        pos = starts[b] + (26 if buf[starts[b] + 16] == 1 else 18)
        end = ends[b]
        if pos + 4 > end:
            continue
        key = be(buf, pos, 4)
        key_at = pos + 4
        pos = key_at + max(key, 0)
        if key < -1 or pos + 4 > end:
            continue
        value = be(buf, pos, 4)
        pos += 4
        if value < -1 or pos + max(value, 0) > end:
            continue
        out[n, 0] = 0
        out[n, 1] = 0
        out[n, 2] = key_at
        out[n, 3] = key
        out[n, 4] = pos
        out[n, 5] = value
        out[n, 6] = end
        out[n, 7] = end
        row_of[n] = b
        n += 1
        good[b] = 1
    return n


def digests(buf: Any, spans: Any, out: Any) -> None:
    """FNV-1a (64 bits) of each record: key length, key, value length, value, then headers if it has any."""
    for i in range(len(spans)):
        h = FNV_BASIS
        for field in (2, 4):
            start = spans[i, field]
            length = spans[i, field + 1]
            for shift in (0, 8, 16, 24):
                h = ((h ^ ((length >> shift) & 0xFF)) * FNV_PRIME) & BITS
            for j in range(start, start + length):
                h = ((h ^ buf[j]) * FNV_PRIME) & BITS
        # A record without headers ends with the count 0, which is left out, as legacy records have no count.
        if spans[i, 7] - spans[i, 6] > 1:
            for j in range(spans[i, 6], spans[i, 7]):
                h = ((h ^ buf[j]) * FNV_PRIME) & BITS
        out[i] = h


# A function comes after those that it calls.
LOOPS = (
    *(crc, be, check_header, has_right_crc, count_batches, skip, sum_of, scan, resync),
    *(varint, decode_v2, decode_legacy, digests),
)


def _on_views(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on views of its arrays: they have Python's integers, and are faster to index."""
    return lambda *arguments: function(*(a.data if isinstance(a, np.ndarray) else a for a in arguments))


PLAIN = SimpleNamespace(**{loop.__name__: _on_views(loop) for loop in LOOPS})
_read = {"bytes": 0}
_compiling = Lock()


def loops_for(buf: Bytes) -> SimpleNamespace:
    """The loops for these bytes, compiled or not. Counts the bytes."""
    _read["bytes"] += len(buf)
    if _read["bytes"] < COMPILED_FROM:
        return PLAIN
    with _compiling:
        return compiled()


def read_only(buf: Bytes) -> Bytes:
    """The same bytes, locked: numba would compile every loop a second time for bytes that can change."""
    buf.flags.writeable = False
    return buf


@cache
def compiled() -> SimpleNamespace:
    """The compiled loops. Their machine code is kept beside this file, where that is allowed."""
    from ...models.compiled import compiled as compile_loop

    names: dict[str, Any] = {**globals(), "BITS": -1}
    for loop in LOOPS:
        copied = FunctionType(loop.__code__, names, loop.__name__)  # calls the compiled ones
        names[loop.__name__] = compile_loop(copied)
    return SimpleNamespace(**{loop.__name__: names[loop.__name__] for loop in LOOPS})
