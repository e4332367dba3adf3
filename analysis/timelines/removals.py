"""Ranges of offsets that truncations removed for good, and which of their records were committed.

A broker writes its high watermark where it loads a log, begins to follow, and truncates below it. A record below the
high watermark is on all replicas of the ISR, so consumers may read it, and acks=all waits for no more.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

import polars as pl

from ...histories.tables import MIN_INT64
from ..cached import once
from ..extremes import least
from ..replicas.replica_logs import ReplicaLogs
from .changes import HighWatermark, LogEnd
from .facts import MS, SECOND, dated
from .timeline import Timeline

MAX_TRUNCATIONS = 100  # of a partition, in which removals are searched
MAX_COMPARED = 100  # log ends of a broker before a truncation


class Removal(NamedTuple):
    """A range of offsets with records that a follower removed for good, and the truncations that did so."""

    first: int
    end: int  # after the last offset
    cuts: list[LogEnd]
    # From where on the leader has later records, or none. Older ones may be the same: producers sent them to both.
    replaced: int | None


class CommittedRemoval(NamedTuple):
    """The committed records of a removal: below the high watermark that a broker had before it truncated."""

    removal: Removal
    first: int
    last: int
    cut: LogEnd
    mark: HighWatermark

    def covers(self, other: Removal) -> bool:
        """Whether it has all offsets of another removal for the same log of a leader: its records were committed."""
        is_same_leader = other.replaced is not None and other.replaced == self.removal.replaced
        return is_same_leader and self.first <= other.first and other.end - 1 <= self.last


def committed_removals(timeline: Timeline, removals: Iterable[Removal]) -> Iterator[CommittedRemoval]:
    """The committed records of removals, by offset, each offset once. None if the topic was deleted.

    Records below a log start that was known before the truncation are left out: they had been deleted.
    """
    marked = [
        CommittedRemoval(removal, max(removal.replaced, start), min(mark.offset, removal.end) - 1, cut, mark)
        for removal in removals
        for cut in removal.cuts
        if removal.replaced is not None and (mark := _certain_mark(timeline, removal, cut))
        for start in [_log_start(timeline, removal, cut)]
    ]
    covered = -1
    for one in sorted(marked, key=lambda one: (one.first, -one.last)) if not timeline.was_deleted else ():
        first = max(one.first, covered + 1)
        if first <= one.last:
            covered = one.last
            yield one._replace(first=first)


def may_have_been_committed(timeline: Timeline, removal: Removal) -> bool:
    """Whether nothing shows that records of a removal had been committed, or that none had.

    A high watermark in a log lags, so that records above it may have been committed, too. An election from the ISR
    takes no committed records, as followers truncate by leader epochs (KIP-101), unless the leader has lost its tail.
    """
    marks = [mark for cut in removal.cuts if (mark := _certain_mark(timeline, removal, cut))]
    if removal.replaced is not None and any(mark.offset > removal.replaced for mark in marks):
        return False
    until = max(cut.when for cut in removal.cuts)
    elected = [term for term in timeline.led_terms if term.epoch > 0 and (term.time is None or term.time <= until)]
    were_clean = bool(elected) and all(term.elected_uncleanly is False for term in elected)
    may_lack_tail = any(_had_just_started(timeline, cut) for cut in removal.cuts)
    return may_lack_tail or not (were_clean and len(timeline.replica_logs.epochs))


def _had_just_started(timeline: Timeline, cut: LogEnd) -> bool:
    """Whether the leader that a truncation followed had started since the election before its own."""
    led = dated(timeline.led_terms, until=cut.when)
    if not led or led[-1].leader == cut.broker:
        return False
    return bool(timeline.starts_of(led[-1].leader, led[-2].when if len(led) > 1 else 0, led[-1].when))


def _certain_mark(timeline: Timeline, removal: Removal, cut: LogEnd) -> HighWatermark | None:
    """The high watermark before a truncation; None without one, or if the leader may have the records.

    The leader lacks them by its last log, or by the start of the epoch that the broker followed.
    """
    led = dated(timeline.led_terms, until=cut.when)
    began_below = bool(led) and led[-1].start is not None and led[-1].start <= removal.first
    is_lacking = timeline.replica_logs.held or began_below
    return high_watermark_before(timeline, cut) if is_lacking and not _is_of_old_copy(timeline, removal, cut) else None


def _is_of_old_copy(timeline: Timeline, removal: Removal, cut: LogEnd) -> bool:
    """Whether a broker truncated the records of an older copy of its log, to which its checkpoint does not belong.

    It had led the term that has their offsets now, so that its own log had the records of that term. Or it had
    truncated to the log of the term, and the leader has not started again since.
    """
    loaded = max((end.when for end in timeline.dated_ends(cut.broker, "loaded", until=cut.when - 1)), default=None)
    terms = [term for term in timeline.led_terms if term.start is not None and term.start == removal.replaced]
    if loaded is None or not terms or terms[-1].time is None or terms[-1].time >= loaded:
        return False
    leader, since = terms[-1].leader, terms[-1].when
    if leader == cut.broker:
        return True
    cuts = timeline.dated_ends(cut.broker, "truncated", since=since, until=loaded - 1)
    agreed = [one.when for one in cuts if one.end <= removal.first]
    return bool(agreed) and not timeline.starts_and_loads(leader, agreed[0], cut.when)


def _log_start(timeline: Timeline, removal: Removal, cut: LogEnd) -> int:
    """The greatest log start that a broker reported before a truncation, or at an unknown time; 0 without any.

    If the records were replaced since an epoch began, a later log start of another broker is that of the new log.
    """
    replaced = [term.when for term in dated(timeline.led_terms) if term.start == removal.replaced]
    of_others = min([cut.when, *replaced])
    known = (
        fact.offset
        for fact in timeline.log_starts
        if fact.time is None or fact.time <= (cut.when if fact.broker == cut.broker else of_others)
    )
    return max((offset for offset in known if offset is not None), default=0)


def high_watermark_before(timeline: Timeline, cut: LogEnd) -> HighWatermark | None:
    """The greatest high watermark that a broker reported before a truncation, since it loaded or truncated its log."""
    changes = timeline.dated_ends(cut.broker, "loaded", "truncated", until=cut.when - 1)
    since = max((one.when for one in changes if not one.is_noop), default=0)
    marks = [mark for mark in timeline.high_watermarks if mark.broker == cut.broker]
    return max(dated(marks, since - 1, cut.when), key=lambda mark: mark.offset, default=None)


@once
def removals(timeline: Timeline) -> list[Removal]:
    """The ranges with records that truncations removed for good, the longest first."""
    cuts: dict[tuple[int, int, int | None], list[LogEnd]] = {}
    epochs = _Epochs(timeline)
    for cut in recorded_truncations(timeline)[:MAX_TRUNCATIONS]:
        known = timeline.dated_ends(cut.broker, "loaded", "followed", until=cut.when)[-MAX_COMPARED:]
        before = (one for one in known[::-1] if one.end > cut.end and (one.kind == "loaded" or epochs.led_before(one)))
        for one in islice(before, 1):
            end, held_ms = one.end, None if timeline.started is None else timeline.started + one.when // MS
            later = _starts_after(timeline, cut.broker, one.when)
            removed = first_removed(timeline.replica_logs, cut.end, end, held_ms, later)
            firsts = [*([] if removed is None else [removed]), *replaced_by_older(timeline, cut, end)]
            if firsts:
                cuts.setdefault((min(firsts), end, removed), []).append(cut)
    found = [Removal(first, end, alike, replaced) for (first, end, replaced), alike in cuts.items()]
    return sorted(found, key=lambda one: one.first - one.end)


def recorded_truncations(timeline: Timeline) -> list[LogEnd]:
    """The dated truncations of a partition that changed a log, by their own lines or by those of followers."""
    recorded = [end for end in dated(timeline.ends) if end.kind == "truncated" and not end.is_noop]
    return [*recorded, *_implied_truncations(timeline)]


def _implied_truncations(timeline: Timeline) -> Iterator[LogEnd]:
    """The truncations that follow from state-change.log, where the server.log that would have them is missing.

    A replica that begins to follow in an epoch, and has no records of it, truncates its log to the epoch's start.
    """
    last_cut = {end.broker: end.when for end in dated(timeline.ends) if end.kind == "truncated"}
    newest: dict[str, int] = {}  # the newest epoch that a broker has led or followed so far
    changes: list[tuple[int, str, int, LogEnd | None]] = [
        (end.when, end.broker, end.fact.epoch, end)
        for end in dated(timeline.ends)
        if end.kind == "followed" and end.fact.epoch is not None
    ]
    changes += [(term.when, term.leader or "", term.epoch, None) for term in dated(timeline.led_terms)]
    for when, broker, epoch, followed in sorted(changes, key=itemgetter(0)):
        had_records = newest.get(broker, -1) >= epoch
        newest[broker] = max(newest.get(broker, -1), epoch)
        term, is_recorded = timeline.terms.get(epoch), last_cut.get(broker, MIN_INT64) > when - SECOND
        if followed is None or term is None or term.start is None or term.has_conflict or had_records or is_recorded:
            continue
        if followed.end > term.start:
            yield replace(followed, end=term.start, kind="truncated")


def replaced_by_older(timeline: Timeline, cut: LogEnd, end: int) -> dict[int, int]:
    """The truncated offsets at which epochs began that the broker led, if older records are there now -> the epoch.

    An unclean election of a broker that never had them brings such records back.
    """
    logs = timeline.replica_logs
    last = logs.batches.filter(logs.is_of_leader)
    terms = [t for t in timeline.terms.values() if t.leader == cut.broker and not t.has_conflict]
    led = [(t.start, t.epoch) for t in dated(terms, until=cut.when) if t.start is not None and cut.end <= t.start < end]

    def has_older(start: int, epoch: int) -> bool:
        holds = pl.lit(start).is_between("base_offset", "last_offset") & (pl.col("leader_epoch") < epoch)
        return last.filter(holds).height > 0

    return {start: epoch for start, epoch in led if has_older(start, epoch)}


def _starts_after(timeline: Timeline, broker: str, at: int) -> list[int]:
    """The starts of the epochs after those that a broker led or followed before a time; empty if none is known."""
    own = [end.fact.epoch for end in timeline.dated_ends(broker, "followed", until=at - 1)]
    own += [term.epoch for term in dated(timeline.led_terms, until=at - 1) if term.leader == broker]
    last = max((epoch for epoch in own if epoch is not None), default=None)
    return [] if last is None else [term.start for term in timeline.terms_after(last) if term.start is not None]


class _Epochs:
    """The epochs that each broker led and followed, sorted."""

    def __init__(self, timeline: Timeline) -> None:
        self._led: dict[str, list[int]] = {}
        self._followed: dict[str, list[int]] = {}
        for term in timeline.led_terms:
            self._led.setdefault(term.leader or "", []).append(term.epoch)
        for end in timeline.ends:
            if end.kind == "followed":
                insort(self._followed.setdefault(end.broker, []), end.fact.epoch or 0)

    def led_before(self, followed: LogEnd) -> bool:
        """Whether a broker that began to follow had led until then: what it had is in another follower's log, too."""
        epoch = followed.fact.epoch or 0
        led = self._led.get(followed.broker, [])
        number = bisect_left(led, epoch)
        others = self._followed[followed.broker]
        return number > 0 and bisect_right(others, led[number - 1]) == bisect_left(others, epoch)


def first_removed(
    logs: ReplicaLogs, start: int, end: int, held_ms: int | None = None, later: Iterable[int] = ()
) -> int | None:
    """The first offset of a truncated range at which the last logs have no record, or another one.

    None if there is none: then the follower fetched the same records again. Another record has a leader epoch that
    begins within the range; before format v2 it was created after the follower had held all truncated ones (`held_ms`,
    ms since the epoch; None: not known). What was deleted since began where the brokers report that later epochs did
    (`later`). Without logs it is the first offset.
    """
    own = logs.batches.filter(logs.is_of_leader)
    last = own if len(own) else logs.batches.filter(snapshot=logs.last)
    if not len(last):
        return None if logs.held else start
    # Compaction removes an epoch's first batches; leader-epoch-checkpoint keeps its start.
    starts = logs.epochs.filter(snapshot=logs.last).select("leader_epoch", base_offset="start_offset")
    begun = pl.concat([last.select("leader_epoch", "base_offset"), starts], how="vertical_relaxed")
    begun = begun.group_by("leader_epoch").agg(pl.col("base_offset").min()).drop_nulls()
    log_start = least(logs.extents.filter(snapshot=logs.last)["deleted_below"], 0)
    certain = begun.filter((pl.col("base_offset") > log_start) | pl.lit(log_start == 0))["base_offset"]
    log_end = last.select(pl.col("last_offset").max() + 1).item()
    # If a leader's first epochs were deleted, it lets followers truncate above the start of a later epoch.
    deleted = [max(offset, start) for offset in later if max(offset, start) < log_start]
    removed = [*certain, *deleted, max(log_end, start), *_created_later(last, start, held_ms)]
    return min((offset for offset in removed if start <= offset < end), default=None)


def _created_later(batches: pl.DataFrame, start: int, time: int | None) -> list[int]:
    """The offsets of batches before format v2 with records that were created after a time (ms).

    Empty if those before the offset `start` were, too: then the producers' clocks are ahead.
    """
    if time is None:
        return []
    later = batches.filter(pl.col("leader_epoch").is_null(), pl.col("max_timestamp") > time + SECOND // MS)
    offsets = later["base_offset"].to_list()
    return [] if any(offset < start for offset in offsets) else offsets
