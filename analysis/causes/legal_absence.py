"""retention and compaction: records that Kafka deleted as configured or requested. No loss, but a reason.

retention needs a log start above the offsets (checkpoint, first batch, name of an empty segment, or the broker's line).
compaction needs the offset missing between others below the cleaner's offset, or a newer record of the key.
"""

from __future__ import annotations

import polars as pl

from ..replicas.replica_logs import stretches, where
from ..timelines.facts import Fact, chain
from ..timelines.timeline import Timeline
from .attempts import NOT_THE_CASE, Attempt, needs
from .losses import Lost, acknowledgement

RETENTION = "retention"
RETENTION_CITATION = "retention.ms and retention.bytes; KIP-107 (DeleteRecords)"
RETENTION_REMEDY = "Nothing is wrong. retention.ms and retention.bytes decide how long records stay."
COMPACTION = "compaction"
COMPACTION_CITATION = "cleanup.policy=compact; Kafka's documentation of log compaction"
COMPACTION_REMEDY = "Nothing is wrong. cleanup.policy=delete keeps every record of a key."


def retention(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether the log starts above the records at the end of the run: on the leader if it is known, else on all."""
    logs = timeline.replica_logs
    bounds = logs.extents.filter(pl.col("snapshot") == logs.last)
    if logs.leader is not None and logs.leader in set(bounds["broker"]):
        bounds = bounds.filter(pl.col("broker") == logs.leader)
    if not bounds.height:
        return needs(f"the log start offset of {lost.name}")
    if not (bounds["start"] > lost.last).all():
        return NOT_THE_CASE
    starts = [
        Fact(
            f"{where(logs.last)} broker {row['broker']}'s log starts at offset {row['start']}",
            "log-start",
            logs.times.get(logs.last),
            *_source_of_start(timeline, row["broker"]),
            partition=lost.name,
            broker=row["broker"],
            offset=row["start"],
        )
        for row in bounds.iter_rows(named=True)
    ]
    deleted = [
        Fact(
            f"a delete-records request deleted {lost.name} below offset {_requested_offset(fault.details, lost)}",
            "deleted",
            fault.completed,
            place=fault.place,
            partition=lost.name,
        )
        for fault in timeline.faults
        if fault.kind == "delete-records"
        and fault.type == "fault"
        and _requested_offset(fault.details, lost) is not None
    ]
    return Attempt(True, chain(acknowledgement(lost), deleted, _log_start_facts(timeline, lost), starts))


def _log_start_facts(timeline: Timeline, lost: Lost) -> list[Fact]:
    """For each broker, the first fact that its log start moved beyond the records."""
    moved = [fact for fact in timeline.log_starts if fact.offset is not None and fact.offset > lost.last]
    return list({fact.broker: fact for fact in reversed(moved)}.values())[::-1]


def _requested_offset(details: object, lost: Lost) -> object:
    """The offset of a delete-records request for the partition of the records; None if it is for another one."""
    if not isinstance(details, dict) or details.get("topic") != lost.topic:
        return None
    offsets = details.get("offsets")
    return offsets.get(str(lost.partition)) if isinstance(offsets, dict) else None


def _source_of_start(timeline: Timeline, broker: str) -> tuple[str | None, int | None, int | None]:
    """File, line and byte that prove where a broker's log starts at the end of the run."""
    logs = timeline.replica_logs
    own = (pl.col("snapshot") == logs.last) & (pl.col("broker") == broker)
    point = logs.checkpoints.filter(own & (pl.col("name") == "log-start"))
    if point.height:
        return point["file"][0], point["line"][0], None
    batch = logs.batches.filter(own).sort("base_offset")
    if batch.height:
        return batch["file"][0], None, batch["byte"][0]
    return logs.segments.filter(own).sort("base_offset")["file"][0], None, None  # its name is the log start


def compaction(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether the log cleaner has passed the records, and they are gone from the log at the end of the run."""
    logs = timeline.replica_logs
    if logs.compacted is False:
        return NOT_THE_CASE
    last = stretches(logs, logs.last)
    led = logs.leader is not None and (last["broker"] == logs.leader).any()
    own = (pl.col("broker") == logs.leader) if led else pl.lit(True)
    now = logs.records.filter((pl.col("snapshot") == logs.last) & own)
    if now.filter(pl.col("offset").is_between(lost.first, lost.last) & pl.col("value").is_in(lost.values)).height:
        return NOT_THE_CASE
    points = logs.checkpoints.filter((pl.col("snapshot") == logs.last) & (pl.col("name") == "cleaned"))
    cleaned = points.filter(pl.col("offset") > lost.last)
    if not cleaned.height:
        if logs.compacted:
            return needs(f"evidence that the cleaner had passed offset {lost.last} (cleaner-offset-checkpoint)")
        return NOT_THE_CASE
    if not last.filter(own & (pl.col("last_offset") > lost.last)).height:
        return NOT_THE_CASE  # the newest record of a log is never compacted away
    facts = [
        Fact(
            f"broker {row['broker']}'s cleaner has cleaned {lost.name} up to offset {row['offset']}",
            "cleaned",
            logs.times.get(logs.last),
            row["file"],
            row["line"],
            partition=lost.name,
            broker=row["broker"],
            offset=row["offset"],
        )
        for row in cleaned.iter_rows(named=True)
    ]
    return Attempt(True, chain(acknowledgement(lost), timeline.cleanings[-3:], facts))
