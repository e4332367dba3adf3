"""The base of a broker's request handlers: the parts of the broker that all of them use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from ..config import Config
from ..network import Network
from ..requests import Callback, Request
from ..rules import Rules
from .process import Process
from .replica_manager import ReplicaManager

AnyRequest = TypeVar("AnyRequest", bound=Request)


class Parts(NamedTuple):
    """The parts of a broker, which are the arguments of a BrokerPart."""

    process: Process
    network: Network
    manager: ReplicaManager
    rules: Rules
    config: Config


@dataclass(slots=True, eq=False)
class BrokerPart:
    """A part of a broker."""

    _process: Process
    _network: Network
    _manager: ReplicaManager
    _rules: Rules
    _config: Config

    def _send(
        self,
        kind: Callable[..., AnyRequest],
        target: int,
        inbox: Callback,
        reply: Callback,
        on_closed: Callback,
        *content: Any,
        **named: Any,
    ) -> AnyRequest:
        """Send a request of this broker with this content to another node, and return it."""
        here = self._process.id
        request = kind(here, target, self._process.loop.now, reply, on_closed, None, *content, **named)
        self._network.send(here, target, inbox, request)
        return request

    def _reply(self, request: Any) -> None:
        """Send a response: a request object also carries its response."""
        self._network.send(self._process.id, request.node, request.reply, request)

    def respond(self, request: Any, error: str = "") -> None:
        """Send a response with an error; empty: none."""
        request.error = error
        self._reply(request)
