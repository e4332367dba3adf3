"""Units of judging, and batches of small ones: partitions with few rows are read, sent and screened together.

A run may have 50,000 partitions with 20 records each. As a table of its own, each would cost more than its records.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

if TYPE_CHECKING:
    from ..histories.bundle import Run

SMALL_ROWS = 1_000  # of a partition in one table of a block of the history
MAX_SMALL_ROWS = 10_000  # of a partition in all: it had more in some block, as when a process reads it at once
BYTES_PER_BATCH = 16 << 20  # of the history: one batch costs as much as some 50,000 rows
MIN_BATCHES, MAX_BATCHES = 16, 1_024


class Unit(NamedTuple):
    """A unit of judging: a topic-partition, or all keys of a Jepsen history, because transactions join them."""

    topic: str
    partition: int


WHOLE = Unit("", -1)


def batches_of(run: Run) -> int:
    """The number of batches of a run: it follows from its size alone. 0 with brokers' files, which are never small."""
    if run.evidence:
        return 0
    if run.bytes <= BYTES_PER_BATCH:
        return 1
    return max(MIN_BATCHES, min(MAX_BATCHES, run.bytes // BYTES_PER_BATCH))


def batch_of(unit: Unit, batches: int) -> int:
    """The batch of a partition."""
    return (zlib.crc32(unit.topic.encode()) + unit.partition) % batches


def split_small(rows: pl.DataFrame, batches: int) -> tuple[list[tuple[int, pl.DataFrame]], pl.DataFrame]:
    """The rows of partitions with at most SMALL_ROWS, by their batch, and all other rows."""
    if not batches or not len(rows):
        return [], rows
    small, large = rows, rows.clear()
    if len(rows) > SMALL_ROWS:
        key = ["topic", "partition"]
        few = rows.group_by(key).len().filter(pl.col("len") <= SMALL_ROWS)
        if not len(few):  # as in most large runs
            return [], rows
        small, large = rows.join(few, on=key, how="semi"), rows.join(few, on=key, how="anti", maintain_order="left")
    if batches == 1:
        return [(0, small)], large
    first = {topic: batch_of(Unit(topic, 0), batches) for topic in small["topic"].unique()}
    batch = (pl.col("topic").replace_strict(first, return_dtype=pl.Int64) + pl.col("partition")) % batches
    return [(int(str(number)), part) for (number,), part in small.group_by(batch, maintain_order=True)], large


def by_unit(rows: pl.DataFrame) -> Iterator[tuple[Unit, pl.DataFrame]]:
    """The rows of each partition, without their topic and partition."""
    if not len(rows):
        return
    first = str(rows["topic"][0])
    if (rows["topic"] == first).all():  # as in most runs: numbers are grouped in half the time of texts
        parts = rows.drop("topic").partition_by("partition", as_dict=True, maintain_order=True, include_key=False)
        parts = {(first, partition): part for (partition,), part in parts.items()}
    else:
        parts = rows.partition_by("topic", "partition", as_dict=True, maintain_order=True, include_key=False)
    for (topic, partition), part in parts.items():
        yield Unit(str(topic), int(str(partition))), part
