"""Reads segments of a partition's log: record batches v2, message sets v0 and v1, with every compression.

A task reads a range of a file (`split_segment` finds ranges of complete batches by their headers), so several tasks
share a segment of 1 GiB and none holds it in memory. Incomplete batches, wrong CRCs and records that cannot be
decoded become damage, with their byte and the unknown offsets, and never an exception. The records of a batch with a
wrong CRC are not decoded, as they prove nothing.

Loops (batch_loops.py) decode headers and records; record_frames.py makes tables of them.
benchmarks/segments.py measures the speed. A test compares the records with those of aiokafka's parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import polars as pl

from ...models.arrays import Bytes, Ints
from . import batch_layout as layout
from .batch_headers import (
    APPEND_TIME_BIT,
    CODEC_BITS,
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    offsets_of_broken,
    trusted_batches,
    walk_headers,
)
from .batch_layout import (
    ATTRIBUTES,
    BASE,
    BASE_TIMESTAMP,
    BYTE,
    COUNT,
    CRC2,
    HEADERS,
    LAST,
    MAGIC,
    PRODUCER,
    SIZE,
)
from .batch_loops import loops_for, read_only
from .message_sets import MessageSet, message_set
from .record_frames import dropped_frame, record_frame
from .tables import BATCHES, DAMAGE, DROPPED, RECORDS, Row, damage_row, empty, null_where_negative, unreadable_row
from .unpacking import CODECS, unpack

if TYPE_CHECKING:
    from .record_filter import BloomFilter

# Columns of HEADERS that do not become columns of BATCHES unchanged.
_DERIVED = ("attributes", "crc2", "base_offset", "count", "base_timestamp")
CHUNK_BYTES = 16 << 20  # of decompressed batches that are decoded at a time
SMALL_RANGE = 128 << 10  # bytes; such ranges are decoded once, whichever replicas and snapshots have them
Item = TypeVar("Item")


@dataclass(frozen=True)
class Segment:
    """The content of a range: tables BATCHES, RECORDS and DAMAGE, and DROPPED for records that the filter drops."""

    batches: pl.DataFrame
    records: pl.DataFrame
    damage: pl.DataFrame
    dropped: pl.DataFrame


@dataclass
class _Reading:
    """A range that is being read: its position, the filter of its records (None: all), and the results so far."""

    at: int = 0
    wanted: BloomFilter | None = None
    damage: list[Row] = field(default_factory=list)
    dropped: list[pl.DataFrame] = field(default_factory=list)

    def segment(self, batches: pl.DataFrame, records: pl.DataFrame) -> Segment:
        dropped = pl.concat([empty(DROPPED), *self.dropped])
        return Segment(batches, records, pl.DataFrame(self.damage, schema=DAMAGE), dropped)

    def add_damage(
        self, kind: str, reason: str, header: Ints, first: int | None = None, last: int | None = None
    ) -> None:
        """Adds damage of the batch with this header, by default of all of its offsets."""
        first, last = (int(header[BASE]), int(header[LAST])) if first is None else (first, last)
        self.damage.append(damage_row(kind, reason, self.at + int(header[BYTE]), first, last))


def split_segment(path: Path, target_bytes: int) -> list[tuple[int, int]]:
    """Byte ranges of about target_bytes that each begin with a batch and together cover the file.

    Walks the headers in a memory map, so pages without a header are not read. After a broken header the walk
    continues at the next complete batch, as in `read_segment`.
    """
    size = path.stat().st_size
    if size <= target_bytes:
        return [(0, size)] if size else []
    mapped: Bytes = np.memmap(path, dtype=np.uint8, mode="r")
    loops = loops_for(mapped)
    ranges, start, pos, min_offset = [], 0, 0, 0
    while pos < size:
        found, status, last = loops.skip(mapped, pos, size, start + target_bytes)
        pos, min_offset = int(found), max(min_offset, int(last) + 1)
        if status != layout.OK:
            pos = int(loops.resync(mapped, pos + 1, size, min_offset, layout.CRC32, layout.CRC32C))
        elif pos < size:
            ranges.append((start, pos))
            start = pos
    ranges.append((start, size))
    return ranges


def read_headers(path: Path, start: int = 0, end: int | None = None) -> Segment:
    """The batches of a byte range without their records. Each is checked against its CRC."""
    return read_segment(path, start, end, with_records=False)


def read_segment(
    path: Path, start: int = 0, end: int | None = None, wanted: BloomFilter | None = None, with_records: bool = True
) -> Segment:
    """The batches and records of a byte range that begins with a batch, as `split_segment` finds them.

    With `wanted`, RECORDS has the markers and the matching records of v2 batches, and DROPPED the ranges of the others.
    """
    reading = _Reading(start, wanted)
    try:
        size = path.stat().st_size
        stop = size if end is None else min(end, size)
        data = read_only(np.fromfile(path, dtype=np.uint8, count=max(0, stop - start), offset=min(start, size)))
    except OSError as error:
        reading.damage.append(unreadable_row(error, start, _first_offset_of(path)))
        return reading.segment(empty(BATCHES), empty(RECORDS))
    if with_records and wanted is None and len(data) <= SMALL_RANGE:
        return _parsed_once(data.tobytes(), start, _first_offset_of(path))
    return _parse_range(data, _first_offset_of(path), reading, with_records)


@lru_cache(maxsize=64)
def _parsed_once(data: bytes, at: int, first_offset: int) -> Segment:
    return parse(np.frombuffer(data, dtype=np.uint8), at, first_offset)


def parse(data: Bytes, at: int = 0, first_offset: int = 0, wanted: BloomFilter | None = None) -> Segment:
    """The batches and records in bytes at position `at` of their file; offsets begin at first_offset or later."""
    return _parse_range(data, first_offset, _Reading(at, wanted))


def _parse_range(data: Bytes, first_offset: int, reading: _Reading, with_records: bool = True) -> Segment:
    headers, broken = walk_headers(data, reading.at, first_offset)
    reading.damage += broken
    if not len(headers):
        return reading.segment(empty(BATCHES), empty(RECORDS))
    crc_ok = (headers[:, CRC2] & 1) == 1
    for index in np.flatnonzero(~crc_ok):
        row = headers[index]
        first, last = offsets_of_broken(headers, crc_ok, int(index), first_offset)
        reason = f"CRC {int(row[CRC2]) >> 1:#010x} does not match the {int(row[SIZE])} bytes of the batch"
        reading.add_damage("crc", reason, row, first, last)
    trusted = trusted_batches(headers, crc_ok, reading.at, reading.damage)
    records, bases, counts = empty(RECORDS), headers[:, BASE], headers[:, COUNT]
    if with_records:
        records, bases, counts = _records(data, headers, trusted, reading)
    # An untrusted batch keeps its row with crc_ok false, so that no rule uses it.
    return reading.segment(_batch_frame(headers, trusted, bases, counts, reading.at), records)


@dataclass(frozen=True)
class RawRecord:
    """A record with its key and value as bytes, for binary records (`__cluster_metadata`, `__consumer_offsets`)."""

    offset: int
    timestamp: int  # ms
    value: bytes | None
    byte: int
    key: bytes | None = None
    producer: int | None = None  # the id of a transaction's producer
    is_control: bool = False


class RawRecords(NamedTuple):
    """The records of a file, and its damage."""

    records: list[RawRecord]
    damage: list[Row]


def raw_records(path: Path) -> RawRecords:
    """The records of a file. Of messages before v2, those in compressed wrappers are left out."""
    try:
        data = read_only(np.fromfile(path, dtype=np.uint8))
    except OSError as error:
        return RawRecords([], [unreadable_row(error)])
    headers, damage = walk_headers(data)
    out = []
    for row in headers:
        if not row[CRC2] & 1:
            place = (int(row[BYTE]), int(row[BASE]), int(row[LAST]))
            damage.append(damage_row("crc", "CRC of the batch is wrong", *place))
            continue
        is_v2, is_packed = row[MAGIC] == 2, row[ATTRIBUTES] & CODEC_BITS
        if is_packed and not is_v2:
            damage.append(damage_row("decode", "a compressed message of an old format", int(row[BYTE])))
            continue
        buf, begin, end = data, int(row[BYTE]) + (layout.V2_OVERHEAD if is_v2 else 0), int(row[BYTE] + row[SIZE])
        if is_packed:
            unpacked = unpack(data[begin:end].tobytes(), row, 0, damage)
            buf = np.frombuffer(unpacked or b"", dtype=np.uint8)
            begin, end = 0, len(buf)
        spans, _, _ = _spans(buf, row[np.newaxis], np.array([begin]), np.array([end]), is_v2)
        producer = int(row[PRODUCER]) if row[ATTRIBUTES] & TRANSACTIONAL_BIT else None
        is_control = bool(is_v2 and row[ATTRIBUTES] & CONTROL_BIT)
        for span in spans:
            key, value = (buf[at : at + size].tobytes() if size >= 0 else None for at, size in (span[2:4], span[4:6]))
            offset, time = int(row[BASE] + span[0]), int(row[BASE_TIMESTAMP] + span[1])
            out.append(RawRecord(offset, time, value, int(row[BYTE]), key, producer, is_control))
    return RawRecords(out, damage)


def _first_offset_of(path: Path) -> int:
    """The base offset in the name of the file; 0 for other names."""
    return int(path.stem) if path.stem.isdecimal() and len(path.stem) <= 20 else 0


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
        *null_where_negative("leader_epoch", "producer_id", "producer_epoch", "base_sequence", "max_timestamp"),
    ).select(pl.col(name).cast(dtype, strict=False) for name, dtype in BATCHES.items())


def _records(data: Bytes, headers: Ints, crc_ok: Any, reading: _Reading) -> tuple[pl.DataFrame, Ints, Ints]:
    """The records of all batches with a right CRC, and the base offset and count of each batch."""
    bases, counts = headers[:, BASE].copy(), headers[:, COUNT].copy()
    codec = headers[:, ATTRIBUTES] & CODEC_BITS
    new = headers[:, MAGIC] == 2
    frames = []
    for is_v2 in (True, False):
        plain = np.flatnonzero(crc_ok & (codec == 0) & (new == is_v2))
        if len(plain):
            head = headers[plain]
            begins = head[:, BYTE] + (layout.V2_OVERHEAD if is_v2 else 0)
            frames.append(_decode(data, head, begins, head[:, BYTE] + head[:, SIZE], reading, is_v2))
    packed_new = np.flatnonzero(crc_ok & (codec != 0) & new)
    if len(packed_new):
        packed = headers[packed_new]
        chunks = _in_chunks(_payloads(data, packed, reading), lambda one: len(one[1]))
        frames += [_decode_payloads(chunk, packed, reading) for chunk in chunks]
    packed_old = np.flatnonzero(crc_ok & (codec != 0) & ~new)
    if len(packed_old):
        inner = _decode_wrappers(data, headers[packed_old], reading)
        inner = _behind_previous(inner, headers[crc_ok], reading.at)
        frames.append(inner)
        sets = inner.group_by("byte").agg(pl.col("offset").first(), pl.len())
        found = {byte: (base, count) for byte, base, count in sets.rows()}
        for index in packed_old:
            byte = reading.at + int(headers[index, BYTE])
            bases[index], counts[index] = found.get(byte, (bases[index], 0))
    if not frames:
        return empty(RECORDS), bases, counts
    records = pl.concat(frames)
    if len(frames) > 1 or not records["offset"].is_sorted():
        records = records.sort("byte", "offset", maintain_order=True)
    return records, bases, counts


def _behind_previous(records: pl.DataFrame, headers: Ints, at: int) -> pl.DataFrame:
    """The records of compressed messages (v0 and v1) that are behind the last offset of the batch before.

    A fetch from the middle of such a message returns it whole, so a follower may append one that begins below the end
    of its log. At these offsets a consumer gets the records of the batch before.
    """
    previous = np.append(-1, headers[:-1, LAST])
    previous = np.where(previous < headers[:, LAST], previous, -1)
    ends = pl.DataFrame({"byte": headers[:, BYTE] + at, "previous": previous})
    behind = records.join(ends, on="byte", how="left", maintain_order="left").filter(
        pl.col("offset") > pl.col("previous")
    )
    return behind.drop("previous")


def _payloads(data: Bytes, headers: Ints, reading: _Reading) -> Iterator[tuple[int, bytes]]:
    """The number of each compressed v2 batch among `headers`, with its decompressed records."""
    for number, header in enumerate(headers):
        payload = data[header[BYTE] + layout.V2_OVERHEAD : header[BYTE] + header[SIZE]].tobytes()
        unpacked = unpack(payload, header, reading.at, reading.damage)
        if unpacked is not None:
            yield number, unpacked


def _decode_payloads(payloads: list[tuple[int, bytes]], headers: Ints, reading: _Reading) -> pl.DataFrame:
    numbers, contents = zip(*payloads, strict=True)
    sizes = np.array([len(content) for content in contents], dtype=np.int64)
    ends = np.cumsum(sizes)
    joined = np.frombuffer(b"".join(contents), dtype=np.uint8)
    return _decode(joined, headers[list(numbers)], ends - sizes, ends, reading, True)


def _in_chunks(items: Iterable[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """The items in lists of about CHUNK_BYTES."""
    chunk: list[Item] = []
    chunk_bytes = 0
    for item in items:
        chunk.append(item)
        chunk_bytes += size_of(item)
        if chunk_bytes >= CHUNK_BYTES:
            yield chunk
            chunk, chunk_bytes = [], 0
    if chunk:
        yield chunk


def _decode(buf: Bytes, headers: Ints, begins: Ints, ends: Ints, reading: _Reading, is_v2: bool) -> pl.DataFrame:
    """The records of payloads in `buf` at begins..ends, one for each row of `headers`."""
    spans, row_of, good = _spans(buf, headers, begins, ends, is_v2)
    for index in np.flatnonzero(good != headers[:, COUNT]):
        reason = f"{int(good[index])} of the {int(headers[index, COUNT])} records of the batch can be decoded"
        reading.add_damage("decode", reason, headers[index])
    if is_v2 and reading.wanted is not None:
        offsets = headers[row_of, BASE] + spans[:, 0]
        matches = reading.wanted.matches(buf, spans, offsets) | (headers[row_of, ATTRIBUTES] & CONTROL_BIT != 0)
        reading.dropped.append(dropped_frame(headers, offsets[~matches], row_of[~matches], reading.at))
        spans, row_of = spans[matches], row_of[matches]
    return record_frame(buf, headers, spans, row_of, reading.at)


def _spans(buf: Bytes, headers: Ints, begins: Ints, ends: Ints, is_v2: bool) -> tuple[Ints, Ints, Ints]:
    """The places of records as loops.decode_v2 fills them, the row of each in `headers`, and the number of each row."""
    # A record has at least six bytes, which bounds a wrong count.
    counts = np.minimum(np.maximum(headers[:, COUNT], 0), (ends - begins) // 6 + 1)
    total = int(counts.sum())
    spans = np.empty((total + 1, 8), dtype=np.int64)
    row_of = np.empty(total + 1, dtype=np.int64)
    good = np.empty(len(begins), dtype=np.int64)
    if is_v2:
        n = loops_for(buf).decode_v2(buf, begins, ends, counts, spans, row_of, good)
    else:
        n = loops_for(buf).decode_legacy(buf, begins, ends, spans, row_of, good)
    return spans[:n], row_of[:n], good


def _decode_wrappers(data: Bytes, headers: Ints, reading: _Reading) -> pl.DataFrame:
    """The messages inside compressed v0 or v1 messages, in chunks of about CHUNK_BYTES; none of a broken set."""
    found = (message_set(data, header, reading.at, reading.damage) for header in headers)
    chunks = _in_chunks((one for one in found if one is not None), lambda one: len(one.content))
    return pl.concat([empty(RECORDS), *(_decode_sets(chunk, reading) for chunk in chunks)])


def _decode_sets(sets: list[MessageSet], reading: _Reading) -> pl.DataFrame:
    ends = np.cumsum([len(one.content) for one in sets])
    begins = np.concatenate([one.begins + end - len(one.content) for one, end in zip(sets, ends, strict=True)])
    joined = np.frombuffer(b"".join(one.content for one in sets), dtype=np.uint8)
    headers = np.concatenate([one.headers for one in sets])
    frame = _decode(joined, headers, begins, begins + headers[:, SIZE], reading, False)
    expected = pl.DataFrame({"byte": headers[:, BYTE] + reading.at}).group_by("byte").len()
    whole = expected.join(frame.group_by("byte").len(), on=("byte", "len"), how="semi")["byte"]
    return frame.filter(pl.col("byte").is_in(whole.implode()))
