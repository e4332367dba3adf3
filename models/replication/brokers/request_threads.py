"""A broker's threads: network threads read requests into a bounded queue, handler threads serve them in order.

A handler is busy with a request for `simulation.request.us`. A request that waits for replicas or records needs no
thread. A network thread that finds the queue full (queued.max.requests) reads from none of its connections until a
handler takes a request. Responses are sent at once (a simplification).

Source: kafka.network.SocketServer (Acceptor, Processor), RequestChannel, KafkaRequestHandlerPool.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ..config import Config
from ..requests import Request
from .process import Process

Handler = Callable[[Any], None]


class _Call(NamedTuple):
    request: Request
    handler: Handler
    incarnation: int  # of the process that read it


class RequestThreads:
    """The network threads, the request queue and the handler threads of one broker."""

    def __init__(self, process: Process, config: Config) -> None:
        self._process = process
        self._config = config
        self.restart()

    def restart(self) -> None:
        """A new process has idle threads and no requests."""
        self._queue: deque[_Call] = deque()
        self._unread: list[deque[_Call]] = [deque() for _ in range(self._config.network_threads)]
        self._turns: deque[deque[_Call]] = deque()  # of network threads with unread requests
        self._free = self._config.handler_threads
        self._calls: list[_Call] = []  # that handlers serve

    def serving(self, handler: Handler) -> Handler:
        """The handler of a type of request, called when a thread has served the request."""
        if not self._config.request_time:
            return handler
        return lambda request: self._read(_Call(request, handler, self._process.incarnation))

    def waiting(self) -> Iterator[Request]:
        """The requests that have not reached their handler."""
        for calls in (self._calls, self._queue, *self._unread):
            for call in calls:
                yield call.request

    def _read(self, call: _Call) -> None:
        """A request arrives on a connection. Each connection belongs to one network thread."""
        unread = self._unread[call.request.node % len(self._unread)]
        unread.append(call)
        if len(unread) == 1:
            self._turns.append(unread)
            self._fill()

    def _fill(self) -> None:
        """Network threads fill the queue, in turns, and idle handlers empty it."""
        turns, queue = self._turns, self._queue
        while turns and len(queue) < self._config.queued_max_requests:
            unread = turns.popleft()
            queue.append(unread.popleft())
            if unread:
                turns.append(unread)
            self._serve()

    def _serve(self) -> None:
        loop = self._process.loop
        while self._free and self._queue:
            self._free -= 1
            call = self._queue.popleft()
            self._calls.append(call)
            loop.after(self._config.request_time, self._on_served, call)

    def _on_served(self, call: _Call) -> None:
        """A handler is done with its work on a request."""
        if call.incarnation != self._process.incarnation or self._process.defer(self._on_served, call):
            return
        self._calls.remove(call)
        self._free += 1
        call.handler(call.request)
        self._serve()
        self._fill()
