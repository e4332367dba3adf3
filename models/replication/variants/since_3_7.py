"""The rules of all protocols since 3.7: below min.insync.replicas nothing is committed, with or without ELR."""

from __future__ import annotations

from ..ports import ReplicaView
from ..rules import Rules, least_end


class Since37(Rules):
    """Kafka since KAFKA-15583 (KIP-966, part 1)."""

    def high_watermark(self, replica: ReplicaView) -> int:
        """The high watermark does not move while the ISR is below min.insync.replicas.

        So a replica that leaves such an ISR behind has all committed records. This holds with any acks
        (Partition.maybeIncrementLeaderHW).
        """
        mark = least_end(replica)
        return mark if mark > replica.hw and self.has_enough_replicas(replica) else replica.hw

    def verifies_transactions(self) -> bool:
        """Since 3.6 (KIP-890, part 1)."""
        return True

    def has_enough_replicas(self, replica: ReplicaView) -> bool:
        """min.insync.replicas never exceeds the number of replicas (Partition.effectiveMinIsr)."""
        in_sync = len(replica.isr)
        return in_sync >= replica.config.min_insync_replicas or in_sync >= len(replica.replicas)
