"""Loops over the bytes of a segment: walk headers, check CRCs, decode records.

aiokafka's parser makes a Python object for each record, at about a microsecond with its fields. These loops fill
arrays. Layouts are those of Kafka's DefaultRecordBatch (v2) and LegacyRecord (v0, v1; a message is a batch of one
record). Nothing raises: a status and a position report bytes that cannot be decoded. Integers are big-endian; they
begin at these bytes:

    all     0 base offset, 8 length of what follows, 16 magic
    v2      12 leader epoch, 17 CRC of the bytes from 21 on, 21 attributes, 23 last offset delta, 27 base timestamp,
            35 max timestamp, 43 producer id, 51 producer epoch, 53 base sequence, 57 count, 61 records
    v0, v1  12 CRC of the bytes from 16 on, 17 attributes, 18 timestamp (v1), then length and bytes of key and value

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

from ...models.arrays import Bytes
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
)  # fmt: skip

# Bytes that loops of this process read before it loads the compiled ones. Four loops read each segment.
COMPILED_FROM = 10 << 20
MAX, MIN = (1 << 63) - 1, -(1 << 63)
FNV_PRIME, FNV_BASIS = 0x100000001B3, 0xCBF29CE484222325 - (1 << 64)
BITS = (1 << 64) - 1  # mask of a product, as Python's integers do not overflow; -1 in the compiled loops


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


def signed(buf: Any, pos: int, width: int) -> int:
    """A signed big-endian integer of `width` bytes."""
    value = -1 if buf[pos] > 0x7F else 0
    for i in range(pos, pos + width):
        value = (value << 8) | buf[i]
    return value


def check_header(buf: Any, pos: int, end: int) -> tuple[int, int]:
    """The status of the batch at pos, and its size in bytes."""
    if pos + 12 > end:
        return TORN, 0
    length = signed(buf, pos + 8, 4)
    if length == 0 and signed(buf, pos, 8) == 0:
        return ZEROS, 0
    if length < MIN_LEGACY_LENGTH:
        return BAD_LENGTH, 0
    if pos + 17 > end:
        return TORN, 0
    magic = buf[pos + 16]
    if magic > 2:
        return BAD_MAGIC, 0
    if (magic == 2 and length < V2_OVERHEAD - 12) or (magic == 1 and length < MIN_LEGACY_LENGTH + 8):
        return BAD_LENGTH, 0
    if pos + 12 + length > end:
        return TORN, length + 12
    return OK, length + 12


def has_right_crc(buf: Any, pos: int, size: int, crc32: Any, crc32c: Any) -> bool:
    """Whether the CRC of the batch at pos matches its bytes."""
    if buf[pos + 16] == 2:
        return crc(crc32c, buf, pos + 21, pos + size) == signed(buf, pos + 17, 4) & 0xFFFFFFFF
    return crc(crc32, buf, pos + 16, pos + size) == signed(buf, pos + 12, 4) & 0xFFFFFFFF


def count_batches(buf: Any, pos: int, end: int) -> tuple[int, int, int]:
    """The number of batches from pos on, the position where the walk stopped, and the status there."""
    n, status = 0, OK
    while pos < end:
        status, size = check_header(buf, pos, end)
        if status != OK:
            break
        n += 1
        pos += size
    return n, pos, status


def skip(buf: Any, pos: int, end: int, target: int) -> tuple[int, int, int]:
    """The position of the first batch at or after `target`, the status there, and the base offset before it, or -1."""
    last = -1
    while pos < end and pos < target:
        status, size = check_header(buf, pos, end)
        if status != OK:
            return pos, status, last
        last = signed(buf, pos, 8)
        pos += size
    return pos, OK, last


def wrapping_sum(a: int, b: int) -> int:
    """The sum of two integers of 64 bits, which overflows as Java's does."""
    if a > 0 and b > MAX - a:
        return (a + MIN) + (b + MIN)
    if a < 0 and b < MIN - a:
        return (a - MIN) + (b - MIN)
    return a + b


def scan(buf: Any, pos: int, n: int, crc32: Any, crc32c: Any, out: Any) -> int:
    """Fills `out` with the headers of the n batches that start at pos."""
    for row in range(n):
        size = signed(buf, pos + 8, 4) + 12
        magic = buf[pos + 16]
        base = signed(buf, pos, 8)
        is_right = has_right_crc(buf, pos, size, crc32, crc32c)
        out[row, BASE] = base
        out[row, MAGIC] = magic
        out[row, BYTE] = pos
        out[row, SIZE] = size
        if magic == 2:
            out[row, LAST] = wrapping_sum(base, signed(buf, pos + 23, 4))
            out[row, EPOCH] = signed(buf, pos + 12, 4)
            out[row, CRC2] = (signed(buf, pos + 17, 4) & 0xFFFFFFFF) * 2 + is_right
            out[row, ATTRIBUTES] = signed(buf, pos + 21, 2)
            out[row, BASE_TIMESTAMP] = signed(buf, pos + 27, 8)
            out[row, MAX_TIMESTAMP] = signed(buf, pos + 35, 8)
            out[row, PRODUCER] = signed(buf, pos + 43, 8)
            out[row, PRODUCER_EPOCH] = signed(buf, pos + 51, 2)
            out[row, SEQUENCE] = signed(buf, pos + 53, 4)
            out[row, COUNT] = signed(buf, pos + 57, 4)
        else:
            time = signed(buf, pos + 18, 8) if magic == 1 else -1
            out[row, LAST] = base
            out[row, EPOCH] = -1
            out[row, CRC2] = (signed(buf, pos + 12, 4) & 0xFFFFFFFF) * 2 + is_right
            out[row, ATTRIBUTES] = buf[pos + 17]
            out[row, BASE_TIMESTAMP] = out[row, MAX_TIMESTAMP] = time
            out[row, PRODUCER] = out[row, PRODUCER_EPOCH] = out[row, SEQUENCE] = -1
            out[row, COUNT] = 1
        pos += size
    return pos


def resync(buf: Any, pos: int, end: int, min_offset: int, crc32: Any, crc32c: Any) -> int:
    """The next position of a complete batch with a right CRC and an offset from `min_offset` on; `end` if none."""
    while pos + 26 <= end:
        if buf[pos + 16] <= 2:
            status, size = check_header(buf, pos, end)
            # Offsets of one segment are at most 2^31 apart: its index holds them as 32-bit integers.
            if (
                status == OK
                and min_offset <= signed(buf, pos, 8) < min_offset + 2147483648
                and has_right_crc(buf, pos, size, crc32, crc32c)
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


def decode_v2(buf: Any, starts: Any, ends: Any, counts: Any, out: Any, batch_of: Any, decoded: Any) -> int:
    """Decodes the records of v2 batches with payloads at starts..ends. Returns the number of rows.

    `out` has the columns offset delta, timestamp delta, key start, key length (-1: null), value start, value length,
    headers start, headers end. `batch_of` gets the batch of each row, `decoded` the number of rows of each batch.
    """
    n = 0
    for b in range(len(starts)):
        pos = starts[b]
        end = ends[b]
        decoded[b] = 0
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
            batch_of[n] = b
            pos = stop
            n += 1
            decoded[b] += 1
    return n


def decode_legacy(buf: Any, starts: Any, ends: Any, out: Any, batch_of: Any, decoded: Any) -> int:
    """Decodes uncompressed v0 and v1 messages into the columns of `decode_v2`, without headers and deltas."""
    n = 0
    for b in range(len(starts)):
        decoded[b] = 0
        pos = starts[b] + (26 if buf[starts[b] + 16] == 1 else 18)
        end = ends[b]
        if pos + 4 > end:
            continue
        key = signed(buf, pos, 4)
        key_at = pos + 4
        pos = key_at + max(key, 0)
        if key < -1 or pos + 4 > end:
            continue
        value = signed(buf, pos, 4)
        pos += 4
        if value < -1 or pos + max(value, 0) > end:
            continue
        out[n, 0] = out[n, 1] = 0
        out[n, 2] = key_at
        out[n, 3] = key
        out[n, 4] = pos
        out[n, 5] = value
        out[n, 6] = out[n, 7] = end
        batch_of[n] = b
        n += 1
        decoded[b] = 1
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
    *(crc, signed, check_header, has_right_crc, count_batches, skip, wrapping_sum, scan, resync),
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
