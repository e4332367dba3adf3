"""What the quorum (or ZooKeeper) keeps of a partition, and the facts that a run tells its listeners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leader, ISR and their epochs; one immutable version a change (PartitionRegistration, LeaderAndIsr)."""

    replicas: tuple[int, ...]
    leader: int
    epoch: int  # leader epoch
    isr: tuple[int, ...]
    version: int  # partition epoch, in ZooKeeper's time zkVersion
    elr: tuple[int, ...] = ()  # eligible leader replicas, KIP-966
    last_known: int = NO_LEADER  # last leader of a partition that lost its ISR and ELR, KIP-966
    unclean: bool = False  # the current leader was elected uncleanly
    recalled: bool = False  # it was the last known leader, and ISR and ELR were empty


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a controller tells a broker: LeaderAndIsr with UpdateMetadata, or the metadata log's next
    records."""

    controller: int
    controller_epoch: int
    states: tuple[tuple[int, PartitionState], ...]
    registration: int = 0  # which registration of the broker it belongs to; 0: any


class Led(NamedTuple):
    """Details of `leader`."""

    partition: int
    epoch: int
    end: int  # of its log
    mark: int  # its high watermark
    isr: tuple[int, ...]
    version: int
    previous: tuple[int, int]  # leader and leader epoch before
    unclean: bool


class Followed(NamedTuple):
    """Details of `follower`."""

    partition: int
    epoch: int
    leader: int
    end: int
    mark: int
    version: int
    previous: tuple[int, int]
    isr: tuple[int, ...]


class Truncated(NamedTuple):
    """Details of `truncate`."""

    partition: int
    before: int  # the log's end
    after: int
    reason: str  # high-watermark, epoch, out-of-range, unclean-disk
    detail: tuple[Any, ...]
    leader: int


class Shrunk(NamedTuple):
    """Details of `isr-shrink`."""

    partition: int
    old: tuple[int, ...]
    new: tuple[int, ...]
    mark: int
    end: int
    out: tuple[tuple[int, int], ...]  # who was taken out, and the end of its log


# Facts: (time, node, kind, details). The kinds, and their details:
#   start, ready            a broker's process comes up; it serves again
#   stop                    reason: crash, power-loss, shutdown, disk-full
#   pause, resume
#   loaded                  partition, log end, checkpointed high watermark, was the last stop clean
#   leader, follower, truncate, isr-shrink      as the classes above say
#   follows-on              as follower, where the fetcher goes on
#   fetching                partition, leader, from offset, leader epoch
#   isr-expand              partition, old, new, high watermark, log end
#   isr-updated             partition, isr, version
#   isr-refused             partition, isr, version
#   elected                 partition, old state, new state
#   stored                  partition, old state (None: a new partition), new state; every change, of whomever
#   fenced, registered      broker
#   fenced-unseen, registered-unseen    broker, in ZooKeeper while no controller watches
#   leaving, left           broker: it is granted a controlled shutdown; its process ends
#   controller              controller epoch
#   refused-controller      controller epoch, known one
#   fetch-error             partition, leader, error, fetch offset
#   out-of-order            partition, producer id, log end, incoming sequence, last sequence
Fact = tuple[int, int, str, tuple[Any, ...]]
_SHAPES: dict[str, Callable[..., Any]] = {
    "leader": Led,
    "follower": Followed,
    "follows-on": Followed,
    "truncate": Truncated,
    "isr-shrink": Shrunk,
}


def arguments(kind: str, details: tuple[Any, ...]) -> tuple[Any, ...]:
    """The details as whoever words the fact takes them: one object where they are many."""
    shape = _SHAPES.get(kind)
    return details if shape is None else (shape(*details),)
