"""Segment files as brokers write them: record batches (format 2), or message sets (format 1) before 0.11.

Format 2 goes through aiokafka's builder, which makes the records and their CRC32C in C; leader epoch and
base offset lie outside the CRC and are written over its header. Format 1 is a few lines of struct. The
layout is that of https://kafka.apache.org/documentation/#messageformat.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from ...models.replication.log import Batch, ReplicaLog
from .names import epoch_ms, value

HEAD = struct.Struct(">qii")  # base offset, batch length, partition leader epoch


def batch_bytes(batch: Batch, partition: int) -> bytes:
    """One record batch, magic 2, uncompressed, CreateTime."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=batch.pid,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.sequence,
        batch_size=1 << 30,
    )
    timestamp = epoch_ms(batch.time)
    for index in range(batch.end - batch.base):
        text = value(batch.producer, partition, batch.first + index).encode()
        builder.append(index, timestamp, None, text, [])
    raw = bytearray(builder.build())
    HEAD.pack_into(raw, 0, batch.base, len(raw) - 12, batch.epoch)
    return bytes(raw)


def message_set(batch: Batch, partition: int) -> bytes:
    """The same records as single messages, magic 1, CreateTime."""
    found: list[bytes] = []
    timestamp = epoch_ms(batch.time)
    for index in range(batch.end - batch.base):
        text = value(batch.producer, partition, batch.first + index).encode()
        # magic, attributes, timestamp, key length (-1: none), value length
        body = struct.pack(">bbqii", 1, 0, timestamp, -1, len(text)) + text
        found.append(struct.pack(">qiI", batch.base + index, len(body) + 4, zlib.crc32(body)) + body)
    return b"".join(found)


def segments(log: ReplicaLog, partition: int, magic: int, segment_bytes: int) -> Iterator[tuple[int, Iterator[bytes]]]:
    """(base offset, chunks) of each segment file; an empty log has one empty file."""
    write = batch_bytes if magic == 2 else message_set
    batches = log.batches()
    first = batches[0].base if batches else log.end
    start = 0
    while True:
        size, stop = 0, start
        while stop < len(batches):
            size += 61 + 30 * (batches[stop].end - batches[stop].base)  # an upper estimate decides the roll
            if size > segment_bytes and stop > start:
                break
            stop += 1
        base = batches[start].base if start < len(batches) else first
        yield base, (write(batch, partition) for batch in batches[start:stop])
        start = stop
        if start >= len(batches):
            return


def write_segments(folder: Path, log: ReplicaLog, partition: int, magic: int, segment_bytes: int) -> None:
    for base, chunks in segments(log, partition, magic, segment_bytes):
        with (folder / f"{base:020d}.log").open("wb") as out:
            for chunk in chunks:
                out.write(chunk)
