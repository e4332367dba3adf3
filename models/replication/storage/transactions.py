"""The transactions in one log: which are open, which were aborted, and the last stable offset.

Every replica derives them from its own batches (ProducerStateManager, TransactionIndex). A producer id from
FIRST_TRANSACTIONAL on belongs to a transactional producer. A control batch has the producer MARKER; its `first` is even
for an abort and odd for a commit, and its `sequence` is -2 less the epoch of the coordinator that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator

from .batches import Batch

FIRST_TRANSACTIONAL = 1000  # producer ids below are those of idempotent producers
MARKER = -2


def is_commit(marker: Batch) -> bool:
    """Does a control batch commit? Otherwise it aborts."""
    return bool(marker.first & 1)


class LogTransactions:
    """What a log's batches say about transactions."""

    __slots__ = ("aborted", "coordinators", "ended", "markers", "open")

    def __init__(self) -> None:
        self.open: dict[int, int] = {}  # producer id -> first offset of its transaction; in the order of offsets
        self.ended: list[tuple[int, int]] = []  # marker's offset, first offset; in the order of markers
        self.aborted: list[tuple[int, int, int, int]] = []  # producer id, first offset, marker's offset, stable offset
        self.markers: dict[int, int] = {}  # producer id -> offset of its last marker
        self.coordinators: dict[int, int] = {}  # producer id -> the coordinator epoch of its last marker

    def add(self, batch: Batch) -> None:
        """Take over a batch of a transactional producer."""
        pid = batch.pid
        if batch.producer != MARKER:
            self.open.setdefault(pid, batch.base)
            return
        self.markers[pid] = batch.base
        self.coordinators[pid] = max(-2 - batch.sequence, self.coordinators.get(pid, -1))
        first = self.open.pop(pid, None)
        if first is not None:
            self.ended.append((batch.base, first))
            if not is_commit(batch):
                self.aborted.append((pid, first, batch.base, next(iter(self.open.values()), batch.end)))

    def stable_end(self, mark: int) -> int:
        """The last stable offset: no transaction below it is open, or ended by a marker that is not below the high
        watermark yet."""
        end = mark
        if self.open:
            end = min(end, next(iter(self.open.values())))
        for marker, first in reversed(self.ended):
            if marker < mark:
                break
            end = min(end, first)
        return end

    def aborted_between(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that reach into these offsets
        (TransactionIndex.collectAbortedTxns)."""
        found = [(first, pid) for pid, first, marker, _ in self.aborted if marker >= start and first < end]
        return [(pid, first) for first, pid in sorted(found)]


def readable(batches: list[Batch], aborted: list[tuple[int, int]] | None) -> list[Batch]:
    """The batches that a consumer hands to its application: no control batches, and with read_committed none of the
    aborted transactions that the broker named (CompletedFetch.nextFetchedRecord); None: read_uncommitted."""
    found: list[Batch] = []
    pending = list(aborted or ())
    dropped: set[int] = set()
    for batch in batches:
        while pending and pending[0][1] < batch.end:
            dropped.add(pending.pop(0)[0])
        if batch.producer == MARKER:
            dropped.discard(batch.pid)
        elif batch.pid not in dropped:
            found.append(batch)
    return found


def committed(batches: Iterator[Batch], end: int) -> list[Batch]:
    """The batches below an offset that are visible to read_committed consumers; their markers may be behind it."""
    found: list[Batch] = []
    open_batches: dict[int, list[Batch]] = {}
    for batch in batches:
        if batch.producer == MARKER:
            ended = open_batches.pop(batch.pid, [])
            found += ended if is_commit(batch) else []
        elif batch.pid >= FIRST_TRANSACTIONAL:
            open_batches.setdefault(batch.pid, []).append(batch)
        else:
            found.append(batch)
    return sorted((batch for batch in found if batch.base < end), key=lambda batch: batch.base)
