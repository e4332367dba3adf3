"""The parts of the cluster that faults change, and which faults hold which node."""

from __future__ import annotations

from collections import Counter

from ..clients.group_consumer import GroupConsumer
from ..cluster import Cluster
from ..controllers.controller import Controller
from ..network import FIRST_CONTROLLER
from .fault import Fault


class Target:
    """A cluster under faults. Faults may overlap: a node is free again when the last fault that holds it ends."""

    def __init__(self, cluster: Cluster) -> None:
        self.loop = cluster.loop
        self.network = cluster.network
        self.quorum = cluster.quorum
        self.brokers = cluster.brokers
        self.broker_ids = cluster.broker_ids
        self.controller_nodes = cluster.controller_nodes
        self.consumers = cluster.consumers
        self.ledger = cluster.ledger
        self.losing: list[int] = []  # per mille of messages, for each fault
        self.duplicating: list[int] = []
        self._holds: Counter[tuple[str, int]] = Counter()  # faults, by kind of hold (down, paused, disk) and node

    def hold(self, how: str, fault: Fault) -> None:
        """Records that a fault holds its nodes: it stopped or paused them, or filled their disks."""
        self._holds.update((how, node) for node in fault.nodes)

    def release(self, how: str, fault: Fault) -> tuple[int, ...]:
        """Ends a fault's hold; returns the nodes that no other fault holds in this way."""
        self._holds.subtract((how, node) for node in fault.nodes)
        return tuple(node for node in fault.nodes if not self.is_held(how, node))

    def is_held(self, how: str, node: int) -> bool:
        """Whether any fault holds this node in this way."""
        return self._holds[how, node] > 0

    def start_broker(self, node: int) -> None:
        """Start a broker that is down."""
        self.brokers[node].start()

    def member(self, index: int) -> GroupConsumer:
        """The consumer with this index, which is a member of a group."""
        consumer = self.consumers[index]
        assert isinstance(consumer, GroupConsumer)
        return consumer

    def start_consumer(self, index: int) -> None:
        """Start a consumer that is dead."""
        if not self.consumers[index].alive:
            self.consumers[index].start()

    def set_error_rates(self) -> None:
        """Set the share of messages that are lost or duplicated to the largest of all overlapping faults."""
        self.network.set_error_rates(max(self.losing, default=0) / 1000, max(self.duplicating, default=0) / 1000)

    def controllers(self, fault: Fault) -> list[Controller]:
        """The controllers in a fault's nodes; the active one if it has no nodes."""
        quorum = self.quorum
        if fault.nodes:
            return [quorum.controllers[node - FIRST_CONTROLLER] for node in fault.nodes]
        return [quorum.controller] if quorum.controller is not None else []
