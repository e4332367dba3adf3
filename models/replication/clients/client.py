"""The base of producers and consumers: a node in the network, with metadata about the leader of each partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..config import MS, SECOND, Config
from ..event_loop import Timer
from ..ledger import Ledger
from ..network import Connection, Network
from ..partition_state import NO_LEADER
from ..ports import EventHead, History, Inboxes
from ..requests import Callback, MetadataRequest, PartitionLeader, Request
from ..rules import Rules

METADATA_TIMEOUT = 2 * SECOND  # then the request goes to another broker
METADATA_PAUSE = 100 * MS  # retry.backoff.ms


AnyRequest = TypeVar("AnyRequest", bound=Request)


@dataclass(frozen=True, slots=True)
class ClientParts:
    """The parts of a run that all clients use."""

    network: Network
    inboxes: Inboxes
    rules: Rules
    config: Config
    ledger: Ledger
    history: History


@dataclass(slots=True, eq=False)
class MetadataRefresh:
    """When a client requests metadata, and from which broker."""

    last_broker: int  # brokers are asked in turn
    request: MetadataRequest | None = None  # in flight
    next_at: int = 0  # not before
    updated_at: int = 0  # when the last response arrived


class Client:
    """Has the leader of each partition, and refreshes it when a broker refuses a request."""

    def __init__(self, node: int, name: str, parts: ClientParts) -> None:
        self.node = node
        self.name = name
        self.network = parts.network
        self.loop: Timer = parts.network.loop
        self.config = parts.config
        self._inboxes = parts.inboxes
        self._rules = parts.rules
        self._ledger = parts.ledger
        self._history = parts.history
        self.leaders = [PartitionLeader(NO_LEADER, -1, ())] * parts.config.logs  # by partition
        self.connections = {broker: Connection(node) for broker in parts.inboxes}
        self._metadata = MetadataRefresh(node)

    def head(self, op: int) -> EventHead:
        """The head of an event that happens now."""
        return EventHead(self.loop.now, self.name, op)

    def transmit(self, request: Request) -> None:
        """Send a request to its broker."""
        self.network.send(self.node, request.broker, self._inboxes[request.broker], request)

    def request_from(
        self,
        kind: Callable[..., AnyRequest],
        broker: int,
        reply: Callback,
        on_closed: Callback,
        *content: Any,
        **named: Any,
    ) -> AnyRequest:
        """Make a request with this content on the connection to a broker, send it, and return it."""
        request = kind(self.node, broker, self.loop.now, reply, on_closed, self.connections[broker], *content, **named)
        self.transmit(request)
        return request

    def reconnect(self, broker: int) -> None:
        """Open a new connection to this broker; the old one gets no more responses."""
        self.network.abandon(self.connections[broker])
        self.connections[broker] = Connection(self.node)

    def refresh(self) -> None:
        """Request metadata from the next broker, unless a request is in flight."""
        now, metadata = self.loop.now, self._metadata
        pending = metadata.request
        if pending is not None and now - pending.sent < METADATA_TIMEOUT:
            return
        if now < metadata.next_at:
            return
        metadata.next_at = now + METADATA_PAUSE
        metadata.last_broker += 1
        brokers = tuple(self.connections)
        broker = brokers[metadata.last_broker % len(brokers)]
        request = MetadataRequest(self.node, broker, now, self.on_metadata, self.on_metadata_closed, None)
        metadata.request = request
        self.transmit(request)

    def on_metadata_closed(self, request: MetadataRequest) -> None:
        """The connection closed before the response."""
        if request is self._metadata.request:
            self._metadata.request = None

    def on_metadata(self, request: MetadataRequest) -> None:
        """Store the metadata of each partition, unless its leader epoch is older than the known one (KIP-320)."""
        if request is not self._metadata.request:
            return
        self._metadata.request = None
        self._metadata.updated_at = self.loop.now
        for partition, new in enumerate(request.leaders):
            known = self.leaders[partition]
            if new.epoch >= known.epoch or not self._rules.era.epochs_in_log:
                self.leaders[partition] = new
        self.on_leaders()

    def on_leaders(self) -> None:
        """Called after each metadata response."""

    def count_partitions(self) -> int:
        """How many of the topic's partitions exist by the known metadata."""
        return sum(known.epoch >= 0 for known in self.leaders[: self.config.partitions])
