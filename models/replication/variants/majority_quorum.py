"""A majority quorum (2f+1 replicas for f failures) instead of the ISR (f+1): a record is committed once
more than half of all replicas have it, whoever is slow; a leader needs the votes of more than half, and is
the one whose log is the most up to date.

The vote compares the latest leader epoch with which a log is known to agree, then its length, as viewstamped
replication does; a voter stops following the old leader. Simplification: the quorum counts the votes.
"""

# ruff: noqa: ARG002  a rule is asked with all that any variant of it may need

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..config import Config
from ..protocol import Protocol, Standing
from ..replica import Remote, Replica
from ..state import NO_LEADER, PartitionState


class MajorityQuorum(Protocol):
    name = "majority-quorum"
    summary = "majority quorum instead of the ISR"
    source = "Liskov and Cowling, Viewstamped Replication Revisited, 2012; KIP-595 for Kafka's own use of a quorum"
    version = "3.9.0"

    def high_watermark(self, replica: Replica) -> int:
        """What more than half of the replicas have, the leader included."""
        ends = sorted((replica.log.end, *(remote.leo for remote in replica.remotes.values())), reverse=True)
        return ends[len(ends) // 2]

    def enough(self, replica: Replica) -> bool:
        """Writes are taken at any time; without a majority they are not acknowledged."""
        return True

    def out_of_sync(self, replica: Replica, remote: Remote, now: int) -> bool:
        """There is no ISR to leave."""
        return False

    def may_prefer(self, state: PartitionState, replica: int) -> bool:
        """No: without a vote nobody knows how far that replica is."""
        return False

    def fence(self, state: PartitionState, broker: int, min_isr: int, unclean: bool) -> PartitionState:
        if state.leader != broker:
            return state
        return replace(state, leader=NO_LEADER, epoch=state.epoch + 1, version=state.version + 1)

    def elect(
        self,
        state: PartitionState,
        live: Sequence[int],
        config: Config,
        standing: Standing,
    ) -> PartitionState | None:
        votes = [(vote, -replica) for replica in state.replicas if replica in live and (vote := standing(replica))]
        if 2 * len(votes) <= len(state.replicas):
            return None
        return self.led_by(state, -max(votes)[1], state.isr, False)
