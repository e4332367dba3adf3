"""The quota of a broker's traffic for replicas out of sync, as a leader or as a follower (ReplicationQuotaManager).

Simplifications: Kafka averages over eleven seconds, and counts the traffic of throttled replicas in sync, too; here a
record counts as 100 bytes.
"""

from __future__ import annotations

from ..config import NEVER, RECORD_BYTES, SECOND
from ..storage.batches import Batch

ALL = "*"


class ReplicationQuota:
    """Bytes a second of a broker, and the replicas that they limit: `partition:broker,…`, or all.

    Without a rate nothing is counted.
    """

    def __init__(self, rate: int, replicas: str, broker: int) -> None:
        self.is_set = rate < NEVER
        self._rate, self._broker = rate, broker
        pairs = (pair.split(":") for pair in replicas.split(",") if pair)
        self._limited = None if replicas == ALL else {(int(partition), int(node)) for partition, node in pairs}
        self._used = (0, 0)  # a second, and the bytes in it

    def throttles(self, partition: int) -> bool:
        """Whether a partition's traffic is limited."""
        return self.is_set and (self._limited is None or (partition, self._broker) in self._limited)

    def is_exceeded(self, now: int) -> bool:
        """Whether nothing more may be sent in this second."""
        return self._used[0] == now // SECOND and self._used[1] >= self._rate

    def record(self, batches: list[Batch], now: int) -> None:
        """Count what is sent."""
        second = now // SECOND
        used = self._used[1] if self._used[0] == second else 0
        self._used = second, used + RECORD_BYTES * (batches[-1].end - batches[0].base)
