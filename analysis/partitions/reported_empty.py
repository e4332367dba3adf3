"""Empty logs of dated snapshots that brokers reported as empty, or that a fault had cut: they were collected.

Files beside such a log may be older or newer than it. A checkpoint of the high watermark lags, and while a new topic
gets its first records, the log of one replica may be copied before them and that of another after them.
"""

from __future__ import annotations

from dataclasses import replace

from ..replicas.missing_logs import empty_copies, held_copies
from ..timelines.facts import SECOND
from ..timelines.timeline import Timeline
from .partition import Partition

CHECKPOINT_LAG_NS = 5 * SECOND  # replica.high.watermark.checkpoint.interval.ms
COPY_NS = SECOND  # between the copies of two replicas of one snapshot


def with_reported_empty(p: Partition) -> Partition:
    """The partition; its logs get `reported_empty`."""
    logs, timeline = p.replica_logs, p.timeline
    if logs is None or timeline is None or not logs.times:
        return p
    empty = empty_copies(logs.segments, held_copies(logs.batches, logs.records))
    reported = frozenset(
        (snapshot, broker)
        for (snapshot, broker), (end, _) in empty.items()
        if snapshot in logs.times and _is_reported(timeline, broker, end, logs.times[snapshot])
    )
    return replace(p, replica_logs=replace(logs, reported_empty=reported)) if reported else p


def _is_reported(timeline: Timeline, broker: str, end: int, at: int) -> bool:
    """Whether a broker reported shortly before a time (ns), or next after it, that its log had nothing beyond `end`.

    Before the time it must have truncated or created the log; after it, have begun to follow, or truncated nothing,
    without a death in between. A fault in the history that cut the log counts, too, until the broker starts.
    """
    faults = [time for time, cut in timeline.dated_ends(broker, "cut") if time <= at and cut.end <= end]
    if any(not any(time < started <= at for started, _ in timeline.starts_of(broker)) for time in faults):
        return True
    reports = timeline.dated_ends(broker, "loaded", "followed", "truncated")
    before = [(time, report) for time, report in reports if time <= at]
    cuts = [time for time, report in before if report.kind == "truncated" and not report.is_noop]
    creations = [time for time, report in before if report.is_new]
    is_recent = any(at - time < CHECKPOINT_LAG_NS for time in cuts) or any(at - time < COPY_NS for time in creations)
    if is_recent and before[-1][1].end <= end:
        return True
    after = next(((time, report) for time, report in reports if time > at), None)
    if after is None or after[1].end > end:
        return False
    is_unchanged = after[1].kind == "followed" or after[1].is_noop
    return is_unchanged and not any(at < time <= after[0] for time, _ in timeline.life_of(broker))
