"""One entry of a schedule of faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..network import FIRST_CLIENT


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, its nodes, and how long it lasts. Times are microseconds.

    `lasts` 0 means until the end of the load, when all faults end before the final reads.
    """

    at: int
    kind: str
    # Brokers, controllers (from 101) or consumers (by index), depending on the kind; a partition also takes the quorum
    # or ZooKeeper (100), and producers and then consumers (from 201).
    nodes: tuple[int, ...] = ()
    lasts: int = 0
    amount: int = 0  # by kind: milliseconds, messages per thousand, the offset of delete-records, or a partition
    to: tuple[int, ...] = ()  # one-way: only messages to these nodes are cut

    def name_of(self, node: int, producers: int) -> str:
        """The name of one of its nodes in a history: a client's process, or the number of a broker or controller."""
        client = node - FIRST_CLIENT
        if self.kind.startswith("consumer-"):
            return f"c{node}"
        if client < 0:
            return str(node)
        return f"p{client}" if client < producers else f"c{client - producers}"

    def parameters(self, name: Callable[[int], str] = str) -> dict[str, Any]:
        """The parameters that a history records in addition to kind and nodes; `name` gives the name of a node."""
        found: dict[str, Any] = {}
        if self.amount:
            found["amount"] = self.amount
        if self.to:
            found["to"] = [name(node) for node in self.to]
        return found
