"""Asynchronous replication: the leader acknowledges and exposes what it has written, and followers copy it
later. Fast, and every failover loses what was on its way, whatever acks says.
"""

from __future__ import annotations

from typing import ClassVar

from ..replica import Replica
from .since_3_7 import Since37


class Asynchronous(Since37):
    name = "asynchronous"
    summary = "replication after the acknowledgement"
    source = "the replication design of Kafka 0.8 (cwiki, Kafka Replication), synchronous against asynchronous"
    version = "3.9.0"
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss")

    def high_watermark(self, replica: Replica) -> int:
        return replica.log.end
