"""retention: records were deleted as configured or requested.

No loss: the legal reason why records are absent.

Needs: a log start above the offsets (checkpoint, first batch, name of an empty segment, or the broker's line).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...histories.evidence.clock import Fault
from ..replicas.replica_logs import in_snapshot, is_of_copy
from ..timelines.facts import Fact, chain
from ..timelines.timeline import Timeline
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs

CITATION = "retention.ms and retention.bytes; KIP-107 (DeleteRecords)"
REMEDY = "Nothing is wrong. retention.ms and retention.bytes decide how long records stay."


def explain_absence(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether the log starts above the records at the end of the run: on the leader if it is known, else on all."""
    logs = timeline.replica_logs
    bounds = logs.last_extents
    if not bounds.height:
        return needs(f"the log start offset of {lost.name}")
    if not (bounds["deleted_below"] > lost.last).all():
        return NOT_THE_CASE
    starts = []
    for broker, start in bounds.select("broker", "deleted_below").iter_rows():
        text = f"{in_snapshot(logs.last)} broker {broker}'s log starts at offset {start}"
        source = (logs.copied_at, *_source_of_start(timeline, broker))
        starts.append(Fact(text, "log-start", *source, partition=lost.name, broker=broker, offset=start))
    deleted = deletions_of(timeline.faults, lost.topic, lost.partition, lost.last)
    moved: dict[str | None, Fact] = {}  # broker -> the first fact that its log start moved beyond the records
    for fact in timeline.log_starts:
        if fact.offset is not None and fact.offset > lost.last:
            moved.setdefault(fact.broker, fact)
    return Attempt(True, chain(acknowledgement_facts(lost, "record"), deleted, [*moved.values()], starts))


def deletions_of(faults: Iterable[Fault], topic: str, partition: int, offset: int) -> list[Fact]:
    """The recorded requests to delete the records up to an offset or beyond it."""
    deletions = []
    for fault in faults:
        offsets = fault.details.get("offsets") if fault.details.get("topic") == topic else None
        below = offsets.get(str(partition)) if isinstance(offsets, dict) else None
        if (fault.type, fault.kind) == ("fault", "delete-records") and isinstance(below, int) and below > offset:
            text = f"a delete-records request deleted {topic}-{partition} below offset {below}"
            fact = Fact(text, "deleted", fault.completed, place=fault.place, partition=f"{topic}-{partition}")
            deletions.append(fact)
    return deletions


def _source_of_start(timeline: Timeline, broker: str) -> tuple[str, int | None, int | None]:
    """The evidence of where a broker's log starts at the end of the run: file, line and byte."""
    logs = timeline.replica_logs
    own = is_of_copy(logs.last, broker)
    point = logs.checkpoints.filter(own, name="log-start")
    if point.height:
        return point["file"][0], point["line"][0], None
    batch = logs.batches.filter(own).sort("base_offset")
    if batch.height:
        return batch["file"][0], None, batch["byte"][0]
    # The name of the first segment is the log start.
    return logs.segments.filter(own).sort("base_offset")["file"][0], None, None
