"""Batches of records in the order of their offsets.

A batch is immutable and shared by its replicas. Its `uid` identifies the append; a slice of a batch keeps it. A large
run has hundreds of thousands of batches, so all but the latest are packed (packed_rows.py), and unpacked for reading.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from operator import attrgetter, itemgetter

from .packed_rows import CHUNK, pack, unpack


@dataclass(slots=True, eq=False)
class ValueRange:
    """Values `first`, `first+1`, … of a producer at offsets `base` up to `end`."""

    base: int
    end: int
    producer: int
    first: int

    @property
    def count(self) -> int:
        """The number of its records."""
        return self.end - self.base

    @property
    def values_end(self) -> int:
        """The value number after its last one."""
        return self.first + self.end - self.base


@dataclass(slots=True, eq=False)
class Batch(ValueRange):
    """Records of one producer to one partition.

    Simplification: all records of a batch carry one timestamp, the time of its last send (microseconds).
    """

    epoch: int
    time: int
    uid: int
    pid: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    removed: int = 0  # a bit for each record that compaction removed; the offsets stay

    @property
    def last_sequence(self) -> int:
        """The sequence number of its last record."""
        return self.sequence + self.end - self.base - 1

    def cut(self, start: int, end: int) -> Batch:
        """The part of this batch between two offsets.

        Simplification: v2 batches cannot be cut, but single messages of formats 0 and 1 could, and only there do
        replicas have different boundaries of batches.
        """
        skipped = start - self.base
        sequence = self.sequence + skipped if self.sequence >= 0 else -1
        removed = self.removed >> skipped & (1 << end - start) - 1 if self.removed else 0
        return replace(self, base=start, end=end, first=self.first + skipped, sequence=sequence, removed=removed)

    def is_removed(self, offset: int) -> bool:
        """Whether compaction removed the record at an offset of the batch."""
        return bool(self.removed >> (offset - self.base) & 1)

    def remaining(self) -> list[int]:
        """The indexes of the records that compaction left, counted from the first record of the batch."""
        return [index for index in range(self.count) if not self.removed >> index & 1]

    def parts(self) -> list[Batch]:
        """The parts of this batch that compaction left."""
        if not self.removed:
            return [self]
        runs: list[list[int]] = []
        for offset in (self.base + index for index in self.remaining()):
            if runs and runs[-1][1] == offset:
                runs[-1][1] = offset + 1
            else:
                runs.append([offset, offset + 1])
        return [self.cut(start, end) for start, end in runs]


_row = attrgetter(*(column.name for column in fields(Batch)))
_base = attrgetter("base")
_first_base = itemgetter(0)


@lru_cache(maxsize=8)
def _packed(batches: tuple[Batch, ...]) -> bytes:
    """Packed batches. The cache lets the replicas of a partition share them."""
    return pack(map(_row, batches))


class Batches:
    """Batches to append, read, find and cut. Offsets grow, and may have gaps."""

    def __init__(self) -> None:
        self._batches: list[Batch] = []  # the latest ones
        self._bases: list[int] = []
        self._packed: list[tuple[int, bytes]] = []  # older batches in chunks: the base of the first, and packed bytes
        self._opened: tuple[bytes, list[Batch]] = (b"", [])  # packed bytes that were read last, and their batches

    def append(self, batch: Batch) -> None:
        """Add a batch at the end; pack the oldest unpacked ones if there are many."""
        self._batches.append(batch)
        self._bases.append(batch.base)
        if len(self._bases) >= 2 * CHUNK:
            self._packed.append((self._bases[0], _packed(tuple(self._batches[:CHUNK]))))
            del self._batches[:CHUNK], self._bases[:CHUNK]

    def read(self, offset: int, limit: int, below: int) -> list[Batch]:
        """At most `limit` batches from `offset` on whose records are below `below`."""
        batches = self._batches
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            if self._packed:
                batches, index = self._older(offset, limit)
            index = max(index, 0)
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

    def at(self, offset: int) -> Batch | None:
        """The batch that holds `offset`."""
        batches = self._batches
        index = bisect_right(self._bases, offset) - 1
        if index < 0 and self._packed:
            batches, index = self._older(offset, 0)
        if index >= 0 and batches[index].end > offset:
            return batches[index]
        return None

    def batches(self) -> Iterator[Batch]:
        """All batches, in order."""
        for number in range(len(self._packed)):
            yield from self._open(number)
        yield from self._batches

    def cut_off(self, offset: int) -> list[Batch]:
        """Remove the records from `offset` on, and return them."""
        self._unpack_from(offset)
        index = bisect_right(self._bases, offset) - 1
        removed: list[Batch] = []
        if index >= 0 and self._batches[index].base < offset:
            split = self._batches[index]
            if split.end > offset:
                self._batches[index] = split.cut(split.base, offset)
                removed.append(split.cut(offset, split.end))
            index += 1
        index = max(index, 0)
        removed.extend(self._batches[index:])
        del self._batches[index:], self._bases[index:]
        return removed

    def replace_first(self, batches: list[Batch]) -> None:
        """Replace as many batches from the first one on by these, which have the same offsets."""
        self._unpack_from(0)
        self._batches[: len(batches)] = batches

    def drop_below(self, offset: int) -> None:
        """Drop the batches that end at or below `offset`."""
        self._unpack_from(0)
        index = 0
        while index < len(self._batches) and self._batches[index].end <= offset:
            index += 1
        del self._batches[:index], self._bases[:index]

    # --- packed batches

    def _open(self, number: int) -> list[Batch]:
        packed = self._packed[number][1]
        if self._opened[0] is not packed:
            self._opened = packed, [Batch(*row) for row in unpack(packed)]
        return self._opened[1]

    def _older(self, offset: int, limit: int) -> tuple[list[Batch], int]:
        """A list with the batch at `offset` and, if there are, `limit` later ones; and that batch's index.

        The index is that of the last batch that begins at or below `offset`, -1 if none does.
        """
        number = max(bisect_right(self._packed, offset, key=_first_base) - 1, 0)
        batches = self._open(number)
        index = bisect_right(batches, offset, key=_base) - 1
        while len(batches) - index <= limit and number < len(self._packed):
            number += 1
            batches = batches + (self._open(number) if number < len(self._packed) else self._batches)
        return batches, index

    def _unpack_from(self, offset: int) -> None:
        """Unpack all batches from `offset` on, to change them."""
        while self._packed and (not self._bases or offset < self._bases[0]):
            batches = self._open(len(self._packed) - 1)
            self._packed.pop()
            self._batches[:0] = batches
            self._bases[:0] = map(_base, batches)
