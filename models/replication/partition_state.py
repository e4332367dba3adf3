"""What the quorum (or ZooKeeper) stores of a partition, and how a controller sends it to brokers."""

from __future__ import annotations

from dataclasses import dataclass

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """Leader, ISR and their epochs; one immutable version a change (PartitionRegistration, LeaderAndIsr)."""

    replicas: tuple[int, ...]
    leader: int
    epoch: int  # leader epoch
    isr: tuple[int, ...]
    version: int  # partition epoch; with ZooKeeper zkVersion
    elr: tuple[int, ...] = ()  # eligible leader replicas, KIP-966
    last_known: int = NO_LEADER  # last leader of a partition that lost its ISR and ELR, KIP-966
    unclean: bool = False  # the current leader was elected uncleanly
    recalled: bool = False  # it was the last known leader, and ISR and ELR were empty


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """What a controller sends a broker: LeaderAndIsr with UpdateMetadata, or the metadata log's next records."""

    controller: int
    controller_epoch: int
    states: tuple[tuple[int, PartitionState], ...]
    registration: int = 0  # the broker's registration that it is for; 0: any
