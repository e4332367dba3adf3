"""The trace of a run for its narrative (narrative.py): what clients did to which values, and sentences for the rest.

Tracing is off unless a narrative is requested.
"""

# ruff: noqa: ARG002  an event has everything that any history needs

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from ..replication.clients.transactional_producer import BY_APPLICATION
from ..replication.cluster import Cluster
from ..replication.ledger import offsets as span
from ..replication.ports import EventHead, History, Membership, Positions, Records, SentRecord, SentValue
from ..replication.producer_batch import ProducerBatch
from . import client_wording as wording

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


_Ends = dict[int, int]  # partition -> offset


class Tracer(History):
    """Keeps what a narrative needs."""

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self.sentences: list[tuple[int, str]] = []  # time, event of a consumer, a transaction or a fault
        self.acknowledged: Counter[int] = Counter()  # values, by partition
        self.retried = 0  # batches that took more than one attempt
        self._cluster: Cluster | None = None
        self._read: dict[str, _Ends] = defaultdict(dict)  # by consumer
        self._handled: dict[str, _Ends] = defaultdict(dict)
        self._committed: dict[str, _Ends] = defaultdict(dict)

    def attach(self, cluster: Cluster) -> None:
        """Trace leaders' appends too. Call it before the first event."""
        self._cluster = cluster
        cluster.ledger.append_listener = self._appended

    # --- producers

    def send(self, head: EventHead, producer: int, partition: int, number: int) -> None:
        self.events.append(TraceEvent(head.time, Step(head.process, SEND), partition, producer, number, number + 1))

    def transact(self, head: EventHead, producer: int, sends: list[SentValue], offsets: dict[int, int]) -> None:
        for partition, number in sends:
            self.send(head, producer, partition, number)

    def transacted(
        self,
        head: EventHead,
        producer: int,
        records: list[SentRecord],
        offsets: dict[int, int],
        outcome: str,
        error: str,
    ) -> None:
        if outcome == "ok":
            self.acknowledged.update(partition for partition, *_ in records)
            self._committed[head.process].update(offsets)
        elif error != BY_APPLICATION:
            self.sentences.append((head.time, wording.failed_transaction(head.process, outcome, error)))

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
            self.acknowledged[batch.partition] += batch.count
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
                self.sentences.append((head.time, f"{head.process} handles {span(base, end)} again"))
        self.events.extend(_events(head.time, Step(head.process, HANDLE), records))
        _raise_ends(ends, records)

    def commit(self, head: EventHead, offsets: list[tuple[int, int]]) -> None:
        self._committed[head.process] = dict(offsets)

    def assign(self, head: EventHead, offsets: Positions) -> None:
        if head.process != "final":
            self.sentences.append((head.time, wording.consumer_start(head.process, offsets)))

    def committed(
        self, head: EventHead, offsets: list[tuple[int, int]], outcome: str, error: str, membership: Membership
    ) -> None:
        if outcome == "ok":
            self._committed[head.process].update(offsets)
        else:
            self.sentences.append((head.time, wording.refused_commit(head.process, offsets, error, membership)))

    def assign_by_group(
        self, head: EventHead, offsets: Positions, assignment: tuple[int, ...], membership: Membership
    ) -> None:
        if offsets:
            self.sentences.append((head.time, wording.member_start(head.process, offsets, membership)))

    def revoke(self, head: EventHead, partitions: tuple[int, ...], membership: Membership) -> None:
        self.sentences.append((head.time, f"{head.process} gives up {wording.named_partitions(partitions)}"))

    def crash(self, head: EventHead, reason: str) -> None:
        ends = {"read": self._read, "handled": self._handled, "committed": self._committed}
        reached = {verb: by_consumer[head.process] for verb, by_consumer in ends.items()}
        self.sentences.append((head.time, wording.consumer_crash(head.process, reason, reached)))

    def fault(self, time: int, kind: str, nodes: tuple[str, ...], is_heal: bool, extra: dict[str, object]) -> None:
        if sentence := wording.fault(kind, nodes, is_heal, extra):
            self.sentences.append((time, sentence))


def _events(time: int, step: Step, records: Records) -> Iterator[TraceEvent]:
    for partition, batch in records:
        end = batch.values_end
        yield TraceEvent(time, step, partition, batch.producer, batch.first, end, batch.base)


def _raise_ends(ends: _Ends, records: Records) -> None:
    for partition, batch in records:
        ends[partition] = max(ends.get(partition, 0), batch.end)
