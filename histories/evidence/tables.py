"""The tables that readers of brokers' files produce, as polars schemas.

Every table begins with the location of its rows: `snapshot` ("" is the end of the run), `broker`, `file`. `located`
adds these columns to the table of a reader. Times are the brokers' wall clocks in milliseconds since the epoch;
clock.py relates them to the history's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from ..tables import Schema, no_rows

Row = dict[str, object]

FINAL = ""  # the snapshot at the end of the run: the folder brokers/

# One row for each record batch (v2) or message (v0 and v1; a compressed wrapper is one message).
BATCHES: Schema = {
    "base_offset": pl.Int64,
    "last_offset": pl.Int64,
    "leader_epoch": pl.Int32,  # null before v2
    "magic": pl.Int8,
    "producer_id": pl.Int64,  # null without idempotence
    "producer_epoch": pl.Int16,
    "base_sequence": pl.Int32,
    "codec": pl.String,  # none gzip snappy lz4 zstd
    "append_time": pl.Boolean,  # true for LogAppendTime
    "transactional": pl.Boolean,
    "control": pl.Boolean,
    "crc": pl.UInt32,  # as stored
    "crc_ok": pl.Boolean,
    "max_timestamp": pl.Int64,  # ms
    "count": pl.Int32,  # of its records; compaction may leave fewer than its offsets
    "byte": pl.Int64,  # position of the batch in its file
    "size": pl.Int32,  # bytes, with its prefix
}

# One row for each record. `byte` is the position of its batch.
RECORDS: Schema = {
    "offset": pl.Int64,
    "leader_epoch": pl.Int32,
    "timestamp": pl.Int64,  # ms
    "key": pl.String,
    "value": pl.String,  # UTF-8; else "bytes:" and the record's digest; null is a tombstone
    "digest": pl.UInt64,  # FNV-1a over key, value and headers: equal digests, equal records
    "producer_id": pl.Int64,  # null without idempotence, as the epoch
    "producer_epoch": pl.Int32,
    "transactional": pl.Boolean,
    "control": pl.String,  # null for data; commit, abort, or other for control records
    "byte": pl.Int64,
}

# Ranges of records that record_filter.py drops, each within one batch: the history does not refer to them.
# `byte` is the position of the batch.
DROPPED: Schema = {
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,
    "leader_epoch": pl.Int32,
    "producer_id": pl.Int64,  # null outside of transactions
    "byte": pl.Int64,
}

# The records that the observations of a partition refer to (record_filter.py): hashes of texts, and offsets.
LOOKUPS: Schema = {
    "values": pl.List(pl.UInt64),
    "keys": pl.List(pl.UInt64),
    "offsets": pl.List(pl.Int64),
    "has_digests": pl.Boolean,  # whether a value may be the digest of one that is not text
    "cleaned": pl.Boolean,  # the log cleaner has compacted the log
}

# One row for each empty segment. Its name is the log end offset if no other segment has records.
SEGMENTS: Schema = {"base_offset": pl.Int64}

# Content that a reader could not read or does not trust. The records at offsets first..last are unknown.
DAMAGE: Schema = {
    # torn-tail zeros crc magic length order decode unreadable missing syntax left-out leftover misplaced
    "kind": pl.String,
    "byte": pl.Int64,
    "line": pl.Int64,
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,
    "reason": pl.String,
}

# One row for each line of an offset checkpoint.
CHECKPOINTS: Schema = {
    "name": pl.String,  # high-watermark recovery-point log-start cleaned
    "topic": pl.String,
    "partition": pl.Int32,
    "offset": pl.Int64,
    "line": pl.Int64,
}

# One row for each line of a leader-epoch-checkpoint.
EPOCHS: Schema = {"leader_epoch": pl.Int32, "start_offset": pl.Int64, "line": pl.Int64}

# The entries of meta.properties, partition.metadata and quorum-state, as text.
PROPERTIES: Schema = {"key": pl.String, "value": pl.String, "line": pl.Int64}

# One row for each record of __cluster_metadata about a partition, a broker or a topic's configuration.
METADATA: Schema = {
    "offset": pl.Int64,  # in __cluster_metadata
    "time": pl.Int64,  # ms, the controller's clock
    # topic, partition, change, register, fence, unfence, unregister, shutdown, config, feature, remove-topic
    "kind": pl.String,
    "topic": pl.String,
    "topic_id": pl.String,  # base64, as partition.metadata has it; of topic, remove-topic, partition and change
    "partition": pl.Int32,
    "broker_id": pl.Int32,  # of a registration
    # directory.id (KIP-858): of a registration, those of all log.dirs; of a partition, that of each of its replicas
    "directories": pl.List(pl.String),
    "leader": pl.Int32,  # after the record; -1 is none
    "leader_epoch": pl.Int32,
    "partition_epoch": pl.Int32,
    "isr": pl.List(pl.Int32),
    "replicas": pl.List(pl.Int32),
    "adding": pl.List(pl.Int32),  # of the replicas, those that a reassignment adds (KIP-455)
    "removing": pl.List(pl.Int32),
    "elr": pl.List(pl.Int32),  # eligible leader replicas (KIP-966)
    "last_known_elr": pl.List(pl.Int32),
    # The record repeats an earlier state: that of a .checkpoint, or of ZooKeeper at the migration (KIP-866).
    "is_copy": pl.Boolean,
    "recovering": pl.Boolean,  # leaderRecoveryState: true after an unclean election (KIP-704)
    "key": pl.String,  # of a config, or of a feature level
    "value": pl.String,
    "byte": pl.Int64,
}

# One row for each record of __consumer_offsets, or for each partition that a generation assigns to a member.
GROUPS: Schema = {
    "at": pl.Int64,  # offset in __consumer_offsets; of a transaction's commit, that of its marker
    "time": pl.Int64,  # ms, the coordinator's clock
    "kind": pl.String,  # committed, removed (a committed offset), generation, group-removed, assigned
    # (by a generation), owned and released (by a member of KIP-848)
    "group": pl.String,
    "topic": pl.String,  # null for generation and group-removed
    "partition": pl.Int32,
    "offset": pl.Int64,  # committed: the next to read
    "leader_epoch": pl.Int32,
    "generation": pl.Int32,  # of owned: the member's epoch (KIP-848)
    "member": pl.String,  # member id
    "client": pl.String,  # client id
    "instance": pl.String,  # group.instance.id
    "members": pl.Int32,  # their number, of a generation
    "byte": pl.Int64,
    "intact": pl.Boolean,  # whether all records of this copy could be read
}

STEPS = ("began", "added", "prepared", "completed")  # of a transaction in one partition, by its coordinator

# One row for each transaction in __transaction_state and each of its partitions.
TRANSACTIONS: Schema = {
    "at": pl.Int64,  # offset in __transaction_state of its last record; began_at: of its first
    "began_at": pl.Int64,
    "time": pl.Int64,  # ms, the coordinator's clock, of its last record
    "state": pl.String,  # after its last record: ongoing, prepare-commit, … (transaction_records.STATES)
    "outcome": pl.String,  # commit or abort; null: not decided
    "transactional_id": pl.String,
    "producer_id": pl.Int64,
    "producer_epoch": pl.Int32,  # of its markers: after fencing, and with KIP-890, one more than that of its records
    "topic": pl.String,
    "partition": pl.Int32,
    "partitions": pl.List(pl.String),  # all of the transaction, in the order in which they were added
    # ms: when it began, when the partition was added, when it was decided, when all of its markers were written
    **dict.fromkeys(STEPS, pl.Int64),
    **{f"{step}_file": pl.String for step in STEPS},  # name of the segment with the record of a step
    **{f"{step}_byte": pl.Int64 for step in STEPS},
    "timeout_ms": pl.Int64,
    "last_state": pl.String,  # of the transactional id at the end of the log, with its producer epoch and time (ms)
    "last_epoch": pl.Int32,
    "last_time": pl.Int64,
    "byte": pl.Int64,
    "intact": pl.Boolean,  # whether all records of this copy could be read
}

# One row for each copy of a partition of __transaction_state; the file is its folder.
STATE_LOGS: Schema = {
    "state_partition": pl.Int32,
    "records": pl.Int64,  # null if some since offset 0 were compacted, deleted or damaged
    "intact": pl.Boolean,  # whether all of its files could be read
}

# One row for each aborted transaction in the .txnindex of a segment.
ABORTED: Schema = {
    "producer_id": pl.Int64,
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,  # of its ABORT marker
    "last_stable_offset": pl.Int64,
    "byte": pl.Int64,
}

# One row for each producer in a producer snapshot, whose offset is in the name of its file.
PRODUCERS: Schema = {
    "snapshot_offset": pl.Int64,  # the state before the record at this offset
    "producer_id": pl.Int64,
    "producer_epoch": pl.Int32,
    "last_sequence": pl.Int32,
    "last_offset": pl.Int64,
    "timestamp": pl.Int64,  # ms, of its last batch
    "coordinator_epoch": pl.Int32,  # of its last marker; null without one
    "open_since": pl.Int64,  # first offset of its open transaction; null without one
    "byte": pl.Int64,
}

# One row for each line of server.log, controller.log or state-change.log that matches a pattern.
LOG_EVENTS: Schema = {
    "time": pl.Int64,  # ms since the epoch, the broker's clock read as UTC
    "kind": pl.String,
    "topic": pl.String,
    "partition": pl.Int32,
    "subject": pl.String,  # the broker that the line is about, where another broker wrote it
    "fields": pl.String,  # JSON object of the fields that the pattern captured
    "line": pl.Int64,
}

LOCATION: Schema = {"snapshot": pl.String, "broker": pl.String, "file": pl.String}


@dataclass(frozen=True)
class Block:
    """The rows of one table that a part of a file has of one topic-partition, or of none."""

    table: str
    topic: str | None
    partition: int | None
    frame: pl.DataFrame


def located(frame: pl.DataFrame, snapshot: str, broker: str, file: str | pl.Expr) -> pl.DataFrame:
    """The frame with its location in front."""
    file = pl.lit(file) if isinstance(file, str) else file
    location = {"snapshot": pl.lit(snapshot), "broker": pl.lit(broker), "file": file}
    return frame.select(*(value.alias(name) for name, value in location.items()), pl.exclude(location))


def empty(schema: Schema, with_location: bool = False) -> pl.DataFrame:
    """An empty frame of the schema."""
    return no_rows({**LOCATION, **schema} if with_location else schema)


def damage_row(
    kind: str,
    reason: str,
    byte: int | None = None,
    first_offset: int | None = None,
    last_offset: int | None = None,
    line: int | None = None,
) -> Row:
    """One row of DAMAGE."""
    return dict(zip(DAMAGE, (kind, byte, line, first_offset, last_offset, reason), strict=True))


def unreadable_row(error: OSError, byte: int | None = None, first_offset: int | None = None) -> Row:
    """The row of DAMAGE of a file that cannot be read."""
    return damage_row("unreadable", f"cannot be read: {error.strerror or error}", byte, first_offset)


def null_where_negative(*names: str) -> Iterator[pl.Expr]:
    """These columns: a negative number, as Kafka writes for none, becomes null."""
    return (pl.when(pl.col(name) >= 0).then(name).alias(name) for name in names)
