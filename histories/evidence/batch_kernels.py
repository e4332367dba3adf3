"""Compiled loops over the bytes of a segment: walk headers, check CRCs, decode records, gather bytes.

aiokafka's parser makes a Python object for each record, at about a microsecond with its fields. These loops fill
arrays, at more than three million records a second. Layouts are those of Kafka's DefaultRecordBatch (v2) and
LegacyRecord (v0, v1). Nothing raises: a status and a position report bytes that cannot be decoded.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .batch_layout import (
    ATTRIBUTES,
    BAD_LENGTH,
    BAD_MAGIC,
    BASE,
    BASE_TIMESTAMP,
    BYTE,
    COUNT,
    CRC2,
    DIGEST_TEXT_LENGTH,
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


@njit(cache=True, nogil=True)
def crc(table, buf, start, end):  # type: ignore[no-untyped-def]
    """The CRC of the bytes from start to end, by one of the tables."""
    c = np.uint32(0xFFFFFFFF)
    i = start
    while i + 8 <= end:
        a = c ^ (
            np.uint32(buf[i])
            | (np.uint32(buf[i + 1]) << np.uint32(8))
            | (np.uint32(buf[i + 2]) << np.uint32(16))
            | (np.uint32(buf[i + 3]) << np.uint32(24))
        )
        c = (
            table[7, a & np.uint32(0xFF)]
            ^ table[6, (a >> np.uint32(8)) & np.uint32(0xFF)]
            ^ table[5, (a >> np.uint32(16)) & np.uint32(0xFF)]
            ^ table[4, a >> np.uint32(24)]
            ^ table[3, buf[i + 4]]
            ^ table[2, buf[i + 5]]
            ^ table[1, buf[i + 6]]
            ^ table[0, buf[i + 7]]
        )
        i += 8
    while i < end:
        c = table[0, (c ^ np.uint32(buf[i])) & np.uint32(0xFF)] ^ (c >> np.uint32(8))
        i += 1
    return c ^ np.uint32(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def be(buf, pos, width):  # type: ignore[no-untyped-def]
    """A signed big-endian integer of `width` bytes."""
    value = np.int64(0)
    for i in range(width):
        value = (value << 8) | np.int64(buf[pos + i])
    if width < 8 and value >= (np.int64(1) << (8 * width - 1)):
        value -= np.int64(1) << (8 * width)
    return value


@njit(cache=True, nogil=True)
def check_header(buf, pos, end):  # type: ignore[no-untyped-def]
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


@njit(cache=True, nogil=True)
def count_batches(buf, pos, end):  # type: ignore[no-untyped-def]
    """The number of batches from pos on, the position where the walk stopped, and the status there."""
    n = 0
    while pos < end:
        status, size = check_header(buf, pos, end)
        if status != OK:
            return n, pos, status
        n += 1
        pos += size
    return n, pos, OK


@njit(cache=True, nogil=True)
def skip(buf, pos, end, target):  # type: ignore[no-untyped-def]
    """The first batch at or after `target`: its position, the status there, and the last base offset."""
    last = np.int64(-1)
    while pos < end and pos < target:
        status, size = check_header(buf, pos, end)
        if status != OK:
            return pos, status, last
        last = be(buf, pos, 8)
        pos += size
    return pos, OK, last


@njit(cache=True, nogil=True)
def scan(buf, pos, n, tables_old, tables_new, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the headers of the n batches that start at pos."""
    for row in range(n):
        size = be(buf, pos + 8, 4) + 12
        magic = np.int64(buf[pos + 16])
        base = be(buf, pos, 8)
        out[row, BASE] = base
        out[row, MAGIC] = magic
        out[row, BYTE] = pos
        out[row, SIZE] = size
        if magic == 2:
            out[row, LAST] = base + be(buf, pos + 23, 4)
            out[row, EPOCH] = be(buf, pos + 12, 4)
            stored = np.uint32(be(buf, pos + 17, 4) & 0xFFFFFFFF)
            out[row, PRODUCER] = be(buf, pos + 43, 8)
            out[row, PRODUCER_EPOCH] = be(buf, pos + 51, 2)
            out[row, SEQUENCE] = be(buf, pos + 53, 4)
            out[row, ATTRIBUTES] = be(buf, pos + 21, 2)
            right = crc(tables_new, buf, pos + 21, pos + size) == stored
            out[row, CRC2] = np.int64(stored) * 2 + (1 if right else 0)
            out[row, MAX_TIMESTAMP] = be(buf, pos + 35, 8)
            out[row, COUNT] = be(buf, pos + 57, 4)
            out[row, BASE_TIMESTAMP] = be(buf, pos + 27, 8)
        else:
            out[row, LAST] = base
            out[row, EPOCH] = -1
            stored = np.uint32(be(buf, pos + 12, 4) & 0xFFFFFFFF)
            out[row, PRODUCER] = -1
            out[row, PRODUCER_EPOCH] = -1
            out[row, SEQUENCE] = -1
            out[row, ATTRIBUTES] = np.int64(buf[pos + 17])
            right = crc(tables_old, buf, pos + 16, pos + size) == stored
            out[row, CRC2] = np.int64(stored) * 2 + (1 if right else 0)
            out[row, MAX_TIMESTAMP] = be(buf, pos + 18, 8) if magic == 1 else -1
            out[row, COUNT] = 1
            out[row, BASE_TIMESTAMP] = out[row, MAX_TIMESTAMP]
        pos += size
    return pos


@njit(cache=True, nogil=True)
def resync(buf, pos, end, least_offset, tables_old, tables_new):  # type: ignore[no-untyped-def]
    """The next position of a complete batch with a right CRC and an offset from `least_offset` on; `end` if none."""
    while pos + 26 <= end:
        if buf[pos + 16] <= 2:
            status, size = check_header(buf, pos, end)
            if status == OK:
                base = be(buf, pos, 8)
                # Offsets of one segment are at most 2^31 apart: its index holds them as 32-bit integers.
                if least_offset <= base < least_offset + 2147483648:
                    if buf[pos + 16] == 2:
                        stored = np.uint32(be(buf, pos + 17, 4) & 0xFFFFFFFF)
                        good = crc(tables_new, buf, pos + 21, pos + size) == stored
                    else:
                        stored = np.uint32(be(buf, pos + 12, 4) & 0xFFFFFFFF)
                        good = crc(tables_old, buf, pos + 16, pos + size) == stored
                    if good:
                        return pos
        pos += 1
    return end


@njit(cache=True, nogil=True)
def varint(buf, pos, end):  # type: ignore[no-untyped-def]
    """The value of a zigzag varint and the position after it; the position is -1 if the varint does not end."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while pos < end:
        byte = np.uint64(buf[pos])
        pos += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), pos
        shift += np.uint64(7)
        if shift > np.uint64(63):
            break
    return np.int64(0), -1


@njit(cache=True, nogil=True)
def decode_v2(buf, starts, ends, counts, out, row_of):  # type: ignore[no-untyped-def]
    """Decode the records of v2 batches with payloads at starts..ends.

    out: offset delta, timestamp delta, key start, key length (-1 null), value start, value length, headers
    start, headers end. row_of: the batch of each. Returns the number of rows, and the rows decoded of each batch.
    """
    n = 0
    good = np.empty(len(starts), dtype=np.int64)
    for b in range(len(starts)):
        pos = starts[b]
        end = ends[b]
        done = 0
        for _ in range(counts[b]):
            length, pos = varint(buf, pos, end)
            if pos < 0 or length < 0 or length > end - pos:  # a sum could overflow
                break
            stop = pos + length
            pos += 1  # attributes of the record, unused
            out[n, 1], pos = varint(buf, pos, stop)
            if pos < 0:
                break
            out[n, 0], pos = varint(buf, pos, stop)
            if pos < 0:
                break
            out[n, 3], pos = varint(buf, pos, stop)
            if pos < 0 or out[n, 3] > stop - pos:
                break
            out[n, 2] = pos
            if out[n, 3] > 0:
                pos += out[n, 3]
            out[n, 5], pos = varint(buf, pos, stop)
            if pos < 0 or out[n, 5] > stop - pos:
                break
            out[n, 4] = pos
            if out[n, 5] > 0:
                pos += out[n, 5]
            out[n, 6] = pos
            out[n, 7] = stop
            row_of[n] = b
            pos = stop
            n += 1
            done += 1
        good[b] = done
    return n, good


@njit(cache=True, nogil=True)
def decode_legacy(buf, starts, ends, out, row_of):  # type: ignore[no-untyped-def]
    """Decode uncompressed v0 and v1 messages into the columns of `decode_v2`, without headers and deltas."""
    n = 0
    good = np.zeros(len(starts), dtype=np.int64)
    for b in range(len(starts)):
        pos = starts[b] + (26 if buf[starts[b] + 16] == 1 else 18)
        end = ends[b]
        if pos + 4 > end:
            continue
        length = be(buf, pos, 4)
        pos += 4
        out[n, 2] = pos
        out[n, 3] = length
        if length > 0:
            pos += length
        if length < -1 or pos + 4 > end:
            continue
        length = be(buf, pos, 4)
        pos += 4
        if length < -1 or pos + max(length, 0) > end:
            continue
        out[n, 0] = 0
        out[n, 1] = 0
        out[n, 4] = pos
        out[n, 5] = length
        out[n, 6] = end
        out[n, 7] = end
        row_of[n] = b
        n += 1
        good[b] = 1
    return n, good


@njit(cache=True, nogil=True)
def is_utf8(buf, start, end):  # type: ignore[no-untyped-def]
    """Whether the bytes are well-formed UTF-8 (Unicode 15, table 3-7)."""
    i = start
    while i < end:
        first = buf[i]
        i += 1
        if first < 0x80:
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= first <= 0xDF:
            more = 1
        elif 0xE0 <= first <= 0xEF:
            more = 2
            if first == 0xE0:
                low = 0xA0
            elif first == 0xED:
                high = 0x9F  # no surrogates
        elif 0xF0 <= first <= 0xF4:
            more = 3
            if first == 0xF0:
                low = 0x90
            elif first == 0xF4:
                high = 0x8F
        else:
            return False
        if i + more > end:
            return False
        for _ in range(more):
            if buf[i] < low or buf[i] > high:
                return False
            low, high = 0x80, 0xBF
            i += 1
    return True


@njit(cache=True, nogil=True)
def text_lengths(buf, starts, lengths, out):  # type: ignore[no-untyped-def]
    """Fills `out` with the length of each slice as text. Returns whether each is UTF-8."""
    is_text = np.ones(len(starts), dtype=np.bool_)
    for i in range(len(starts)):
        if lengths[i] <= 0:
            out[i] = 0
        elif is_utf8(buf, starts[i], starts[i] + lengths[i]):
            out[i] = lengths[i]
        else:
            out[i] = DIGEST_TEXT_LENGTH
            is_text[i] = False
    return is_text


@njit(cache=True, nogil=True)
def gather(buf, starts, lengths, is_text, digest, out, offsets):  # type: ignore[no-untyped-def]
    """Copy the slices, or the texts of their digests, into `out`, and fill `offsets` as Arrow has them."""
    at = np.int64(0)
    for i in range(len(starts)):
        offsets[i] = at
        if is_text[i]:
            out[at : at + lengths[i]] = buf[starts[i] : starts[i] + lengths[i]]  # a loop of bytes is four times as slow
        else:
            out[at], out[at + 1], out[at + 2] = 98, 121, 116  # b y t
            out[at + 3], out[at + 4], out[at + 5] = 101, 115, 58  # e s :
            for j in range(16):
                digit = (digest[i] >> np.uint64(60 - 4 * j)) & np.uint64(0xF)
                out[at + 6 + j] = digit + np.uint64(48 if digit < 10 else 87)
        at += lengths[i]
    offsets[len(starts)] = at


@njit(cache=True, nogil=True)
def digests(buf, spans, out):  # type: ignore[no-untyped-def]
    """FNV-1a (64 bits) of each record: key length, key, value length, value, then headers if it has any."""
    prime = np.uint64(0x100000001B3)
    for i in range(len(spans)):
        h = np.uint64(0xCBF29CE484222325)
        for field in (2, 4):
            start = spans[i, field]
            length = spans[i, field + 1]
            for shift in (0, 8, 16, 24):
                h = (h ^ np.uint64((length >> shift) & 0xFF)) * prime
            for j in range(length):
                h = (h ^ np.uint64(buf[start + j])) * prime
        # A record without headers ends with the count 0, which is left out, as legacy records have no count.
        if spans[i, 7] - spans[i, 6] > 1:
            for j in range(spans[i, 6], spans[i, 7]):
                h = (h ^ np.uint64(buf[j])) * prime
        out[i] = h
