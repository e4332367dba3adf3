"""high-watermark-truncation: a follower cut its log to a stale high watermark and was then elected.

Before leader epochs (KIP-101, Kafka 0.11; and later for message formats before v2) a follower that starts
truncates to its checkpointed high watermark, which lags. If the leader dies before the follower has fetched
the records again, the follower, still in the ISR, is elected cleanly without them.

Needs: a version before 0.11 or a log before v2; the broker that leads afterwards had the records, cut its
log at or below them, and was elected cleanly. The cut is a line of its server.log, or follows from its
checkpointed high watermark and what its log holds there later.

Replicas differ for ever where one came back whose high watermark is above what the new leader wrote meanwhile: it cut
nothing of its own records (KIP-101, second scenario).
"""

from __future__ import annotations

import polars as pl

from .facts import NOT_THE_CASE, Attempt, Fact, Lost, lacks
from .succession import (
    SECOND,
    acknowledgement,
    chain,
    clean_by_configuration,
    clean_succession,
    deaths,
    held_at_snapshot,
    in_sync_before,
    just_begun,
    returned,
)
from .terms import LogEnd, Term
from .timeline import Timeline

NAME = "high-watermark-truncation"
CITATION = "KIP-101 (leader epochs instead of the high watermark for truncation), KAFKA-1211, KAFKA-3410"
PREVENTED = ["Kafka 0.11 or later with message format v2: leader epochs decide how far to truncate"]


def explain(timeline: Timeline, lost: Lost) -> Attempt:
    old_format = _without_epochs(timeline)
    if old_format is None:
        return lacks("the version of Kafka, or the format of the log's batches")
    if not old_format:
        return NOT_THE_CASE
    succeeded = clean_succession(timeline, lost)
    if isinstance(succeeded, Attempt):
        return succeeded
    found, new = succeeded
    if doubtful := just_begun(timeline, found, lost):
        return lacks(*doubtful)
    clean = _clean(timeline, new)
    if not clean:
        return lacks(f"whether broker {new.leader} was in the ISR when it was elected (controller.log)")
    cut = _cut(timeline, new, lost)
    if not cut:
        return lacks(
            f"that broker {new.leader} truncated its log to offset {lost.first} or below before its election "
            "(its server.log, or snapshots of its log and replication-offset-checkpoint)"
        )
    old = found.old_leader
    facts = chain(
        old_format,
        found.old.facts[:1] if found.old else [],
        acknowledgement(lost),
        cut,
        deaths(timeline, old, new.time) if old else [],
        new.facts[:1],
        clean,
        held_at_snapshot(timeline, old, lost) if old else [],
        returned(timeline, old, lost, new.time) if old else [],
    )
    return Attempt(True, facts, PREVENTED)


def explain_divergence(timeline: Timeline, differ: Lost) -> Attempt:
    """Of the offsets at which replicas differ in the end: a follower of the last leader cut its log above them."""
    old_format = _without_epochs(timeline)
    if old_format is None:
        return lacks("the version of Kafka, or the format of the log's batches")
    kept = timeline.kept
    led = [term for term in timeline.terms.values() if term.leader is not None]
    others = [term.epoch for term in led if term.leader != kept.leader or term.conflict or term.time is None]
    reign = [term for term in led if term.epoch > max(others, default=-1)]
    if not old_format or not reign:
        return NOT_THE_CASE
    at = kept.records.filter((pl.col("snapshot") == kept.last) & (pl.col("offset") == differ.first))
    other = at.filter(~pl.col("digest").is_in(at.filter(pl.col("broker") == kept.leader)["digest"].to_list()))
    for row in other.sort("broker").iter_rows(named=True):
        cuts = [e for e in timeline.ends_of(row["broker"], "truncated") if e.time and e.time >= (reign[0].time or 0)]
        if cuts and cuts[-1].end > differ.last:
            says = f"broker {row['broker']} kept its own records from offset {differ.first} to {differ.last}"
            kept_own = Fact(says, kept.times.get(kept.last), row["file"], None, row["byte"])
            mark = [m.fact for m in timeline.ends_of(row["broker"], "high-watermark") if m.end == cuts[-1].end][:1]
            return Attempt(True, chain(old_format, reign[0].facts[:1], mark, [cuts[-1].fact], [kept_own]), PREVENTED)
    return lacks(f"where a follower of broker {kept.leader} cut its log when it came back (its server.log)")


def _without_epochs(timeline: Timeline) -> list[Fact] | None:
    """What shows that truncation went by the high watermark; [] if by epochs, None if nobody knows."""
    batches = timeline.kept.batches
    release = timeline.release()
    if release is not None and release < (0, 11):
        return [timeline.version_fact] if timeline.version_fact else []
    if batches.height:
        if (batches["magic"] < 2).all():
            row = batches.row(0, named=True)
            says = f"the log is of message format v{row['magic']}, which has no leader epochs"
            return [Fact(says, None, row["file"], None, row["byte"])]
        return []
    return [] if release is not None else None


def _clean(timeline: Timeline, new: Term) -> list[Fact]:
    if known := in_sync_before(new):
        return known
    said = [
        fact for _, isr, fact in timeline.isr if new.leader in isr and new.time and fact.time and fact.time < new.time
    ]
    configured = clean_by_configuration(timeline)
    # ZooKeeper's ISR outlives the broker's absence, so configuration is the better proof where it is known.
    return configured or said[-1:]


def _cut(timeline: Timeline, new: Term, lost: Lost) -> list[Fact]:
    """That the new leader had the first lost record and cut it off before its election."""
    broker = new.leader or ""
    for end in reversed(timeline.ends_of(broker, "truncated")):
        if end.noop or end.end > lost.first:
            continue
        if end.time is None or (new.time is not None and end.time > new.time + SECOND):
            continue
        if lost.last_acked is not None and end.time < lost.last_acked:
            continue  # it cannot have cut what was not there yet
        before = _had_more(timeline, broker, end, lost)
        if before:
            mark = [m.fact for m in timeline.ends_of(broker, "high-watermark") if m.end == end.end][:1]
            return [*before, *mark, end.fact]
    return _from_snapshots(timeline, broker, lost)


def _had_more(timeline: Timeline, broker: str, cut: LogEnd, lost: Lost) -> list[Fact]:
    """The log end that the cut shortened: as loaded just before, or in a snapshot taken before."""
    loaded = [e for e in timeline.ends_of(broker, "loaded") if e.time is not None and cut.time and e.time <= cut.time]
    if loaded and loaded[-1].end > lost.last:
        return [loaded[-1].fact]
    if loaded and loaded[-1].time is not None and lost.last_acked is not None and loaded[-1].time > lost.last_acked:
        return []  # an earlier cut took them
    return held_at_snapshot(timeline, broker, lost)


def _from_snapshots(timeline: Timeline, broker: str, lost: Lost) -> list[Fact]:
    """Without the line: it had the record in one snapshot, with a checkpointed high watermark at or below it,
    and in a later one its log has another record there.
    """
    had = held_at_snapshot(timeline, broker, lost)
    if not had:
        return []
    kept = timeline.kept
    own = kept.records.filter((pl.col("broker") == broker) & (pl.col("offset") == lost.first))
    holds = dict(zip(own["snapshot"], own["value"], strict=True))
    held = [name for name in kept.snapshots if holds.get(name) in lost.values]
    for mark in timeline.ends_of(broker, "high-watermark"):
        if mark.snapshot not in held or mark.end > lost.first:
            continue
        later = [name for name in kept.snapshots if kept.precedes(mark.snapshot, name)]
        replaced = [name for name in later if holds.get(name) is not None and holds[name] not in lost.values]
        if replaced:
            gone = [e.fact for e in timeline.ends_of(broker, "snapshot") if e.snapshot == replaced[0]]
            return [*had, mark.fact, *gone]
    return []
