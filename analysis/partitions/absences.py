"""What a log may legally lack, and from when on: what is below its start, and what compaction removes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ..replicas.resolved_outcomes import ABORTED, BELOW_START, COMPACTED
from .entries import Ints
from .partition import Offsets, Partition, once
from .ranges import ranges_in


class Existing(NamedTuple):
    """Offsets that held a record, sorted, and until when (ns) each is known to: beyond all, or its legal end."""

    offsets: Offsets
    until: Ints

    def between(self, first: int, end: int, time: int) -> Offsets:
        """Those from `first` to `end` (exclusive) that were still there at a time."""
        low, high = np.searchsorted(self.offsets, [first, end], "left")
        return self.offsets[low:high][self.until[low:high] > time]


@once
def existing(p: Partition) -> Existing:
    """Offsets that hold a record for a read_committed consumer: acknowledged or polled ones.

    Legally absent ones are left out, and so are aborted ones: there is nothing to skip.
    """
    return _existing(p, p.entries.filter(p.committed), p.legally_absent)


@once
def existing_uncommitted(p: Partition) -> Existing:
    """The same for a read_uncommitted consumer, which sees records of aborted transactions too."""
    return _existing(p, p.entries, p.legally_absent.filter(pl.col("reason") != ABORTED))


@once
def lasting(p: Partition) -> Offsets:
    """Those of the existing offsets that nothing may have taken legally."""
    held = existing(p)
    return np.asarray(held.offsets[held.until == MAX_INT64])


def _existing(p: Partition, entries: pl.DataFrame, ranges: pl.DataFrame) -> Existing:
    offsets = entries["offset"].to_numpy()
    taken = _taken(p, entries["value"])
    never = ranges_in(ranges.filter(~pl.col("reason").is_in([BELOW_START, COMPACTED])))
    cleaned = ranges_in(ranges.filter(pl.col("reason") == COMPACTED))
    until = np.minimum(p.log_start.since(offsets), taken)
    until[never.hold(offsets)] = MIN_INT64
    # Of what the cleaner is seen to have removed nobody knows when, unless the history tells what replaced it.
    until[cleaned.hold(offsets) & (taken == MAX_INT64)] = MIN_INT64
    offsets, until = offsets[until > MIN_INT64], until[until > MIN_INT64]
    if not len(offsets):
        return Existing(offsets, until)
    starts = np.flatnonzero(np.append(True, np.diff(offsets) > 0))
    return Existing(offsets[starts], np.maximum.reduceat(until, starts))


def _taken(p: Partition, values: pl.Series) -> Ints:
    """From when on (ns) compaction may have removed each of the values."""
    gone = pl.concat([superseded(p), maybe_compacted(p)]).group_by("value").agg(pl.col("since").min())
    if not len(gone):
        return np.full(len(values), MAX_INT64, np.int64)
    found = values.to_frame("value").join(gone, on="value", how="left", maintain_order="left")["since"]
    return np.asarray(found.fill_null(MAX_INT64).to_numpy())


@once
def superseded(p: Partition) -> pl.DataFrame:
    """Values that compaction removes, tombstones among them, and since when (ns); none without compaction."""
    if not p.settings.compacted(p.topic):
        return _tombstones(p).clear()
    return pl.concat([replaced(p).filter("surely").select("value", "since"), _tombstones(p)])


@once
def maybe_compacted(p: Partition) -> pl.DataFrame:
    """The same of values of which nobody knows whether compaction may remove them.

    Tombstones where nobody told the policy, as who writes them expects it; and values of which nobody knows whether
    the other record of their key was written, or which of the two is the later one.
    """
    if "cleanup.policy" not in p.settings.topic(p.topic):
        return _tombstones(p)
    if not p.settings.compacted(p.topic):
        return _tombstones(p).clear()
    return replaced(p).filter(~pl.col("surely")).select("value", "since")


def _tombstones(p: Partition) -> pl.DataFrame:
    return pl.DataFrame({"value": p.tombstones, "since": pl.repeat(MIN_INT64, len(p.tombstones), eager=True)})


@once
def replaced(p: Partition) -> pl.DataFrame:
    """Values whose key another record has, or a tombstone, that is later, surely or perhaps.

    Columns: value, surely, and since (ns): the first of such records was sent.
    """
    keyed = pl.col("key").is_not_null() & (pl.col("outcome") != "fail")
    written = pl.concat([frame.filter(keyed) for frame in (p.sends, p.unplaced)])
    read = p.entries.filter(pl.col("times") > 0).select("value", pl.col("offset").alias("read_offset")).unique("value")
    mine = (
        written.filter(pl.col("key").is_duplicated())
        .join(read, on="value", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("offset", "read_offset").alias("offset"),
            (pl.col("acknowledged") | pl.col("read_offset").is_not_null()).alias("stands"),
            pl.col("completed").fill_null(MAX_INT64),
        )
    )
    behind = (
        mine.drop_nulls("offset")
        .group_by("key", "offset")
        .agg(pl.col("invoked").min())
        .sort("key", "offset", descending=True)
        .select("key", "offset", pl.col("invoked").cum_min().shift(1).over("key").alias("behind"))
    )
    unplaced = pl.col("offset").is_null()
    last = pl.col("invoked").filter("stands")
    # Of two records of which one has no offset, the order of time tells which is the later one.
    anywhere, nowhere = last.max().over("key"), last.filter(unplaced.filter("stands")).max().over("key")
    later = pl.when(unplaced).then(anywhere).otherwise(nowhere) > pl.col("completed")
    # What was acknowledged before it was sent stands before it, wherever that is; all else of its key may be behind.
    end = pl.when("acknowledged").then("completed").otherwise(MAX_INT64)
    most = end.max().over("key")
    rest = pl.when(end == most).then(end.top_k(2).min().over("key")).otherwise(most)
    perhaps = pl.when(unplaced).then(rest).otherwise(end.filter(unplaced).max().over("key")) >= pl.col("invoked")
    perhaps = perhaps.fill_null(False)
    judged = mine.join(behind, on=["key", "offset"], how="left", maintain_order="left").with_columns(
        (pl.col("behind").is_not_null() | later.fill_null(False)).alias("surely"),
        perhaps.alias("perhaps"),
        pl.min_horizontal("behind", pl.when(perhaps).then(pl.col("invoked").min().over("key"))).alias("since"),
    )
    found = judged.filter((pl.col("surely") | "perhaps") & pl.col("value").is_not_null())
    return found.group_by("value").agg(pl.col("surely").any(), pl.col("since").min())
