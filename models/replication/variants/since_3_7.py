"""What all protocols of 3.7 and later share: below min.insync.replicas nothing is committed, with ELR and without."""

from __future__ import annotations

from ..protocol import Protocol
from ..replica import Replica


class Since37(Protocol):
    """Kafka since KAFKA-15583 (KIP-966, part 1)."""

    def high_watermark(self, replica: Replica) -> int:
        """It rests while the ISR is below min.insync.replicas, whatever acks says, so that who left lacks nothing
        committed (Partition.maybeIncrementLeaderHW)."""
        return super().high_watermark(replica) if self.enough(replica) else replica.hw

    def enough(self, replica: Replica) -> bool:
        """No more is asked for than there are replicas (Partition.effectiveMinIsr)."""
        return len(replica.isr) >= min(replica.config.min_insync_replicas, len(replica.replicas))
