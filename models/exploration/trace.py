"""The trace of a run: what clients and faults did to which values, as data for its narrative (narrative.py).

Tracing is off unless a narrative is requested.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..replication.clients.transactional_producer import BY_APPLICATION
from ..replication.cluster import Cluster
from ..replication.ports import EventHead, History, Membership, Records
from ..replication.producer_batch import ProducerBatch

SEND, APPEND, ACKNOWLEDGED, GIVE_UP, READ, HANDLE = "send", "append", "acknowledged", "give-up", "read", "handle"


@dataclass(frozen=True, slots=True)
class Step:
    """An action on values, with the attributes by which a narrative groups its events."""

    actor: str  # the client; empty for a leader
    action: str
    epoch: int = -1  # of the leader that appended
    attempt: int = 1  # of the batch that was appended
    error: str = ""  # for which a producer gave up


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """A step with the values `first` up to `end` of a producer, at offsets from `base` on (-1: unknown)."""

    time: int
    step: Step
    partition: int
    producer: int
    first: int
    end: int
    base: int = -1


@dataclass(frozen=True, slots=True)
class ConsumerStart:
    """A consumer starts at committed or reset offsets; None where auto.offset.reset decides."""

    time: int
    consumer: str
    offsets: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class ConsumerCrash:
    """A consumer's process ends; by partition, the ends of what it had read, handled and committed."""

    time: int
    consumer: str
    reason: str
    read: dict[int, int]
    handled: dict[int, int]
    committed: dict[int, int]


@dataclass(frozen=True, slots=True)
class HandledAgain:
    """A consumer's application handles offsets that it had handled before."""

    time: int
    consumer: str
    base: int
    end: int


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """A fault begins or ends."""

    time: int
    kind: str
    nodes: tuple[int, ...]
    ends: bool
    parameters: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemberChange:
    """A member of a group gets or gives up partitions, or its commit is refused with an error."""

    time: int
    consumer: str
    generation: int
    partitions: tuple[int, ...]
    offsets: tuple[int | None, ...] = ()  # where it starts to read the partitions that it gets
    error: str = ""


@dataclass(frozen=True, slots=True)
class FailedTransaction:
    """A transaction ends neither committed nor aborted by its application."""

    time: int
    producer: str
    outcome: str
    error: str


ClientEvent = ConsumerStart | ConsumerCrash | HandledAgain | FaultEvent | MemberChange | FailedTransaction
_Ends = dict[int, int]  # partition -> offset


class Tracer(History):
    """Keeps what a narrative needs."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.client_events: list[ClientEvent] = []
        self.acknowledged = 0  # values
        self.retried = 0  # batches that took more than one attempt
        self._cluster: Cluster | None = None
        self._read: dict[str, _Ends] = defaultdict(dict)  # by consumer
        self._handled: dict[str, _Ends] = defaultdict(dict)
        self._committed: dict[str, _Ends] = defaultdict(dict)

    def attach(self, cluster: Cluster) -> None:
        """Trace leaders' appends too. Call it before the first event."""
        self._cluster = cluster
        cluster.ledger.append_listener = self._appended

    def send_times(self) -> list[int]:
        """The time of each value's send."""
        return [event.time for event in self.events if event.step.action == SEND]

    # --- producers

    def send(self, head: EventHead, producer: int, partition: int, number: int) -> None:
        step = Step(head.process, SEND)
        self.events.append(TraceEvent(head.time, step, partition, producer, number, number + 1))

    def transact(
        self,
        head: EventHead,
        producer: int,
        sends: list[tuple[int, int]],
        offsets: dict[int, int],  # noqa: ARG002
    ) -> None:
        for partition, number in sends:
            self.send(head, producer, partition, number)

    def transacted(
        self,
        head: EventHead,
        producer: int,  # noqa: ARG002
        sends: list[tuple[int, int, int | None]],
        offsets: dict[int, int],
        outcome: str,
        error: str,
    ) -> None:
        if outcome == "ok":
            self.acknowledged += len(sends)
            self._committed[head.process].update(offsets)
        elif error != BY_APPLICATION:
            self.client_events.append(FailedTransaction(head.time, head.process, outcome, error))

    def _appended(self, batch: ProducerBatch) -> None:
        assert self._cluster is not None
        if batch.producer < 0:
            return  # a coordinator's
        step = Step("", APPEND, batch.epoch, batch.attempts)
        end = batch.first + batch.count
        self.events.append(TraceEvent(self._cluster.loop.now, step, batch.partition, batch.producer, batch.first, end))

    def sent(self, time: int, process: str, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:
        acknowledged = outcome == "ok"
        step = Step(process, ACKNOWLEDGED) if acknowledged else Step(process, GIVE_UP, error=error)
        if acknowledged:
            self.acknowledged += batch.count
        self.retried += batch.attempts > 1
        end = batch.first + batch.count
        self.events.append(TraceEvent(time, step, batch.partition, batch.producer, batch.first, end, base))

    # --- consumers; the final reader is not traced

    def polled(self, head: EventHead, records: Records) -> None:
        if head.process != "final":
            self.events.extend(_events(head.time, Step(head.process, READ), records))
            _raise_ends(self._read[head.process], records)

    def handle(self, head: EventHead, records: Records) -> None:
        ends = self._handled[head.process]
        for partition in sorted({p for p, _ in records}):
            base = min(batch.base for p, batch in records if p == partition)
            end = min(max(batch.end for p, batch in records if p == partition), ends.get(partition, 0))
            if base < end:
                self.client_events.append(HandledAgain(head.time, head.process, base, end))
        self.events.extend(_events(head.time, Step(head.process, HANDLE), records))
        _raise_ends(ends, records)

    def commit(self, head: EventHead, offsets: list[tuple[int, int]]) -> None:
        self._committed[head.process] = dict(offsets)

    def assign(self, head: EventHead, offsets: list[tuple[int, int | None]]) -> None:
        if head.process != "final":
            starts = tuple(offset for _, offset in offsets)
            self.client_events.append(ConsumerStart(head.time, head.process, starts))

    def committed(
        self, head: EventHead, offsets: list[tuple[int, int]], outcome: str, error: str, membership: Membership
    ) -> None:
        if outcome == "ok":
            self._committed[head.process].update(offsets)
        else:
            places = tuple(partition for partition, _ in offsets)
            self._add_change(head, membership, places, error=error)

    def assign_by_group(
        self,
        head: EventHead,
        offsets: list[tuple[int, int | None]],
        assignment: tuple[int, ...],  # noqa: ARG002
        membership: Membership,
    ) -> None:
        if offsets:
            places, starts = zip(*offsets, strict=True)
            self._add_change(head, membership, places, starts)

    def revoke(self, head: EventHead, partitions: tuple[int, ...], membership: Membership) -> None:
        self._add_change(head, membership, partitions)

    def _add_change(
        self,
        head: EventHead,
        membership: Membership,
        partitions: tuple[int, ...],
        offsets: tuple[int | None, ...] = (),
        error: str = "",
    ) -> None:
        change = MemberChange(head.time, head.process, membership.generation, partitions, offsets, error)
        self.client_events.append(change)

    def crash(self, head: EventHead, reason: str) -> None:
        ends = (dict(ends[head.process]) for ends in (self._read, self._handled, self._committed))
        self.client_events.append(ConsumerCrash(head.time, head.process, reason, *ends))

    def fault(self, time: int, kind: str, nodes: tuple[int, ...], heal: bool, extra: dict[str, object]) -> None:
        self.client_events.append(FaultEvent(time, kind, nodes, heal, extra))


def _events(time: int, step: Step, records: Records) -> Iterator[TraceEvent]:
    for partition, batch in records:
        end = batch.first + batch.end - batch.base
        yield TraceEvent(time, step, partition, batch.producer, batch.first, end, batch.base)


def _raise_ends(ends: _Ends, records: Records) -> None:
    for partition, batch in records:
        ends[partition] = max(ends.get(partition, 0), batch.end)
