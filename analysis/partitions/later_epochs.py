"""Truncated records of compacted topics: those that may have come back, and those that the last logs prove lost."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...histories.tables import MIN_INT64
from ..timelines.facts import SECOND
from .absences import replaced_values
from .partition import Partition


def may_have_returned(p: Partition, truncated: pl.DataFrame) -> pl.Series:
    """Whether compaction may have removed truncated records that came back with the log of an earlier leader.

    No compaction gives an offset to another record, or moves the log's end back. `truncated`: acknowledged sends with
    the columns of with_other_value.
    """
    if not p.settings.is_compacted(p.topic):
        return pl.repeat(False, len(truncated), eager=True)
    newer = replaced_values(p)["value"]
    return truncated["value"].is_in(newer.implode()) & began_of_later_epoch(p, truncated).is_null()


def overwritten(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """Whether the leader's last log has another record or a later epoch at the offsets of sends: they were truncated.

    On a topic that is not compacted, also whether clients saw another record there; on another one, the log with the
    sends may have come back, and have been compacted. False for all if the topic is not compacted and the log starts
    at 0: nothing was removed legally.
    """
    logs = p.replica_logs
    if logs is None or (logs.is_compacted is False and not logs.leader_start):
        return pl.repeat(False, len(sends), eager=True)
    last = logs.last_records.filter(logs.is_of_leader).unique("offset").select("offset", now="value")
    placed = sends.select("offset", "value").with_row_index("row").join(last, on="offset")
    others = placed.filter(is_written_once(p), pl.col("value").ne_missing(pl.col("now")))["row"]
    is_replaced = pl.int_range(len(sends), eager=True).is_in(others.implode())
    dated = with_other_value(p, sends)
    was_seen = dated["other"].is_not_null() & (logs.is_compacted is False)
    return is_replaced | was_seen | began_of_later_epoch(p, dated).is_not_null()


def is_written_once(p: Partition) -> pl.Expr:
    """Whether a send is known at one offset only. A value at two offsets may have been compacted at the other."""
    return ~pl.col("value").is_in(p.elsewhere["value"].implode()).fill_null(False)


def began_of_later_epoch(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """The time (ns) at which the epoch began that has a send's offset in the leader's last log, if the send had been
    acknowledged before; else null.

    Then this log does not descend from one with the record, so no compaction of it removed the record. As the clocks of
    brokers and clients may differ a little, a second lies between the acknowledgement and the beginning of the epoch,
    or between that and the first sign of the other value at the offset.
    """
    logs, timeline = p.replica_logs, p.timeline
    if logs is None or timeline is None:
        return pl.repeat(None, len(sends), dtype=pl.Int64, eager=True)
    known = [(term.epoch, term.time, term.start) for term in timeline.terms.values() if not term.has_conflict]
    terms = pl.DataFrame(known, {"leader_epoch": pl.Int32, "began": pl.Int64, "start": pl.Int64}, orient="row")
    epochs = logs.epochs.filter(logs.is_of_leader).select(pl.col("leader_epoch").cast(pl.Int32), "start_offset")
    # A follower of a compacted log only has the first offset of the epoch that compaction left.
    dated_epochs = (
        epochs.join(terms, on="leader_epoch", how="left")
        .with_columns(offset=pl.min_horizontal("start_offset", "start"))
        .sort("offset", "leader_epoch")
    )
    placed = sends.with_columns(pl.col("offset").fill_null(-1)).with_row_index("row").sort("offset")
    dated = placed.join_asof(dated_epochs, on="offset", check_sortedness=False)
    began, acked = pl.col("began"), pl.col("completed")
    is_apart = (began - acked > SECOND) | (pl.col("other_since") - began > SECOND).fill_null(False)
    is_later = is_written_once(p) & (began > acked) & is_apart
    return dated.select("row", began=pl.when(is_later).then("began")).sort("row")["began"]


def with_other_value(p: Partition, sent: pl.DataFrame) -> pl.DataFrame:
    """Adds `other`: another value at the same offset that is known from a later time, `other_since` (ns).

    If there are several it is the last one. None of them was sent before `other_begun`, and one of them was known at
    `other_known` (ns). For example, a is acknowledged at offset 5 at 1 s, then b is read there at 3 s and c at 4 s. For
    a, c is the other value, since 4 s; one is known at 3 s.
    """
    if (np.diff(p.entries["offset"].to_numpy()) > 0).all():
        nothing = {name: pl.lit(None, pl.Int64) for name in ("other_since", "other_at", "other_begun", "other_known")}
        return sent.with_columns(other=pl.lit(None, pl.String), **nothing)
    signs = _signs_of_values(p)
    # The newest value of an offset, and the newest other than that: a value's latest other one is one of these.
    newest = signs.unique("offset", keep="last", maintain_order=True)
    others = signs.join(newest, on=["offset", "other"], how="anti", maintain_order="left")
    last_two = pl.concat([newest, others.unique("offset", keep="last", maintain_order=True)])
    # An acknowledgement without an offset does not show that the value was there.
    since = signs.select("offset", value="other", since="other_since")
    own = sent.select("offset", "value").join(since, on=["offset", "value"])
    pairs = own.join(last_two, on="offset")
    later = pairs.filter((pl.col("other") != pl.col("value")) & (pl.col("other_since") > pl.col("since")))
    latest = later.sort("other_since", "other_at").group_by("value", maintain_order=True).last()
    latest = latest.select("value", "other", "other_since", "other_at")
    first = _first_of_others(own.join(later, on="value", how="semi"), signs)
    return sent.join(latest.join(first, on="value", how="left"), on="value", how="left", maintain_order="left")


def _signs_of_values(p: Partition) -> pl.DataFrame:
    """Each value of an offset with several: `other`, `other_since` (ns of the first read or acknowledgement there, in
    order), `other_at` (its place), and `begun`: when it was sent.
    """
    crowded = p.entries.filter(pl.col("offset").is_duplicated()).select("offset", "value")
    reads = p.entries.filter(pl.col("times") > 0).select("offset", "value", "first_read", "first_read_at")
    acks = p.sends.filter(outcome="ok").select("offset", "value", acked="completed", acked_at="at")
    sent_since = p.possible_sends.group_by("value").agg(begun=pl.col("invoked").min())
    return (
        crowded.join(reads, on=["offset", "value"], how="left")
        .join(acks.unique(["offset", "value"]), on=["offset", "value"], how="left")
        .join(sent_since, on="value", how="left")
        .select(
            "offset",
            other="value",
            other_since=pl.min_horizontal("first_read", "acked"),
            other_at=pl.when(pl.col("acked").is_null() | (pl.col("first_read") < pl.col("acked")))
            .then("first_read_at")
            .otherwise("acked_at"),
            begun=pl.col("begun").fill_null(MIN_INT64),
        )
        .drop_nulls("other_since")
        .sort("other_since", "other_at", maintain_order=True)
    )


def _first_of_others(own: pl.DataFrame, signs: pl.DataFrame) -> pl.DataFrame:
    """By value: the first sign of another value after its own at the offset (`other_known`), and since when this or a
    later one was sent (`other_begun`).
    """
    earliest = pl.col("begun").cum_min(reverse=True).over("offset")  # of this and all later ones
    others = signs.select("offset", "other_since", other_begun=earliest, other_known="other_since")
    found = own.sort("since").join_asof(
        others,
        left_on="since",
        right_on="other_since",
        by="offset",
        strategy="forward",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    return found.unique("value", keep="first", maintain_order=True).select("value", "other_begun", "other_known")
