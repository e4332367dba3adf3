"""Where a log starts, as far as the history tells: what stands below is gone for a legal reason.

A start is certain, or only possible: a deletion of unknown outcome or beyond the log's end, one that later reads
refute or that came while the final reads went on, and retention, which leaves no trace in a history.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.observations import deletions_of
from ...histories.tables import MAX_INT64, MIN_INT64
from ..replicas.replica_logs import extents
from ..replicas.resolved_outcomes import BELOW_START, is_leader_collected
from ..timelines.facts import LEADERS_LOG_START
from .entries import Ints
from .evidence import started_ms
from .observations import Observations, once

_MS = 1_000_000
MAX_TIMESTAMP_MS = MAX_INT64 // _MS  # bounds the times made of timestamps


class _Told(NamedTuple):
    offset: int
    certain: bool
    moved: int | None  # ns: the last moment at which it may have moved there; None: any
    since: int = MIN_INT64  # ns: it did so no earlier


class LogStart(NamedTuple):
    """Offsets below `certain` are legally gone, and those below `possible` may be."""

    certain: int
    possible: int
    moved: int | None  # ns: the last moment at which it may have moved; None: any
    told: tuple[_Told, ...]

    def since(self, offsets: Ints) -> Ints:
        """From when on (ns) each of the offsets may have been below the start; beyond all: never."""
        told = sorted(self.told, key=lambda one: one.offset)
        earliest = np.minimum.accumulate(np.array([one.since for one in told] + [MAX_INT64])[::-1])[::-1]
        return np.asarray(earliest[np.searchsorted([one.offset for one in told], offsets, "right")])


class _Heard:
    """What of the whole history several sources of a log start are held against, each found once."""

    def __init__(self, p: Observations) -> None:
        self.p = p
        self.since, self.until = _final_span(p)
        self.reach = highest_end(p)

    @cached_property
    def lowest(self) -> tuple[Ints, Ints]:
        """When polls with offsets began, and the lowest offset from each on."""
        known = pl.col("offset").is_not_null() & pl.col("invoked").is_not_null()
        placed = self.p.reads.filter(known).sort("invoked")
        offsets = np.append(placed["offset"].to_numpy(), MAX_INT64)
        return placed["invoked"].to_numpy(), np.minimum.accumulate(offsets[::-1])[::-1]

    @cached_property
    def first_final(self) -> int:
        """The least offset that the final reads gave."""
        least = self.p.reads.filter(_of_final(self.p))["offset"].min() if self.since is not None else None
        return least if isinstance(least, int) else MAX_INT64

    def refutes(self, start: int, moment: int) -> bool:
        """Whether a poll that began after the moment gave an offset below the start."""
        if start <= 0:
            return False
        invoked, lowest = self.lowest
        return bool(lowest[np.searchsorted(invoked, moment, "right")] < start)


@once
def log_start(p: Observations) -> LogStart:
    """Where the log of a partition starts, for certain and possibly."""
    below = p.legally_absent.filter(pl.col("reason") == BELOW_START)["last_offset"].max()
    return log_start_with(p, below + 1 if isinstance(below, int) else None)


def log_start_with(p: Observations, collected: int | None) -> LogStart:
    """`log_start`; `collected` is the start of the leader's collected log, if it is known and not 0."""
    heard = _Heard(p)
    deleted = _deleted(p, heard)
    told = _answered(p, heard)
    if collected is not None:
        # Files are copied after the final reads: what these still saw was not below the start yet.
        told.append(_Told(min(collected, heard.first_final), True, None))
    elsewhere = [*_of_replicas(p, heard), *_logged(p, heard)] if collected is None else []
    if p.settings.final and not any(one.certain for one in (*deleted, *told, *elsewhere)):
        # The final reads should begin at the log start, but a reader that was assigned behind it hides what it skips.
        begun = p.assigned_by(p.settings.final_processes())["offset"].min()
        told += [_Told(begun, False, None)] if isinstance(begun, int) else []
    topic_deleted = p.generation.deleted if p.generation is not None else None
    if topic_deleted is not None and (heard.until is None or topic_deleted.earliest <= heard.until):
        # With its topic all that a log held is gone; copies and late reads of it show nothing else.
        told.append(_Told(heard.reach, True, topic_deleted.latest, topic_deleted.earliest))
    told = [*deleted, *(_since_deletion(one, deleted) for one in (*told, *elsewhere)), *_retained(p, heard)]
    certain = max((one.offset for one in told if one.certain), default=0)
    moves = [one.moved for one in told if one.offset > 0]
    moved = None if None in moves else max((move for move in moves if move is not None), default=-(2**63))
    return LogStart(certain, max((one.offset for one in told), default=0), moved, tuple(told))


def _since_deletion(one: _Told, deleted: list[_Told]) -> _Told:
    """A start that a recorded deletion explains moved there no earlier than that."""
    explain = [d.since for d in deleted if d.offset >= one.offset and (one.moved is None or d.since <= one.moved)]
    return one._replace(since=min(explain, default=MIN_INT64))


def _deleted(p: Observations, heard: _Heard) -> list[_Told]:
    since, until, reach = heard.since, heard.until, heard.reach
    told = []
    # One that came after the final reads explains nothing that they lack.
    intime = pl.col("invoked") <= (MAX_INT64 if until is None else until)
    faults = p.context.filter((pl.col("kind") == "fault") & (pl.col("outcome") != "fail") & intime)
    for detail, begun, done in faults.select("detail", "invoked", "completed").unique().iter_rows():
        if deletions_of(detail) is None:
            told.append(_Told(reach, False, done, begun))
    for row in p.marks.filter((pl.col("kind") == "delete-records") & intime).iter_rows(named=True):
        asked, begun, done = row["offset"], row["invoked"], row["completed"]
        certain = row["outcome"] == "ok" and done is not None and done >= begun and asked is not None
        # Without a new start, or with -1, it goes to the high watermark of its moment, which nobody knows.
        certain = certain and asked <= reach and (since is None or done <= since)
        certain = certain and not heard.refutes(asked, done)
        told.append(_Told(reach if asked is None else min(asked, reach), certain, done, begun))
    return told


def _answered(p: Observations, heard: _Heard) -> list[_Told]:
    """What end_offsets told; an answer after the final reads may tell of a later move."""
    until = heard.until
    answers = p.end_offsets.filter(pl.col("start").is_not_null()).select("start", "offset", "invoked", "completed")
    told = []
    for start, end, begun, done in answers.iter_rows():
        certain = start <= end and (until is None or begun <= until) and not heard.refutes(start, done)
        told.append(_Told(min(start, end), certain, done))
    return told


def _of_replicas(p: Observations, heard: _Heard) -> list[_Told]:
    """Where the logs of all replicas start, if the last leader is not known: it is one of them."""
    if p.replica_logs is None or p.replica_logs.leader is not None:
        return []
    bounds = extents(p.replica_logs).filter(pl.col("snapshot") == p.replica_logs.last)
    start = bounds["start"].min()
    if not isinstance(start, int) or start <= 0:
        return []
    configured = p.settings.topic(p.topic).get("replication.factor")
    replicas = len(p.replica_logs.replicas) or (configured if isinstance(configured, int) else MAX_INT64)
    return [_Told(min(start, heard.first_final), bounds["broker"].n_unique() >= replicas, None)]


def _logged(p: Observations, heard: _Heard) -> list[_Told]:
    """Log starts of server.log, where no log of the leader was collected: certain are those of a leader of its time.

    Followers delete by retention on their own, so a follower's line counts if it repeats the leader's log start.
    """
    if p.timeline is None or (p.replica_logs is not None and is_leader_collected(p.replica_logs)):
        return []
    led = sorted(
        (term.time, term.leader) for term in p.timeline.terms.values() if term.time is not None and term.leader
    )
    told = []
    for fact in p.timeline.log_starts:
        if fact.offset is None or fact.time is None:
            continue
        leader = next((who for since, who in reversed(led) if since <= fact.time), None)
        certain = fact.kind == LEADERS_LOG_START or leader == fact.broker
        certain = certain and (heard.until is None or fact.time <= heard.until) and fact.offset <= heard.reach
        certain = certain and not heard.refutes(fact.offset, fact.time)
        told.append(_Told(min(fact.offset, heard.reach), certain, fact.time))
    return told


def _retained(p: Observations, heard: _Heard) -> list[_Told]:
    """What retention may have taken by the end of the reads: a prefix whose records are all old enough."""
    limit = p.settings.retention_ms(p.topic)
    until = heard.until
    if until is None:
        last = p.reads["completed"].max()
        until = last if isinstance(last, int) else None
    sends = p.sends.filter(pl.col("acknowledged"))
    if until is None or not len(sends):
        return []
    read = p.reads.filter(_of_final(p)) if p.settings.final_processes() else p.reads.clear()
    first = read["offset"].min()
    bound = first if isinstance(first, int) else heard.reach
    if not p.settings.limited_in_size(p.topic):
        if limit is None:
            return []
        records = _record_times(p, sends)
        young = records.filter(pl.col("time") > max(until - limit * _MS, MIN_INT64))
        if len(young) == len(records):
            return []
        first_young = young["offset"].min()
        bound = min(bound, first_young) if isinstance(first_young, int) else bound
        # Where timestamps date the records, retention began no earlier than the oldest became too old.
        oldest = records.filter(pl.col("is_stamped") & (pl.col("offset") < bound))["time"].min()
        if isinstance(oldest, int) and records.filter(pl.col("offset") < bound)["is_stamped"].all():
            return [_Told(bound, False, None, oldest + limit * _MS)]
    return [_Told(bound, False, None)]


def _record_times(p: Observations, sends: pl.DataFrame) -> pl.DataFrame:
    """Offset and time (ns of the run) of records, which retention.ms compares: their timestamps (KIP-32).

    A timestamp that a poll returned is the broker's. That of a send only counts with CreateTime. A record without a
    timestamp has the time of its send (`is_stamped` is false).
    """
    started = started_ms(p.settings)
    is_append_time = p.settings.topic(p.topic).get("message.timestamp.type") == "LogAppendTime"
    sources = [p.reads] if is_append_time else [p.reads, sends]
    unstamped = sends.select("offset", time="invoked", is_stamped=pl.lit(False))
    if started is None or p.settings.undated:
        return unstamped
    stamps = pl.concat([source.filter(pl.col("timestamp") >= 0).select("offset", "timestamp") for source in sources])
    stamped = stamps.drop_nulls().unique("offset", keep="first", maintain_order=True)
    time = (pl.col("timestamp").clip(0, MAX_TIMESTAMP_MS) - started) * _MS
    times = stamped.select("offset", time=time, is_stamped=pl.lit(True))
    return pl.concat([times, unstamped.join(times, on="offset", how="anti")])


def _final_span(p: Observations) -> tuple[int | None, int | None]:
    """ns: from when to when the processes of role final read."""
    if not p.settings.final or not p.settings.final_processes():
        return None, None
    times = p.reads.filter(_of_final(p))["completed"]
    if not len(times):
        times = p.assigned_by(p.settings.final_processes())["completed"]
    return times.min(), times.max()  # type: ignore[return-value]


def _of_final(p: Observations) -> pl.Expr:
    return pl.col("process").is_in(p.settings.final_processes()) & (pl.col("completed") >= p.last_heal)


def highest_end(p: Observations) -> int:
    """The greatest log end that anything in the history tells."""
    tops = [p.sends["offset"].max(), p.reads["offset"].max()]
    ends = [p.end_offsets["offset"].max()]
    return max([*(top + 1 for top in tops if isinstance(top, int)), *(end for end in ends if isinstance(end, int)), 0])
