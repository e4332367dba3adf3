"""The events that brokers, the quorum and controllers report during a run.

Server logs (histories/simulation) and narratives (models/exploration) are made from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class ClusterEvent(NamedTuple):
    """One event. Its `kind` determines its `details`:

    start, ready            a broker's process starts; it serves requests
    stop                    reason: crash, power-loss, shutdown, disk-full
    pause, resume
    loaded                  partition, log end, checkpointed high watermark, whether the last stop was clean
    leader, follower, truncate, isr-shrink      an object of one of the classes below
    follows-on              as follower, but the fetcher continues
    fetching                partition, leader, from offset, leader epoch
    isr-expand              partition, old, new, high watermark, log end
    isr-updated             partition, isr, version
    isr-propagated          whether the ISRs were quiet for 5 s
    elected                 partition, old state, new state
    stored                  partition, old state (None: a new partition), new state; for every change of the state
    fenced, registered      broker
    fenced-unseen, registered-unseen    broker, with ZooKeeper without an active controller
    leaving, left           broker: its controlled shutdown is granted; its process ends
    controller              controller epoch
    refused-controller      controller epoch, known controller epoch
    cleaned                 partition, first and end of the dirty section, records that compaction removed
    out-of-order            partition, producer id, log end, incoming sequence, last sequence
    """

    time: int  # simulated microseconds
    node: int
    kind: str
    details: tuple[Any, ...]


Listener = Callable[[ClusterEvent], None]


class LeaderEpoch(NamedTuple):
    """A leader and its epoch."""

    leader: int
    epoch: int


class OutOfSync(NamedTuple):
    """A replica that left the ISR, and its log end offset."""

    broker: int
    end: int


class Led(NamedTuple):
    """Details of `leader`."""

    partition: int
    epoch: int
    end: int  # the log end offset
    hw: int  # the high watermark
    isr: tuple[int, ...]
    version: int
    previous: LeaderEpoch  # before this one
    is_unclean: bool


class Followed(NamedTuple):
    """Details of `follower`."""

    partition: int
    epoch: int
    leader: int
    end: int
    hw: int
    version: int
    previous: LeaderEpoch
    isr: tuple[int, ...]


class Truncated(NamedTuple):
    """Details of `truncate`."""

    partition: int
    before: int  # the log end offset before the truncation
    after: int
    reason: str  # high-watermark, epoch, out-of-range, unclean-disk
    detail: tuple[Any, ...]
    leader: int


class Shrunk(NamedTuple):
    """Details of `isr-shrink`."""

    partition: int
    old: tuple[int, ...]
    new: tuple[int, ...]
    hw: int
    end: int
    out: tuple[OutOfSync, ...]
