"""A whole run: from the first registration, through the load and the faults, to the final reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from .cluster import Cluster
from .config import MS, SECOND
from .faults.fault import Fault
from .faults.kinds import FAULTS, Lasting
from .faults.target import Target
from .partition_state import NO_LEADER
from .placement import assign_replicas
from .ports import NO_HISTORY, History

CONSUMERS_START = 500 * MS
CHECK_INTERVAL = 500 * MS
SETTLE_TIMEOUT = 120 * SECOND  # for the cluster to settle, and for the final reads
LEADER_TIMEOUT = 30 * SECOND  # for a partition to get a leader after all brokers are up
# A broker that comes back may truncate its log, so the disks are copied before these faults end.
STOPS_BROKERS = ("crash", "power-loss", "disk-full")


class Run:
    """Drives a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        faults: Sequence[Fault] = (),
        history: History = NO_HISTORY,
        snapshot: Callable[[Cluster, str], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._faults = list(faults)
        self._history = history
        self._injector = FaultInjector(cluster, history, snapshot)

    def run(self) -> Cluster:
        """Run to the end, and return the cluster."""
        cluster, loop, config = self._cluster, self._cluster.loop, self._cluster.config
        for broker in cluster.brokers.values():
            broker.boot()
        cluster.quorum.boot(cluster.broker_ids)
        cluster.quorum.create(assign_replicas(config))
        for number, consumer in enumerate(cluster.consumers[: config.consumers - config.standby_consumers]):
            loop.at(CONSUMERS_START + config.start_late + number * config.consumers_stagger, consumer.start)
        for number, producer in enumerate(cluster.producers):
            loop.at(config.producers_start + number * config.producers_stagger, producer.start)
        for fault in self._faults:
            loop.at(fault.at, self._injector.inject, fault)
        loop.at(config.producers_start + CHECK_INTERVAL, self._supervise)
        loop.run(config.horizon)
        return cluster

    def _supervise(self, _: None) -> None:
        """After the load and the schedule, end all faults, and start to settle."""
        cluster, loop = self._cluster, self._cluster.loop
        last = max([fault.at + fault.lasts for fault in self._faults], default=0)
        if loop.now > last and all(producer.finished for producer in cluster.producers):
            self._injector.heal_all()
            cluster.healed_at = loop.now
            loop.after(cluster.config.settle, self._settle, loop.now)
        else:
            loop.after(CHECK_INTERVAL, self._supervise)

    def _settle(self, since: int) -> None:
        """Wait until partitions have leaders and full ISRs, and consumers caught up; then begin the final reads."""
        cluster, loop = self._cluster, self._cluster.loop
        states = cluster.quorum.states
        ranges = cluster.log_ranges()
        ready = all(
            state.leader != NO_LEADER and len(state.isr) >= len(state.replicas) and self._has_known_end(partition)
            for partition, state in enumerate(states)
        ) and all(consumer.has_caught_up(ranges) for consumer in cluster.consumers)
        ready = ready and not next(cluster.open_transactions(), None)
        leaderless = any(state.leader == NO_LEADER for state in states)
        if not ready and loop.now - since < (LEADER_TIMEOUT if leaderless else SETTLE_TIMEOUT):
            loop.after(CHECK_INTERVAL, self._settle, since)
            return
        ends = {number: log for number, log in enumerate(ranges) if log is not None and self._has_known_end(number)}
        if len(ends) < cluster.config.data_partitions:
            loop.stop()
            return
        self._history.end_offsets(loop.now, loop.now + 2 * cluster.network.latency, ends)
        cluster.final_reader.goal = {partition: end for partition, (_, end) in ends.items()}
        loop.after(5 * MS, cluster.final_reader.start)
        loop.after(SETTLE_TIMEOUT, lambda _: loop.stop())

    def _has_known_end(self, partition: int) -> bool:
        """Whether the leader's high watermark has reached the start of its epoch (KIP-207).

        Simplification: the run waits for it in all variants, though before 2.2 a leader reported the lagging mark.
        """
        replica = self._cluster.leader_replica(partition)
        if replica is None or replica.epoch != self._cluster.quorum.states[partition].epoch:
            return False
        return replica.hw >= replica.epoch_start


class FaultInjector:
    """Begins and ends the faults of a schedule, and records them in the history."""

    def __init__(self, cluster: Cluster, history: History, snapshot: Callable[[Cluster, str], None] | None) -> None:
        self._cluster = cluster
        self._history = history
        self._snapshot = snapshot
        self._target = Target(cluster)
        self._active: list[tuple[Fault, Lasting]] = []

    def inject(self, fault: Fault) -> None:
        """Begin a fault, and schedule its end."""
        lasting = FAULTS[fault.kind](self._target, fault)
        if lasting is not None:
            next(lasting)
        self._record(fault, False)
        self._cluster.record_state()
        if lasting is not None:
            self._active.append((fault, lasting))
            if fault.lasts:
                self._cluster.loop.after(fault.lasts, self._heal, (fault, lasting))

    def heal_all(self) -> None:
        """End every fault that is still active."""
        for entry in list(self._active):
            self._heal(entry)

    def _heal(self, entry: tuple[Fault, Lasting]) -> None:
        self._active.remove(entry)
        fault, lasting = entry
        if self._snapshot is not None and fault.kind in STOPS_BROKERS:
            self._snapshot(self._cluster, "before-rejoin")
        try:
            next(lasting)
        except StopIteration as end:
            freed = end.value
        if freed is None or freed:
            self._record(fault if freed is None else replace(fault, nodes=freed), True)

    def _record(self, fault: Fault, is_heal: bool) -> None:
        name = partial(fault.name_of, producers=self._cluster.config.producers)
        nodes = tuple(map(name, fault.nodes))
        parameters = fault.parameters(name)
        if fault.kind == "delete-records":
            parameters["offsets"] = self._log_starts()
        self._history.fault(self._cluster.loop.now, fault.kind, nodes, is_heal, parameters)

    def _log_starts(self) -> dict[str, int]:
        """The log start of each partition of the topic that has a leader and no longer starts at 0."""
        logs = {number: self._cluster.leader_log(number) for number in range(self._cluster.config.partitions)}
        return {str(number): log.start for number, log in logs.items() if log is not None and log.start}
