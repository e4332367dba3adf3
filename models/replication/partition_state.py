"""The state of a partition, which the quorum (or ZooKeeper) stores and controllers send to brokers."""

from __future__ import annotations

from dataclasses import dataclass

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leader, ISR and their epochs. Each change makes a new version (PartitionRegistration, LeaderAndIsr)."""

    replicas: tuple[int, ...]
    leader: int
    epoch: int  # leader epoch
    isr: tuple[int, ...]
    version: int  # partition epoch; with ZooKeeper zkVersion
    elr: tuple[int, ...] = ()  # eligible leader replicas, KIP-966
    last_known: int = NO_LEADER  # last leader of a partition that lost its ISR and ELR, KIP-966
    is_unclean: bool = False  # the current leader was elected uncleanly
    adding: tuple[int, ...] = ()  # of the replicas, those that a reassignment adds (KIP-455; AR)
    removing: tuple[int, ...] = ()  # and those that it removes (RR)
    was_last_known: bool = False  # the leader was the last known leader, elected because ISR and ELR were empty


ABSENT = PartitionState((), NO_LEADER, -1, (), -1)  # a partition that is not created yet


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """A controller's message to a broker: LeaderAndIsr with UpdateMetadata, or the next records of the metadata log."""

    controller: int
    controller_epoch: int
    states: tuple[tuple[int, PartitionState], ...]
    registration: int = 0  # the registration of the broker that it is sent to; 0: any
