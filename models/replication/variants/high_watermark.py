"""Before 0.11: a follower truncates to its own high watermark, and batches do not say in which epoch they
were written. KIP-101's two scenarios follow: records lost by a truncation before a clean election, and logs
that differ for ever after a power loss of the whole ISR.
"""

from __future__ import annotations

from typing import ClassVar

from ..replica import Replica
from .zookeeper import Zookeeper


class HighWatermark(Zookeeper):
    name = "high-watermark"
    summary = "truncation to the high watermark, before 0.11"
    source = "KIP-101, Motivation; ReplicaManager.makeFollowers of 0.10.2"
    version = "0.10.2.2"
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss", "no-divergence")
    epochs_in_log = False

    def truncate_at_once(self, replica: Replica) -> int | None:
        """The high watermark lags by one fetch, and after a restart by a checkpoint: committed records go."""
        return min(replica.hw, replica.log.end)
