"""Log compaction: of each key only the newest record stays, and a tombstone only for a while.

Source: LogCleanerManager.grabFilthiestCompactedLog and Cleaner.doClean. A cleaning takes whole segments below the high
watermark and before the active one. The map of the newest offsets is built from the dirty ones, and all are rewritten.
Simplifications: every log that is dirty enough is cleaned, with one thread and a map without a limit; small segments
are not merged; a delete horizon (KIP-534) exists in all versions, and each replica sets its own; the markers of
transactions stay for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from .batches import Batch
from .replica_log import ReplicaLog
from .segments import segments, size_of
from .transactions import MARKER


class Keyed(Protocol):
    """The key of a record; keys.py has it of topics, and the records of coordinators' logs have it themselves."""

    @property
    def key(self) -> str:
        """The key."""

    @property
    def is_tombstone(self) -> bool:
        """Whether the record has no value, and so deletes its key."""


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Compacts the replicas of one partition with the settings of its topic; times are microseconds."""

    key_of: Callable[[Batch, int], Keyed]  # of a record, by its index in the batch
    segment_bytes: int
    segment_time: int
    dirty_ratio: float  # min.cleanable.dirty.ratio
    lag: int  # min.compaction.lag.ms
    delete_retention: int  # delete.retention.ms
    size_of: Callable[[Batch], int] = size_of  # by which segments are full

    def clean(self, log: ReplicaLog, mark: int, now: int) -> tuple[int, int, int] | None:
        """Compact a log below its high watermark `mark` and its last stable offset, if enough of it is dirty.

        Returns the dirty section (its end not included), and how many records were removed.
        """
        first = max(log.cleaned, log.start)
        batches = self._cleanable(log, log.transactions.stable_end(mark), now)
        dirty = [batch for batch in batches if batch.base >= first]
        if not dirty or _size(dirty) <= self.dirty_ratio * _size(batches):
            return None
        newest = {
            self.key_of(batch, index).key: batch.base + index
            for batch in dirty
            if batch.producer != MARKER and not log.transactions.is_aborted(batch)
            for index in batch.remaining()
        }
        count = 0
        for place, batch in enumerate(batches):
            removed = self._removed(log, batch, newest, now)
            if removed:
                count += removed.bit_count()
                batches[place] = replace(batch, removed=batch.removed | removed)
        log.replace_first(batches)
        log.cleaned = batches[-1].end
        return first, log.cleaned, count

    def _cleanable(self, log: ReplicaLog, end: int, now: int) -> list[Batch]:
        """The batches of the first segments that may be compacted; they end at or below `end`."""
        found: list[Batch] = []
        for segment in list(segments(log.batches(), self.segment_bytes, self.segment_time, self.size_of))[:-1]:
            if segment[-1].end > end or now - max(batch.time for batch in segment) < self.lag:
                break
            found += segment
        return found

    def _removed(self, log: ReplicaLog, batch: Batch, newest: dict[str, int], now: int) -> int:
        """The bits of the records to remove: those with a newer one of their key, and tombstones past their horizon.

        A batch gets its horizon when it is cleaned for the first time. Aborted records go at once; markers stay.
        """
        if batch.producer == MARKER:
            return 0
        if log.transactions.is_aborted(batch):
            return sum(1 << index for index in batch.remaining())
        horizon = log.delete_horizons.get(batch.uid)
        removed = 0
        for index in batch.remaining():
            record = self.key_of(batch, index)
            if newest.get(record.key, -1) > batch.base + index:
                removed |= 1 << index
            elif record.is_tombstone:
                if horizon is None:
                    log.delete_horizons[batch.uid] = now + self.delete_retention
                elif now >= horizon:
                    removed |= 1 << index
        return removed


def _size(batches: list[Batch]) -> int:
    return sum(size_of(batch) for batch in batches if batch.removed.bit_count() < batch.count)
