"""The interfaces between parts of a run that would otherwise import one another. cluster.py composes the parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .config import Config
from .producer_batch import ProducerBatch
from .storage.batches import Batch
from .storage.replica_log import ReplicaLog

Inboxes = Mapping[int, Callable[[Any], None]]  # by broker: where requests arrive


class FollowerView(Protocol):
    """A leader's view of one follower (brokers/replica.py)."""

    leo: int
    caught_up: int
    fetch_time: int


class ReplicaView(Protocol):
    """The attributes of a replica that rules and the ledger read (brokers/replica.py)."""

    broker: int
    partition: int
    log: ReplicaLog
    hw: int
    epoch: int
    epoch_start: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]

    @property
    def config(self) -> Config:
        """The configuration of its broker."""

    @property
    def followers(self) -> Mapping[int, FollowerView]:
        """The other replicas by broker, in this leader's view."""

    @property
    def maximal_isr(self) -> tuple[FollowerView, ...]:
        """The followers that the high watermark waits for."""


AppendListener = Callable[[ProducerBatch], None]  # called with every batch that a leader appended

Records = list[tuple[int, Batch]]  # partition and records, as a poll returns them


Positions = list[tuple[int, int | None]]  # partition and offset; None: not known


class OffsetRange(NamedTuple):
    """The log start offset of a partition, and the end for consumers."""

    start: int
    end: int  # high watermark or last stable offset; -1: OFFSET_NOT_AVAILABLE


class SentValue(NamedTuple):
    """A value that a transaction sends."""

    partition: int
    number: int  # of the producer's values in the partition


class SentRecord(NamedTuple):
    """A record of a transaction that ended."""

    partition: int
    number: int
    offset: int | None  # None: unknown


@dataclass(slots=True)
class EventHead:
    """The first fields of an event in a history; each process numbers its own operations."""

    time: int  # simulated microseconds
    process: str
    op: int


class Membership(NamedTuple):
    """The member of a group that an event is about; empty: not recorded."""

    member: str
    generation: int


class History:
    """Records the operations of clients and the faults of a run. This one records nothing.

    Times are simulated microseconds. Outcomes are ok, fail or info.
    """

    def send(self, head: EventHead, producer: int, partition: int, number: int) -> None:
        """A process sends a value, which a producer numbered within the partition."""

    def sent(self, time: int, process: str, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:
        """The outcome of a batch."""

    def transact(self, head: EventHead, producer: int, sends: list[SentValue], offsets: dict[int, int]) -> None:
        """A process begins a transaction, which will send these values and commit these offsets."""

    def transacted(
        self,
        head: EventHead,
        producer: int,
        records: list[SentRecord],
        offsets: dict[int, int],
        outcome: str,
        error: str,
    ) -> None:
        """A transaction ended: ok is committed, fail aborted. `offsets` are those that it commits."""

    def poll(self, head: EventHead) -> None:
        """A consumer begins a poll."""

    def polled(self, head: EventHead, records: Records) -> None:
        """A poll returns."""

    def handle(self, head: EventHead, records: Records) -> None:
        """The application handled records."""

    def commit(self, head: EventHead, offsets: list[tuple[int, int]]) -> None:
        """A consumer commits offsets."""

    def assign(self, head: EventHead, offsets: Positions) -> None:
        """A consumer assigns itself partitions."""

    def committing(self, head: EventHead, offsets: list[tuple[int, int]]) -> None:
        """A member of a group begins to commit offsets."""

    def committed(
        self, head: EventHead, offsets: list[tuple[int, int]], outcome: str, error: str, membership: Membership
    ) -> None:
        """The outcome of a member's commit."""

    def assign_by_group(
        self, head: EventHead, offsets: Positions, assignment: tuple[int, ...], membership: Membership
    ) -> None:
        """A group assigns partitions to a member, which then owns `assignment`."""

    def seek(self, head: EventHead, offsets: Positions) -> None:
        """A consumer goes back to committed offsets."""

    def revoke(self, head: EventHead, partitions: tuple[int, ...], membership: Membership) -> None:
        """A member gives partitions up."""

    def crash(self, head: EventHead, reason: str) -> None:
        """A consumer's process ends."""

    def end_offsets(self, invoked: int, time: int, offsets: dict[int, OffsetRange]) -> None:
        """An administrator lists the log start and the high watermark of each partition."""

    def fault(self, time: int, kind: str, nodes: tuple[str, ...], is_heal: bool, extra: dict[str, object]) -> None:
        """A fault begins or ends; `nodes` are names, as of Fault.name_of."""


NO_HISTORY = History()
