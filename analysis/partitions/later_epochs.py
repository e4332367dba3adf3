"""Truncated records of compacted topics: those that may have come back, and those that leader epochs prove lost."""

from __future__ import annotations

import numpy as np
import polars as pl

from ..timelines.facts import SECOND
from .absences import replaced_values
from .partition import Partition


def may_have_returned(p: Partition, truncated: pl.DataFrame) -> pl.Series:
    """Whether compaction may have removed truncated records that came back with the log of an earlier leader.

    No compaction gives an offset to another record, or moves the log's end back. `truncated`: acknowledged sends with
    the columns of with_other_value.
    """
    newer = replaced_values(p)["value"] if p.settings.is_compacted(p.topic) else pl.Series([], dtype=pl.String)
    return truncated["value"].is_in(newer.implode()) & ~_is_of_later_epoch(p, truncated)


def overwritten(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """Whether leader epochs prove that a truncation removed acknowledged sends of a topic that may be compacted."""
    if p.replica_logs is None or p.replica_logs.is_compacted is False:
        return pl.repeat(False, len(sends), eager=True)
    return _is_of_later_epoch(p, with_other_value(p, sends))


def _is_of_later_epoch(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """Whether the epoch that has a send's offset in the leader's last log wrote it after the acknowledgement.

    Then this log does not descend from one with the record, so no compaction removed the record. As the clocks of
    brokers and clients may differ a little, a second lies between the acknowledgement and the beginning of the epoch,
    or between that and the first sign of the other value at the offset. A value that was written twice may have been
    compacted at its other offset.
    """
    logs, timeline = p.replica_logs, p.timeline
    if logs is None or timeline is None:
        return pl.repeat(False, len(sends), eager=True)
    known = [(term.epoch, term.time) for term in timeline.terms.values() if not term.has_conflict]
    terms = pl.DataFrame(known, {"leader_epoch": pl.Int32, "began": pl.Int64}, orient="row")
    epochs = logs.epochs.filter(logs.is_of_leader).select(pl.col("leader_epoch").cast(pl.Int32), offset="start_offset")
    dated_epochs = epochs.join(terms, on="leader_epoch", how="left").sort("offset", "leader_epoch")
    is_once = ~pl.col("value").is_in(p.elsewhere["value"].implode())
    placed = sends.with_row_index("row").filter(is_once).drop_nulls("offset").sort("offset")
    dated = placed.join_asof(dated_epochs, on="offset", check_sortedness=False)
    began, acked = pl.col("began"), pl.col("completed")
    is_apart = (began - acked > SECOND) | (pl.col("other_since") - began > SECOND).fill_null(False)
    rows = dated.filter((began > acked) & is_apart)["row"]
    return pl.int_range(len(sends), eager=True).is_in(rows.implode())


def with_other_value(p: Partition, sent: pl.DataFrame) -> pl.DataFrame:
    """Adds `other`: another value at the same offset that is known from a later time, `other_since` (ns)."""
    if (np.diff(p.entries["offset"].to_numpy()) > 0).all():
        nothing = {name: pl.lit(None, pl.Int64) for name in ("other_since", "other_at")}
        return sent.with_columns(other=pl.lit(None, pl.String), **nothing)
    crowded = p.entries.filter(pl.col("offset").is_duplicated()).select("offset", "value")
    reads = p.entries.filter(pl.col("times") > 0).select("offset", "value", "first_read", "first_read_at")
    acks = p.sends.filter(outcome="ok").select("offset", "value", acked="completed", acked_at="at")
    known = (
        crowded.join(reads, on=["offset", "value"], how="left")
        .join(acks.unique(["offset", "value"]), on=["offset", "value"], how="left")
        .select(
            "offset",
            other="value",
            other_since=pl.min_horizontal("first_read", "acked"),
            other_at=pl.when(pl.col("acked").is_null() | (pl.col("first_read") < pl.col("acked")))
            .then("first_read_at")
            .otherwise("acked_at"),
        )
        .drop_nulls("other_since")
    )
    # The newest value of an offset, and the newest other than that: a value's latest other one is one of these.
    ordered = known.sort("other_since", "other_at", maintain_order=True)
    newest = ordered.unique("offset", keep="last", maintain_order=True)
    others = ordered.join(newest, on=["offset", "other"], how="anti", maintain_order="left")
    known = pl.concat([newest, others.unique("offset", keep="last", maintain_order=True)])
    pairs = sent.select("offset", "value", since=pl.min_horizontal("completed", "first_read")).join(known, on="offset")
    later = pairs.filter((pl.col("other") != pl.col("value")) & (pl.col("other_since") > pl.col("since")))
    latest = later.sort("other_since", "other_at").group_by("value", maintain_order=True).last()
    latest = latest.select("value", "other", "other_since", "other_at")
    return sent.join(latest, on="value", how="left", maintain_order="left")
