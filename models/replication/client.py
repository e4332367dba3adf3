"""What producers and consumers share: a node in the network, and a belief about who leads, asked of any
broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .config import MS, SECOND
from .network import Channel
from .requests import MetadataRequest
from .state import NO_LEADER

if TYPE_CHECKING:
    from .cluster import Cluster

METADATA_PATIENCE = 2 * SECOND  # then another broker is asked
METADATA_PAUSE = 100 * MS  # retry.backoff.ms


class Client:
    """Keeps (leader, leader epoch, ISR) of each partition; asks again when a broker said it is wrong."""

    __slots__ = (
        "_ask_next",
        "_asked",
        "_next_ask",
        "channels",
        "cluster",
        "leaders",
        "loop",
        "name",
        "network",
        "node",
    )

    def __init__(self, cluster: Cluster, node: int, name: str) -> None:
        self.cluster = cluster
        self.loop = cluster.loop
        self.network = cluster.network
        self.node = node
        self.name = name
        self.leaders: list[tuple[int, int, tuple[int, ...]]] = [
            (NO_LEADER, -1, ()) for _ in range(cluster.config.partitions)
        ]
        self.channels = {broker: Channel(node) for broker in cluster.broker_ids}
        self._asked: MetadataRequest | None = None
        self._ask_next = node
        self._next_ask = 0

    def leader(self, partition: int) -> int:
        return self.leaders[partition][0]

    def hang_up(self, broker: int) -> None:
        """Take a new connection to this broker; no answer will come on the old one."""
        self.network.hang_up(self.channels[broker])
        self.channels[broker] = Channel(self.node)

    def refresh(self) -> None:
        """Ask the next broker for metadata, unless a question is under way."""
        now = self.loop.now
        asked = self._asked
        if asked is not None and now - asked.sent < METADATA_PATIENCE:
            return
        if now < self._next_ask:
            return
        self._next_ask = now + METADATA_PAUSE
        self._ask_next += 1
        ids = self.cluster.broker_ids
        broker = ids[self._ask_next % len(ids)]
        request = MetadataRequest(self, now)
        self._asked = request
        self.network.send(self.node, broker, self.cluster.brokers[broker].receive, request)

    def on_metadata_broken(self, request: MetadataRequest) -> None:
        if request is self._asked:
            self._asked = None

    def on_metadata(self, request: MetadataRequest) -> None:
        """Believe what is not older than what is known (leader epochs in metadata, KIP-320)."""
        if request is not self._asked:
            return
        self._asked = None
        for partition, told in enumerate(request.leaders):
            known = self.leaders[partition]
            if told[1] >= known[1] or not self.cluster.rules.epochs_in_log:
                self.leaders[partition] = told
        self.on_leaders()

    def on_leaders(self) -> None:
        """There is new metadata."""
