"""Reads what a broker keeps of the producers of a partition: its index of aborted transactions, and its snapshots.

A `.txnindex` has 34 bytes for each aborted transaction (AbortedTxn.java), a `.snapshot` the state of each producer
before the offset in its name (ProducerSnapshot.json of Kafka's storage module, version 1).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from ..tables import typed
from .batch_layout import CRC32C
from .batch_loops import crc
from .record_schema import MalformedRecordError, WireCursor, fields_of, read_fields
from .tables import ABORTED, DAMAGE, PRODUCERS, Row, damage_row, null_where_negative, unreadable_row

INDEX_VERSION, INDEX_BYTES = 0, 34
SNAPSHOT_VERSION, ENTRIES_AT = 1, 6
MAX_BYTES = 64 << 20  # far more producers or transactions than a segment has
ENTRY = fields_of(
    "producer_id int64, producer_epoch int16, last_sequence int32, last_offset int64, offset_delta int32, "
    "timestamp int64, coordinator_epoch int32, open_since int64"
)
_INDEX = np.dtype([("version", ">i2"), *((name, ">i8") for name in ABORTED if name != "byte")])


def read_aborted_index(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables ABORTED and DAMAGE of a .txnindex."""
    data, damage = _content(path)
    whole = len(data) // INDEX_BYTES
    if len(data) % INDEX_BYTES:
        damage.append(damage_row("torn-tail", "ends within an entry of 34 bytes", whole * INDEX_BYTES))
    entries = np.frombuffer(data, _INDEX, whole)
    columns = {name: entries[name].astype(np.int64) for name in _INDEX.names or ()}
    frame = pl.DataFrame(columns | {"byte": np.arange(whole) * INDEX_BYTES})
    for row in frame.filter(pl.col("version") != INDEX_VERSION).head(1).iter_rows(named=True):
        damage.append(damage_row("decode", f"found an entry of version {row['version']}, expected 0", row["byte"]))
    known = frame.filter(pl.col("version") == INDEX_VERSION)
    return typed(known, ABORTED), pl.DataFrame(damage, schema=DAMAGE)


def read_producer_snapshot(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables PRODUCERS and DAMAGE of a .snapshot."""
    data, damage = _content(path)
    rows: list[Row] = []
    if not damage:
        try:
            rows = _producers(data, int(path.stem))
        except MalformedRecordError as error:
            damage.append(damage_row("decode", f"is no producer snapshot: {error}"))
    producers = pl.DataFrame(rows, schema=PRODUCERS)
    producers = producers.with_columns(null_where_negative("coordinator_epoch", "open_since"))
    return producers, pl.DataFrame(damage, schema=DAMAGE)


def _producers(data: bytes, offset: int) -> list[Row]:
    cursor = WireCursor(data)
    version, stored = cursor.integer(2), cursor.integer(4, signed=False)
    if version != SNAPSHOT_VERSION:
        raise MalformedRecordError(f"found version {version}, expected {SNAPSHOT_VERSION}")
    if crc(CRC32C.tolist(), data, ENTRIES_AT, len(data)) != stored:
        raise MalformedRecordError(f"CRC {stored:#010x} does not match its {len(data)} bytes")
    count = cursor.integer(4)
    return [
        {"snapshot_offset": offset, "byte": cursor.pos, **read_fields(cursor, ENTRY, 0, flexible=False)}
        for _ in range(count)
    ]


def _content(path: Path) -> tuple[bytes, list[Row]]:
    try:
        if path.stat().st_size > MAX_BYTES:
            return b"", [damage_row("unreadable", f"has more than {MAX_BYTES:,} bytes")]
        return path.read_bytes(), []
    except OSError as error:
        return b"", [unreadable_row(error)]
