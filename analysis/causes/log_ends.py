"""The log ends of a replica that prove that it still had the lost records."""

from __future__ import annotations

from itertools import takewhile

import polars as pl

from ..timelines.changes import LogEnd
from ..timelines.facts import SECOND
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from .cases import Lost
from .outages import MAX_SESSION_NS, is_dead_or_fenced
from .replica_history import may_have_lost_tail
from .writing_term import is_another

OF_STARTS = ("loaded", "corruption")  # ends of the log that the process before left


def was_above(timeline: Timeline, broker: str, lost: Lost, before: int | None = None) -> bool:
    """Whether the next known log end of a broker, before a time (ns), is above the lost records.

    It had them, or others there.
    """
    next_ends = _later_ends(timeline, broker, lost)[:1]
    return any(end.end > lost.last and (before is None or end.when < before) for end in next_ends)


def is_held(timeline: Timeline, end: LogEnd, lost: Lost) -> bool:
    """Whether the log of a snapshot held the first and the last lost record."""
    is_lost = pl.col("value").is_in(list(lost.values)) & pl.col("offset").is_in([lost.first, lost.last])
    held = timeline.replica_logs.records.filter(is_lost, snapshot=end.snapshot, broker=end.broker)
    return {lost.first, lost.last} == {*held["offset"]}


def had_others(timeline: Timeline, end: LogEnd, lost: Lost) -> bool:
    """Whether a log had another record at the first lost offset when it ended above it.

    The log still has this record, and its broker's lines of later truncations, one at least, are all above it.
    """
    cuts = timeline.dated_ends(end.broker, "truncated", since=end.when - SECOND)
    later = [one for one in _later_ends(timeline, end.broker, lost) if one.when >= end.when]
    if not cuts or any(one.end <= lost.first for one in (end, *cuts, *later)):
        return False
    others = timeline.replica_logs.last_records.filter(is_another(lost), broker=end.broker, offset=lost.first)
    return others.height > 0


def time_last_held(timeline: Timeline, broker: str, lost: Lost, wrote: Term | None, until: int | None) -> int | None:
    """The time (ns) of a log end that proves that a broker still had the records that a term acknowledged; else None.

    It is above them, no log end before it is not, and the log cannot have had other records there by then. The broker
    did not lose its tail after it, until a time (ns; None: ever).
    """
    ends = _later_ends(timeline, broker, lost)
    above = [*takewhile(lambda end: end.end > lost.last and not _may_have_others(timeline, end, lost, wrote), ends)]
    if not above:
        return None
    last = above[-1]
    since = _reported_until(timeline, broker, last.when) if last.kind in OF_STARTS else last.when
    return None if may_have_lost_tail(timeline, broker, since + 1, until) else last.when


def _reported_until(timeline: Timeline, broker: str, loaded: int) -> int:
    """The time (ns) until which sources may report the start that loaded a log: the last of their first reports.

    A controller registers a broker when its session before is over. Reports after the broker died are of another start.
    """
    first: dict[str | None, int] = {}
    for start in timeline.starts_of(broker, loaded - 1, loaded + MAX_SESSION_NS):
        first.setdefault(start.fact.source, start.when)
    last = max(first.values(), default=loaded)
    return loaded if any(loaded < time <= last for time in timeline.ends_of_process(broker)) else last


def _later_ends(timeline: Timeline, broker: str, lost: Lost) -> list[LogEnd]:
    """The dated log ends of a broker after the records had been stored."""
    return timeline.dated_ends(broker, *OF_STARTS, "followed", "snapshot", "truncated", since=lost.stored_at)


def _may_have_others(timeline: Timeline, end: LogEnd, lost: Lost, wrote: Term | None) -> bool:
    """Whether a log may have had other records than the lost ones when it ended there: its broker may have followed a
    leader without them.

    A broker that begins to follow in an epoch has what it had before that epoch.
    """
    if end.kind == "snapshot" and is_held(timeline, end, lost):
        return False
    if had_others(timeline, end, lost):
        return True
    terms = [term for term in timeline.terms.values() if wrote is None or term.epoch >= wrote.epoch]
    if end.kind == "followed":
        terms = [term for term in terms if term.epoch < (end.fact.epoch or 0)]
    times = (_possible_time_without(timeline, term, end, lost, wrote) for term in terms)
    return any(since is not None and since <= end.when and not _is_unchanged(timeline, end, since) for since in times)


def _possible_time_without(timeline: Timeline, term: Term, end: LogEnd, lost: Lost, wrote: Term | None) -> int | None:
    """The time (ns) since when the leader of a term may lack the records; None if it has them, as far as is known.

    Any later leader may from its election on; the one that wrote them only since a start that may have lost its tail.
    """
    if term is not wrote and term.start is not None and term.start > lost.last:
        return None  # its log was above them when it began to lead
    began = lost.stored_at if term.time is None or term is wrote else term.time
    if wrote is None or term.leader is None or term.leader != wrote.leader or term.has_conflict:
        return began
    later = [following.time for following in timeline.terms_after(term.epoch)]
    until = min([end.when, *(time for time in (term.ended, *later) if time is not None)])
    starts = timeline.starts_and_loads(term.leader, lost.stored_at, until - 1)
    is_own_load = term.leader == end.broker and end.kind in OF_STARTS  # then this end shows what it still had
    may_lose = not is_own_load and may_have_lost_tail(timeline, term.leader, lost.stored_at, until)
    return max(began, starts[0] - 1) if starts and may_lose else None


def _is_unchanged(timeline: Timeline, end: LogEnd, since: int) -> bool:
    """Whether a log was the same since a time (ns), as its broker was dead, or until the start that loaded it.

    A start loads what the process before left. If a source has two starts, it may be the second.
    """
    until = end.when
    if end.kind in OF_STARTS and timeline.starts_once(end.broker, since, until - 1):
        until = min(timeline.starts_and_loads(end.broker, since, until - 1), default=until)
    return is_dead_or_fenced(timeline, end.broker, since, until - 1)
