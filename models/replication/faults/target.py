"""What faults act on: the cluster, and which faults overlap on which node."""

from __future__ import annotations

from ..cluster import Cluster
from ..controllers.controller import Controller
from ..network import FIRST_CONTROLLER
from .fault import Fault

Node = tuple[str, int]  # how a node is held, and the node


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
        self._holds: dict[Node, int] = {}

    def hold(self, how: str, fault: Fault) -> None:
        """A fault takes its nodes down, or pauses them, or fills their disks."""
        for node in fault.nodes:
            self._holds[how, node] = self._holds.get((how, node), 0) + 1

    def release(self, how: str, fault: Fault) -> tuple[int, ...]:
        """A fault ends; returns the nodes that no other fault holds in this way."""
        for node in fault.nodes:
            self._holds[how, node] -= 1
        return tuple(node for node in fault.nodes if not self._holds[how, node])

    def is_held(self, how: str, node: int) -> bool:
        """Does some fault hold this node in this way?"""
        return bool(self._holds.get((how, node)))

    def controllers(self, fault: Fault) -> list[Controller]:
        """The controllers that a fault names, or the active one."""
        quorum = self.quorum
        if fault.nodes:
            return [quorum.controllers[node - FIRST_CONTROLLER] for node in fault.nodes]
        return [quorum.controller] if quorum.controller is not None else []
