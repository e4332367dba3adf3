"""Dates legal absences: when the log start passed a record, and when compaction may have removed it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ...models.arrays import Ints
from ..extremes import least
from ..replicas.resolved_outcomes import ABORTED, BELOW_START, COMPACTED
from ..timelines.facts import MS
from .cleanup_policies import compacted_until
from .indeterminate_polls import may_lack_operations
from .marks import is_final_read
from .partition import Offsets, Partition, once
from .ranges import ranges_in


class Existing(NamedTuple):
    """Sorted offsets of records, and until when (ns) each was there: its legal end, or MAX_INT64."""

    offsets: Offsets
    until: Ints

    def between(self, first: int, end: int, time: int) -> Offsets:
        """The offsets from `first` to `end` (exclusive) that were still there at `time`."""
        low, high = np.searchsorted(self.offsets, [first, end], "left")
        return self.offsets[low:high][self.until[low:high] > time]


@once
def existing(p: Partition, reads_uncommitted: bool, unless_compacted: bool = False) -> Existing:
    """Offsets with an acknowledged or polled record that a consumer of this isolation level sees.

    Legally absent records are excluded, and aborted ones of a read_committed consumer: a consumer cannot skip them.
    `unless_compacted`: if compaction removed only what it surely did, and nothing of `maybe_compacted`.
    """
    entries = p.entries if reads_uncommitted else p.entries.filter(p.committed)
    until = legal_ends(p, entries, reads_uncommitted, unless_compacted)
    offsets = entries["offset"].to_numpy()
    offsets, until = offsets[until > MIN_INT64], until[until > MIN_INT64]
    if not len(offsets):
        return Existing(offsets, until)
    starts = np.flatnonzero(np.append(True, np.diff(offsets) > 0))
    return Existing(offsets[starts], np.maximum.reduceat(until, starts))


def legal_ends(p: Partition, entries: pl.DataFrame, reads_uncommitted: bool, unless_compacted: bool = False) -> Ints:
    """Until when (ns) each entry was there for a consumer: its legal end, or MAX_INT64; MIN_INT64: never."""
    ranges = p.legally_absent
    if reads_uncommitted:
        ranges = ranges.filter(pl.col("reason") != ABORTED)
    offsets = entries["offset"].to_numpy()
    compacted = _compacted_since(superseded_values(p) if unless_compacted else removable_values(p), entries["value"])
    never = ranges_in(ranges.filter(~pl.col("reason").is_in([BELOW_START, COMPACTED])))
    cleaned = ranges_in(ranges.filter(reason=COMPACTED))
    until = compacted.copy()
    until[never.hold(offsets)] = MIN_INT64
    # The time at which the cleaner removed a record is not recorded, unless the history has its replacement.
    until[cleaned.hold(offsets) & (compacted == MAX_INT64)] = MIN_INT64
    if p.final is not None:
        # The cleaner had not removed what the final reads returned.
        final_reads = p.reads.filter(is_final_read(p.final.processes, p.last_heal))
        begun = min(p.final.since, least(final_reads["completed"], p.final.since))
        is_returned = entries["in_final"].to_numpy() & ~never.hold(offsets)
        until[is_returned] = np.maximum(until[is_returned], begun)
    # A deleted record may return with another leader. None was deleted before it was sent.
    sent = p.sends["invoked"].gather(entries["send"]).fill_null(MIN_INT64).to_numpy()
    return np.asarray(np.minimum(until, np.maximum(p.log_start.since(offsets), sent)))


@once
def lasting_offsets(p: Partition) -> Offsets:
    """The existing offsets, for a read_committed consumer, without a legal end."""
    exists = existing(p, False)
    return np.asarray(exists.offsets[exists.until == MAX_INT64])


def _compacted_since(removable: pl.DataFrame, values: pl.Series) -> Ints:
    """The time (ns) from which on compaction may have removed each value; `removable` has the columns value, since."""
    gone = removable.group_by("value").agg(pl.col("since").min())
    if not len(gone):
        return np.full(len(values), MAX_INT64, np.int64)
    since = values.to_frame("value").join(gone, on="value", how="left", maintain_order="left")["since"]
    return np.asarray(since.fill_null(MAX_INT64).to_numpy())


@once
def superseded_values(p: Partition) -> pl.DataFrame:
    """Values that compaction removes, with tombstones, and since when (ns). Empty without compaction."""
    if not p.settings.is_compacted(p.topic):
        return _tombstones(p).clear()
    removable = _tombstones(p).filter(~pl.col("value").is_in(_outlived_tombstones(p).implode()))
    return pl.concat([_removed_if_replaced(p).filter("surely").select("value", "since"), removable])


def _outlived_tombstones(p: Partition) -> pl.Series:
    """Tombstones that the final reads lack, although they returned an earlier record of the same key.

    The cleaner removes the earlier records of a key first, and no tombstone that is younger than delete.retention.ms.
    """
    final = p.final
    if final is None or not len(p.tombstones):
        return p.tombstones.clear()
    oldest = final.until - p.settings.delete_retention_ms(p.topic) * MS
    placed = pl.col("key").is_not_null() & pl.col("offset").is_not_null() & (pl.col("outcome") != "fail")
    keyed = p.sends.filter(placed).select("key", "offset", "value", "invoked")
    returned = p.entries.filter("in_final").select("offset", "value")
    first = keyed.join(returned, on=["offset", "value"]).group_by("key").agg(first=pl.col("offset").min())
    missing = keyed.filter(pl.col("value").is_in(p.tombstones.implode()), pl.col("invoked") > oldest)
    missing = missing.join(returned, on=["offset", "value"], how="anti").join(first, on="key")
    return missing.filter(pl.col("first") < pl.col("offset"))["value"]


@once
def maybe_compacted(p: Partition) -> pl.DataFrame:
    """Values that compaction may or may not have removed, and since when (ns), beside `superseded_values`.

    If run.json does not set cleanup.policy, these are tombstones, and values with another record of their key that is
    or may be later. On a compacted topic they are values with such a record that may not have been written, or may be
    the earlier one. If both lines of an operation may be missing, the later record may be one that the history lacks.
    """
    if p.settings.dialect == "jepsen":
        return _tombstones(p)
    if "cleanup.policy" not in p.settings.topic(p.topic):
        return pl.concat([replaced_values(p).select("value", "since"), _tombstones(p)])
    if not p.settings.is_compacted(p.topic):
        return _tombstones(p).clear()
    if may_lack_operations(p):
        return p.possible_sends.drop_nulls(["key", "value"]).select("value", since=pl.lit(MIN_INT64, pl.Int64))
    return _removed_if_replaced(p).filter(~pl.col("surely")).select("value", "since")


@once
def removable_values(p: Partition) -> pl.DataFrame:
    """All values that compaction may have removed, surely or perhaps, and since when (ns)."""
    return pl.concat([superseded_values(p), maybe_compacted(p)])


def _removed_if_replaced(p: Partition) -> pl.DataFrame:
    """The `replaced_values` that a later record may have replaced while the topic was compacted."""
    return replaced_values(p).filter(pl.col("since") <= compacted_until(p))


def _tombstones(p: Partition) -> pl.DataFrame:
    return p.tombstones.to_frame("value").with_columns(since=pl.lit(MIN_INT64, pl.Int64))


@once
def replaced_values(p: Partition) -> pl.DataFrame:
    """Values with a key that a later record or tombstone has, surely or perhaps.

    For example, a record at offset 3 is surely replaced if another one of its key is at offset 7, and perhaps if a send
    of its key without a known offset overlaps it in time. Columns: value; surely (false: it is only possibly later);
    since (ns): when the first such record was sent.
    """
    keyed = sends_with_repeated_keys(p)
    if not len(keyed):
        return pl.DataFrame(schema={"value": pl.String, "surely": pl.Boolean, "since": pl.Int64})
    is_below = pl.col("written_above") >= pl.col("invoked").fill_null(MIN_INT64)
    judged = keyed.join(sends_above(keyed), on=["key", "offset"], how="left", maintain_order="left").with_columns(
        surely=is_below.fill_null(False) | _is_before_another().fill_null(False),
        perhaps=_may_be_before_another().fill_null(False),
    )
    first_of_key = pl.when("perhaps").then(pl.col("invoked").min().over("key"))
    dated = judged.with_columns(since=pl.min_horizontal("sent_above", first_of_key))
    replaced = dated.filter((pl.col("surely") | pl.col("perhaps")) & pl.col("value").is_not_null())
    return replaced.group_by("value").agg(pl.col("surely").any(), pl.col("since").min())


# The latest time (ns) at which a send may have been written. One that was acknowledged before another one of its key
# was sent is before that in the log; any other send of the key may be behind it.
WRITTEN_BY = pl.when("acknowledged").then("completed").otherwise(MAX_INT64)


def sends_above(keyed: pl.DataFrame) -> pl.DataFrame:
    """By key and offset: when (ns) the first send at a higher offset was sent, and the last may have been written; and
    the next of these offsets.
    """
    at_offset = keyed.drop_nulls("offset").group_by("key", "offset").agg(pl.col("invoked").min(), end=WRITTEN_BY.max())
    return at_offset.sort("key", "offset", descending=True).select(
        "key",
        "offset",
        sent_above=pl.col("invoked").cum_min().shift(1).over("key"),
        written_above=pl.col("end").cum_max().shift(1).over("key"),
        next_offset=pl.col("offset").shift(1).over("key"),
    )


def _is_before_another() -> pl.Expr:
    """Whether a record of the key that is known to be there was sent after a send had completed, and one of the two has
    no offset: then the order of time shows the later one.
    """
    unplaced, present = pl.col("offset").is_null(), pl.col("invoked").filter("present")
    last, last_unplaced = present.max(), present.filter(unplaced.filter("present")).max()
    return pl.when(unplaced).then(last.over("key")).otherwise(last_unplaced.over("key")) > pl.col("completed")


def _may_be_before_another() -> pl.Expr:
    """Whether another send of the key may have been written after a send began, and one of the two has no offset."""
    unplaced, last = pl.col("offset").is_null(), WRITTEN_BY.max().over("key")
    last_other = pl.when(last == WRITTEN_BY).then(WRITTEN_BY.top_k(2).min().over("key")).otherwise(last)
    last_unplaced = WRITTEN_BY.filter(unplaced).max().over("key")
    return pl.when(unplaced).then(last_other).otherwise(last_unplaced) >= pl.col("invoked")


def sends_with_repeated_keys(p: Partition) -> pl.DataFrame:
    """The sends that did not fail and share their key; `offset` is where the record is, `present` if it is known."""
    keyed = p.possible_sends
    if keyed["key"].null_count() == len(keyed):
        return keyed.clear()
    keyed = keyed.filter(pl.col("key").is_not_null() & (pl.col("outcome") != "fail"))
    read = p.entries.filter(pl.col("times") > 0).select("value", read_offset="offset").unique("value")
    return (
        keyed.filter(pl.col("key").is_duplicated())
        .join(read, on="value", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("offset", "read_offset").alias("offset"),
            (pl.col("acknowledged") | pl.col("read_offset").is_not_null()).alias("present"),
            pl.col("completed").fill_null(MAX_INT64),
        )
    )
