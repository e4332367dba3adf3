"""Loops over the bytes of a segment in plain Python, with the results of the compiled ones (batch_kernels.py).

Loading the compiled loops takes half a second, and compiling them on a new machine 20 seconds. Plain loops read 5 MB/s,
so a small run is read before the others were loaded.
"""

from __future__ import annotations

import sys
from types import ModuleType
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
    Bytes,
    Ints,
)  # fmt: skip

# Bytes that loops of this process read before it loads the compiled ones. Five loops read each segment.
COMPILED_FROM = 10 << 20
_COMPILED = __name__.rpartition(".")[0] + ".batch_kernels"
_MASK = (1 << 64) - 1
_read = {"bytes": 0}


def loops_for(buf: Bytes) -> ModuleType:
    """The module whose loops read these bytes: this one or batch_kernels. Counts the bytes."""
    _read["bytes"] += len(buf)
    if _read["bytes"] < COMPILED_FROM and _COMPILED not in sys.modules:
        return sys.modules[__name__]
    from . import batch_kernels

    return batch_kernels


def _crc(table: list[int], data: bytes) -> int:
    """The CRC of the bytes; `table` is the first row of CRC32 or CRC32C."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _check_header(data: bytes, pos: int, end: int) -> tuple[int, int]:
    if pos + 12 > end:
        return TORN, 0
    length = int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)
    if length == 0 and not any(data[pos : pos + 8]):
        return ZEROS, 0
    if length < MIN_LEGACY_LENGTH:
        return BAD_LENGTH, 0
    if pos + 17 > end:
        return TORN, 0
    magic = data[pos + 16]
    if magic > 2:
        return BAD_MAGIC, 0
    if length < {0: MIN_LEGACY_LENGTH, 1: MIN_LEGACY_LENGTH + 8, 2: V2_OVERHEAD - 12}[magic]:
        return BAD_LENGTH, 0
    if pos + 12 + length > end:
        return TORN, length + 12
    return OK, length + 12


def count_batches(buf: Bytes, pos: int, end: int) -> tuple[int, int, int]:
    """The number of batches from pos on, the position where the walk stopped, and the status there."""
    data = buf.tobytes()
    count = 0
    while pos < end:
        status, size = _check_header(data, pos, end)
        if status != OK:
            return count, pos, status
        count += 1
        pos += size
    return count, pos, OK


def scan(buf: Bytes, pos: int, n: int, table_old: Any, table_new: Any, out: Ints) -> int:
    """Fills `out` with the headers of the n batches that start at pos."""
    data = buf.tobytes()
    old, new = table_old[0].tolist(), table_new[0].tolist()

    def at(start: int, width: int) -> int:
        return int.from_bytes(data[pos + start : pos + start + width], "big", signed=True)

    for row in range(n):
        size, magic, base = at(8, 4) + 12, data[pos + 16], at(0, 8)
        values = {BASE: base, LAST: base, EPOCH: -1, MAGIC: magic, BYTE: pos, SIZE: size, COUNT: 1}
        if magic == 2:
            stored, right = at(17, 4) & 0xFFFFFFFF, _crc(new, data[pos + 21 : pos + size])
            values |= {LAST: base + at(23, 4), EPOCH: at(12, 4), ATTRIBUTES: at(21, 2), COUNT: at(57, 4)}
            values |= {PRODUCER: at(43, 8), PRODUCER_EPOCH: at(51, 2), SEQUENCE: at(53, 4)}
            values |= {MAX_TIMESTAMP: at(35, 8), BASE_TIMESTAMP: at(27, 8)}
        else:
            stored, right = at(12, 4) & 0xFFFFFFFF, _crc(old, data[pos + 16 : pos + size])
            time = at(18, 8) if magic == 1 else -1
            values |= {PRODUCER: -1, PRODUCER_EPOCH: -1, SEQUENCE: -1, ATTRIBUTES: data[pos + 17]}
            values |= {MAX_TIMESTAMP: time, BASE_TIMESTAMP: time}
        values[CRC2] = stored * 2 + (stored == right)
        values[LAST] = (values[LAST] + (1 << 63)) % (1 << 64) - (1 << 63)  # as 64 bits overflow
        for column, value in values.items():
            out[row, column] = value
        pos += size
    return pos


def _varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """The value of a zigzag varint and the position after it; the position is -1 if the varint does not end."""
    value, shift = 0, 0
    while pos < end and shift <= 63:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= _MASK
            return (value >> 1) ^ -(value & 1), pos
        shift += 7
    return 0, -1


def _decode_record(data: bytes, pos: int, stop: int) -> tuple[int, ...] | None:
    """The row of a record's fields from its attributes on; None if they reach beyond `stop`."""
    found = []
    pos += 1  # attributes of the record, unused
    for _ in range(2):
        value, pos = _varint(data, pos, stop)
        if pos < 0:
            return None
        found.append(value)
    for _ in range(2):
        length, pos = _varint(data, pos, stop)
        if pos < 0 or length > stop - pos:
            return None
        found += [pos, length]
        pos += max(length, 0)
    return (found[1], found[0], *found[2:], pos, stop)


def decode_v2(buf: Bytes, starts: Ints, ends: Ints, counts: Ints, out: Ints, row_of: Ints) -> tuple[int, Ints]:
    """Decodes the records of v2 batches with payloads at starts..ends, as batch_kernels.decode_v2 does."""
    data = buf.tobytes()
    rows: list[tuple[int, ...]] = []
    batches: list[int] = []
    good = np.zeros(len(starts), dtype=np.int64)
    for batch, (pos, end, count) in enumerate(zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True)):
        done = 0
        while done < count:
            length, pos = _varint(data, pos, end)
            if pos < 0 or length < 0 or length > end - pos:
                break
            row = _decode_record(data, pos, pos + length)
            if row is None:
                break
            rows.append(row)
            pos += length
            done += 1
        batches += [batch] * done
        good[batch] = done
    if rows:
        out[: len(rows)] = rows
        row_of[: len(rows)] = batches
    return len(rows), good


def text_lengths(buf: Bytes, starts: Ints, lengths: Ints, out: Ints) -> Any:
    """Fills `out` with the length of each slice as text. Returns whether each is UTF-8."""
    data = buf.tobytes()
    is_text = np.ones(len(starts), dtype=np.bool_)
    out[:] = np.maximum(lengths, 0)
    if data.isascii():
        return is_text
    for number, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        try:
            data[start : start + max(length, 0)].decode()
        except UnicodeDecodeError:
            is_text[number] = False
    out[~is_text] = DIGEST_TEXT_LENGTH
    return is_text


def gather(buf: Bytes, starts: Ints, lengths: Ints, is_text: Any, digest: Any, out: Bytes, offsets: Ints) -> None:
    """Copies the slices, or the texts of their digests, into `out`, and fills `offsets` as Arrow has them."""
    data = buf.tobytes()
    parts = [data[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)]
    for number in np.flatnonzero(~is_text).tolist():
        parts[number] = b"bytes:%016x" % int(digest[number])
    out[:] = np.frombuffer(b"".join(parts), dtype=np.uint8)
    offsets[0] = 0
    np.cumsum(lengths, out=offsets[1:])


def digests(buf: Bytes, spans: Ints, out: Any) -> None:
    """FNV-1a (64 bits) of each record: key length, key, value length, value, then headers if it has any."""
    data = buf.tobytes()
    for number, (_, _, key, key_length, value, value_length, headers, end) in enumerate(spans.tolist()):
        parts = [
            (key_length & 0xFFFFFFFF).to_bytes(4, "little"),
            data[key : key + max(key_length, 0)],
            (value_length & 0xFFFFFFFF).to_bytes(4, "little"),
            data[value : value + max(value_length, 0)],
            # A record without headers ends with the count 0, which is left out, as legacy records have no count.
            data[headers:end] if end - headers > 1 else b"",
        ]
        digest = 0xCBF29CE484222325
        for byte in b"".join(parts):
            digest = ((digest ^ byte) * 0x100000001B3) & _MASK
        out[number] = digest


def __getattr__(name: str) -> Any:
    """The loops for damaged and old segments are only compiled."""
    if name not in ("decode_legacy", "resync", "skip"):
        raise AttributeError(name)
    from . import batch_kernels

    return getattr(batch_kernels, name)
