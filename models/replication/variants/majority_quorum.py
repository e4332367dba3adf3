"""A majority quorum (2f+1 replicas for f failures) instead of the ISR (f+1).

A record is committed once more than half of all replicas have it. A leader needs the votes of more than half, and its
log is the most up to date of those. The vote compares the latest leader epoch with which a log is consistent, then its
length, as viewstamped replication does; a voter stops following the old leader. Simplification: the quorum counts the
votes.
"""

# ruff: noqa: ARG002  a rule gets everything that any variant of it may need

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from ..config import Config
from ..partition_state import NO_LEADER, PartitionState
from ..ports import FollowerView, ReplicaView
from ..rules import Rules, VoteOf


class MajorityQuorum(Rules):
    """Commits by majority and elects by votes."""

    name = "majority-quorum"
    reassigns = False  # its members would have to agree on the new ones
    summary = "majority quorum instead of the ISR"
    source = "Liskov and Cowling, Viewstamped Replication Revisited, 2012; KIP-595 for Kafka's own use of a quorum"
    version = "3.9.0"
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss")

    def high_watermark(self, replica: ReplicaView) -> int:
        """The offset that more than half of the replicas have reached, including the leader."""
        ends = sorted((replica.log.end, *(follower.leo for follower in replica.followers.values())), reverse=True)
        return ends[len(ends) // 2]

    def has_enough_replicas(self, replica: ReplicaView) -> bool:
        """Always: writes are accepted at any time, but not acknowledged without a majority."""
        return True

    def is_out_of_sync(self, replica: ReplicaView, follower: FollowerView, now: int) -> bool:
        """Never: there is no ISR to leave."""
        return False

    def may_prefer(self, state: PartitionState, replica: int) -> bool:
        """Never: without a vote, the replica's progress is not known."""
        return False

    def fence(self, state: PartitionState, broker: int, min_isr: int, is_unclean: bool) -> PartitionState:
        if state.leader != broker:
            return state
        return replace(state, leader=NO_LEADER, epoch=state.epoch + 1, version=state.version + 1)

    def elect(
        self, state: PartitionState, live: Sequence[int], config: Config, vote_of: VoteOf
    ) -> PartitionState | None:
        responses = {replica: vote_of(replica) for replica in state.replicas if replica in live}
        votes = {replica: vote for replica, vote in responses.items() if vote is not None}
        if 2 * len(votes) <= len(state.replicas):
            return None
        leader = max(votes, key=lambda replica: (votes[replica], -replica))  # of equal votes the lowest broker
        return self.led_by(state, leader, state.isr, False)
