"""The log ends of a replica that prove that it still had the lost records."""

from __future__ import annotations

from itertools import takewhile

import polars as pl

from ..timelines.facts import is_end_of_process
from ..timelines.timeline import LogEnd, Term, Timeline
from .cases import Lost
from .replica_history import MAX_SESSION_NS, is_dead, may_have_lost_tail

OF_STARTS = ("loaded", "corruption")  # ends of the log that the process before left


def was_above(timeline: Timeline, broker: str, lost: Lost) -> bool:
    """Whether the next known log end of a broker is above the lost records: it had them, or others there."""
    return any(end.end > lost.last for _, end in _later_ends(timeline, broker, lost)[:1])


def is_held(timeline: Timeline, end: LogEnd, lost: Lost) -> bool:
    """Whether the log of a snapshot held the first and the last lost record."""
    is_lost = pl.col("value").is_in(list(lost.values)) & pl.col("offset").is_in([lost.first, lost.last])
    held = timeline.replica_logs.records.filter(is_lost, snapshot=end.snapshot, broker=end.broker)
    return {lost.first, lost.last} == {*held["offset"]}


def had_records_at(timeline: Timeline, broker: str, lost: Lost, wrote: Term | None, until: int | None) -> int | None:
    """The time (ns) of a log end that proves that a broker still had the records that a term acknowledged; else None.

    It is above them, no log end before it is not, and the log cannot have had other records there by then. The broker
    did not lose its tail after it, until a time (ns; None: ever).
    """
    later = _later_ends(timeline, broker, lost)
    held = [*takewhile(lambda e: e[1].end > lost.last and not _may_have_others(timeline, *e, lost, wrote), later)]
    if not held:
        return None
    time, end = held[-1]
    since = _reported_until(timeline, broker, time) if end.kind in OF_STARTS else time
    return None if may_have_lost_tail(timeline, broker, since + 1, until) else time


def _reported_until(timeline: Timeline, broker: str, loaded: int) -> int:
    """The time (ns) until which sources may report the start that loaded a log: the last of their first reports.

    A controller registers a broker when its session before is over. Reports after the broker died are of another start.
    """
    starts = [(time, event.fact.source) for time, event in timeline.starts_of(broker) if loaded <= time]
    first = {source: time for time, source in reversed(starts) if time <= loaded + MAX_SESSION_NS}
    last = max(first.values(), default=loaded)
    ended = [event.time or 0 for event in timeline.died(broker) if is_end_of_process(event.fact)]
    return loaded if any(loaded < time <= last for time in ended) else last


def _later_ends(timeline: Timeline, broker: str, lost: Lost) -> list[tuple[int, LogEnd]]:
    """The dated log ends of a broker after the records had been stored, each with its time (ns)."""
    ends = timeline.dated_ends(broker, *OF_STARTS, "followed", "snapshot", "truncated")
    return [(time, end) for time, end in ends if time > lost.stored_at]


def _may_have_others(timeline: Timeline, at: int, end: LogEnd, lost: Lost, wrote: Term | None) -> bool:
    """Whether a log may have had other records than the lost ones at a time, as a leader without them led by then.

    Not if its broker was dead since then. A broker that begins to follow in an epoch has what it had before.
    """
    if end.kind == "snapshot" and is_held(timeline, end, lost):
        return False
    terms = [term for term in timeline.terms.values() if wrote is None or term.epoch >= wrote.epoch]
    if end.kind == "followed":
        terms = [term for term in terms if term.epoch < (end.fact.epoch or 0)]
    began = [_lacks_since(timeline, term, end, at, lost, wrote) for term in terms]
    return not all(_is_unchanged(timeline, end, since, at) for since in began if since is not None and since <= at)


def _lacks_since(timeline: Timeline, term: Term, end: LogEnd, at: int, lost: Lost, wrote: Term | None) -> int | None:
    """The time (ns) since when the leader of a term may lack the records; None if it has them, as far as is known.

    The leader that wrote them has them until it starts again, maybe without its tail.
    """
    if term is not wrote and term.start is not None and term.start > lost.last:
        return None
    since = lost.stored_at if term.time is None or term is wrote else term.time
    if wrote is None or term.leader is None or term.leader != wrote.leader or term.has_conflict:
        return since
    ends = [term.ended, *(later.time for later in timeline.terms.values() if later.epoch > term.epoch)]
    until = min([at, *(time for time in ends if time is not None)])
    starts = _starts(timeline, term.leader, lost.stored_at, until)
    is_own_load = term.leader == end.broker and end.kind in OF_STARTS
    may_lack = starts and not is_own_load and may_have_lost_tail(timeline, term.leader, lost.stored_at, until)
    return max(since, starts[0] - 1) if may_lack else None


def _starts(timeline: Timeline, broker: str | None, since: int, until: int) -> list[int]:
    """The times (ns) between two others at which a broker started or loaded the log."""
    started = [time for time, _ in (*timeline.starts_of(broker), *timeline.dated_ends(broker, "loaded"))]
    return sorted(time for time in started if since < time < until)


def _is_unchanged(timeline: Timeline, end: LogEnd, since: int, at: int) -> bool:
    """Whether a log was the same at two times, as its broker was dead; a start loads what the process before left."""
    sources = [event.fact.source for time, event in timeline.starts_of(end.broker) if since < time < at]
    is_of_first_start = end.kind in OF_STARTS and len(sources) == len({*sources})
    started = min(_starts(timeline, end.broker, since, at), default=at) if is_of_first_start else at
    return is_dead(timeline, end.broker, since, started - 1)
