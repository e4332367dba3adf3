"""2.0: the answer to OffsetsForLeaderEpoch names the epoch that it found, and a follower that does not know
that epoch asks again for an older one (KIP-279). Logs no longer diverge after fast leader changes, if followers learn
of them.

From 1.1 to 2.0.0 a leader in controlled shutdown was not told that it had been replaced, and went on leading until its
process ended (KAFKA-7482); what it acknowledged with acks=1 meanwhile is lost.

Still missing is fencing (KIP-320): a follower that missed two elections fetches on behind its own wrong records
(KAFKA-6880, the scenario zombie-replica), a fetch from a follower of another epoch moves the leader's high
watermark, and a follower may join the ISR before it reached the start of the leader's epoch (KAFKA-7128).
"""

from __future__ import annotations

from typing import ClassVar

from ..replica import Replica
from ..state import PartitionState
from .zookeeper import Zookeeper


class Kip279(Zookeeper):
    name = "kip-279"
    summary = "the epoch in the answer to OffsetsForLeaderEpoch"
    source = "KIP-279; AbstractFetcherThread.getOffsetTruncationState; hachikuji/kafka-specification Kip279.tla"
    version = "2.0.0"
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss", "no-divergence")
    demotes_leaving = False

    def keeps_fetching(self, replica: Replica, state: PartitionState) -> bool:
        """Only if no epoch was missed, in which the leader's log could have been cut (KAFKA-6361,
        Partition.makeFollower of 2.0)."""
        return state.epoch <= replica.epoch + 1
