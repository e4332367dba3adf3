"""Segments of a partition's log: record batches v2, message sets v0 and v1, every compression.

A range of a file is read at a time (`split_segment` gives ranges of whole batches from headers alone), so
that a segment of 1 GiB is read by several tasks and never whole in memory. What is torn, does not match its
CRC or does not parse comes out as damage with its byte and the offsets that are unknown because of it,
never as an exception. Records of a batch whose CRC is wrong are not decoded: they prove nothing.

Headers and records are decoded by compiled loops (batch_kernels.py); aiokafka's codecs decompress. Measured
on two shared cores: see benchmarks/segments.py. aiokafka's own record parser is the test's second opinion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from aiokafka.codec import snappy_decode

from ..errors import first_line
from ..files import unpacked
from . import batch_kernels as kernels
from . import lz4_frames
from .batch_headers import HEADERS, Bytes, Ints, distrust, hidden, walk_headers
from .tables import BATCHES, DAMAGE, RECORDS, damage_row

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MOST_UNPACKED = 1 << 30  # bytes of a batch: what becomes more is a bomb
DECODERS: dict[int, Callable[[bytes], bytes]] = {
    1: lambda payload: unpacked(payload, "gzip", MOST_UNPACKED),
    2: snappy_decode,
    3: lz4_frames.unpack,
    4: lambda payload: unpacked(payload, "zstd", MOST_UNPACKED),
}
CODEC_BITS, APPEND_TIME_BIT, TRANSACTIONAL_BIT, CONTROL_BIT = 0x07, 0x08, 0x10, 0x20

# Columns of the batch table that come from elsewhere than the header of the same name.
_DERIVED = ("attributes", "crc2", "base_offset", "count", "base_timestamp")
# Columns of a batch's header that its records need.
_KEPT = (
    "base_offset",
    "leader_epoch",
    "magic",
    "producer_id",
    "attributes",
    "max_timestamp",
    "byte",
    "base_timestamp",
)


@dataclass(frozen=True)
class Segment:
    """What a range of a segment holds: tables BATCHES, RECORDS and DAMAGE."""

    batches: pl.DataFrame
    records: pl.DataFrame
    damage: pl.DataFrame


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


def read_segment(path: Path, start: int = 0, end: int | None = None) -> Segment:
    """Read the batches of a byte range, which begins with a batch (as `split_segment` gives them)."""
    return _read(path, start, end, True)


def read_headers(path: Path, start: int = 0, end: int | None = None) -> Segment:
    """The same without records: the batches, each checked against its CRC."""
    return _read(path, start, end, False)


def _read(path: Path, start: int, end: int | None, decoded: bool) -> Segment:
    try:
        size = path.stat().st_size
        stop = size if end is None else min(end, size)
        data: Bytes = np.fromfile(path, dtype=np.uint8, count=max(0, stop - start), offset=min(start, size))
    except OSError as error:
        row = damage_row("unreadable", f"cannot be read: {error.strerror or error}", byte=start)
        return Segment(_empty(BATCHES), _empty(RECORDS), pl.DataFrame([row], schema=DAMAGE))
    return parse(data, start, _first_offset_of(path), decoded)


def parse(data: Bytes, at: int = 0, first_offset: int = 0, decoded: bool = True) -> Segment:
    """Parse bytes that stand at position `at` of their file; offsets begin at first_offset or later."""
    headers, damage = walk_headers(data, at, first_offset)
    if not len(headers):
        return Segment(_empty(BATCHES), _empty(RECORDS), pl.DataFrame(damage, schema=DAMAGE))
    crc_ok = (headers[:, 8] & 1) == 1
    for index in np.flatnonzero(~crc_ok):
        row = headers[index]
        first, last = hidden(headers, crc_ok, int(index), first_offset)
        reason = f"CRC {int(row[8]) >> 1:#010x} is not that of the {int(row[12])} bytes of the batch"
        damage.append(damage_row("crc", reason, at + int(row[11]), None, first, last))
    trusted = distrust(headers, crc_ok, at, damage)
    records, bases, counts = _empty(RECORDS), headers[:, 0], headers[:, 10]
    if decoded:
        records, bases, counts = _records(data, headers, trusted, at, damage)
    # A batch that is not believed keeps its row, as one whose CRC is wrong: no rule takes it at its word.
    batches = _batch_frame(headers, trusted, bases, counts, at)
    return Segment(batches, records, pl.DataFrame(damage, schema=DAMAGE))


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
        if not row[8] & 1:
            damage.append(damage_row("crc", "CRC of the batch is wrong", int(row[11]), None, *map(int, row[:2])))
            continue
        if row[3] != 2 or row[7] & CONTROL_BIT:
            continue
        buf, begin, end = data, int(row[11]) + kernels.V2_OVERHEAD, int(row[11] + row[12])
        if row[7] & CODEC_BITS:
            unpacked = _unpack(data[begin:end].tobytes(), int(row[7]) & CODEC_BITS, row, 0, damage)
            buf = np.frombuffer(unpacked or b"", dtype=np.uint8)
            begin, end = 0, len(buf)
        counts = np.minimum(row[10:11], (end - begin) // 6 + 1)
        spans = np.empty((int(max(counts[0], 0)) + 1, 8), dtype=np.int64)
        row_of = np.empty(len(spans), dtype=np.int64)
        n, _ = kernels.decode_v2(buf, np.array([begin]), np.array([end]), np.maximum(counts, 0), spans, row_of)
        for span in spans[:n]:
            value = buf[span[4] : span[4] + span[5]].tobytes() if span[5] >= 0 else None
            out.append(RawRecord(int(row[0] + span[0]), int(row[13] + span[1]), value, int(row[11])))
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


def _records(
    data: Bytes, headers: Ints, crc_ok: Any, at: int, damage: list[dict[str, object]]
) -> tuple[pl.DataFrame, Ints, Ints]:
    """The records of all batches whose CRC is right, and each batch's base offset and count."""
    bases, counts = headers[:, 0].copy(), headers[:, 10].copy()
    codec = headers[:, 7] & CODEC_BITS
    new = headers[:, 3] == 2
    frames = []
    for magic2 in (True, False):
        plain = np.flatnonzero(crc_ok & (codec == 0) & (new == magic2))
        if len(plain):
            head = headers[plain]
            begins = head[:, 11] + (kernels.V2_OVERHEAD if magic2 else 0)
            frames.append(_decode(data, head, begins, head[:, 11] + head[:, 12], at, damage, magic2))
    packed_new = np.flatnonzero(crc_ok & (codec != 0) & new)
    if len(packed_new):
        frames.extend(_decode_packed(data, headers[packed_new], at, damage))
    for index in np.flatnonzero(crc_ok & (codec != 0) & ~new):
        inner = _decode_wrapper(data, headers[index], at, damage)
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


def _decode_packed(
    data: Bytes, headers: Ints, at: int, damage: list[dict[str, object]], limit: int = 64 << 20
) -> list[pl.DataFrame]:
    """Records of compressed v2 batches: unpacked side by side, about `limit` bytes at a time."""
    frames: list[pl.DataFrame] = []
    chunks: list[bytes] = []
    rows: list[int] = []
    held = 0

    def flush() -> None:
        sizes = np.array([len(chunk) for chunk in chunks], dtype=np.int64)
        ends = np.cumsum(sizes)
        joined = np.frombuffer(b"".join(chunks), dtype=np.uint8)
        frames.append(_decode(joined, headers[rows], ends - sizes, ends, at, damage, True))

    for i, row in enumerate(headers):
        payload = data[row[11] + kernels.V2_OVERHEAD : row[11] + row[12]].tobytes()
        unpacked = _unpack(payload, int(row[7]) & CODEC_BITS, row, at, damage)
        if unpacked is None:
            continue
        chunks.append(unpacked)
        rows.append(i)
        held += len(unpacked)
        if held >= limit:
            flush()
            chunks, rows, held = [], [], 0
    if rows:
        flush()
    return frames


def _unpack(payload: bytes, codec: int, row: Ints, at: int, damage: list[dict[str, object]]) -> bytes | None:
    try:
        return bytes(DECODERS[codec](payload))
    except Exception as error:
        name = CODECS[codec] if codec < len(CODECS) else f"codec {codec}"
        damage.append(
            damage_row(
                "decode",
                f"{name} does not unpack the batch: {first_line(error)}",
                byte=at + int(row[11]),
                first_offset=int(row[0]),
                last_offset=int(row[1]),
            )
        )
        return None


def _decode(
    buf: Bytes,
    headers: Ints,
    begins: Ints,
    ends: Ints,
    at: int,
    damage: list[dict[str, object]],
    magic2: bool,
) -> pl.DataFrame:
    """Records whose payloads stand in buf at begins..ends; headers row by row as theirs."""
    # A record takes six bytes at least, so a count that lies cannot ask for more rows than bytes allow.
    counts = np.minimum(np.maximum(headers[:, 10], 0), (ends - begins) // 6 + 1)
    total = int(counts.sum())
    spans = np.empty((total + 1, 8), dtype=np.int64)
    row_of = np.empty(total + 1, dtype=np.int64)
    if magic2:
        n, good = kernels.decode_v2(buf, begins, ends, counts, spans, row_of)
    else:
        n, good = kernels.decode_legacy(buf, begins, ends, spans, row_of)
    for index in np.flatnonzero(good != headers[:, 10]):
        head = headers[index]
        reason = f"{int(good[index])} of the {int(head[10])} records of the batch parse"
        damage.append(damage_row("decode", reason, at + int(head[11]), None, int(head[0]), int(head[1])))
    return _record_frame(buf, headers, spans[:n], row_of[:n], at)


def _record_frame(buf: Bytes, headers: Ints, spans: Ints, row_of: Ints, at: int) -> pl.DataFrame:
    column = {name: np.ascontiguousarray(headers[:, i])[row_of] for i, name in enumerate(HEADERS) if name in _KEPT}
    attributes, magic = column["attributes"], column["magic"]
    append_time = (attributes & APPEND_TIME_BIT) != 0
    control = (magic == 2) & ((attributes & CONTROL_BIT) != 0)
    # With LogAppendTime the batch's maximum is the time of all its records; legacy deltas are zero.
    timestamps = np.where(append_time, column["max_timestamp"], column["base_timestamp"] + spans[:, 1])
    digest = np.empty(len(spans), dtype=np.uint64)
    kernels.digests(buf, spans, digest)
    frame = pl.DataFrame(
        {
            "offset": column["base_offset"] + spans[:, 0],
            "leader_epoch": column["leader_epoch"],
            "timestamp": timestamps,
            "key": _text(buf, spans[:, 2], spans[:, 3], digest),
            "value": _text(buf, spans[:, 4], spans[:, 5], digest),
            "digest": digest,
            "producer_id": column["producer_id"],
            "transactional": (magic == 2) & ((attributes & TRANSACTIONAL_BIT) != 0),
            "control": _control_types(buf, spans, control),
            "byte": column["byte"] + at,
        }
    )
    return frame.with_columns(
        *(pl.when(pl.col(n) >= 0).then(pl.col(n)).alias(n) for n in ("leader_epoch", "producer_id", "timestamp")),
        # The key and value of a marker are Kafka's own binary, and no message's.
        *(pl.when(pl.col("control").is_null()).then(pl.col(n)).alias(n) for n in ("key", "value")),
    ).select(pl.col(name).cast(dtype) for name, dtype in RECORDS.items())


def _text(buf: Bytes, starts: Ints, lengths: Ints, digest: Any) -> pl.Series:
    """Slices of the bytes as text: null for length -1, "bytes:" and the digest where it is not UTF-8."""
    kept = np.empty(len(starts), dtype=np.int64)
    own = kernels.text_lengths(buf, starts, lengths, kept)
    out = np.empty(int(kept.sum()), dtype=np.uint8)
    offsets = np.empty(len(starts) + 1, dtype=np.int64)
    kernels.gather(buf, starts, kept, own, digest, out, offsets)
    present = np.packbits(lengths >= 0, bitorder="little")
    buffers = [pa.py_buffer(present), pa.py_buffer(offsets), pa.py_buffer(out)]
    text = pl.from_arrow(pa.LargeStringArray.from_buffers(len(starts), buffers[1], buffers[2], buffers[0]))
    assert isinstance(text, pl.Series)
    return text


def _control_types(buf: Bytes, spans: Ints, control: Any) -> pl.Series:
    """The type of each control record (ControlRecordType: version and type, two bytes each, are its key)."""
    if not control.any():
        return pl.repeat(None, len(spans), dtype=pl.String, eager=True)
    types: list[str | None] = [None] * len(spans)
    for index in np.flatnonzero(control):
        start, length = int(spans[index, 2]), int(spans[index, 3])
        kind = int.from_bytes(buf[start + 2 : start + 4].tobytes(), "big") if length >= 4 else -1
        types[index] = {0: "abort", 1: "commit"}.get(kind, "other")
    return pl.Series(types, dtype=pl.String)


def _decode_wrapper(data: Bytes, header: Ints, at: int, damage: list[dict[str, object]]) -> pl.DataFrame:
    """The messages inside a compressed v0 or v1 message.

    The wrapper's offset is that of its last message; inside, v1 counts from 0 (KIP-31) and v0 is absolute.
    """
    magic, position, wrapper_offset = int(header[3]), int(header[11]), int(header[0])
    value_at = position + (26 if magic == 1 else 18)
    key_length = int(kernels.be(data, value_at, 4))
    value_at += 4 + max(key_length, 0)
    length = int(kernels.be(data, value_at, 4))
    payload = data[value_at + 4 : value_at + 4 + max(length, 0)].tobytes()
    unpacked = _unpack(payload, int(header[7]) & CODEC_BITS, header, at, damage)
    if unpacked is None:
        return _empty(RECORDS)
    inner = np.frombuffer(unpacked, dtype=np.uint8)
    found, broken = walk_headers(inner)
    if broken or not len(found):
        reason = "the message set inside the compressed message is broken"
        damage.append(damage_row("decode", reason, at + position, None, wrapper_offset, wrapper_offset))
        return _empty(RECORDS)
    positions = found[:, 11].copy()
    offsets = found[:, 0] + (wrapper_offset - int(found[-1, 0]) if magic == 1 else 0)
    if header[7] & APPEND_TIME_BIT:
        found[:, 13] = header[9]
    frame = _decode(inner, found, positions, positions + found[:, 12], at, damage, False)
    if frame.height != len(found):
        return _empty(RECORDS)
    return frame.with_columns(pl.Series("offset", offsets), pl.lit(at + position, pl.Int64).alias("byte")).select(
        pl.col(name).cast(dtype) for name, dtype in RECORDS.items()
    )
