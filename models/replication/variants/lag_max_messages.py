"""Before 0.9: a follower more than replica.lag.max.messages behind is out of sync, even if it just caught up.

A larger burst of writes removes healthy followers from the ISR, and the next fetch brings them back: the ISR flaps, and
may shrink below min.insync.replicas. Everything else is as in the variant high-watermark.
Simplification: log lines and segments are those of 0.10.
"""

from __future__ import annotations

from typing import ClassVar

from ..ports import FollowerView, ReplicaView
from .high_watermark import HighWatermark


class LagMaxMessages(HighWatermark):
    """Kafka 0.8: the ISR also shrinks by the number of messages behind."""

    name = "lag-max-messages"
    summary = "the ISR by replica.lag.max.messages, before 0.9"
    source = "KAFKA-1546; Partition.getOutOfSyncReplicas of 0.8.2"
    version = "0.8.2.2"
    breaks: ClassVar[tuple[str, ...]] = ("no-false-shrink",)
    options: ClassVar[dict[str, object]] = {
        "replica.lag.max.messages": 4,
        "simulation.send.interval.us": 100,
        "replica.lag.time.max.ms": 1000,
        "simulation.latency.us": 3000,
    }

    def is_out_of_sync(self, replica: ReplicaView, follower: FollowerView, now: int) -> bool:
        """Too many messages behind, or behind without a fetch for replica.lag.time.max.ms."""
        behind = replica.log.end - follower.leo
        stuck = now - max(follower.fetch_time, follower.caught_up) > replica.config.lag_time_max
        return behind > replica.config.lag_max_messages or (behind > 0 and stuck)
