"""2.0: the response to OffsetsForLeaderEpoch contains the epoch that the leader found (KIP-279).

A follower without that epoch requests an older one. So logs no longer diverge after fast leader changes, if followers
are informed of each change. From 1.1 to 2.0.0 a leader in controlled shutdown was not informed that it was replaced,
and kept leading until its process ended (KAFKA-7482). The records that it acknowledged meanwhile with acks=1 are lost.

There is no fencing yet (KIP-320). A follower that missed two elections keeps fetching after its own wrong records
(KAFKA-6880, the scenario zombie-replica); a fetch from a follower of another epoch advances the leader's high
watermark; and a follower may join the ISR before it reached the start of the leader's epoch (KAFKA-7128).
"""

from __future__ import annotations

from typing import ClassVar

from ..eras import ERAS
from ..partition_state import PartitionState
from ..ports import ReplicaView
from .zookeeper import Zookeeper


class Kip279(Zookeeper):
    """Kafka 2.0: followers truncate to the last leader epoch that both logs have."""

    name = "kip-279"
    summary = "the epoch in the response to OffsetsForLeaderEpoch"
    source = "KIP-279; AbstractFetcherThread.getOffsetTruncationState; hachikuji/kafka-specification Kip279.tla"
    version = "2.0.0"
    era = ERAS["2.0"]
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss", "no-divergence")

    def keeps_fetching(self, replica: ReplicaView, state: PartitionState) -> bool:
        """Only if it missed no epoch, in which the leader's log could have been truncated.

        It is KAFKA-6361, Partition.makeFollower of 2.0.
        """
        return state.epoch <= replica.epoch + 1
