"""The segments of a log, and which of them retention deletes.

Where a segment ends follows from its batches alone, so it is computed when retention or a reader of files needs it.
Simplification: replicas roll at the same offsets, as no start of a broker begins a new segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .batches import Batch
from .replica_log import ReplicaLog


@dataclass(frozen=True, slots=True)
class Limits:
    """segment.bytes, segment.ms, retention.bytes and retention.ms; times are microseconds."""

    segment_bytes: int
    segment_time: int
    retention_bytes: int
    retention_time: int


def size_of(batch: Batch) -> int:
    """The bytes of a batch on disk, at most: decides when a segment is full."""
    return 61 + 30 * (batch.end - batch.base)


def segments(batches: Iterable[Batch], segment_bytes: int, segment_time: int) -> Iterator[list[Batch]]:
    """The batches of each segment. A batch that no longer fits, or that is segment.ms younger than the first one,
    begins a new one (LogSegment.shouldRoll)."""
    current: list[Batch] = []
    size = 0
    for batch in batches:
        own = size_of(batch)
        if current and (size + own > segment_bytes or batch.time - current[0].time > segment_time):
            yield current
            current, size = [], 0
        current.append(batch)
        size += own
    if current:
        yield current


def retained_from(log: ReplicaLog, mark: int, limits: Limits, now: int) -> tuple[int, str]:
    """The base offset of the oldest segment that retention keeps, and the limit that the deleted ones breached; the log
    start if it keeps all. No segment that reaches beyond the high watermark is deleted
    (UnifiedLog.deleteOldSegments)."""
    found = list(segments(log.batches(), limits.segment_bytes, limits.segment_time))
    sizes = [sum(size_of(batch) for batch in segment) for segment in found]
    excess = sum(sizes) - limits.retention_bytes
    start, reason = log.start, ""
    for segment, size in zip(found, sizes, strict=True):
        if segment[-1].end > mark:
            break
        if now - max(batch.time for batch in segment) > limits.retention_time:
            reason = "time"
        elif excess >= size:
            reason = "size"
        else:
            break
        excess -= size
        start = segment[-1].end
    return max(start, log.start), reason
