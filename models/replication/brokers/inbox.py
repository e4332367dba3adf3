"""The arrival of requests at a broker: refused, deferred, delayed by a slow disk, or dispatched by their type."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..network import Network
from ..requests import Request
from .disk import Disk
from .process import RUNNING, Process

Handlers = Mapping[type[Request], Callable[[Any], None]]


@dataclass(slots=True, eq=False)
class Inbox:
    """Receives all requests of clients and followers (KafkaApis.handle)."""

    _process: Process
    _network: Network
    _disk: Disk
    _handlers: Handlers
    _disk_free: int = field(default=0, init=False)

    def restart(self) -> None:
        """A new process has no requests waiting for the disk."""
        self._disk_free = 0

    def receive(self, request: Any) -> None:
        """Handle a request. A dead process refuses the connection; a dead host does not respond."""
        process, disk = self._process, self._disk
        if process.is_paused:
            process.backlog.append((self.receive, request))
        elif process.state != RUNNING:
            self.refuse(request)
        elif disk.request_delay:
            # A slow disk serves one request after the other.
            loop = process.loop
            self._disk_free = max(self._disk_free, loop.now) + disk.request_delay
            loop.at(self._disk_free, self._dispatch_late, request)
        else:
            self._handlers[type(request)](request)

    def refuse(self, request: Any) -> None:
        """Close the connection, because the process is dead. A host without power sends no reset."""
        if not self._process.host_down:
            self._network.reset(request)
        elif request.connection is not None:
            self._network.drop(request.connection.node, request)

    def _dispatch_late(self, request: Any) -> None:
        if not self._process.defer(self._dispatch_late, request):
            self._handlers[type(request)](request)
        elif self._process.state != RUNNING:
            self.refuse(request)

    def deferred(self) -> Iterator[Any]:
        """The requests that wait for a paused process."""
        for action, request in self._process.backlog:
            if action in (self.receive, self._dispatch_late):
                yield request
