"""Segments of a partition's log: record batches v2, message sets v0 and v1, every compression.

A range of a file is read at a time (`split_segment` gives ranges of whole batches from headers alone), so
that a segment of 1 GiB is read by several tasks and never whole in memory. What is torn, does not match its
CRC or does not parse comes out as damage with its byte and the offsets that are unknown because of it,
never as an exception. Records of a batch whose CRC is wrong are not decoded: they prove nothing.

Headers and records are decoded by compiled loops (batch_kernels.py), and become tables in record_frames.py. Measured
on two shared cores: see benchmarks/segments.py. aiokafka's own record parser is the test's second opinion.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from . import batch_kernels as kernels
from .batch_headers import (
    APPEND_TIME_BIT,
    CODEC_BITS,
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    Bytes,
    Ints,
    distrust,
    hidden,
    walk_headers,
)
from .batch_kernels import ATTRIBUTES, BASE, BASE_TIMESTAMP, BYTE, COUNT, CRC2, HEADERS, LAST, MAGIC, SIZE
from .record_filter import BloomFilter
from .record_frames import passed_frame, record_frame
from .tables import BATCHES, DAMAGE, PASSED, RECORDS, damage_row
from .unpacking import CODECS, unpack

# Columns of the batch table that come from elsewhere than the header of the same name.
_DERIVED = ("attributes", "crc2", "base_offset", "count", "base_timestamp")
UNPACKED = 16 << 20  # bytes of compressed batches that are held at a time


@dataclass(frozen=True)
class Segment:
    """What a range of a segment holds: tables BATCHES, RECORDS and DAMAGE, and PASSED for records not sought."""

    batches: pl.DataFrame
    records: pl.DataFrame
    damage: pl.DataFrame
    passed: pl.DataFrame


@dataclass
class _Reading:
    """What the reading of a range is told and gathers: the range's position, what is sought of records (None: all)."""

    at: int = 0
    sought: BloomFilter | None = None
    damage: list[dict[str, object]] = field(default_factory=list)
    passed: list[pl.DataFrame] = field(default_factory=list)

    def segment(self, batches: pl.DataFrame | None = None, records: pl.DataFrame | None = None) -> Segment:
        return Segment(
            _empty(BATCHES) if batches is None else batches,
            _empty(RECORDS) if records is None else records,
            pl.DataFrame(self.damage, schema=DAMAGE),
            pl.concat([_empty(PASSED), *self.passed]),
        )


def split_segment(path: Path, target_bytes: int = 64 << 20) -> list[tuple[int, int]]:
    """Byte ranges of about target_bytes that each begin with a batch and together cover the file.

    Walks the headers through a memory map, so pages without a header are not read. Where a header is
    broken the walk goes on at the next whole batch, as `read_segment` does.
    """
    size = path.stat().st_size
    if size <= target_bytes:
        return [(0, size)] if size else []
    mapped: Bytes = np.memmap(path, dtype=np.uint8, mode="r")
    ranges, start, pos, least = [], 0, 0, 0
    while pos < size:
        found, status, last = kernels.skip(mapped, pos, size, start + target_bytes)
        pos, least = int(found), max(least, int(last) + 1)
        if status != kernels.OK:
            pos = int(kernels.resync(mapped, pos + 1, size, least, kernels.CRC32, kernels.CRC32C))
        elif pos < size:
            ranges.append((start, pos))
            start = pos
    ranges.append((start, size))
    return ranges


def read_segment(path: Path, start: int = 0, end: int | None = None, sought: BloomFilter | None = None) -> Segment:
    """Read the batches of a byte range, which begins with a batch (as `split_segment` gives them).

    With `sought` only such records of v2 batches are told, and markers; of others where they stand.
    """
    return _read(path, start, end, _Reading(start, sought), True)


def read_headers(path: Path, start: int = 0, end: int | None = None) -> Segment:
    """The same without records: the batches, each checked against its CRC."""
    return _read(path, start, end, _Reading(start), False)


def _read(path: Path, start: int, end: int | None, reading: _Reading, decoded: bool) -> Segment:
    try:
        size = path.stat().st_size
        stop = size if end is None else min(end, size)
        data: Bytes = np.fromfile(path, dtype=np.uint8, count=max(0, stop - start), offset=min(start, size))
    except OSError as error:
        reading.damage.append(damage_row("unreadable", f"cannot be read: {error.strerror or error}", byte=start))
        return reading.segment()
    return _parsed(data, _first_offset_of(path), reading, decoded)


def parse(data: Bytes, at: int = 0, first_offset: int = 0, sought: BloomFilter | None = None) -> Segment:
    """Parse bytes that stand at position `at` of their file; offsets begin at first_offset or later."""
    return _parsed(data, first_offset, _Reading(at, sought), True)


def _parsed(data: Bytes, first_offset: int, reading: _Reading, decoded: bool) -> Segment:
    at, damage = reading.at, reading.damage
    headers, broken = walk_headers(data, at, first_offset)
    damage += broken
    if not len(headers):
        return reading.segment()
    crc_ok = (headers[:, CRC2] & 1) == 1
    for index in np.flatnonzero(~crc_ok):
        row = headers[index]
        first, last = hidden(headers, crc_ok, int(index), first_offset)
        reason = f"CRC {int(row[CRC2]) >> 1:#010x} is not that of the {int(row[SIZE])} bytes of the batch"
        damage.append(damage_row("crc", reason, at + int(row[BYTE]), None, first, last))
    trusted = distrust(headers, crc_ok, at, damage)
    records, bases, counts = _empty(RECORDS), headers[:, BASE], headers[:, COUNT]
    if decoded:
        records, bases, counts = _records(data, headers, trusted, reading)
    # A batch that is not believed keeps its row, as one whose CRC is wrong: no rule takes it at its word.
    return reading.segment(_batch_frame(headers, trusted, bases, counts, at), records)


@dataclass(frozen=True)
class RawRecord:
    """A data record with its value as bytes, for records that are not text (`__cluster_metadata`)."""

    offset: int
    timestamp: int  # ms
    value: bytes | None
    byte: int


def raw_records(path: Path) -> tuple[list[RawRecord], list[dict[str, object]]]:
    """The data records of a whole file of v2 batches, and its damage; control records are left out."""
    try:
        data: Bytes = np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        return [], [damage_row("unreadable", f"cannot be read: {error.strerror or error}")]
    headers, damage = walk_headers(data, 0, 0)
    out = []
    for row in headers:
        if not row[CRC2] & 1:
            damage.append(
                damage_row("crc", "CRC of the batch is wrong", int(row[BYTE]), None, int(row[BASE]), int(row[LAST]))
            )
            continue
        if row[MAGIC] != 2 or row[ATTRIBUTES] & CONTROL_BIT:
            continue
        buf, begin, end = data, int(row[BYTE]) + kernels.V2_OVERHEAD, int(row[BYTE] + row[SIZE])
        if row[ATTRIBUTES] & CODEC_BITS:
            unpacked = unpack(data[begin:end].tobytes(), row, 0, damage)
            buf = np.frombuffer(unpacked or b"", dtype=np.uint8)
            begin, end = 0, len(buf)
        counts = np.minimum(row[COUNT : COUNT + 1], (end - begin) // 6 + 1)
        spans = np.empty((int(max(counts[0], 0)) + 1, 8), dtype=np.int64)
        row_of = np.empty(len(spans), dtype=np.int64)
        n, _ = kernels.decode_v2(buf, np.array([begin]), np.array([end]), np.maximum(counts, 0), spans, row_of)
        for span in spans[:n]:
            value = buf[span[4] : span[4] + span[5]].tobytes() if span[5] >= 0 else None
            out.append(RawRecord(int(row[BASE] + span[0]), int(row[BASE_TIMESTAMP] + span[1]), value, int(row[BYTE])))
    return out, damage


def _first_offset_of(path: Path) -> int:
    """The base offset that the name of the file says; 0 for a file of another name."""
    return int(path.stem) if path.stem.isdecimal() and len(path.stem) <= 20 else 0


def _empty(schema: Any) -> pl.DataFrame:
    return pl.DataFrame(schema=schema)


def _batch_frame(headers: Ints, crc_ok: Any, bases: Ints, counts: Ints, at: int) -> pl.DataFrame:
    column = {name: headers[:, i] for i, name in enumerate(HEADERS)}
    attributes = column["attributes"]
    new = column["magic"] == 2
    frame = pl.DataFrame(
        {
            **{n: column[n] for n in HEADERS if n not in _DERIVED},
            "base_offset": bases,
            "count": counts,
            "codec": attributes & CODEC_BITS,
            "append_time": (attributes & APPEND_TIME_BIT) != 0,
            "transactional": new & ((attributes & TRANSACTIONAL_BIT) != 0),
            "control": new & ((attributes & CONTROL_BIT) != 0),
            "crc": column["crc2"] >> 1,
            "crc_ok": crc_ok,
        }
    )
    return frame.with_columns(
        pl.col("byte") + at,
        pl.col("codec").replace_strict(dict(enumerate(CODECS)), default="unknown", return_dtype=pl.String),
        *(
            pl.when(pl.col(name) >= 0).then(pl.col(name)).alias(name)
            for name in ("leader_epoch", "producer_id", "producer_epoch", "base_sequence", "max_timestamp")
        ),
    ).select(pl.col(name).cast(dtype, strict=False) for name, dtype in BATCHES.items())


def _records(data: Bytes, headers: Ints, crc_ok: Any, reading: _Reading) -> tuple[pl.DataFrame, Ints, Ints]:
    """The records of all batches whose CRC is right, and each batch's base offset and count."""
    bases, counts = headers[:, BASE].copy(), headers[:, COUNT].copy()
    codec = headers[:, ATTRIBUTES] & CODEC_BITS
    new = headers[:, MAGIC] == 2
    frames = []
    for magic2 in (True, False):
        plain = np.flatnonzero(crc_ok & (codec == 0) & (new == magic2))
        if len(plain):
            head = headers[plain]
            begins = head[:, BYTE] + (kernels.V2_OVERHEAD if magic2 else 0)
            frames.append(_decode(data, head, begins, head[:, BYTE] + head[:, SIZE], reading, magic2))
    packed_new = np.flatnonzero(crc_ok & (codec != 0) & new)
    if len(packed_new):
        frames.extend(_decode_packed(data, headers[packed_new], reading))
    for index in np.flatnonzero(crc_ok & (codec != 0) & ~new):
        inner = _decode_wrapper(data, headers[index], reading)
        counts[index] = inner.height
        if inner.height:
            bases[index] = inner["offset"][0]
            frames.append(inner)
    if not frames:
        return _empty(RECORDS), bases, counts
    records = pl.concat(frames)
    if len(frames) > 1 or not records["offset"].is_sorted():
        records = records.sort("byte", "offset", maintain_order=True)
    return records, bases, counts


def _decode_packed(data: Bytes, headers: Ints, reading: _Reading) -> list[pl.DataFrame]:
    """Records of compressed v2 batches: unpacked side by side, about UNPACKED bytes at a time."""
    frames: list[pl.DataFrame] = []
    chunks: list[bytes] = []
    rows: list[int] = []
    held = 0

    def flush() -> None:
        sizes = np.array([len(chunk) for chunk in chunks], dtype=np.int64)
        ends = np.cumsum(sizes)
        joined = np.frombuffer(b"".join(chunks), dtype=np.uint8)
        frames.append(_decode(joined, headers[rows], ends - sizes, ends, reading, True))

    for i, row in enumerate(headers):
        payload = data[row[BYTE] + kernels.V2_OVERHEAD : row[BYTE] + row[SIZE]].tobytes()
        unpacked = unpack(payload, row, reading.at, reading.damage)
        if unpacked is None:
            continue
        chunks.append(unpacked)
        rows.append(i)
        held += len(unpacked)
        if held >= UNPACKED:
            flush()
            chunks, rows, held = [], [], 0
    if rows:
        flush()
    return frames


def _decode(buf: Bytes, headers: Ints, begins: Ints, ends: Ints, reading: _Reading, magic2: bool) -> pl.DataFrame:
    """Records whose payloads stand in buf at begins..ends; headers row by row as theirs."""
    # A record takes six bytes at least, so a count that lies cannot ask for more rows than bytes allow.
    counts = np.minimum(np.maximum(headers[:, COUNT], 0), (ends - begins) // 6 + 1)
    total = int(counts.sum())
    spans = np.empty((total + 1, 8), dtype=np.int64)
    row_of = np.empty(total + 1, dtype=np.int64)
    if magic2:
        n, good = kernels.decode_v2(buf, begins, ends, counts, spans, row_of)
    else:
        n, good = kernels.decode_legacy(buf, begins, ends, spans, row_of)
    for index in np.flatnonzero(good != headers[:, COUNT]):
        head = headers[index]
        reason = f"{int(good[index])} of the {int(head[COUNT])} records of the batch parse"
        reading.damage.append(
            damage_row("decode", reason, reading.at + int(head[BYTE]), None, int(head[BASE]), int(head[LAST]))
        )
    spans, row_of = spans[:n], row_of[:n]
    if magic2 and reading.sought is not None:
        offsets = headers[row_of, BASE] + spans[:, 0]
        told = reading.sought.among(buf, spans, offsets) | (headers[row_of, ATTRIBUTES] & CONTROL_BIT != 0)
        reading.passed.append(passed_frame(headers, offsets[~told], row_of[~told], reading.at))
        spans, row_of = spans[told], row_of[told]
    return record_frame(buf, headers, spans, row_of, reading.at)


def _decode_wrapper(data: Bytes, header: Ints, reading: _Reading) -> pl.DataFrame:
    """The messages inside a compressed v0 or v1 message.

    The wrapper's offset is that of its last message; inside, v1 counts from 0 (KIP-31) and v0 is absolute.
    """
    magic, position, wrapper_offset = int(header[3]), int(header[11]), int(header[0])
    value_at = position + (26 if magic == 1 else 18)
    key_length = int(kernels.be(data, value_at, 4))
    value_at += 4 + max(key_length, 0)
    length = int(kernels.be(data, value_at, 4))
    payload = data[value_at + 4 : value_at + 4 + max(length, 0)].tobytes()
    unpacked = unpack(payload, header, reading.at, reading.damage)
    if unpacked is None:
        return _empty(RECORDS)
    inner = np.frombuffer(unpacked, dtype=np.uint8)
    found, broken = walk_headers(inner)
    if broken or not len(found):
        reason = "the message set inside the compressed message is broken"
        where = reading.at + position
        reading.damage.append(damage_row("decode", reason, where, None, wrapper_offset, wrapper_offset))
        return _empty(RECORDS)
    positions = found[:, 11].copy()
    offsets = found[:, 0] + (wrapper_offset - int(found[-1, 0]) if magic == 1 else 0)
    if header[7] & APPEND_TIME_BIT:
        found[:, 13] = header[9]
    frame = _decode(inner, found, positions, positions + found[:, 12], reading, False)
    if frame.height != len(found):
        return _empty(RECORDS)
    placed = frame.with_columns(pl.Series("offset", offsets), byte=pl.lit(reading.at + position, pl.Int64))
    return placed.select(pl.col(name).cast(dtype) for name, dtype in RECORDS.items())
