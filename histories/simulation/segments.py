"""Segment files as brokers write them: record batches (format 2), or message sets (format 1) before 0.11.

Both are made by aiokafka's builders. Leader epoch and base offset of format 2 lie outside the CRC and are written over
its header. The layout is that of https://kafka.apache.org/documentation/#messageformat.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from ...models.replication.config import Config
from ...models.replication.copy_ledger import Copy, Source
from ...models.replication.keys import Keys
from ...models.replication.storage.batches import Batch
from ...models.replication.storage.replica_log import ReplicaLog
from ...models.replication.storage.segments import roll
from ...models.replication.storage.transactions import FIRST_TRANSACTIONAL, MARKER, is_commit
from .names import epoch_ms, source_key, value

HEAD = struct.Struct(">qii")  # base offset, batch length, partition leader epoch
CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT = 17, 21, 23
TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORTED = struct.Struct(">hqqqq")  # version, producer id, first and last offset, last stable offset (AbortedTxn)


Limits = tuple[int, int, Callable[[Batch], int]]
Content = Callable[[Batch, int], tuple[bytes | None, bytes | None]]
# key and value of a record, by its number in the batch


def values_of(partition: int, keys: Keys | None) -> Content:
    """The content of a topic's partition: values without keys, or with those of a compacted topic."""
    if keys is not None:
        return lambda batch, index: _value_and_key(keys, batch.producer, partition, batch.first + index)
    return lambda batch, index: (None, value(batch.producer, partition, batch.first + index).encode())


def _value_and_key(keys: Keys, producer: int, partition: int, number: int) -> tuple[bytes, bytes | None]:
    key, is_tombstone = keys.of(producer, partition, number)
    return key.encode(), None if is_tombstone else value(producer, partition, number).encode()


def copies_of(partition: int, config: Config, sources: Mapping[Copy, Source]) -> Content:
    """The content of a partition of copies: as keys, where their sources are."""

    def content(batch: Batch, index: int) -> tuple[bytes, bytes]:
        number = batch.first + index
        key = source_key(config.topic, *sources[Copy(batch.producer, partition, number)])
        return key.encode(), value(batch.producer, partition, number).encode()

    return content


def batch_bytes(batch: Batch, content: Content) -> bytes:
    """One record batch, magic 2, uncompressed, CreateTime."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=int(batch.pid >= FIRST_TRANSACTIONAL),
        producer_id=batch.pid,
        producer_epoch=batch.producer_epoch,
        base_sequence=max(batch.sequence, -1),
        batch_size=1 << 30,
    )
    timestamp = epoch_ms(batch.time)
    for index in batch.remaining():
        record = _marker(batch) if batch.producer == MARKER else content(batch, index)
        builder.append(index, timestamp, *record, [])
    raw = bytearray(builder.build())
    if batch.producer == MARKER:
        raw[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = struct.pack(">H", TRANSACTIONAL | CONTROL)
        raw[CRC_AT:ATTRIBUTES_AT] = struct.pack(">I", calc_crc32c(bytes(raw[ATTRIBUTES_AT:])))
    elif batch.removed:
        # A batch keeps its last offset and its sequence numbers (MemoryRecordsBuilder.overrideLastOffset).
        raw[LAST_DELTA_AT : LAST_DELTA_AT + 4] = struct.pack(">i", batch.count - 1)
        raw[CRC_AT:ATTRIBUTES_AT] = struct.pack(">I", calc_crc32c(bytes(raw[ATTRIBUTES_AT:])))
    HEAD.pack_into(raw, 0, batch.base, len(raw) - 12, batch.epoch)
    return bytes(raw)


def _marker(batch: Batch) -> tuple[bytes, bytes]:
    """Key and value of a control record: version and type; version and coordinator epoch."""
    return struct.pack(">hh", 0, is_commit(batch)), struct.pack(">hi", 0, -2 - batch.sequence)


def message_set(batch: Batch, content: Content) -> bytes:
    """The same records as single messages, magic 1, CreateTime."""
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1 << 30)
    timestamp = epoch_ms(batch.time)
    for index in batch.remaining():
        builder.append(batch.base + index, timestamp, *content(batch, index))
    return bytes(builder.build())


def segments(log: ReplicaLog, content: Content, magic: int, limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Chunks of segment files, each with the base offset of its file; an empty log has one empty file."""
    write = batch_bytes if magic == 2 else message_set
    base = -1
    for batch, begins in roll(log.batches(), *limits):
        if base < 0:
            yield batch.base, b""  # the cleaner keeps the first segment, also without records (replaceSegments)
        if begins:
            base = batch.base
        if batch.removed.bit_count() < batch.count or _is_needed(log, batch):
            yield base, write(batch, content)
    if base < 0:
        yield log.end, b""


def _is_needed(log: ReplicaLog, batch: Batch) -> bool:
    """Whether a batch stays without records, as the last one of its producer or of the log (Cleaner.cleanInto)."""
    state = log.producers.get(batch.pid)
    return batch.end == log.end or (state is not None and bool(state.recent) and state.recent[-1].base == batch.base)


def write_segments(folder: Path, log: ReplicaLog, content: Content, magic: int, limits: Limits) -> None:
    """Write the segment files of a log into its folder; `limits`: segment.bytes, segment.ms in microseconds,
    and the bytes of a batch."""
    chunks = segments(log, content, magic, limits)
    bases: list[int] = []
    for base, own in groupby(chunks, key=itemgetter(0)):
        bases.append(base)
        with (folder / f"{base:020d}.log").open("wb") as out:
            for _, chunk in own:
                out.write(chunk)
    for base, after in pairwise([*bases, log.end]):
        entries = [ABORTED.pack(0, *entry) for entry in log.transactions.aborted if base <= entry[2] < after]
        if entries:
            (folder / f"{base:020d}.txnindex").write_bytes(b"".join(entries))
