"""What else the evidence shows of the copies of brokers' logs: whether they are new, old, or were empty.

`cp`, `kubectl cp` and `logjudge collect` also copy the logs of running brokers, and a client's history may go on after
the copy. A record that was acknowledged behind the end of such a copy is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.tables import MIN_INT64
from ..extremes import greatest
from ..replicas.missing_logs import TRUNCATIONS, MissingLog, empty_copies, held_copies
from ..replicas.replica_logs import ReplicaLogs, is_of_copy
from ..timelines.facts import SECOND, dated
from ..timelines.fault_kinds import DEATHS, DISK_FAULTS
from ..timelines.timeline import Timeline
from .partition import Partition

REPORTED_ENDS = ("loaded", "truncated", "corruption", "followed")  # kinds of LogEnd in brokers' own logs
_BATCH = ("base_offset", "last_offset", "leader_epoch", "crc")
CHECKPOINT_LAG_NS = 5 * SECOND  # replica.high.watermark.checkpoint.interval.ms
COPY_NS = SECOND  # between the copies of two replicas of one snapshot


def with_copies(p: Partition) -> Partition:
    """The partition; its logs, which its timeline shares, say what the evidence shows of the copies."""
    for changes_of in (_reported_empty, _time_of_early_copy, _older_copies):
        logs, timeline = p.replica_logs, p.timeline
        if logs is not None and timeline is not None and (changes := changes_of(p, logs, timeline)):
            logs = replace(logs, **changes)
            p = replace(p, replica_logs=logs, timeline=replace(timeline, replica_logs=logs))
    return p


def _time_of_early_copy(p: Partition, logs: ReplicaLogs, timeline: Timeline) -> dict[str, Any]:
    """`newer_than`, not `at_rest`, if acknowledged records may be behind the end of an early copy.

    With final reads, contradictions between them and the logs show early copies (acknowledged-absent). Without, a copy
    is only known to be newer than the invocations of the sends that it holds, than the elections of the epochs in its
    leader-epoch-checkpoint, and than earlier snapshots. Acknowledgements also precede it as far as brokers reported
    later that their logs ended where the copies end.
    """
    if logs.last != FINAL or not logs.at_rest or not p.sends["acknowledged"].any():
        return {}
    if p.final is not None or logs.leader in logs.missing_brokers:
        return {}
    judged = logs.last_extents
    end = greatest(judged["end"], None)
    if end is None:
        return {}
    held = logs.last_records.filter(pl.col("control").is_null(), pl.col("broker").is_in(judged["broker"].implode()))
    since = max(_newer_than(p, logs, timeline, held["value"]), _ended_at(timeline, judged["broker"], end))
    vanished = logs.records.filter(pl.col("snapshot") != FINAL)["value"]
    known = pl.concat([held["value"], vanished]).drop_nulls().implode()
    is_behind = pl.col("offset").is_null() | (pl.col("offset") >= end)
    is_later = pl.col("completed") >= since
    is_known = pl.col("value").is_in(known).fill_null(False)  # a tombstone has no value
    if not p.sends.filter("acknowledged", is_behind, is_later, ~is_known).height:
        return {}
    return {"at_rest": False, "newer_than": since}


def _ended_at(timeline: Timeline, brokers: pl.Series, end: int) -> int:
    """The time (ns) until which the logs of all these brokers are known to have had nothing at or behind an offset.

    Each broker reported its log end when it loaded the log, truncated it or began to follow.
    """
    reported = (timeline.dated_ends(broker, *REPORTED_ENDS) for broker in brokers)
    times = (max((one.when for one in own if one.end <= end), default=MIN_INT64) for own in reported)
    return min(times, default=MIN_INT64)


def _newer_than(p: Partition, logs: ReplicaLogs, timeline: Timeline, held: pl.Series) -> int:
    """The latest time (ns) at which the last copy certainly was not made yet."""
    is_held = pl.col("value").is_in(held.drop_nulls().implode())
    sent = greatest(p.sends.filter(is_held, ~pl.col("synthetic"))["invoked"], MIN_INT64)
    # A leader adds its epoch when it begins to lead, also if it then writes nothing.
    begun = {*logs.epochs.filter(logs.is_of_leader)["leader_epoch"]}
    elected = [time for epoch, term in timeline.terms.items() if epoch in begun and (time := term.time) is not None]
    return max([sent, *elected, *logs.times.values()])


def _older_copies(_p: Partition, logs: ReplicaLogs, timeline: Timeline) -> dict[str, Any]:
    """`older_copies`: followers' last logs that end below what their brokers had.

    A follower may be behind, so a short log alone proves nothing. A member of the ISR is not behind the high watermark,
    and a broker that had records of the leader's log does not drop them without a truncation.
    """
    if logs.last != FINAL or not logs.at_rest or logs.leader is None:
        return {}
    older = tuple(_proved_older(logs, timeline, logs.leader))
    return {"older_copies": older} if older else {}


def _proved_older(logs: ReplicaLogs, timeline: Timeline, leader: str) -> Iterator[MissingLog]:
    extents = {row["broker"]: row for row in logs.extents.filter(snapshot=FINAL).iter_rows(named=True)}
    damaged = set(logs.damage.filter(snapshot=FINAL)["broker"])
    with_batches = set(logs.batches.filter(snapshot=FINAL)["broker"])
    if leader not in extents or leader in damaged:
        return
    mark = min(extents[leader]["high_watermark"] or 0, extents[leader]["end"])
    for broker in sorted(extents.keys() - damaged - {leader}):
        end = extents[broker]["end"]
        proof = _proof_by_isr(timeline, broker, end, mark) or _proof_by_snapshot(logs, timeline, broker, end)
        if proof:
            is_empty = broker not in with_batches
            state = "is empty" if is_empty else f"ends at {end}"
            yield MissingLog(FINAL, broker, end, None, is_empty, f"{state}, though {proof}", None)


def _proof_by_isr(timeline: Timeline, broker: str, end: int, mark: int) -> str:
    """A clause that the broker had the records up to the leader's high watermark; "" without proof."""
    last = timeline.isr_reports[-1] if timeline.isr_reports else None
    if last is None or last.time is None or end >= mark or broker not in (last.isr or ()):
        return ""
    if _may_have_lost_records(timeline, broker, last.time):
        return ""
    return f"the broker was in the last ISR, and the leader's checkpointed high watermark is {mark}"


def _proof_by_snapshot(logs: ReplicaLogs, timeline: Timeline, broker: str, end: int) -> str:
    """A clause that an earlier log of the broker had records of the leader's log beyond `end`; "" without proof."""
    beyond = logs.batches.filter(pl.col("snapshot") != FINAL, pl.col("base_offset") >= end, broker=broker)
    if not beyond.height or timeline.moves:
        return ""
    of_leader = logs.batches.filter(is_of_copy(FINAL, logs.leader or ""))
    had = beyond.join(of_leader, on=_BATCH, how="semi").sort("last_offset")
    truncations = logs.log_events.filter(pl.col("kind").is_in(TRUNCATIONS), broker=broker)
    if not had.height or truncations.height:
        return ""
    snapshot, last = had["snapshot"][-1], had["last_offset"][-1]
    if _may_have_lost_records(timeline, broker, logs.times.get(snapshot, MIN_INT64)):
        return ""
    return f"it had the leader's records up to offset {last} in snapshot {snapshot}"


def _may_have_lost_records(timeline: Timeline, broker: str, since: int) -> bool:
    """Whether a crash or a change of the disk since then (ns) may have cut the broker's log."""
    deaths = [event.time for event in timeline.deaths_of(broker)]
    kinds = (*DEATHS, *DISK_FAULTS)
    faults = [fault.completed for fault, _ in timeline.faults_and_heals(broker) if fault.kind in kinds]
    return any(time is None or time >= since for time in (*deaths, *faults))


def _reported_empty(_p: Partition, logs: ReplicaLogs, timeline: Timeline) -> dict[str, Any]:
    """`reported_empty`: empty logs of dated snapshots that brokers reported as empty.

    So they were collected, as those that a fault had cut. Files beside such a log may be older or newer than it. A
    checkpoint of the high watermark lags, and while a new topic gets its first records, the log of one replica may be
    copied before them and that of another after them.
    """
    if not logs.times:
        return {}
    empty = empty_copies(logs.segments, held_copies(logs.batches, logs.records))
    reported = frozenset(
        (snapshot, broker)
        for (snapshot, broker), (end, _) in empty.items()
        if snapshot in logs.times and _is_reported(timeline, broker, end, logs.times[snapshot])
    )
    return {"reported_empty": reported} if reported else {}


def _is_reported(timeline: Timeline, broker: str, end: int, at: int) -> bool:
    """Whether a broker reported shortly before a time (ns), or next after it, that its log had nothing beyond `end`.

    Before the time it must have truncated or created the log; after it, have begun to follow, or truncated nothing,
    without a death in between. A fault in the history that cut the log counts, too, until the broker starts.
    """
    faults = [cut for cut in timeline.dated_ends(broker, "cut", until=at) if cut.end <= end]
    if any(not timeline.starts_of(broker, cut.when, at) for cut in faults):
        return True
    reports = timeline.dated_ends(broker, "loaded", "followed", "truncated")
    before, later = dated(reports, until=at), dated(reports, at)
    has_cut = any(one.kind == "truncated" and not one.is_noop for one in dated(before, at - CHECKPOINT_LAG_NS))
    is_recent = has_cut or any(one.is_new for one in dated(before, at - COPY_NS))
    if is_recent and before[-1].end <= end:
        return True
    if not later or later[0].end > end:
        return False
    is_unchanged = later[0].kind == "followed" or later[0].is_noop
    return is_unchanged and not timeline.life_of(broker, at, later[0].when)
