"""Begins and ends the faults of a schedule, and records them in the history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ..cluster import Cluster
from ..ports import History
from .fault import Fault
from .kinds import FAULTS, Lasting
from .target import Target

# A broker that comes back may truncate its log, so the disks are copied before these faults end.
STOPS_BROKERS = ("crash", "power-loss", "disk-full")


class FaultInjector:
    """Injects faults into a cluster."""

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
            entry = (fault, lasting)
            self._active.append(entry)
            if fault.lasts:
                self._cluster.loop.at(self._cluster.loop.now + fault.lasts, self._heal, entry)

    def heal_all(self) -> None:
        """End every fault that is still active."""
        for entry in list(self._active):
            self._heal(entry)

    def _heal(self, entry: tuple[Fault, Lasting]) -> None:
        if entry not in self._active:
            return
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
