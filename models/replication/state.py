"""What the quorum (or ZooKeeper) keeps of a partition, and the facts that a run tells its listeners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Instruction:
    """What a controller tells a broker: LeaderAndIsr with UpdateMetadata, or the metadata log's next
    records."""

    controller: int
    controller_epoch: int
    states: tuple[tuple[int, PartitionState], ...]
    registration: int = 0  # which registration of the broker it belongs to; 0: any


# Facts: (time, node, kind, details). The kinds, and their details:
#   start, ready            a broker's process comes up; it serves again
#   stop                    reason: crash, power-loss, shutdown, disk-full
#   pause, resume
#   loaded                  partition, log end, checkpointed high watermark, was the last stop clean
#   leader                  partition, epoch, log end, high watermark, isr, version, previous, unclean
#   follower                partition, epoch, leader, log end, high watermark, version, previous, isr
#                           (previous: leader and leader epoch before)
#   truncate                partition, end before, end after, reason, detail, leader
#                           (reason: high-watermark, epoch, out-of-range, unclean-disk)
#   fetching                partition, leader, from offset, leader epoch
#   isr-shrink              partition, old, new, high watermark, log end, log ends of those taken out
#   isr-expand              partition, old, new, high watermark, log end
#   isr-updated             partition, isr, version
#   isr-refused             partition, isr, version
#   elected                 partition, old state, new state
#   stored                  partition, old state (None: a new partition), new state; every change, of whomever
#   fenced, registered      broker
#   controller              controller epoch
#   refused-controller      controller epoch, known one
#   fetch-error             partition, leader, error, fetch offset
#   out-of-order            partition, producer id, log end, incoming sequence, last sequence
Fact = tuple[int, int, str, tuple[Any, ...]]
