"""Bounds of the log start offset: records below it were deleted, legally unless recorded settings exclude that.

A start is certain or possible. It is only possible after a delete-records of unknown outcome, beyond the log end,
refuted by later reads, or concurrent with the final reads; and for retention, which a history does not record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.observations import deletions_of
from ...histories.tables import MAX_INT64, MIN_INT64
from ...models.arrays import Ints
from ..cached import cached_property
from ..extremes import earliest_start_above, greatest, least, suffix_minima
from ..replicas.resolved_outcomes import BELOW_START, is_leader_collected
from ..timelines.facts import LEADERS_LOG_START, MS
from .marks import is_final_read
from .observations import Observations, once
from .retention_limits import first_not_permitted, record_times


class StartEvidence(NamedTuple):
    """A log start offset, from one source."""

    offset: int
    is_certain: bool
    moved_by: int | None  # ns: the latest time at which the start may have moved there; None: unbounded
    since: int = MIN_INT64  # ns: the earliest such time
    is_reported: bool = False  # a leader had it at `moved_by`, whatever polls return after a later truncation
    is_by_age: bool = False  # retention.ms may have moved it, each record only when it was old enough
    requested: int = 0  # the offset of a delete-records, also beyond the last known record, as markers may follow


class LogStart(NamedTuple):
    """Offsets below `certain` were deleted, those below `legal` legally. Those below `possible` may have been."""

    certain: int
    legal: int  # from here up to `certain`, no known setting or request permits the deletion
    possible: int
    moved_by: int | None  # ns: the latest time at which it may have moved; None: unbounded
    evidence: tuple[StartEvidence, ...]
    reported: tuple[StartEvidence, ...]  # by leaders, perhaps of a log that was truncated since
    is_all_gone: bool = False  # the topic was deleted, with records whose offsets are not known

    @property
    def is_not_permitted(self) -> pl.Expr:
        """An expression on sends: whether the log start passed the record, and nothing known permits that."""
        return ((pl.col("offset") >= self.legal) & (pl.col("offset") < self.certain)).fill_null(False)

    @property
    def may_follow(self) -> pl.Expr:
        """An expression on sends: whether the log start may have moved after the record was sent."""
        return pl.lit(True) if self.moved_by is None else pl.col("invoked") <= self.moved_by

    def since(self, offsets: Ints) -> Ints:
        """The earliest time (ns) at which each of the offsets may have been below the start; MAX_INT64: never."""
        return earliest_start_above(offsets, ((start.offset, start.since) for start in self.evidence))

    def passed(self, offsets: Ints, *, requested: bool) -> Ints:
        """The earliest time (ns) at which a leader is known to have started above each offset; MAX_INT64: never.

        With `requested`, only the starts that a recorded delete-records explains.
        """
        reported = [start for start in self.reported if start.since > MIN_INT64 or not requested]
        return earliest_start_above(offsets, ((start.offset, start.moved_by or 0) for start in reported))

    def dated_since(self, offsets: Ints, expiry: Ints) -> Ints:
        """`since`, only by the evidence that a recorded request or the age of records dates.

        expiry: the earliest time (ns) at which retention.ms may remove each record.
        """
        requested = [start for start in self.evidence if start.since > MIN_INT64 and not start.is_by_age]
        by_age = [start for start in self.evidence if start.is_by_age]
        of_both = [
            earliest_start_above(offsets, ((one.offset, one.since) for one in some)) for some in (requested, by_age)
        ]
        return np.minimum(of_both[0], np.maximum(of_both[1], expiry))


class _Bounds:
    """Bounds from the whole history that the sources of a log start are checked against."""

    def __init__(self, p: Observations) -> None:
        self.p = p
        self.since, self.until = _final_span(p)
        self.reach = highest_end(p)

    @cached_property
    def lowest(self) -> tuple[Ints, Ints]:
        """The invocation times of polls with offsets, and the lowest offset polled from each time on."""
        known = pl.col("offset").is_not_null() & pl.col("invoked").is_not_null()
        placed = self.p.reads.filter(known).sort("invoked")
        return placed["invoked"].to_numpy(), suffix_minima(placed["offset"].to_numpy())

    @cached_property
    def first_final(self) -> int:
        """The lowest offset in the final reads; MAX_INT64 without any."""
        return MAX_INT64 if self.since is None else least(self.p.reads.filter(_of_final(self.p))["offset"], MAX_INT64)

    def read_past(self, start: int) -> bool:
        """Whether the final reads were assigned a lower offset, and returned nothing below this one."""
        if start != self.first_final:
            return False
        return bool((self.p.assigned_by(self.p.settings.final_readers())["offset"] < start).any())

    def refutes(self, start: int, moment: int) -> bool:
        """Whether a poll that began after `moment` (ns) returned an offset below `start`."""
        if start <= 0:
            return False
        invoked, lowest = self.lowest
        return bool(lowest[np.searchsorted(invoked, moment, "right")] < start)


@once
def log_start(p: Observations) -> LogStart:
    """The log start of a partition, certain and possible."""
    bounds = _Bounds(p)
    deletions, logged = [*_starts_of_delete_records(p, bounds)], [*_starts_in_server_logs(p, bounds)]
    clients = [*_starts_of_clients(p, bounds)]
    has_log = p.replica_logs is not None and is_leader_collected(p.replica_logs)
    starts = [*clients, *_starts_of_brokers(p, bounds), *(() if has_log else logged)]
    if not any(start.is_certain for start in (*deletions, *starts)):
        starts += _start_of_final_reads(p)
    deleted = _end_of_deleted_topic(p, bounds)
    starts = [_since_deletion(start, deletions) for start in starts]
    starts = [*deletions, *starts, *_start_of_retention(p, bounds), *deleted]
    certain = [start for start in starts if start.is_certain and start.offset > 0]
    last_certain = max((start.offset for start in certain), default=0)
    moves = [start.moved_by for start in starts if start.offset > 0]
    moved = None if None in moves else max((move for move in moves if move is not None), default=MIN_INT64)
    possible = max((start.offset for start in starts), default=0)
    # A line may date the start earlier than the leader's log does.
    dated = [*certain, *(start for start in logged if start.is_certain)]
    excluded = MAX_INT64 if deleted else first_not_permitted(p, ((one.offset, one.moved_by) for one in dated))
    legal = min(last_certain, max([excluded, *(deletion.offset for deletion in deletions)]))
    reported = [*deletions, *(_since_deletion(start, deletions) for start in (*clients, *logged))]
    reported = [start for start in reported if start.is_reported and start.moved_by is not None]
    return LogStart(last_certain, legal, possible, moved, tuple(starts), tuple(reported), bool(deleted))


def _start_of_final_reads(p: Observations) -> list[StartEvidence]:
    """The offset at which the final reads were assigned to begin: it should be the log start.

    It is only possible, as a reader that was assigned a later offset skips records.
    """
    begun = least(p.assigned_by(p.settings.final_readers())["offset"], None)
    return [] if begun is None else [StartEvidence(begun, False, None)]


def _end_of_deleted_topic(p: Observations, bounds: _Bounds) -> list[StartEvidence]:
    """The log end, if the topic was deleted by the end of the final reads.

    It has lost all records, even if copies or late reads still show some.
    """
    deleted = p.generation.deleted if p.generation is not None else None
    if deleted is None or (bounds.until is not None and deleted.earliest > bounds.until):
        return []
    # It still existed when the last send was acknowledged there.
    written = greatest(p.sends.filter(pl.col("acknowledged") & pl.col("offset").is_not_null())["invoked"], MIN_INT64)
    since = min(max(deleted.earliest, written), deleted.latest)
    return [StartEvidence(bounds.reach, True, deleted.latest, since)]


def _since_deletion(start: StartEvidence, deletions: list[StartEvidence]) -> StartEvidence:
    """The start; if a recorded delete-records explains it, it moved no earlier than that."""
    explaining = [
        deletion.since
        for deletion in deletions
        if max(deletion.offset, deletion.requested) >= start.offset
        if start.moved_by is None or deletion.since <= start.moved_by
    ]
    return start._replace(since=min(explaining, default=MIN_INT64))


def _starts_of_delete_records(p: Observations, bounds: _Bounds) -> Iterator[StartEvidence]:
    """The starts that delete-records requests of clients, or faults, caused."""
    since, until, reach = bounds.since, bounds.until, bounds.reach
    # A deletion after the final reads does not explain records missing from them.
    is_in_time = pl.col("invoked") <= (MAX_INT64 if until is None else until)
    faults = p.context.filter(pl.col("outcome") != "fail", is_in_time, kind="fault")
    for detail, begun, done in faults.select("detail", "invoked", "completed").unique().iter_rows():
        if deletions_of(detail) is None:
            yield StartEvidence(reach, False, done, begun)
    for row in p.marks.filter(is_in_time, kind="delete-records").iter_rows(named=True):
        before, begun, done = row["offset"], row["invoked"], row["completed"]
        reported = row["outcome"] == "ok" and done is not None and done >= begun and before is not None
        # Without an offset, or with -1, it deletes up to the high watermark of that time, which is not recorded.
        reported = reported and before <= reach
        certain = reported and (since is None or done <= since) and not bounds.refutes(before, done)
        offset = reach if before is None else min(before, reach)
        yield StartEvidence(offset, certain, done, begun, reported, requested=before or 0)


def _starts_of_clients(p: Observations, bounds: _Bounds) -> Iterator[StartEvidence]:
    """The starts that clients requested; after the final reads the start may have moved again."""
    until = bounds.until
    returned = p.end_offsets.filter(pl.col("start").is_not_null()).select("start", "offset", "invoked", "completed")
    for start, end, begun, done in returned.iter_rows():
        certain = start <= end and (until is None or begun <= until) and not bounds.refutes(start, done)
        yield StartEvidence(min(start, end), certain, done, is_reported=start <= end)


def _starts_of_brokers(p: Observations, bounds: _Bounds) -> Iterator[StartEvidence]:
    """The start of the leader's collected log. If the leader is unknown, the lowest start of the collected logs, which
    is certain if all replicas were collected."""
    below = greatest(p.legally_absent.filter(reason=BELOW_START)["last_offset"], None)
    if below is not None:
        # Files are copied after the final reads: the offsets that these returned were not deleted yet.
        reached = min(below + 1, bounds.first_final)
        yield StartEvidence(reached, True, bounds.until if bounds.read_past(reached) else None)
        return
    logs = p.replica_logs
    if logs is None or logs.leader is not None:
        return
    extents = logs.extents.filter(snapshot=logs.last)
    configured = p.settings.topic(p.topic).get("replication.factor")
    replicas = len(logs.replicas) or (configured if isinstance(configured, int) else MAX_INT64)
    if (start := least(extents["deleted_below"], 0)) > 0:
        is_complete = extents["broker"].n_unique() >= replicas
        yield StartEvidence(min(start, bounds.first_final), is_complete, None)


def _starts_in_server_logs(p: Observations, bounds: _Bounds) -> Iterator[StartEvidence]:
    """Log starts in server.log. Certain if the broker led at that time.

    Followers apply retention on their own, so a follower's line only counts if it repeats the leader's log start.
    """
    if p.timeline is None:
        return
    led = sorted((term.when, term.leader) for term in p.timeline.dated_terms)
    for fact in p.timeline.log_starts:
        if fact.offset is None or fact.time is None:
            continue
        leader = next((broker for since, broker in reversed(led) if since <= fact.time), None)
        reported = (fact.kind == LEADERS_LOG_START or leader == fact.broker) and fact.offset <= bounds.reach
        certain = reported and (bounds.until is None or fact.time <= bounds.until)
        certain = certain and not bounds.refutes(fact.offset, fact.time)
        yield StartEvidence(min(fact.offset, bounds.reach), certain, fact.time, is_reported=reported)


def _start_of_retention(p: Observations, bounds: _Bounds) -> list[StartEvidence]:
    """The possible start after retention: at the end of the reads, all records below it were old enough."""
    limit = p.settings.retention_ms(p.topic)
    until = greatest(p.reads["completed"], None) if bounds.until is None else bounds.until
    sends = p.sends.filter(pl.col("acknowledged"))
    if until is None or not len(sends):
        return []
    bound = least(p.reads.filter(_of_final(p))["offset"], bounds.reach)
    is_by_age = not p.settings.limited_in_size(p.topic)
    if is_by_age:
        if limit is None:
            return []
        records = record_times(p, sends)
        young = records.filter(pl.col("time") > max(until - limit * MS, MIN_INT64))
        if len(young) == len(records):
            return []
        bound = min(bound, least(young["offset"], bound))
        # With timestamps, retention began no earlier than the time at which the oldest record became too old.
        oldest = least(records.filter(pl.col("is_stamped") & (pl.col("offset") < bound))["time"], None)
        if oldest is not None and records.filter(pl.col("offset") < bound)["is_stamped"].all():
            return [StartEvidence(bound, False, None, oldest + limit * MS, is_by_age=True)]
    return [StartEvidence(bound, False, None, is_by_age=is_by_age)]


def _final_span(p: Observations) -> tuple[int | None, int | None]:
    """The first and the last time (ns) at which processes with role final read; None without such reads."""
    readers = p.settings.final_readers()
    if not readers:
        return None, None
    times = p.reads.filter(_of_final(p))["completed"]
    if not len(times):
        times = p.assigned_by(readers)["completed"]
    return least(times, None), greatest(times, None)


def _of_final(p: Observations) -> pl.Expr:
    return is_final_read(p.settings.final_processes(), p.last_heal)


def highest_end(p: Observations) -> int:
    """The highest log end offset of all sends, reads and end_offsets."""
    last = max(greatest(frame["offset"], -1) for frame in (p.sends, p.reads))
    return max(last + 1, greatest(p.end_offsets["offset"], 0))
