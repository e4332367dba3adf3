"""A whole run: brokers, quorum, clients and faults on one event loop, from a seed to the final reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from .broker import Broker
from .config import MS, SECOND, Config
from .consumer import Consumer
from .faults import FAULTS, Fault, Heal
from .history import History
from .ledger import Ledger
from .log import ReplicaLog
from .loop import Loop
from .network import FIRST_CLIENT, FIRST_CONTROLLER, QUORUM, Network
from .producer import Producer
from .protocol import Protocol
from .quorum import Quorum
from .replica import Replica
from .state import NO_LEADER, Fact, PartitionState

CONSUMERS_START = 500 * MS
CHECK = 500 * MS
PATIENCE = 120 * SECOND  # how long the cluster may take to settle, and the final reads
HOPE = 30 * SECOND  # with all brokers up: how long a partition may still find a leader


class Cluster:
    """Build it, `run()` it, then look at `ledger`, `logs()` and `final`."""

    def __init__(
        self,
        rules: Protocol,
        config: Config,
        seed: int,
        faults: Sequence[Fault] = (),
        history: History | None = None,
        tell: Callable[[Fact], None] | None = None,
        snapshot: Callable[[Cluster, str], None] | None = None,
    ) -> None:
        rng = Random(seed)
        self.rules = rules
        self.config = config
        self.seed = seed
        self.history = history
        self.tell = tell
        self.faults = list(faults)
        self.loop = Loop()
        # Each part draws from a generator of its own, so that removing a fault leaves the others' draws
        # alone.
        self.network = Network(self.loop, Random(_draw(rng)), config.latency, config.jitter)
        self.ledger = Ledger(config.partitions, self.logs_of)
        self.broker_ids = tuple(range(1, config.brokers + 1))
        self.brokers = {b: Broker(self, b, config.for_broker(b), Random(_draw(rng))) for b in self.broker_ids}
        self.quorum = Quorum(self)
        shares = [config.ops // config.producers + (i < config.ops % config.producers) for i in range(config.producers)]
        self.producers = [Producer(self, i, shares[i], Random(_draw(rng))) for i in range(config.producers)]
        first = FIRST_CLIENT + config.producers
        self.consumers = [Consumer(self, first + i, i, f"c{i}") for i in range(config.consumers)]
        self.reader = Consumer(self, first + config.consumers, 0, "final")
        self.commits: dict[str, dict[int, int]] = {}
        self.final = False  # were all partitions read to their ends after the last heal
        self.healed_at = 0
        self.states_seen: set[int] = set()
        self.track_states = False
        self._snapshot = snapshot
        self._uid = 0
        # How many faults hold a node, how (faults.py), and the shares of messages, per mille, of those that are on.
        self.held: dict[tuple[str, int], int] = {}
        self.losing: list[int] = []
        self.doubling: list[int] = []
        self._heals: list[tuple[Fault, Heal]] = []

    # --- the run

    def run(self) -> Cluster:
        """From the first registration to the final reads. Returns itself."""
        loop = self.loop
        for broker in self.brokers.values():
            broker.clean_stop = True
            broker.boot()
        self.quorum.boot(self.broker_ids)
        self.quorum.create(self._assignment())
        for consumer in self.consumers:
            loop.at(CONSUMERS_START + self.config.start_late, consumer.start)
        for producer in self.producers:
            loop.at(self.config.producers_start, producer.start)
        for fault in self.faults:
            loop.at(fault.at, self._inject, fault)
        loop.at(self.config.producers_start + CHECK, self._supervise)
        loop.run(self.config.horizon)
        return self

    def _assignment(self) -> list[tuple[int, ...]]:
        """Replicas in turn, as Kafka assigns them without racks, but from broker 1 on."""
        ids = self.broker_ids
        return [
            tuple(ids[(p + r) % len(ids)] for r in range(self.config.replication_factor))
            for p in range(self.config.partitions)
        ]

    def _supervise(self, _: None) -> None:
        """Once the producers are done and the schedule is over: heal, settle, read everything."""
        now = self.loop.now
        last = max([f.at + f.lasts for f in self.faults], default=0)
        if now > last and all(p.finished for p in self.producers):
            self.heal_all()
            self.healed_at = now
            self.loop.at(now + self.config.settle, self._settle, now)
        else:
            self.loop.at(now + CHECK, self._supervise)

    def _settle(self, since: int) -> None:
        """Wait until partitions have leaders and whole ISRs, and consumers their ends; then ask for the
        ends."""
        now = self.loop.now
        ready = all(
            s.leader != NO_LEADER and len(s.isr) >= len(s.replicas) and self._tells_end(p, s)
            for p, s in enumerate(self.quorum.states)
        )
        ready = ready and all(c.caught_up() for c in self.consumers)
        leaderless = any(s.leader == NO_LEADER for s in self.quorum.states)
        if not ready and now - since < (HOPE if leaderless else PATIENCE):
            self.loop.at(now + CHECK, self._settle, since)
            return
        ends: dict[int, tuple[int, int]] = {}
        for partition, log in enumerate(self.logs()):
            if log is not None and self._tells_end(partition, self.quorum.states[partition]):
                ends[partition] = log
        if len(ends) < self.config.partitions:
            self.loop.stop()
            return
        if self.history is not None:
            self.history.end_offsets(now, now + 2 * self.network.latency, ends)
        self.reader.goal = {p: end for p, (_, end) in ends.items()}
        self.loop.at(now + 5 * MS, self.reader.start)
        self.loop.at(now + PATIENCE, self._give_up)

    def _tells_end(self, partition: int, state: PartitionState) -> bool:
        """Does the leader know that it leads, and has its high watermark reached its epoch's start (KIP-207)?

        Simplification: so it is in all variants, though before 2.2 a leader told the lagging mark.
        """
        replica = self.brokers[state.leader].replicas.get(partition)
        return (
            replica is not None and replica.leads and replica.epoch == state.epoch and replica.hw >= replica.epoch_start
        )

    def _give_up(self, _: None) -> None:
        self.loop.stop()

    def on_final_read(self) -> None:
        self.final = True
        self.loop.stop()

    # --- what brokers and quorum report

    def next_uid(self) -> int:
        self._uid += 1
        return self._uid

    def on_leader(self, broker: Broker, replica: Replica, state: PartitionState) -> None:
        self.ledger.led(broker, replica, state)
        self.note_state()

    def on_change(self, partition: int, before: PartitionState, after: PartitionState) -> None:
        self.ledger.changed(partition, before, after)
        self.note_state()

    def on_stop(self) -> None:
        self.note_state()

    def note_state(self) -> None:
        """Remember an abstract of the cluster's state, to say how much a search has explored."""
        if not self.track_states:
            return
        words: list[int] = []
        for partition, state in enumerate(self.quorum.states):
            words += (partition, state.leader, state.epoch, len(state.isr), *state.isr)
            for broker in self.brokers.values():
                replica = broker.replicas.get(partition)
                words.append(broker.state + 4 * broker.paused)
                if replica is not None:
                    words += (replica.leader, replica.epoch, replica.log.end, replica.hw)
        self.states_seen.add(hash(tuple(words)))  # of integers only, so the same in every process

    # --- faults

    def _inject(self, fault: Fault) -> None:
        heal = FAULTS[fault.kind](self, fault)
        self._record(fault, False)
        self.note_state()
        if heal is not None:
            entry = (fault, heal)
            self._heals.append(entry)
            if fault.lasts:
                self.loop.at(self.loop.now + fault.lasts, self._heal, entry)

    def _heal(self, entry: tuple[Fault, Heal]) -> None:
        if entry in self._heals:
            self._heals.remove(entry)
            fault, heal = entry
            self._before_heal(fault)
            free = heal()
            if free is None or free:
                self._record(fault if free is None else replace(fault, nodes=free), True)

    def heal_all(self) -> None:
        """End every fault that is still on."""
        for entry in list(self._heals):
            self._heal(entry)

    def _before_heal(self, fault: Fault) -> None:
        """Copy the brokers' disks before a fallen leader comes back and truncates."""
        if self._snapshot is None or fault.kind not in ("crash", "power-loss", "disk-full"):
            return
        self._snapshot(self, "before-rejoin")

    def _record(self, fault: Fault, heal: bool) -> None:
        if self.history is not None:
            self.history.fault(self.loop.now, fault.kind, fault.nodes, heal, fault.told())

    def controller_nodes(self) -> tuple[int, ...]:
        return (QUORUM, *(FIRST_CONTROLLER + i for i in range(self.config.controllers)))

    # --- afterwards

    def logs_of(self, partition: int) -> dict[int, ReplicaLog]:
        """By broker, whoever leads."""
        return {node: b.replicas[partition].log for node, b in self.brokers.items() if partition in b.replicas}

    def leader_log(self, partition: int) -> ReplicaLog | None:
        """The log of a partition's leader, if it has one."""
        state = self.quorum.states[partition]
        if state.leader == NO_LEADER:
            return None
        replica = self.brokers[state.leader].replicas.get(partition)
        return replica.log if replica is not None and replica.leads else None

    def logs(self) -> list[tuple[int, int] | None]:
        """(log start, high watermark) of each partition's leader."""
        found: list[tuple[int, int] | None] = []
        for partition, state in enumerate(self.quorum.states):
            log = self.leader_log(partition)
            found.append(None if log is None else (log.start, self.brokers[state.leader].replicas[partition].hw))
        return found


def _draw(rng: Random) -> int:
    """A seed for one part's own generator."""
    return int(rng.random() * (1 << 53))
