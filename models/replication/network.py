"""Who reaches whom, and how late. Messages between two nodes keep their order, as on a TCP connection.

Nodes are small integers: brokers from 1, the quorum (or ZooKeeper) 100, controllers from 101, clients from
201. A cut link swallows messages and their sender finds out by its own timeout; a lost message breaks the
connection that carried it, and the one who waits for the answer is told. Nothing is delivered behind a gap: what
is sent later on that connection, in that direction, does not arrive either. Simplification: bandwidth is unlimited.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from .config import NEVER
from .loop import Action, Loop

QUORUM = 100
FIRST_CONTROLLER = 101
FIRST_CLIENT = 201
_WIDTH = 1 << 20


class Channel:
    """One TCP connection from a node that asks to one that answers; whoever asks takes a new one when it breaks."""

    __slots__ = ("closed", "gaps", "node", "stuck")

    def __init__(self, node: int) -> None:
        self.node = node  # who asks
        self.gaps: tuple[int, ...] = ()  # whose messages no longer arrive
        self.stuck = NEVER  # when something was first sent in vain
        self.closed = False  # by the one who answers


class Message(Protocol):
    """Something sent that somebody waits for, on a connection or (None) on one that carries nothing else."""

    @property
    def channel(self) -> Channel | None: ...

    def broken(self, _: None) -> None:
        """The connection broke before an answer came."""


class Network:
    """Delays, orders, cuts, loses and duplicates messages."""

    __slots__ = (
        "_cut",
        "_extra",
        "_gapped",
        "_held",
        "_last",
        "_random",
        "duplicate",
        "faulty",
        "jitter",
        "latency",
        "loop",
        "lose",
    )

    def __init__(self, loop: Loop, rng: Random, latency: int, jitter: int) -> None:
        self.loop = loop
        self.latency = latency
        self.jitter = jitter
        self.lose = 0.0  # probability of one message
        self.duplicate = 0.0
        self.faulty = False
        self._random: Callable[[], float] = rng.random
        self._last: dict[int, int] = {}
        self._cut: dict[int, int] = {}  # link -> how many faults cut it
        self._extra: dict[int, int] = {}  # link -> added delay, microseconds
        self._held: dict[int, list[tuple[Action, Any]]] = {}
        self._gapped: set[Channel] = set()  # and their ends do not know it yet

    def send(self, source: int, target: int, action: Action, message: Any) -> None:
        """Deliver a request or an answer: `action(message)` runs at the target after the link's delay."""
        link = source * _WIDTH + target
        loop = self.loop
        time = loop.now + self.latency + int(self._random() * self.jitter)
        if self.faulty:
            channel = message.channel
            if channel is not None and source in channel.gaps:
                return
            if link in self._cut:
                self.swallow(source, message)
                return
            time += self._extra.get(link, 0)
            if self.lose and self._random() < self.lose:
                self.swallow(source, message)
                loop.at(time, message.broken)
                return
            if self.duplicate and self._random() < self.duplicate:
                loop.at(time + self.latency, action, message)
        last = self._last.get(link, 0)
        if time < last:
            time = last
        self._last[link] = time
        loop.at(time, action, message)

    def tell(self, source: int, target: int, action: Action, message: Any) -> None:
        """Deliver what its sender repeats until it arrives (a controller's instructions): a cut only delays
        it."""
        link = source * _WIDTH + target
        if link in self._cut:
            self._held.setdefault(link, []).append((action, message))
            return
        time = self.loop.now + self.latency + int(self._random() * self.jitter) + self._extra.get(link, 0)
        time = max(time, self._last.get(link, 0))
        self._last[link] = time
        self.loop.at(time, action, message)

    def swallow(self, source: int, message: Message) -> None:
        """A message of `source` is gone, and with it whatever `source` sends later on this connection."""
        channel = message.channel
        if channel is not None:
            channel.gaps += (source,)
            channel.stuck = min(channel.stuck, self.loop.now)
            self._gapped.add(channel)
            self.faulty = True

    def reset(self, message: Message) -> None:
        """The peer's process is gone, or closed the connection, and its kernel says so."""
        self.loop.at(self.loop.now + self.latency, message.broken)

    def hang_up(self, channel: Channel) -> None:
        """Whoever asked knows that this connection is of no use, and takes another."""
        if channel in self._gapped:
            self._gapped.discard(channel)
            self._settle()

    def reaches(self, source: int, target: int) -> bool:
        return source * _WIDTH + target not in self._cut

    def cut(self, source: int, target: int) -> None:
        """Cut one direction of a link. Cuts add up, so that two faults may overlap."""
        link = source * _WIDTH + target
        self._cut[link] = self._cut.get(link, 0) + 1
        self.faulty = True

    def mend(self, source: int, target: int) -> None:
        """Take one cut away; what was held is delivered."""
        link = source * _WIDTH + target
        count = self._cut.get(link, 0) - 1
        if count > 0:
            self._cut[link] = count
            return
        self._cut.pop(link, None)
        for action, message in self._held.pop(link, []):
            self.tell(source, target, action, message)
        self._settle()

    def slow(self, source: int, target: int, extra: int) -> None:
        """Add `extra` microseconds to one direction of a link; a negative one takes them away again."""
        link = source * _WIDTH + target
        total = self._extra.get(link, 0) + extra
        if total > 0:
            self._extra[link] = total
        else:
            self._extra.pop(link, None)
        self._settle()

    def unreliable(self, lose: float, duplicate: float) -> None:
        """Set the share of messages that are lost and of those that arrive twice."""
        self.lose, self.duplicate = lose, duplicate
        self._settle()

    def _settle(self) -> None:
        self.faulty = bool(self._cut or self._extra or self.lose or self.duplicate or self._gapped)
