"""A broker's replicas, and the consequences of an append: flush, delayed fetches, high watermark, acknowledgements."""

from __future__ import annotations

from collections.abc import Callable

from ..config import Config
from ..ledger import Ledger
from .replica import Replica

OnReplica = Callable[[Replica], None]


class ReplicaManager:
    """Connects the handlers of fetch and produce requests through the replicas' high watermarks."""

    def __init__(self, replicas: dict[int, Replica], config: Config, ledger: Ledger) -> None:
        self.replicas = replicas
        self._config = config
        self._ledger = ledger

    def connect(self, wake_followers: OnReplica, wake_consumers: OnReplica, complete_produces: OnReplica) -> None:
        """Set the handlers to call after an append, and after the high watermark moved."""
        self._wake_followers = wake_followers
        self.wake_consumers = wake_consumers
        self._complete_produces = complete_produces

    def leader(self, partition: int) -> Replica | None:
        """The replica of a partition that this broker leads."""
        replica = self.replicas.get(partition)
        return replica if replica is not None and replica.leader == replica.broker else None

    def after_append(self, replica: Replica) -> None:
        """After an append, flush if configured, and as leader respond to the fetches that wait for records."""
        log = replica.log
        if log.end - log.recovery_point >= self._config.flush_messages:
            log.flush()
        if replica.leader == replica.broker:
            self._wake_followers(replica)
            self.advance(replica)

    def advance(self, replica: Replica) -> None:
        """Advance a leader's high watermark if possible, and complete the requests that wait for it."""
        if replica.leader == replica.broker and replica.advance_high_watermark():
            self._ledger.on_high_watermark(replica)
            self._complete_produces(replica)
            self.wake_consumers(replica)
