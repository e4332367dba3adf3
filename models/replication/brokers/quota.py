"""The quota of a broker's traffic for replicas out of sync, as a leader or as a follower (ReplicationQuotaManager).

Simplifications: Kafka averages over eleven seconds, and counts the traffic of throttled replicas in sync, too; here a
record counts as 100 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..config import NEVER, RECORD_BYTES, SECOND
from ..storage.batches import Batch

ALL = "*"


def throttled_partitions(replicas: str, broker: int) -> frozenset[int] | None:
    """The partitions of a broker in a list of throttled replicas (`partition:broker,…`); None: all of them."""
    if replicas == ALL:
        return None
    pairs = (pair.split(":") for pair in replicas.split(",") if pair)
    return frozenset(int(partition) for partition, node in pairs if int(node) == broker)


@dataclass(slots=True, eq=False)
class ReplicationQuota:
    """Bytes a second, and the partitions that they limit (None: all). Without a rate nothing is counted."""

    rate: int
    partitions: frozenset[int] | None
    is_set: bool = field(init=False)
    _used: tuple[int, int] = field(default=(0, 0), init=False)  # a second, and the bytes in it

    def __post_init__(self) -> None:
        self.is_set = self.rate < NEVER

    def throttles(self, partition: int) -> bool:
        """Whether a partition's traffic is limited."""
        return self.is_set and (self.partitions is None or partition in self.partitions)

    def is_exceeded(self, now: int) -> bool:
        """Whether nothing more may be sent in this second."""
        return self._used[0] == now // SECOND and self._used[1] >= self.rate

    def record(self, batches: list[Batch], now: int) -> None:
        """Count what is sent."""
        second = now // SECOND
        used = self._used[1] if self._used[0] == second else 0
        self._used = second, used + RECORD_BYTES * (batches[-1].end - batches[0].base)
