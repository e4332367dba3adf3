"""Followers' last logs that end below what their brokers had: older copies, or logs that lost their end.

A follower may be behind, so a short log alone proves nothing. A member of the ISR is not behind the high watermark, and
a broker that had records of the leader's log does not drop them without a truncation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.tables import MIN_INT64
from ..replicas.missing_logs import TRUNCATIONS, MissingLog
from ..replicas.replica_logs import ReplicaLogs, is_of_copy
from ..timelines.timeline import DEATHS, DISK_FAULTS, Timeline
from .partition import Partition

_BATCH = ("base_offset", "last_offset", "leader_epoch", "crc")


def with_older_copies(p: Partition) -> Partition:
    """The partition; its logs get `older_copies`."""
    logs, timeline = p.replica_logs, p.timeline
    if logs is None or timeline is None or logs.last != FINAL or not logs.at_rest or logs.leader is None:
        return p
    older = tuple(_older_copies(logs, timeline, logs.leader))
    return replace(p, replica_logs=replace(logs, older_copies=older)) if older else p


def _older_copies(logs: ReplicaLogs, timeline: Timeline, leader: str) -> Iterator[MissingLog]:
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
    time, isr = timeline.isr_reports[-1][:2] if timeline.isr_reports else (None, frozenset())
    if time is None or end >= mark or broker not in isr or _may_have_lost_records(timeline, broker, time):
        return ""
    return f"the broker was in the last ISR, and the leader's checkpointed high watermark is {mark}"


def _proof_by_snapshot(logs: ReplicaLogs, timeline: Timeline, broker: str, end: int) -> str:
    """A clause that an earlier log of the broker had records of the leader's log beyond `end`; "" without proof."""
    beyond = logs.batches.filter(pl.col("snapshot") != FINAL, pl.col("base_offset") >= end, broker=broker)
    of_leader = logs.batches.filter(is_of_copy(FINAL, logs.leader or ""))
    had = beyond.join(of_leader, on=_BATCH, how="semi").sort("last_offset")
    truncations = logs.log_events.filter(pl.col("kind").is_in(TRUNCATIONS), broker=broker)
    if not had.height or truncations.height or timeline.moves:
        return ""
    snapshot, last = had["snapshot"][-1], had["last_offset"][-1]
    if _may_have_lost_records(timeline, broker, logs.times.get(snapshot, MIN_INT64)):
        return ""
    return f"it had the leader's records up to offset {last} in snapshot {snapshot}"


def _may_have_lost_records(timeline: Timeline, broker: str, since: int) -> bool:
    """Whether a crash or a change of the disk since then (ns) may have cut the broker's log."""
    deaths = [event.time for event in timeline.events if event.broker == broker and event.kind == "died"]
    kinds = (*DEATHS, *DISK_FAULTS)
    faults = [fault.completed for fault in timeline.faults if broker in fault.nodes and fault.kind in kinds]
    return any(time is None or time >= since for time in (*deaths, *faults))
