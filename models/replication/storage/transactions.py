"""The transactions in one log: which are open, which were aborted, and the last stable offset.

Every replica derives them from its own batches (ProducerStateManager, TransactionIndex). A producer id from
FIRST_TRANSACTIONAL on belongs to a transactional producer. A control batch has the producer MARKER; its `first` is even
for an abort and odd for a commit, and its `sequence` is -2 less the epoch of the coordinator that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .batches import Batch

FIRST_TRANSACTIONAL = 1000  # producer ids below are those of idempotent producers
MARKER = -2


def is_commit(marker: Batch) -> bool:
    """Whether a control batch commits; otherwise it aborts."""
    return bool(marker.first & 1)


class EndedTransaction(NamedTuple):
    """The offsets of a transaction that a marker ended."""

    marker: int
    first: int


class AbortedTransaction(NamedTuple):
    """An entry of the transaction index (AbortedTxn); offsets are those of the log."""

    pid: int
    first: int
    marker: int
    stable_end: int  # the last stable offset after the marker


@dataclass(slots=True)
class LogTransactions:
    """The transactions of one log."""

    open: dict[int, int] = field(default_factory=dict)  # producer id -> its transaction's first offset; ascending
    ended: list[EndedTransaction] = field(default_factory=list)  # in order of markers
    aborted: list[AbortedTransaction] = field(default_factory=list)  # in order of markers
    markers: dict[int, int] = field(default_factory=dict)  # producer id -> offset of its last marker
    coordinators: dict[int, int] = field(default_factory=dict)  # producer id -> coordinator epoch of its last marker

    def add(self, batch: Batch) -> None:
        """Add a batch of a transactional producer."""
        pid = batch.pid
        if batch.producer != MARKER:
            self.open.setdefault(pid, batch.base)
            return
        self.markers[pid] = batch.base
        self.coordinators[pid] = max(-2 - batch.sequence, self.coordinators.get(pid, -1))
        first = self.open.pop(pid, None)
        if first is not None:
            self.ended.append(EndedTransaction(batch.base, first))
            if not is_commit(batch):
                stable_end = next(iter(self.open.values()), batch.end)
                self.aborted.append(AbortedTransaction(pid, first, batch.base, stable_end))

    def stable_end(self, mark: int) -> int:
        """The last stable offset: every transaction below it has its marker below the high watermark `mark`."""
        end = mark
        if self.open:
            end = min(end, next(iter(self.open.values())))
        for transaction in reversed(self.ended):
            if transaction.marker < mark:
                break
            end = min(end, transaction.first)
        return end

    def is_aborted(self, batch: Batch) -> bool:
        """Whether a batch belongs to a transaction that was aborted."""
        return any(one.pid == batch.pid and one.first <= batch.base < one.marker for one in self.aborted)

    def aborted_between(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with these offsets, by first offset (TransactionIndex.collectAbortedTxns)."""
        found = [one for one in self.aborted if one.marker >= start and one.first < end]
        return sorted(found, key=lambda one: (one.first, one.pid))


def readable(batches: list[Batch], aborted: list[AbortedTransaction] | None) -> list[Batch]:
    """The batches that a consumer returns to its application (CompletedFetch.nextFetchedRecord).

    Control batches and what compaction removed are skipped, and with read_committed the aborted transactions in the
    fetch response (None: read_uncommitted).
    """
    found: list[Batch] = []
    pending = list(aborted or ())
    dropped: set[int] = set()
    for batch in batches:
        while pending and pending[0].first < batch.end:
            dropped.add(pending.pop(0).pid)
        if batch.producer == MARKER:
            dropped.discard(batch.pid)
        elif batch.pid not in dropped:
            found += batch.parts()
    return found


def committed_batches(batches: Iterator[Batch], end: int) -> list[Batch]:
    """The batches below an offset that are visible to read_committed consumers; their markers may be at or above it."""
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
