"""TCP proxies, one for each link between two nodes, or between the clients and a node: the lab's network.

A link has a mode for each direction. Bytes that are held arrive after the heal, as TCP would send them again. Bytes
that are discarded never arrive, so the heal closes their connection. No privileges are needed, unlike with netem or
iptables; toxiproxy does much of this, but is a program in Go that a user would have to install.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

CLIENTS = "clients"  # the source of a link from the clients
MAX_QUEUED_BYTES = 1 << 20  # in one direction; with more the proxy stops reading from the sender
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Mode:
    """The treatment of the bytes of one direction by a link."""

    kind: Literal["pass", "hold", "discard"] = "pass"
    delay_s: float = 0.0


PASS = Mode()


class _Pipe(asyncio.Protocol):
    """One end of a connection: it forwards what it receives to the other end, by the mode of its direction."""

    def __init__(self, connection: _Connection, is_forward: bool) -> None:
        self._connection, self._is_forward = connection, is_forward
        self.transport: asyncio.Transport | None = None
        self._queue: deque[tuple[float, bytes]] = deque()  # (time at which it is due, bytes)
        self._queued = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_ended = False  # whether the sender closed its end
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._connection.opened(self)

    def data_received(self, data: bytes) -> None:
        mode = self._connection.link.mode(self._is_forward)
        if mode.kind == "discard":
            self._connection.is_broken = True
            return
        self._queue.append((asyncio.get_running_loop().time() + mode.delay_s, data))
        self._queued += len(data)
        self.pump()
        if self._queued > MAX_QUEUED_BYTES and not self._is_paused and self.transport:
            self._is_paused = True
            self.transport.pause_reading()

    def connection_lost(self, _: Exception | None) -> None:
        self._is_ended = True
        self.pump()

    def pause_writing(self) -> None:
        other = self._other().transport
        if other and not other.is_closing():
            other.pause_reading()

    def resume_writing(self) -> None:
        other = self._other()
        if other.transport and not other.transport.is_closing() and not other._is_paused:
            other.transport.resume_reading()

    def pump(self) -> None:
        """Send what is due, and close the other end once the sender has closed and everything is sent."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        target = self._other().transport
        if target is None or self._connection.link.mode(self._is_forward).kind == "hold":
            return
        now = asyncio.get_running_loop().time()
        while self._queue and self._queue[0][0] <= now:
            data = self._queue.popleft()[1]
            self._queued -= len(data)
            target.write(data)
        if self._queue:
            self._timer = asyncio.get_running_loop().call_at(self._queue[0][0], self.pump)
        elif self._is_ended:
            target.close()
            self._connection.link.connections.discard(self._connection)
        if self._is_paused and self._queued <= MAX_QUEUED_BYTES and self.transport and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()

    def _other(self) -> _Pipe:
        return self._connection.backward if self._is_forward else self._connection.forward


class _Connection:
    """A connection through a link: `forward` faces the source, `backward` the destination."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.is_broken = False  # whether the link discarded some of its bytes
        self.forward, self.backward = _Pipe(self, True), _Pipe(self, False)
        self._task: asyncio.Task[None] | None = None

    def opened(self, pipe: _Pipe) -> None:
        """Connect to the destination once the source has connected."""
        if pipe is self.forward:
            self.link.connections.add(self)
            self._task = asyncio.get_running_loop().create_task(self._connect())
        else:
            self.forward.pump()

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self.backward, HOST, self.link.port_of_target)
        except OSError:  # nothing listens there: the source sees a closed connection
            self.close()

    def close(self) -> None:
        """Close both ends at once."""
        self.link.connections.discard(self)
        for pipe in (self.forward, self.backward):
            if pipe.transport:
                pipe.transport.abort()


@dataclass
class Link:
    """The connections from one node to another."""

    source: str
    target: str
    port_of_target: int
    port: int = 0  # of the proxy
    forward: Mode = PASS
    backward: Mode = PASS
    connections: set[_Connection] = field(default_factory=set)
    _server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Open the proxy's port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self).forward, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def mode(self, is_forward: bool) -> Mode:
        """The mode of a direction."""
        return self.forward if is_forward else self.backward

    def set_modes(self, forward: Mode, backward: Mode) -> None:
        """Change both directions. Once neither discards, connections that lost bytes are closed."""
        self.forward, self.backward = forward, backward
        is_lossless = "discard" not in (forward.kind, backward.kind)
        for connection in list(self.connections):
            if is_lossless and connection.is_broken:
                connection.close()
                continue
            connection.forward.pump()
            connection.backward.pump()

    def described(self) -> str:
        """The modes of the link as text, without `pass`; empty if both are `pass`."""
        parts = [
            f"{arrow} {mode.kind}" + (f" {mode.delay_s * 1000:.0f} ms" if mode.delay_s else "")
            for arrow, mode in (("->", self.forward), ("<-", self.backward))
            if mode != PASS
        ]
        return ", ".join(parts)


class Network:
    """All links of a cluster."""

    def __init__(self) -> None:
        self.links: dict[tuple[str, str], Link] = {}

    async def add(self, source: str, target: str, port_of_target: int) -> int:
        """Make a link and return the port of its proxy."""
        link = self.links[source, target] = Link(source, target, port_of_target)
        await link.listen()
        return link.port

    def around(self, node: str, clients: bool) -> Iterator[Link]:
        """The links from and to a node; those from the clients only on request."""
        for link in self.links.values():
            if node in (link.source, link.target) and (clients or link.source != CLIENTS):
                yield link

    def heal(self) -> None:
        """Let every link pass."""
        for link in self.links.values():
            link.set_modes(PASS, PASS)
