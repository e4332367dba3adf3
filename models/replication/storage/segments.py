"""The segments of a log, and which of them retention deletes.

Segments are computed from the batches when retention or a reader of files needs them. Simplification: all replicas roll
at the same offsets, because starting a broker does not begin a new segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from .batches import Batch
from .replica_log import ReplicaLog


def size_of(batch: Batch) -> int:
    """An upper bound of a batch's bytes on disk, for batches whose content is not known."""
    return 61 + 30 * batch.count


@dataclass(frozen=True, slots=True)
class Limits:
    """segment.bytes, segment.ms, retention.bytes and retention.ms; times are microseconds."""

    segment_bytes: int
    segment_time: int
    retention_bytes: int
    retention_time: int
    size_of: Callable[[Batch], int] = size_of


def roll(
    batches: Iterable[Batch], segment_bytes: int, segment_time: int, size_of: Callable[[Batch], int] = size_of
) -> Iterator[tuple[Batch, bool]]:
    """The batches, each with whether it begins a new segment.

    A batch begins one if it does not fit, or is segment.ms younger than the first (LogSegment.shouldRoll).
    """
    first: Batch | None = None
    size = 0
    for batch in batches:
        own = size_of(batch)
        begins = first is None or size + own > segment_bytes or batch.time - first.time > segment_time
        if begins:
            first, size = batch, 0
        size += own
        yield batch, begins


def segments(
    batches: Iterable[Batch], segment_bytes: int, segment_time: int, size_of: Callable[[Batch], int] = size_of
) -> Iterator[list[Batch]]:
    """The batches of each segment."""
    current: list[Batch] = []
    for batch, begins in roll(batches, segment_bytes, segment_time, size_of):
        if begins and current:
            yield current
            current = []
        current.append(batch)
    if current:
        yield current


def retained_from(log: ReplicaLog, high_watermark: int, limits: Limits, now: int) -> tuple[int, str]:
    """The new log start after retention, and which limit the deleted segments exceeded (time or size).

    Segments that reach beyond the high watermark are not deleted (UnifiedLog.deleteOldSegments).
    """
    found = list(segments(log.batches(), limits.segment_bytes, limits.segment_time, limits.size_of))
    sizes = [sum(map(limits.size_of, segment)) for segment in found]
    excess = sum(sizes) - limits.retention_bytes
    start, reason = log.start, ""
    for segment, size in zip(found, sizes, strict=True):
        if segment[-1].end > high_watermark:
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
