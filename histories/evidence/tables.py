"""The tables that readers of the brokers' evidence produce, as polars schemas.

Every table begins with where its rows come from: `snapshot` ("" is the end of the run), `broker`, `file`.
`located` puts these in front of what a reader returns. Times are the brokers' own wall clocks in
milliseconds since the epoch; `clock.py` relates them to the history's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

Schema = Mapping[str, pl.DataType | type[pl.DataType]]

FINAL = ""  # the name of the snapshot that was taken at the end of the run, brokers/ itself

# One row a record batch (v2) or a message (v0 and v1, where a compressed wrapper is one message).
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
    "count": pl.Int32,  # records that stand in it; compaction may leave fewer than its offsets
    "byte": pl.Int64,  # position of the batch in its file
    "size": pl.Int32,  # bytes, with its prefix
}

# One row a record. `byte` is the position of its batch.
RECORDS: Schema = {
    "offset": pl.Int64,
    "leader_epoch": pl.Int32,
    "timestamp": pl.Int64,  # ms
    "key": pl.String,
    "value": pl.String,  # UTF-8; else "bytes:" and the record's digest; null is a tombstone
    "digest": pl.UInt64,  # FNV-1a over key, value and headers: equal digests, equal records
    "producer_id": pl.Int64,
    "transactional": pl.Boolean,
    "control": pl.String,  # null for data; commit, abort, or other for control records
    "byte": pl.Int64,
}

# Ranges of records that the history does not speak of, each of one batch. `byte` is its position.
PASSED: Schema = {
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,
    "leader_epoch": pl.Int32,
    "producer_id": pl.Int64,  # of transactional ones alone
    "byte": pl.Int64,
}

# What a table of a partition asks of its logs (record_filter.py): hashes of texts, and offsets.
ASKED: Schema = {
    "values": pl.List(pl.UInt64),
    "keys": pl.List(pl.UInt64),
    "offsets": pl.List(pl.Int64),
    "stand_ins": pl.Boolean,  # a value may stand for one that is no text
    "cleaned": pl.Boolean,  # the log cleaner has been there
}

# One row a segment without a byte, which says where its log ends if no other segment does.
SEGMENTS: Schema = {"base_offset": pl.Int64}

# What a reader could not read or must not believe. Offsets first..last are unknown because of it.
DAMAGE: Schema = {
    "kind": pl.String,  # torn-tail zeros crc magic length order decode unreadable syntax left-out
    "byte": pl.Int64,
    "line": pl.Int64,
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,
    "reason": pl.String,
}

# One row a line of an offset checkpoint.
CHECKPOINTS: Schema = {
    "name": pl.String,  # high-watermark recovery-point log-start cleaned
    "topic": pl.String,
    "partition": pl.Int32,
    "offset": pl.Int64,
    "line": pl.Int64,
}

# One row a line of a leader-epoch-checkpoint.
EPOCHS: Schema = {
    "leader_epoch": pl.Int32,
    "start_offset": pl.Int64,
    "line": pl.Int64,
}

# meta.properties, partition.metadata, quorum-state: what the file says, as text.
PROPERTIES: Schema = {
    "key": pl.String,
    "value": pl.String,
    "line": pl.Int64,
}

# One row a record of __cluster_metadata that concerns a partition, a broker or a topic's configuration.
METADATA: Schema = {
    "offset": pl.Int64,  # in __cluster_metadata
    "time": pl.Int64,  # ms, the controller's clock
    # topic, partition, change, register, fence, unfence, unregister, shutdown, config, feature, remove-topic
    "kind": pl.String,
    "topic": pl.String,
    "topic_id": pl.String,  # base64, as partition.metadata has it; of topic, remove-topic, partition and change
    "partition": pl.Int32,
    "broker_id": pl.Int32,  # the broker that a registration concerns
    "leader": pl.Int32,  # after the record; -1 is none
    "leader_epoch": pl.Int32,
    "partition_epoch": pl.Int32,
    "isr": pl.List(pl.Int32),
    "replicas": pl.List(pl.Int32),
    "elr": pl.List(pl.Int32),  # eligible leader replicas (KIP-966)
    "last_known_elr": pl.List(pl.Int32),
    "recovering": pl.Boolean,  # leaderRecoveryState: true after an unclean election (KIP-704)
    "key": pl.String,  # of a config, or of a feature level
    "value": pl.String,
    "byte": pl.Int64,
}

# One row a line of server.log, controller.log or state-change.log that a pattern knows.
LOG_EVENTS: Schema = {
    "time": pl.Int64,  # ms since the epoch, the broker's clock read as UTC
    "kind": pl.String,
    "topic": pl.String,
    "partition": pl.Int32,
    "subject": pl.String,  # the broker that the line speaks of, where it is not the one that wrote it
    "fields": pl.String,  # JSON object of what the pattern captured
    "line": pl.Int64,
    "text": pl.String,  # the line, at most 400 characters
}

LOCATION: Schema = {"snapshot": pl.String, "broker": pl.String, "file": pl.String}


@dataclass(frozen=True)
class Block:
    """What one reader says of one topic-partition (or of none) from a part of one file."""

    table: str
    topic: str | None
    partition: int | None
    frame: pl.DataFrame


def located(frame: pl.DataFrame, snapshot: str, broker: str, file: str) -> pl.DataFrame:
    """The frame with where it comes from in front."""
    return frame.select(
        pl.lit(snapshot, pl.String).alias("snapshot"),
        pl.lit(broker, pl.String).alias("broker"),
        pl.lit(file, pl.String).alias("file"),
        pl.all(),
    )


def empty(schema: Schema, with_location: bool = False) -> pl.DataFrame:
    """A frame of this schema without rows."""
    return pl.DataFrame(schema={**LOCATION, **schema} if with_location else schema)


def damage_row(
    kind: str,
    reason: str,
    byte: int | None = None,
    line: int | None = None,
    first_offset: int | None = None,
    last_offset: int | None = None,
) -> dict[str, object]:
    """One row of DAMAGE."""
    return {
        "kind": kind,
        "byte": byte,
        "line": line,
        "first_offset": first_offset,
        "last_offset": last_offset,
        "reason": reason,
    }
