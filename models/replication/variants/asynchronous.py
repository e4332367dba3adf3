"""Asynchronous replication: the leader acknowledges and exposes records at once; followers copy them later.

A failover loses records that no follower had fetched, even with acks=all. Simplification: the controller raises the
leader epoch when an ISR shrinks, as in the era 3.3.
"""

from __future__ import annotations

from typing import ClassVar

from ..ports import ReplicaView
from .since_3_7 import Since37


class Asynchronous(Since37):
    """Acknowledges and exposes a record once the leader has it."""

    name = "asynchronous"
    summary = "replication after the acknowledgement"
    source = "the replication design of Kafka 0.8 (cwiki, Kafka Replication), synchronous against asynchronous"
    version = "3.9.0"
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss")

    def high_watermark(self, replica: ReplicaView) -> int:
        """The leader's log end, without waiting for followers."""
        return replica.log.end
