"""Acknowledged batches, and why those that are gone are gone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap

from .batches import Batch
from .log import ReplicaLog
from .packed import Rows


@dataclass(frozen=True, slots=True)
class Loss:
    """Why an acknowledged batch is gone: the leader that did not have it, and why it did not."""

    cause: str
    detail: str
    time: int
    leader: int
    epoch: int


class Ack:
    """An acknowledged batch: values `first` … of a producer at offsets `base` up to `end`."""

    __slots__ = ("acks", "base", "end", "epoch", "first", "isr", "producer", "time")

    def __init__(
        self, base: int, end: int, producer: int, first: int, acks: int, time: int, epoch: int, isr: tuple[int, ...]
    ) -> None:
        self.base = base
        self.end = end
        self.producer = producer
        self.first = first
        self.acks = acks
        self.time = time
        self.epoch = epoch  # the leader epoch that appended it
        self.isr = isr  # as the quorum had it then

    def same(self, batch: Batch) -> bool:
        """Does a log's batch hold some of these values at the offsets that were acknowledged?"""
        return (
            batch.producer == self.producer
            and batch.first - batch.base == self.first - self.base
            and batch.base < self.end
            and batch.end > self.base
        )

    def held_by(self, log: ReplicaLog) -> bool:
        return _held(log, self.base, self.end, self.producer, self.first)

    def part(self, start: int, stop: int) -> Ack:
        """The records from `start` up to `stop` of this batch."""
        if start == 0 and self.base + stop == self.end:
            return self
        base, first = self.base + start, self.first + start
        return Ack(base, self.base + stop, self.producer, first, self.acks, self.time, self.epoch, self.isr)

    def since(self, offset: int) -> Ack | None:
        """What of this batch stands from an offset on."""
        return self.part(max(0, offset - self.base), self.end - self.base) if self.end > offset else None

    def until(self, offset: int) -> Ack | None:
        """What of this batch stands below an offset."""
        return self.part(0, min(self.end, offset) - self.base) if self.base < offset else None


def _held(log: ReplicaLog, base: int, end: int, producer: int, first: int) -> bool:
    """Does a log hold these values, as far as they are not below its start?"""
    below = max(0, log.start - base)
    return end <= log.start or log.holds(base + below, end, producer, first + below)


class Acks(Rows):
    """Those of a partition, as they came: rows are what an Ack is made of."""

    __slots__ = ("losses", "passed")

    def __init__(self) -> None:
        super().__init__()
        self.passed: list[tuple[Ack, Loss]] = []  # gone before delete-records passed over their offsets
        self.losses: dict[int, Loss] = {}  # number of the acknowledgement -> why its records are gone

    def __iter__(self) -> Iterator[Ack]:
        return starmap(Ack, self.rows())

    def missing_from(self, log: ReplicaLog) -> Iterator[tuple[int, Ack]]:
        """Those that a log does not hold, with their numbers."""
        for number, row in enumerate(self.rows()):
            if not _held(log, *row[:4]):
                yield number, Ack(*row)
