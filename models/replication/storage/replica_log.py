"""One replica's log: batches of records, their leader epochs, and what is flushed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .batches import Batch, Batches
from .transactions import FIRST_TRANSACTIONAL, LogTransactions

UNDEFINED = -1  # Kafka's UNDEFINED_EPOCH and UNDEFINED_EPOCH_OFFSET


class EpochStart(NamedTuple):
    """An entry of the leader epoch cache: a leader epoch, and the offset at which it begins."""

    epoch: int
    start: int


class EpochEnd(NamedTuple):
    """The leader epoch that was found for a requested one, and its end offset; both are UNDEFINED if none was."""

    epoch: int
    end: int


UNDEFINED_END = EpochEnd(UNDEFINED, UNDEFINED)


@dataclass(slots=True)
class ProducerState:
    """A broker's state of an idempotent producer in one partition: its epoch and its last five batches."""

    epoch: int
    recent: list[Batch] = field(default_factory=list)

    def add(self, batch: Batch) -> None:
        """Add an appended batch. A new producer epoch drops the earlier ones."""
        if batch.producer_epoch != self.epoch:
            self.fence(batch.producer_epoch)
        self.recent.append(batch)
        if len(self.recent) > 5:  # ProducerStateEntry.NUM_BATCHES_TO_RETAIN
            del self.recent[0]

    def fence(self, epoch: int) -> None:
        """Set the producer epoch of a batch. Alone for one without sequence numbers: a marker, or committed offsets."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.recent = []


class ReplicaLog(Batches):
    """Appends, reads and truncates. `end` is the LEO.

    Offsets below `flushed` survive a power loss, because the kernel wrote them back or Kafka flushed them (up to the
    recovery point). Simplification: a full segment (segments.py) is not flushed when the next one begins.
    """

    def __init__(self) -> None:
        super().__init__()
        self.base = 0  # of the first segment; batches between it and the start are stored, but not served
        self.start = 0
        self.end = 0
        self.flushed = 0
        self.recovery_point = 0
        self.epochs: list[EpochStart] = []  # both increase
        self.last_epoch = UNDEFINED  # the latest of them
        self.producers: dict[int, ProducerState] = {}
        self.transactions = LogTransactions()
        self.cleaned = 0  # the end of what the cleaner has passed (cleaner-offset-checkpoint)
        self.delete_horizons: dict[int, int] = {}  # uid of a cleaned batch -> when its tombstones may go

    def append(self, batch: Batch) -> None:
        """Add a batch that begins at the log's end."""
        Batches.append(self, batch)
        self.end = batch.end
        if not self.epochs or self.last_epoch < batch.epoch:
            self.assign_epoch(batch.epoch, batch.base)
        if batch.pid >= 0:
            self._remember(batch)

    def _remember(self, batch: Batch) -> None:
        state = self.producers.get(batch.pid)
        if state is None:
            state = self.producers[batch.pid] = ProducerState(batch.producer_epoch)
        if batch.pid >= FIRST_TRANSACTIONAL:
            self.transactions.add(batch)
            if batch.sequence < 0:
                state.fence(batch.producer_epoch)
                return
        state.add(batch)

    def assign_epoch(self, epoch: int, offset: int) -> None:
        """Record that `epoch` begins at `offset` (LeaderEpochFileCache.assign); later entries are dropped."""
        epochs = self.epochs
        while epochs and epochs[-1].epoch < epoch and epochs[-1].start >= offset:
            epochs.pop()
        if not epochs or epochs[-1].epoch < epoch:
            epochs.append(EpochStart(epoch, offset))
        self.last_epoch = epochs[-1].epoch

    def has_in_last_epoch(self, epoch: int, offset: int) -> bool:
        """Whether an epoch is the latest, and an offset not beyond the end of it, which is that of the log."""
        return offset <= self.end and epoch == self.last_epoch

    def holds(self, base: int, end: int, producer: int, first: int) -> bool:
        """Whether the offsets from `base` up to `end` have this producer's values from `first` on."""
        batch = self.at(base)
        if batch is None or batch.producer != producer or batch.first + base - batch.base != first:
            return False
        # Values are contiguous, so if the last one is at its offset, all are.
        return batch.end >= end or self.holds(end - 1, end, producer, first + end - 1 - base)

    def flush(self) -> None:
        """fsync everything, and advance the recovery point (UnifiedLog.flush)."""
        self.flushed = self.recovery_point = self.end

    def truncate(self, offset: int) -> list[Batch]:
        """Remove and return everything at and above `offset`.

        An epoch that begins at the end is removed even if no record is: its leader wrote nothing, and another epoch may
        begin there in the leader's log (UnifiedLog.truncateTo).
        """
        if offset >= self.end:
            self._forget_epochs()
            return []
        removed = self.cut_off(offset)
        self.end = max(offset, self.start)
        self.start = min(self.start, self.end)
        self.flushed = min(self.flushed, self.end)
        self.cleaned = min(self.cleaned, self.end)  # LogCleanerManager.maybeTruncateCheckpoint
        self.recovery_point = min(self.recovery_point, self.end)
        self._forget_epochs()
        self._rebuild_producers()
        return removed

    def _forget_epochs(self) -> None:
        while self.epochs and self.epochs[-1].start >= self.end:
            self.epochs.pop()
        self.last_epoch = self.epochs[-1].epoch if self.epochs else UNDEFINED

    def restart_at(self, offset: int) -> None:
        """Clear the log and restart it at `offset`, beyond its end (truncateFullyAndStartAt)."""
        self.cut_off(0)
        self.base = self.start = self.end = self.flushed = offset
        self.epochs, self.last_epoch = [], UNDEFINED
        self.producers, self.transactions = {}, LogTransactions()

    def advance_start(self, offset: int) -> None:
        """Advance the log start to `offset` (UnifiedLog.maybeIncrementLogStartOffset)."""
        self.start = max(self.start, min(offset, self.end))
        while len(self.epochs) > 1 and self.epochs[1].start <= self.start:
            del self.epochs[0]
        if self.epochs and self.epochs[0].start < self.start:
            self.epochs[0] = EpochStart(self.epochs[0].epoch, self.start)

    def delete_segments(self, offset: int) -> None:
        """Delete the segments that end at or below `offset`, the base of the next one (retention)."""
        self.advance_start(offset)
        self.drop_below(offset)
        self.base = max(self.base, offset)

    def checkpoint_start(self) -> int:
        """The start for the checkpoint. Simplification: records below it are deleted by batch, not by segment."""
        if self.start > self.base:
            self.drop_below(self.start)
            self.base = self.start
        return self.start

    def restore_start(self, checkpointed: int) -> None:
        """Set the start after a crash: the checkpoint's, or the first segment's base offset (LogLoader)."""
        self.start = min(self.start, max(checkpointed, self.base))

    def _rebuild_producers(self) -> None:
        self.producers, self.transactions = {}, LogTransactions()
        for batch in self.batches():
            if batch.pid >= 0:
                self._remember(batch)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The log's largest epoch at or below `epoch`, and its end offset (LeaderEpochFileCache.endOffsetFor, KIP-279).

        Both are UNDEFINED if `epoch` is newer than the log's last one.
        """
        epochs = self.epochs
        if epoch == UNDEFINED or not epochs or epoch > epochs[-1].epoch:
            return UNDEFINED_END
        if epoch == epochs[-1].epoch:
            return EpochEnd(epoch, self.end)
        higher = next(i for i, entry in enumerate(epochs) if entry.epoch > epoch)
        if higher == 0:
            # Older than all epochs here: its records were deleted, so the follower starts at this log's first epoch.
            return EpochEnd(epoch, epochs[0].start)
        return EpochEnd(epochs[higher - 1].epoch, epochs[higher].start)
