"""Delays, drops and duplicates messages. Messages between two nodes keep their order, as over TCP.

Nodes are small integers: brokers from 1, the quorum (or ZooKeeper) 100, controllers from 101, clients from 201. If a
link is cut, it drops messages, and the sender notices by its own timeout. If a message is lost by chance, its
connection closes, and the node that waits for the response is notified. In both cases no later message of the same
sender arrives on that connection. Simplification: bandwidth is unlimited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, Protocol

from .config import NEVER
from .event_loop import Action, EventLoop

QUORUM = 100
FIRST_CONTROLLER = 101
FIRST_CLIENT = 201
Link = tuple[int, int]  # source and target: one direction


@dataclass(slots=True, eq=False)
class Connection:
    """One TCP connection from a requesting node to a broker; the requester opens a new one when it breaks."""

    node: int  # the requester
    blocked_sources: tuple[int, ...] = ()  # no later message of these nodes arrives
    blocked_since: int = NEVER  # when the first message was dropped
    is_closed: bool = False  # by the broker


class Message(Protocol):
    """A request or its response."""

    @property
    def connection(self) -> Connection | None:
        """The connection that carries it; None: one of its own."""

    @property
    def on_closed(self) -> Callable[[Any], None]:
        """Called with the message if the connection closed before the response."""


class Delivery(NamedTuple):
    """A message, and what its arrival does."""

    action: Action
    message: Any


class Network:
    """The links between nodes, with their faults."""

    def __init__(self, loop: EventLoop, rng: Random, latency: int, jitter: int) -> None:
        self.loop = loop
        self.latency = latency
        self.jitter = jitter
        self.loss_rate = 0.0  # probability that one message is lost
        self.duplication_rate = 0.0  # probability that one message arrives twice
        self.is_faulty = False
        self._rng = rng
        self._last: dict[Link, int] = {}  # the latest delivery so far
        self._cut: Counter[Link] = Counter()  # how many faults cut it
        self._added_delay: Counter[Link] = Counter()  # microseconds
        self._held: dict[Link, list[Delivery]] = {}  # messages on cut links that their senders repeat
        self._paused: dict[int, list[Delivery]] = {}  # by paused client: what waits for it
        self._blocked: set[Connection] = set()  # connections with a gap that the requester has not noticed yet

    def send(self, source: int, target: int, action: Action, message: Any) -> None:
        """Deliver a request or a response: `action(message)` runs at the target after the link's delay."""
        link = (source, target)
        loop = self.loop
        time = loop.now + self.latency + int(self._rng.random() * self.jitter)
        if self.is_faulty:
            connection = message.connection
            if connection is not None and source in connection.blocked_sources:
                return
            if link in self._cut:
                self.drop(source, message)
                return
            if target in self._paused:
                self._paused[target].append(Delivery(action, message))
                return
            time += self._added_delay.get(link, 0)
            if self.loss_rate and self._rng.random() < self.loss_rate:
                self.drop(source, message)
                loop.at(time, message.on_closed, message)
                return
            if self.duplication_rate and self._rng.random() < self.duplication_rate:
                loop.at(time + self.latency, action, message)
        last = self._last.get(link, 0)
        if time < last:
            time = last
        self._last[link] = time
        loop.at(time, action, message)

    def send_reliably(self, source: int, target: int, action: Action, message: Any) -> None:
        """Deliver a message that its sender repeats until it arrives (a controller's request): a cut only delays it."""
        link = (source, target)
        if link in self._cut:
            self._held.setdefault(link, []).append(Delivery(action, message))
            return
        time = self.loop.now + self.latency + int(self._rng.random() * self.jitter) + self._added_delay.get(link, 0)
        self._last[link] = time = max(time, self._last.get(link, 0))
        self.loop.at(time, action, message)

    def drop(self, source: int, message: Message) -> None:
        """Lose a message of `source`, and everything that `source` sends later on this connection."""
        connection = message.connection
        if connection is not None:
            connection.blocked_sources += (source,)
            connection.blocked_since = min(connection.blocked_since, self.loop.now)
            self._blocked.add(connection)
            self.is_faulty = True

    def reset(self, message: Message) -> None:
        """Close the connection of a message by a TCP reset, as the peer's process died or closed it."""
        connection = message.connection
        if connection is not None and connection.node in self._paused:
            self._paused[connection.node].append(Delivery(message.on_closed, message))
            return
        self.loop.after(self.latency, message.on_closed, message)

    def pause(self, node: int) -> None:
        """Pause a client's process: it gets what is sent from now on when it resumes."""
        self._paused.setdefault(node, [])
        self.is_faulty = True

    def resume(self, node: int) -> None:
        """Resume a paused client: it gets what waited for it, in order."""
        for action, message in self._paused.pop(node, []):
            self.loop.after(0, action, message)
        self._update_is_faulty()

    def abandon(self, connection: Connection) -> None:
        """Forget a connection that the requester replaced."""
        if connection in self._blocked:
            self._blocked.remove(connection)
            self._update_is_faulty()

    def reaches(self, source: int, target: int) -> bool:
        """Whether the link from `source` to `target` is not cut."""
        return (source, target) not in self._cut

    def cut(self, source: int, target: int) -> None:
        """Cut one direction of a link. Cuts add up, so that two faults may overlap."""
        self._cut[source, target] += 1
        self.is_faulty = True

    def heal(self, source: int, target: int) -> None:
        """Remove one cut; after the last one, deliver the held messages."""
        link = (source, target)
        self._cut[link] -= 1
        if self._cut[link] > 0:
            return
        del self._cut[link]
        for action, message in self._held.pop(link, []):
            self.send_reliably(source, target, action, message)
        self._update_is_faulty()

    def slow(self, source: int, target: int, extra: int) -> None:
        """Add `extra` microseconds to the delay of one direction of a link; a negative number removes them."""
        link = (source, target)
        self._added_delay[link] += extra
        if self._added_delay[link] <= 0:
            del self._added_delay[link]
        self._update_is_faulty()

    def set_error_rates(self, loss_rate: float, duplication_rate: float) -> None:
        """Set the share of messages that are lost, and of those that arrive twice."""
        self.loss_rate, self.duplication_rate = loss_rate, duplication_rate
        self._update_is_faulty()

    def _update_is_faulty(self) -> None:
        rates = (self.loss_rate, self.duplication_rate)
        self.is_faulty = any((*rates, self._cut, self._added_delay, self._blocked, self._paused))
