"""One replica's log: batches of records, the leader epochs they were written in, and what is safe on disk.

Brokers never touch the lists: they append, read, truncate and ask. A batch is immutable and shared by the
replicas that hold it, so `a is b` or equal `uid`s mean the same append; a slice of it keeps its `uid`.
"""

from __future__ import annotations

from bisect import bisect_right

UNDEFINED = -1  # Kafka's UNDEFINED_EPOCH and UNDEFINED_EPOCH_OFFSET


class Batch:
    """Records of one producer to one partition: values `first`, `first+1`, … at offsets `base` up to `end`.

    Simplification: all records of a batch carry one timestamp, the time of its first send (microseconds).
    """

    __slots__ = (
        "base",
        "end",
        "epoch",
        "first",
        "pid",
        "producer",
        "producer_epoch",
        "sequence",
        "time",
        "uid",
    )

    def __init__(
        self,
        base: int,
        end: int,
        epoch: int,
        producer: int,
        first: int,
        time: int,
        uid: int,
        pid: int = -1,
        producer_epoch: int = -1,
        sequence: int = -1,
    ) -> None:
        self.base = base
        self.end = end
        self.epoch = epoch
        self.producer = producer
        self.first = first
        self.time = time
        self.uid = uid
        self.pid = pid
        self.producer_epoch = producer_epoch
        self.sequence = sequence

    def cut(self, start: int, end: int) -> Batch:
        """The part of this batch between two offsets.

        Simplification: v2 batches cannot be cut, but messages of formats 0 and 1 stood alone, and only
        there do replicas disagree on where batches begin.
        """
        skipped = start - self.base
        sequence = self.sequence + skipped if self.sequence >= 0 else -1
        return Batch(
            start,
            end,
            self.epoch,
            self.producer,
            self.first + skipped,
            self.time,
            self.uid,
            self.pid,
            self.producer_epoch,
            sequence,
        )


class ProducerState:
    """What a broker remembers of an idempotent producer in one partition: its epoch and last five batches."""

    __slots__ = ("epoch", "recent")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.recent: list[tuple[int, int, int]] = []  # first sequence, last sequence, base offset

    def add(self, batch: Batch) -> None:
        if batch.producer_epoch != self.epoch:
            self.epoch = batch.producer_epoch
            self.recent = []
        last = batch.sequence + batch.end - batch.base - 1
        self.recent.append((batch.sequence, last, batch.base))
        if len(self.recent) > 5:  # ProducerStateEntry.NUM_BATCHES_TO_RETAIN
            del self.recent[0]


class ReplicaLog:
    """Append, read, truncate. `end` is the LEO; offsets below `flushed` survive a power loss."""

    __slots__ = ("_bases", "_batches", "end", "epochs", "flushed", "producers", "start")

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.flushed = 0
        self.epochs: list[tuple[int, int]] = []  # (epoch, start offset), both increasing
        self.producers: dict[int, ProducerState] = {}
        self._batches: list[Batch] = []
        self._bases: list[int] = []

    def append(self, batch: Batch) -> None:
        """Add a batch that begins at the log's end."""
        self._batches.append(batch)
        self._bases.append(batch.base)
        self.end = batch.end
        if not self.epochs or self.epochs[-1][0] < batch.epoch:
            self.assign_epoch(batch.epoch, batch.base)
        if batch.pid >= 0:
            self._remember(batch)

    def _remember(self, batch: Batch) -> None:
        state = self.producers.get(batch.pid)
        if state is None:
            state = self.producers[batch.pid] = ProducerState(batch.producer_epoch)
        state.add(batch)

    def assign_epoch(self, epoch: int, offset: int) -> None:
        """Note that `epoch` begins at `offset` (LeaderEpochFileCache.assign): entries at or beyond it give
        way."""
        epochs = self.epochs
        while epochs and epochs[-1][0] < epoch and epochs[-1][1] >= offset:
            epochs.pop()
        if not epochs or epochs[-1][0] < epoch:
            epochs.append((epoch, offset))

    @property
    def last_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else UNDEFINED

    def read(self, offset: int, limit: int, below: int) -> list[Batch]:
        """At most `limit` batches from `offset` on whose records are below `below`."""
        batches = self._batches
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            index = 0
        if batches and batches[index].end <= offset:
            index += 1
        found = batches[index : index + limit]
        if not found:
            return found
        if found[0].base < offset:
            found[0] = found[0].cut(offset, found[0].end)
        while found and found[-1].end > below:
            last = found.pop()
            if last.base < below:
                found.append(last.cut(last.base, below))
        return found

    def batches(self) -> list[Batch]:
        """All batches, for those who write or compare logs. Not to be changed."""
        return self._batches

    def at(self, offset: int) -> Batch | None:
        """The batch that holds `offset`."""
        index = bisect_right(self._bases, offset) - 1
        if index >= 0 and self._batches[index].end > offset:
            return self._batches[index]
        return None

    def holds(self, base: int, end: int, producer: int, first: int) -> bool:
        """Are the values from `first` on, of this producer, at the offsets from `base` up to `end`?"""
        return self._holds_one(base, producer, first) and self._holds_one(end - 1, producer, first + end - 1 - base)

    def _holds_one(self, offset: int, producer: int, value: int) -> bool:
        batch = self.at(offset)
        return batch is not None and batch.producer == producer and batch.first + offset - batch.base == value

    def truncate(self, offset: int) -> list[Batch]:
        """Drop everything at and above `offset`; what was dropped comes back.

        An epoch that began at the end without a batch goes even when no record does: its leader wrote
        nothing, and the next one may have begun another epoch there (UnifiedLog.truncateTo).
        """
        if offset >= self.end:
            self._forget_epochs()
            return []
        index = bisect_right(self._bases, offset) - 1
        removed: list[Batch] = []
        if index >= 0 and self._batches[index].base < offset:
            kept = self._batches[index]
            if kept.end > offset:
                self._batches[index] = kept.cut(kept.base, offset)
                removed.append(kept.cut(offset, kept.end))
            index += 1
        index = max(index, 0)
        removed.extend(self._batches[index:])
        del self._batches[index:]
        del self._bases[index:]
        self.end = max(offset, self.start)
        self.start = min(self.start, self.end)
        self.flushed = min(self.flushed, self.end)
        self._forget_epochs()
        self._rebuild_producers()
        return removed

    def _forget_epochs(self) -> None:
        while self.epochs and self.epochs[-1][1] >= self.end:
            self.epochs.pop()

    def restart_at(self, offset: int) -> list[Batch]:
        """Empty the log and begin again at `offset` (truncateFullyAndStartAt)."""
        removed = self._batches
        self.start = self.end = self.flushed = offset
        self._batches, self._bases, self.epochs, self.producers = [], [], [], {}
        return removed

    def advance_start(self, offset: int) -> None:
        """Delete what is below `offset`, batch by batch, as retention and delete-records do."""
        self.start = max(self.start, min(offset, self.end))
        index = 0
        while index < len(self._batches) and self._batches[index].end <= self.start:
            index += 1
        del self._batches[:index]
        del self._bases[:index]
        while len(self.epochs) > 1 and self.epochs[1][1] <= self.start:
            del self.epochs[0]
        if self.epochs and self.epochs[0][1] < self.start:
            self.epochs[0] = (self.epochs[0][0], self.start)

    def _rebuild_producers(self) -> None:
        self.producers = {}
        for batch in self._batches:
            if batch.pid >= 0:
                self._remember(batch)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest own epoch at or below `epoch`, the offset where it ends):
        LeaderEpochFileCache.endOffsetFor as KIP-279 left it. `UNDEFINED` twice when `epoch` is newer than
        anything here."""
        epochs = self.epochs
        if epoch == UNDEFINED or not epochs or epoch > epochs[-1][0]:
            return UNDEFINED, UNDEFINED
        if epoch == epochs[-1][0]:
            return epoch, self.end
        higher = next(i for i, (own, _) in enumerate(epochs) if own > epoch)
        if higher == 0:
            # Older than everything here: its data is gone, so the follower starts where this log's epochs do.
            return epoch, epochs[0][1]
        return epochs[higher - 1][0], epochs[higher][1]
