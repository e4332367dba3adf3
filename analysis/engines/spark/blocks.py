"""Blocks: the rows that Spark's tasks hand each other.

The payload of a row is a compressed table in Arrow's IPC format, or JSON where it is small. No session is needed here.
"""

from __future__ import annotations

import gc
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow as pa

from ....histories.pairing import PLACED_EVENTS
from ...stages import Parts
from ..store import pack as pack
from ..store import unpack as unpack

if TYPE_CHECKING:
    from pyspark import Accumulator

_TYPES = {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}


def schema_of(columns: str) -> pa.Schema:
    """Arrow's schema of columns that are written as for Spark."""
    return pa.schema([(name, _TYPES[kind]) for name, kind in map(str.split, columns.split(", "))])


BLOCK = "kind string, topic string, partition int, name string, number long, payload binary"
SCHEMA = schema_of(BLOCK)
MAX_DEPENDENCIES = 1 << 18  # of a block: the JVM copies a payload several times, so a partition's may not fit into it
BUCKETS = 16  # groups in which invocations and completions of different splits meet
Batches = Iterator[pa.RecordBatch]  # what a task gets and yields
GroupMap = Callable[[pa.Table], pa.Table]  # what applyInArrow takes for a group


class Row(NamedTuple):
    """A block."""

    kind: str
    topic: str
    partition: int  # of some kinds: the batch or the bucket
    name: str  # of the table, or of the split
    number: int  # blocks are taken in this order, whatever task made them; of facts and suspects: the range
    payload: bytes


def first_number(task: int, block: int = 0) -> int:
    """The number of the first row that a task, or a block of its split, yields; a block has room for 2^20 rows."""
    return task << 40 | block << 20


def rows_of(parts: Parts, split: str, first: int) -> list[Row]:
    """The blocks of a task's Parts, numbered from `first`."""
    found: list[tuple[str, str, int, str, bytes]] = [
        ("observations", unit.topic, unit.partition, table, pack(frame)) for unit, table, frame in parts.observations
    ]
    found += [("small", "", batch, table, pack(frame)) for batch, table, frame in parts.small]
    found += [("headers", unit.topic, unit.partition, "", pack(frame)) for unit, frame in parts.headers]
    found += [("jobs", unit.topic, unit.partition, "", pack(frame)) for unit, frame in parts.jobs]
    for kind in ("context", "unplaced", "quarantine", "damage"):
        found += [(kind, "", -1, "", pack(frame)) for frame in getattr(parts, kind)]
    found += [("shared", "", -1, table, pack(frame)) for table, frame in parts.shared]
    for frame in parts.unpaired:
        events = frame.select(list(PLACED_EVENTS))
        found += [("unpaired", "", bucket, "", pack(own)) for bucket, own in split_by_hash(events, "process", BUCKETS)]
    if parts.counts:
        name = split if "lines" in parts.counts else ""
        found.append(("counts", "", -1, name, json.dumps(parts.counts).encode()))
    return [
        Row(kind, topic, partition, name, number, payload)
        for number, (kind, topic, partition, name, payload) in enumerate(found, first)
    ]


def split_by_hash(frame: pl.DataFrame, name: str, buckets: int) -> Iterator[tuple[int, pl.DataFrame]]:
    """The buckets by a hash of the texts in a column, and the rows of each."""
    numbers = {text: zlib.crc32(text.encode()) % buckets for text in frame[name].unique().to_list()}
    bucket = pl.col(name).replace_strict(numbers, return_dtype=pl.Int32).alias("bucket")
    for (number,), rows in frame.group_by(bucket, maintain_order=True):
        yield int(str(number)), rows


def blocks_of_parts(
    found: Iterable[tuple[str, Parts]], first: int, lines: Accumulator[int] | None = None
) -> Iterator[pa.RecordBatch]:
    """The blocks of the Parts of splits (by name), numbered from `first`. Counts their `lines`."""
    for split, parts in found:
        if lines is not None:
            lines.add(parts.counts.get("lines", 0))
        rows = rows_of(parts, split, first)
        first += len(rows)
        yield from to_batches(rows)
    freeze_imports()


def freeze_imports() -> None:
    """Excludes what a worker has imported from garbage collections.

    PySpark runs one after each task: with numba imported it takes longer than many a task.
    """
    _freeze(len(sys.modules))


@cache
def _freeze(_modules: int) -> None:
    """Freezes once for a number of imported modules: later tasks may import more."""
    gc.collect()
    gc.freeze()


def of_no_partition(kind: str, payload: bytes, name: str = "") -> Row:
    """A block that belongs to no topic-partition."""
    return Row(kind, "", -1, name, 0, payload)


def dependency_blocks(dependencies: pl.DataFrame, bucket: int = -1) -> Iterator[tuple[str, int, bytes]]:
    """DEPENDENCIES in blocks: the kind, the bucket, and the payload."""
    return (("dependencies", bucket, pack(rows)) for rows in dependencies.iter_slices(MAX_DEPENDENCIES))


def to_batches(rows: Iterable[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> Iterator[pa.RecordBatch]:
    """One batch a row, as Spark holds a whole batch at once."""
    for row in rows:
        columns = [pa.array([value], field.type) for value, field in zip(row, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
    freeze_imports()


def rows_in(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows that a task gets, one after the other."""
    for batch in batches:
        yield from batch.to_pylist()
    freeze_imports()


def in_order(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """The blocks of a group in their order."""
    return sorted(rows_in(batches), key=lambda row: int(row["number"]))
