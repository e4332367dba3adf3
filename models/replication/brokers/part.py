"""The base of a broker's request handlers: the parts of the broker that all of them use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..config import Config
from ..network import Network
from ..rules import Rules
from .process import Process
from .replica_manager import ReplicaManager

Parts = tuple[Process, Network, ReplicaManager, Rules, Config]  # the arguments of a BrokerPart


@dataclass(slots=True, eq=False)
class BrokerPart:
    """A part of a broker."""

    _process: Process
    _network: Network
    _manager: ReplicaManager
    _rules: Rules
    _config: Config

    def _reply(self, request: Any) -> None:
        """Send a response: a request object also carries its response."""
        self._network.send(self._process.id, request.node, request.reply, request)
