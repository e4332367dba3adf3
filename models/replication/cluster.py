"""Composes the parts of a run: brokers, quorum, coordinator and clients on one event loop.

Each part gets the others here, as callables or ports (ports.py); no part refers to the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple

from .brokers.broker import Broker, SharedParts
from .brokers.replica import Replica
from .cleaners import cleaners
from .clients.async_committer import AsyncCommitter
from .clients.blocking_producer import BlockingProducer
from .clients.client import ClientParts
from .clients.consumer import Consumer, ConsumerParts
from .clients.epoch_member import with_member_epochs
from .clients.group_consumer import GroupConsumer
from .clients.outputs import Owner, PlainOutput, TransactionalOutput
from .clients.poison import DeadLetterConsumer, PoisonedConsumer
from .clients.processor import Output, Processor
from .clients.producer import Producer
from .clients.transactional_producer import TransactionalProducer
from .config import Config
from .controllers.controller import BrokerCalls
from .controllers.quorum import Quorum
from .coordinators.group_ledger import GroupLedger
from .coordinators.offsets import OffsetCoordinator
from .coordinators.services import CoordinatorLogs
from .coordinators.transaction_ledger import TransactionLedger
from .copy_ledger import CopyLedger
from .event_loop import EventLoop
from .events import Listener
from .ledger import Ledger
from .network import FIRST_CLIENT, FIRST_CONTROLLER, QUORUM, Network
from .partition_state import NO_LEADER, PartitionState
from .ports import NO_HISTORY, History, OffsetRange
from .requests import Callback
from .rules import Rules
from .storage.replica_log import ReplicaLog


class UnstablePartition(NamedTuple):
    """A partition whose last stable offset is below the high watermark."""

    partition: int
    stable_end: int
    hw: int


class Cluster:
    """Brokers, quorum and clients, also of a finished run."""

    def __init__(
        self, rules: Rules, config: Config, seed: int, history: History = NO_HISTORY, listener: Listener | None = None
    ) -> None:
        rng = Random(seed)
        self.rules = rules
        self.config = config
        self.seed = seed
        self.final = False  # all partitions were read to their ends after the last fault ended
        self.healed_at = 0  # when the last fault ended
        self.track_states = False
        self.states_seen: set[int] = set()
        self.loop = EventLoop()
        # Each part has its own random generator, so removing a fault does not change the others' draws.
        self.network = Network(self.loop, Random(_draw(rng)), config.latency, config.jitter)
        self.broker_ids = tuple(range(1, config.brokers + 1))
        self.brokers: dict[int, Broker] = {}
        self.group = GroupLedger(self.loop)
        self.transactions = TransactionLedger(self.loop)
        self.copies: CopyLedger = {}
        self.coordinator_logs = CoordinatorLogs(self.group, self.transactions)
        self.cleaners = cleaners(config, rules.era.epochs_in_log, self.coordinator_logs)
        calls: dict[int, BrokerCalls] = {}
        self.quorum = Quorum(self.network, calls, rules, config, self._on_stored, listener)
        self.ledger = Ledger(
            config.logs, self.loop, self.quorum.states, self.logs_of, lambda broker: calls[broker].is_responsive()
        )
        self.ledger.transaction_listener = self.transactions.on_appended
        self.inboxes: dict[int, Callback] = {}  # where requests arrive; a tracer may listen there
        shared = SharedParts(
            network=self.network,
            inboxes=self.inboxes,
            quorum=self.quorum,
            rules=rules,
            ledger=self.ledger,
            next_uid=count(1).__next__,
            on_leader=self._on_leader,
            on_stop=self.record_state,
            listener=listener,
            cleaners=self.cleaners,
            coordinator_logs=self.coordinator_logs,
        )
        for node in self.broker_ids:
            broker = self.brokers[node] = Broker(node, shared, config.for_broker(node), Random(_draw(rng)))
            self.inboxes[node] = broker.inbox.receive
            calls[node] = BrokerCalls(broker.process.is_responsive, broker.leadership.apply, broker.leadership.vote)
        self.coordinator = OffsetCoordinator()
        self._make_clients(rng, history)

    def _make_clients(self, rng: Random, history: History) -> None:
        config = self.config
        parts = ClientParts(self.network, self.inboxes, self.rules, config, self.ledger, history)
        make: Callable[..., Producer] = BlockingProducer if config.blocks else Producer
        if config.transactions != "none":
            make = partial(TransactionalProducer, transactions=self.transactions)
        self.producers: list[Producer] = [
            make(i, ops, parts, Random(_draw(rng))) for i, ops in enumerate(_shares(config.ops, config.producers))
        ]

        pids = count(config.producers)

        def output(index: int, owner: Owner) -> Output:
            if config.processing == "exactly-once":
                return TransactionalOutput(index, parts, owner, self.transactions)
            return PlainOutput(index, parts, owner, next(pids))

        kind: type[GroupConsumer] = AsyncCommitter if config.commit == "async" else GroupConsumer
        of_copies: dict[str, Any] = {}
        if config.poison in ("crash", "skip"):
            kind = PoisonedConsumer
        elif config.copies:
            kind = Processor if config.processing != "none" else DeadLetterConsumer
            of_copies = {"copies": self.copies, "make_output": output}
        kinds = (kind, with_member_epochs(kind))

        def consumer(number: int, index: int, name: str) -> Consumer:
            node = FIRST_CLIENT + config.producers + number
            of_consumer = ConsumerParts(node, index, name, parts, self.coordinator, self._on_final_read)
            if not config.has_group or number == config.consumers:
                return Consumer(of_consumer)
            has_epochs = config.has_member_epochs and not config.is_classic(name)
            return kinds[has_epochs](of_consumer, group=self.group, **of_copies)

        self.consumers = [consumer(i, i, f"c{i}") for i in range(config.consumers)]
        self.final_reader = consumer(config.consumers, 0, "final")
        self.final_reader.committed = config.transactional
        self.final_reader.assigned = range(config.data_partitions)

    @property
    def controller_nodes(self) -> tuple[int, ...]:
        """The quorum (or ZooKeeper) and the controllers."""
        return (QUORUM, *(FIRST_CONTROLLER + i for i in range(self.config.controllers)))

    # --- listeners

    def _on_leader(self, replica: Replica, state: PartitionState) -> None:
        self.ledger.on_leader(replica, state)
        if replica.partition >= self.config.data_partitions:
            self.brokers[replica.broker].coordinators.lead(replica.partition, state.epoch)
        self.record_state()

    def _on_stored(self, partition: int, before: PartitionState, after: PartitionState) -> None:
        self.ledger.on_stored(partition, before, after)
        self.record_state()

    def _on_final_read(self) -> None:
        self.final = True
        self.loop.stop()

    def record_state(self) -> None:
        """Record a hash of the cluster's abstract state, to measure how much a search has explored."""
        if not self.track_states:
            return
        words: list[int] = []
        for partition, state in enumerate(self.quorum.states):
            words += (partition, state.leader, state.epoch, len(state.isr), *state.isr)
            for broker in self.brokers.values():
                replica = broker.replicas.get(partition)
                words.append(broker.process.state + 4 * broker.process.is_paused)
                if replica is not None:
                    words += (replica.leader, replica.epoch, replica.log.end, replica.hw)
        self.states_seen.add(hash(tuple(words)))  # of integers only, so the same in every process

    # --- logs

    def logs_of(self, partition: int) -> dict[int, ReplicaLog]:
        """Every broker's log of a partition."""
        return {node: b.replicas[partition].log for node, b in self.brokers.items() if partition in b.replicas}

    def leader_replica(self, partition: int) -> Replica | None:
        """The replica of a partition's leader; None if there is no leader, or if it does not lead yet."""
        state = self.quorum.states[partition]
        if state.leader == NO_LEADER:
            return None
        replica = self.brokers[state.leader].replicas.get(partition)
        return replica if replica is not None and replica.is_leader else None

    def leader_log(self, partition: int) -> ReplicaLog | None:
        """The log of `leader_replica`."""
        replica = self.leader_replica(partition)
        return replica.log if replica is not None else None

    def log_ranges(self) -> list[OffsetRange | None]:
        """The log start and last stable offset (without transactions: high watermark) of each partition's leader."""
        leaders = (self.leader_replica(partition) for partition in range(self.config.data_partitions))
        return [None if replica is None else OffsetRange(replica.log.start, replica.stable_end) for replica in leaders]

    def open_transactions(self) -> Iterator[UnstablePartition]:
        """The partitions whose last stable offset is below the high watermark."""
        for partition in range(self.config.logs - self.config.transactional):
            replica = self.leader_replica(partition)
            if replica is not None and replica.stable_end < replica.hw:
                yield UnstablePartition(partition, replica.stable_end, replica.hw)


def _draw(rng: Random) -> int:
    """A seed for one part's own generator."""
    return int(rng.random() * (1 << 53))


def _shares(total: int, parts: int) -> list[int]:
    """`total` in nearly equal parts, the larger ones first."""
    return [total // parts + (i < total % parts) for i in range(parts)]
