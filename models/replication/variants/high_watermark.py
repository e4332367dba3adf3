"""Before 0.11: a follower truncates to its own high watermark, and batches do not carry a leader epoch.

This permits KIP-101's two scenarios: a truncation before a clean election loses records, and logs differ permanently
after a power loss of the whole ISR.
"""

from __future__ import annotations

from typing import ClassVar

from ..eras import ERAS
from ..ports import ReplicaView
from .zookeeper import Zookeeper


class HighWatermark(Zookeeper):
    """Kafka 0.9 and 0.10: followers truncate to their high watermark."""

    name = "high-watermark"
    summary = "truncation to the high watermark, before 0.11"
    source = "KIP-101, Motivation; ReplicaManager.makeFollowers of 0.10.2"
    version = "0.10.2.2"
    era = ERAS["0.10"]
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss", "no-divergence", "no-commit-loss")

    def initial_truncation(self, replica: ReplicaView) -> int | None:
        """The high watermark. It lags by a fetch, or by a checkpoint after a restart, so committed records are lost."""
        return min(replica.hw, replica.log.end)
