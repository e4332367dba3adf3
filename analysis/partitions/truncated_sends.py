"""Acknowledged sends: their reads, what shows that a truncation removed them, and whether that was after a deletion."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ..extremes import earliest_start_above, greatest, suffix_maxima, suffix_minima
from ..replicas.replica_logs import ReplicaLogs
from ..timelines.facts import SECOND
from ..timelines.timeline import Timeline
from .adjacent_runs import with_rewrites
from .earlier_attempts import may_be_compacted_below
from .early_compactions import are_held_by_leaders, compacted_first, last_write_before
from .later_epochs import began_of_later_epoch, with_other_value
from .partition import Offsets, Partition, once
from .retention_limits import earliest_expiry, requested_below

REMOVED = ("removed", "maybe_removed")
MAX_OVERHEAD_BYTES = 100  # of a record without headers in a batch of its own, besides key and value
_SEEN = ("first_read", "first_reader", "first_read_at", "last_read", "in_final")


@once
def truncated_sends(p: Partition) -> pl.DataFrame:
    """Acknowledged sends with the columns of `sends_with_reads`, `with_other_value`, `with_later_end` and REMOVED."""
    sends = with_rewrites(sends_with_reads(p), "at")
    return _with_removed(p, with_later_end(p, p.log_ends, with_other_value(p, sends)))


@once
def removed_records(p: Partition) -> pl.DataFrame:
    """Records (offset, value) that were removed before a truncation; `since` (ns) they may have been absent."""
    removed = truncated_sends(p).filter("removed").select("offset", "value", "compactable")
    offsets, start = removed["offset"].to_numpy(), p.log_start
    # A later truncation may have cut the log below the start that removed them. Then only the leader's report shows it.
    starts = [(one.offset, one.since) for one in (*start.evidence, *start.reported)]
    passed = pl.Series(earliest_start_above(offsets, starts))
    return removed.select("offset", "value", since=pl.min_horizontal(passed, "compactable"))


def _with_removed(p: Partition, sends: pl.DataFrame) -> pl.DataFrame:
    """Adds whether a deletion or compaction removed a record before a truncation could: surely (`removed`) or perhaps
    (`maybe_removed`).

    A deletion did so surely if both hold:
    - A leader's log start first passed the offset after the acknowledgement and all reads of the record, and before
      another record was sent to the offset or an end below it was requested: no truncation shows before the deletion.
      A broker's line on the log start may come up to a second before the acknowledgement, but not before the send.
    - The deletion was legal: it was requested, or the record was older than retention.ms.
    """
    start, offset = p.log_start, sends["offset"].fill_null(MAX_INT64).to_numpy()
    acknowledged = pl.col("completed")
    if p.timeline is not None and p.timeline.log_starts:
        # The broker's line may come before the client has the acknowledgement, or by a clock that is behind.
        acknowledged = pl.max_horizontal("invoked", acknowledged - SECOND)
    last_seen = pl.max_horizontal(acknowledged, "last_read")
    # No sign of the truncation began before `begun`, and one was known at `known`.
    begun = pl.min_horizontal("other_begun", "later_end_begun")
    known = pl.min_horizontal("other_known", "later_end_done", _absent_from_copy(p)).fill_null(MAX_INT64)
    passed, requested = (pl.lit(pl.Series(start.passed(offset, requested=only))) for only in (False, True))
    expiry = earliest_expiry(p, sends)
    is_old = (pl.col("offset") < requested_below(p)) | (pl.Series(expiry) <= passed)
    by_retention = passed.is_between(last_seen, begun) & is_old
    removed = (requested.is_between(last_seen, begun) | by_retention).fill_null(False)
    since = pl.lit(pl.Series(start.dated_since(offset, expiry)))
    may_be_deleted = since < known
    if sends.select(may_be_deleted.any()).item():
        may_be_deleted &= since < last_write_before(p, sends).fill_null(MAX_INT64)
    maybe_removed = (may_be_deleted & (pl.col("invoked") <= requested) & start.may_follow).fill_null(False)
    maybe_removed |= pl.lit(_may_have_outgrown(p, sends))
    # A client may have fetched it before the deletion, and returned it later.
    fetched_before = passed.is_between(acknowledged, pl.min_horizontal("last_read", begun)) & is_old
    if sends.select(fetched_before.any()).item():
        maybe_removed |= fetched_before.fill_null(False) & ~pl.lit(are_held_by_leaders(p, sends))
    # The history may lack the sends that a truncation made way for: then an epoch alone may show when it came.
    deleted_first = is_old & (passed >= last_seen) & (passed < known)
    if sends.select(deleted_first.any()).item():
        began = began_of_later_epoch(p, sends).fill_null(MAX_INT64)
        maybe_removed |= (deleted_first & (passed < began)).fill_null(False)
    maybe_removed |= pl.lit(_are_below_a_start(p, sends) | may_be_compacted_below(p, sends))
    if p.timeline is not None and p.timeline.log_starts and not _are_clocks_bounded(p.timeline):
        # The deletion was of an earlier record there, or the broker's clock is behind.
        maybe_removed |= (passed < last_seen) & is_old & ~pl.lit(are_held_by_leaders(p, sends))
    compacted = compacted_first(p, sends)
    judged = sends.with_columns(
        removed=removed | compacted.surely,
        maybe_removed=maybe_removed | compacted.perhaps,
        compactable=compacted.since,
    )
    return judged.with_columns(pl.col("maybe_removed") & ~pl.col("removed"))


def _are_below_a_start(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """Whether records were deleted, and nothing shows that a truncation came before.

    Either a copy of a log has a record, but below its log start. Or a client requested the deletion, by a line of
    server.log without a time.
    """
    if (timeline := p.timeline) is None:
        return pl.repeat(False, len(sends), eager=True)
    logs = timeline.replica_logs
    starts = logs.extents.filter(pl.col("deleted_below") > 0).select("snapshot", "broker", "deleted_below")
    old = logs.records.filter(pl.col("offset") < greatest(starts["deleted_below"], 0))
    below = old.join(starts, on=["snapshot", "broker"]).filter(pl.col("offset") < pl.col("deleted_below"))
    deleted = sends.select("offset", "value").with_row_index("row").join(below, on=["offset", "value"], how="semi")
    undated = max((one.offset or 0 for one in timeline.log_starts if one.time is None), default=0)
    is_requested = (sends["offset"] < min(undated, requested_below(p))).fill_null(False)
    is_deleted = pl.int_range(len(sends), eager=True).is_in(deleted["row"].implode()) | is_requested
    return is_deleted & ~are_held_by_leaders(p, sends) if is_deleted.any() else is_deleted


def _absent_from_copy(p: Partition) -> pl.Expr:
    """An expression on sends: the time (ns) of the last copy of the logs, if no log of it has the acknowledged record.

    Null for a record that a log has, without the time of the copy, or if a log of it is damaged or missing.
    """
    logs = p.replica_logs
    copied = None if logs is None else logs.copied_at
    if logs is None or copied is None or logs.damage.height or any(one.snapshot == logs.last for one in logs.missing):
        return pl.lit(None, pl.Int64)
    return pl.when(~_is_in_last_logs(logs) & (pl.col("completed") < copied)).then(pl.lit(copied, pl.Int64))


def _is_in_last_logs(logs: ReplicaLogs) -> pl.Expr:
    """An expression on sends: whether a log of the last copy has the value."""
    return pl.col("value").is_in(logs.last_records["value"].drop_nulls().implode())


def _may_have_outgrown(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """Whether retention.bytes may have removed truncated records before the truncation: that many bytes were above.

    Never where server.log has the log starts of all leaders, or where a log of the leader that wrote a record still has
    it. The size of a log is at most that of its records, uncompressed.
    """
    limit, below = _size_limit(p)
    if limit is None or (known_since := _log_starts_known_since(p)) == MIN_INT64:
        return pl.repeat(False, len(sends), eager=True)
    size = pl.sum_horizontal(pl.col("key", "value").str.len_bytes().fill_null(0), MAX_OVERHEAD_BYTES)
    is_truncated = pl.any_horizontal(pl.col("other_begun", "later_end_begun").is_not_null())
    if p.replica_logs is not None:
        is_truncated |= ~_is_in_last_logs(p.replica_logs)
    sizes = sends.select(pl.when(is_truncated).then(size).otherwise(0)).to_series().to_numpy()
    order = np.argsort(sends["offset"].fill_null(-1).to_numpy(), kind="stable")[::-1]
    above = np.empty(len(sends), np.int64)
    above[order] = np.cumsum(sizes[order]) - sizes[order]
    return (
        pl.Series(above >= limit)
        & (sends["offset"].fill_null(MAX_INT64) < below)
        & (sends["completed"].fill_null(MIN_INT64) < known_since)
        & ~are_held_by_leaders(p, sends)
    )


def _size_limit(p: Partition) -> tuple[int | None, int]:
    """retention.bytes (None: no limit), and the offset below which it may have removed records.

    If run.json has no setting of the topic, it may be any: what moved the log start without a request is not recorded.
    """
    limit = p.settings.retention_bytes(p.topic)
    if p.settings.topic(p.topic):
        return limit, MAX_INT64
    moved = [start.offset for start in p.log_start.evidence if start.is_certain and start.since == MIN_INT64]
    return 0, max(moved, default=0)


def _log_starts_known_since(p: Partition) -> int:
    """The time (ns) since which lines of server.log date the log starts of all leaders; MAX_INT64: never.

    Each leader deletes records by itself. A clock without bounds is taken as the history's. It is another one, as in
    another time zone, if a log start moved before the run began, or a record was acknowledged before a broker led.
    """
    timeline = p.timeline
    if timeline is None or not timeline.log_starts:
        return MAX_INT64
    loads = {end.broker for end in timeline.ends if end.fact.kind == "loaded"}
    known = loads | {fact.broker for fact in timeline.log_starts}
    times = [fact.time for fact in timeline.log_starts if fact.time is not None]
    is_known = {term.leader for term in timeline.terms.values() if term.leader} <= known
    if not is_known or len(times) < len(timeline.log_starts):
        return MAX_INT64
    if _are_clocks_bounded(timeline):
        return MIN_INT64
    led = min((term.when for term in timeline.dated_terms), default=MIN_INT64 + SECOND)
    return MAX_INT64 if min(times) < -SECOND else led - SECOND


def _are_clocks_bounded(timeline: Timeline) -> bool:
    return all(clock.bounded for clock in timeline.clocks.values())


def sends_with_reads(p: Partition) -> pl.DataFrame:
    """Acknowledged sends, each with the reads of its value; `offset` is where the value is, if known."""
    rows = p.sends["acknowledged"].to_numpy() & p.sends["value"].is_not_null().to_numpy()
    if p.repeated_values:
        rows &= p.sends["value"].is_first_distinct().to_numpy()
    entry = pl.Series(p.entry_of_send[rows])
    known = entry.set(entry < 0, None)
    seen = p.entries.select(pl.col(*_SEEN).gather(known))
    sent = p.sends.filter(pl.Series(rows)).hstack(seen).with_columns(pl.col("in_final").fill_null(False))
    if not len(p.elsewhere):
        return sent
    # The same value was polled at another offset, or its send has no offset.
    earliest_first = p.elsewhere.sort("first_read", "first_read_at", "offset")
    other = earliest_first.group_by("value", maintain_order=True).agg(
        pl.col("offset").first(),
        pl.col("first_read", "first_reader", "first_read_at").first(),
        pl.col("last_read").max(),
        pl.col("in_final").any(),
    )
    joined = sent.join(other, on="value", how="left", maintain_order="left", suffix="_other")
    earlier = pl.col("first_read_other") < pl.col("first_read").fill_null(MAX_INT64)
    return joined.with_columns(
        pl.coalesce("offset", "offset_other").alias("offset"),
        *(
            pl.when(earlier).then(f"{name}_other").otherwise(name).alias(name)
            for name in ("first_reader", "first_read_at", "first_read")
        ),
        last_read=pl.max_horizontal("last_read", "last_read_other"),
        in_final=pl.col("in_final") | pl.col("in_final_other").fill_null(False),
    ).select(sent.columns)


def with_later_end(p: Partition, ends: pl.DataFrame, sent: pl.DataFrame) -> pl.DataFrame:
    """Adds `later_end`: the least end offset at or below the send's offset that nothing contradicts.

    Such an end was requested after the acknowledgement and all reads. No end requested or returned since is above the
    offset, and no send since was acknowledged above it: else a leader that was cut off may have given an old end.
    The first such end was requested at `later_end_begun` and returned at `later_end_done` (ns).
    """
    if not len(ends):
        names = ("later_end", "later_end_at", "later_end_begun", "later_end_done")
        return sent.with_columns(**dict.fromkeys(names, pl.lit(None, pl.Int64)))
    requested, returned, places = (ends[name].to_numpy() for name in ("invoked", "offset", "at"))
    offset = sent["offset"].fill_null(-1).to_numpy()
    last_seen = sent.select(pl.max_horizontal("completed", "last_read").fill_null(MAX_INT64)).to_series().to_numpy()
    first = np.searchsorted(requested, np.maximum(last_seen, _last_above(p, offset)), "right")
    end = suffix_minima(returned)[first]  # the least one of the first request since then and of those after it
    shrunk = (end <= offset) & (offset >= 0)
    # The last response with this end shows it.
    by_end = np.argsort(returned, kind="stable")
    last = by_end[np.searchsorted(returned[by_end], end[shrunk], "right") - 1]
    place = np.zeros(len(sent), np.int64)
    place[shrunk] = places[last]
    row = pl.Series(np.minimum(first, len(ends) - 1))
    found = {
        "later_end": pl.Series(end),
        "later_end_at": pl.Series(place),
        "later_end_begun": ends["invoked"].gather(row),
        "later_end_done": ends["completed"].gather(row),
    }
    return sent.with_columns(**{name: pl.when(pl.Series(shrunk)).then(column) for name, column in found.items()})


def _last_above(p: Partition, offsets: Offsets) -> Offsets:
    """For each offset the last time (ns) at which the log reached beyond it, as clients recorded; MIN_INT64 if never.

    That is the completion of an end_offsets request, or the invocation of an acknowledged send.
    """
    ends = p.end_offsets.select("offset", time="completed")
    sends = p.sends.filter(pl.col("acknowledged")).drop_nulls("offset").select("offset", time="invoked")
    reached = pl.concat([ends, sends]).sort("offset")
    above = np.searchsorted(reached["offset"].to_numpy(), offsets, "right")
    return suffix_maxima(reached["time"].to_numpy())[above]
