"""Acknowledged batches, and why some of them are gone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap

from .storage.batches import Batch, ValueRange
from .storage.packed_rows import Rows
from .storage.replica_log import ReplicaLog

Ranges = list[tuple[int, int]]  # sorted, not touching; ends are not included


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of an acknowledged batch: the leader that did not have it, and why."""

    cause: str
    detail: str
    time: int
    leader: int
    epoch: int


@dataclass(slots=True, eq=False)
class Ack(ValueRange):
    """An acknowledged batch."""

    time: int
    epoch: int  # the leader epoch that appended it
    isr: tuple[int, ...]  # in the quorum's state at that time

    def overlaps(self, batch: Batch) -> bool:
        """Whether a log's batch has some of these values at the acknowledged offsets."""
        return (
            batch.producer == self.producer
            and batch.first - batch.base == self.first - self.base
            and batch.base < self.end
            and batch.end > self.base
        )

    def is_in(self, log: ReplicaLog) -> bool:
        """Whether a log has this batch, apart from the part below the log's start."""
        return _is_in(log, self.base, self.end, self.producer, self.first)

    def part(self, start: int, stop: int) -> Ack:
        """The records from `start` up to `stop` of this batch."""
        if start == 0 and self.base + stop == self.end:
            return self
        base, first = self.base + start, self.first + start
        return Ack(base, self.base + stop, self.producer, first, self.time, self.epoch, self.isr)

    def since(self, offset: int) -> Ack | None:
        """The part of this batch from an offset on."""
        return self.part(max(0, offset - self.base), self.count) if self.end > offset else None

    def until(self, offset: int) -> Ack | None:
        """The part of this batch below an offset."""
        return self.part(0, min(self.end, offset) - self.base) if self.base < offset else None


def _is_in(log: ReplicaLog, base: int, end: int, producer: int, first: int) -> bool:
    """Whether a log has these values at these offsets, apart from those below its start."""
    below = max(0, log.start - base)
    return end <= log.start or log.holds(base + below, end, producer, first + below)


class Acks(Rows):
    """The acknowledgements of a partition, in order of time; a row has the fields of an Ack."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_before_deletion: list[tuple[Ack, Loss]] = []  # before delete-records removed their offsets
        self.deleted: dict[int, Ranges] = {}  # producer -> values that a deletion removed from the leader's log
        self.losses: dict[int, Loss] = {}  # number of the acknowledgement -> why its records are gone

    def __iter__(self) -> Iterator[Ack]:
        return starmap(Ack, self.rows())

    def missing_from(self, log: ReplicaLog) -> Iterator[tuple[int, Ack]]:
        """The batches that a log lacks, each with the number of its acknowledgement."""
        for number, row in enumerate(self.rows()):
            if not _is_in(log, *row[:4]):
                yield number, Ack(*row)


def missing_parts(ack: Ack, held: Ranges) -> list[Ack]:
    """The parts of an acknowledged batch whose values are in none of these ranges."""
    parts: list[Ack] = []
    at, end = ack.first, ack.values_end
    place = max(0, bisect_right(held, (at, 1 << 60)) - 1)
    while at < end:
        while place < len(held) and held[place][1] <= at:
            place += 1
        covered = held[place] if place < len(held) else (end, end)
        stop = min(max(covered[0], at), end)
        if stop > at:
            parts.append(ack.part(at - ack.first, stop - ack.first))
        at = max(stop, min(covered[1], end)) if stop < end else end
    return parts


def value_ranges(log: ReplicaLog, producers: set[int]) -> dict[int, Ranges]:
    """The ranges of values in a log, by producer."""
    held: dict[int, Ranges] = {}
    for batch in log.batches() if producers else ():
        if batch.producer in producers:
            add_range(held.setdefault(batch.producer, []), batch.first, batch.values_end)
    return held


def add_range(ranges: Ranges, first: int, end: int) -> None:
    """Add a range to a sorted list of ranges that do not touch."""
    if not ranges or ranges[-1][1] < first:
        ranges.append((first, end))
        return
    if ranges[-1][1] == first:
        ranges[-1] = (ranges[-1][0], end)
        return
    place = bisect_left(ranges, (first, 0))
    if place and ranges[place - 1][1] >= first:
        place -= 1
        first = ranges[place][0]
    last = place
    while last < len(ranges) and ranges[last][0] <= end:
        end = max(end, ranges[last][1])
        last += 1
    ranges[place:last] = [(first, end)]
