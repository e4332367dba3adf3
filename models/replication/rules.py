"""The rules that variants replace, one method a rule. The defaults are Kafka's since 2.1 (KIP-101, 279, 320).

A variant is a subclass in `variants/` that replaces the rules in question and names the invariants that it breaks. What
differs between releases without being the point of a variant is data (eras.py). The parts of a run call these rules and
never look at a variant's name.
"""

# ruff: noqa: ARG002  a rule gets everything that any variant of it may need

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from .config import Config
from .eras import ERAS, Era
from .partition_state import NO_LEADER, PartitionState
from .ports import FollowerView, ReplicaView
from .requests import FENCED, NONE, UNKNOWN_EPOCH
from .storage.replica_log import UNDEFINED, ReplicaLog

# A broker's vote in one partition: (leader epoch that its log is consistent with, log end offset); None if the broker
# does not answer.
VoteOf = Callable[[int], tuple[int, int] | None]


class Rules:
    """Kafka's replication protocol as of KIP-320: sound while elections are clean and disks are flushed."""

    name: ClassVar[str] = "kip-320"
    summary: ClassVar[str] = "leader epochs, KIP-279's truncation, KIP-320's fencing"
    source: ClassVar[str] = "KIP-101, KIP-279, KIP-320; Partition.scala, AbstractFetcherThread.scala"
    version: ClassVar[str] = "3.3.2"  # the rules are those since 2.1; the quorum is KRaft's, which 3.3 brought
    era: ClassVar[Era] = ERAS["3.3"]
    # invariants that some schedule of the matrix or of the scenarios breaks, by name; see exploration/invariants.py
    breaks: ClassVar[tuple[str, ...]] = (
        "no-acknowledged-loss",
        "no-committed-loss",
        "atomic-transactions",
        "no-aborted-read",
        "no-hanging-transaction",
    )
    reassigns: ClassVar[bool] = True  # partitions may move to other brokers
    needs: ClassVar[tuple[str, ...]] = ()  # faults without which the variant shows nothing, so a search draws them too
    options: ClassVar[dict[str, object]] = {}  # the configuration that shows what the variant changes

    # --- the high watermark and acknowledgements

    def high_watermark(self, replica: ReplicaView) -> int:
        """The leader's high watermark: what the whole ISR has, as far as its fetches show."""
        low = replica.log.end
        for follower in replica.maximal_isr:
            if follower.leo < low:
                low = follower.leo
        return low

    def has_enough_replicas(self, replica: ReplicaView) -> bool:
        """May a write with acks=all be accepted?"""
        return len(replica.isr) >= replica.config.min_insync_replicas

    # --- the ISR

    def is_out_of_sync(self, replica: ReplicaView, follower: FollowerView, now: int) -> bool:
        """Is a follower behind, and has it not caught up for replica.lag.time.max.ms (Replica.isCaughtUp)?"""
        return follower.leo != replica.log.end and now - follower.caught_up > replica.config.lag_time_max

    def may_join_isr(self, replica: ReplicaView, follower: FollowerView) -> bool:
        """May a follower join the ISR? At the high watermark and at the start of this leader epoch; below the latter it
        could lack committed records (KAFKA-7128, Partition.isFollowerInSync)."""
        return follower.leo >= replica.hw and follower.leo >= replica.epoch_start

    # --- truncation

    def keeps_fetching(self, replica: ReplicaView, state: PartitionState) -> bool:
        """Does a follower keep fetching if its leader stays in a new epoch? Since 2.2 its requests must name the new
        epoch, so it starts again (Partition.makeFollower)."""
        return False

    def initial_truncation(self, replica: ReplicaView) -> int | None:
        """The offset to which a new follower truncates without a request; None to ask the leader for epochs."""
        if replica.log.last_epoch == UNDEFINED:
            return min(replica.hw, replica.log.end)
        return None

    def answer_epoch_request(self, log: ReplicaLog, epoch: int) -> tuple[int, int]:
        """The leader's answer to OffsetsForLeaderEpoch: (epoch found, offset where it ends)."""
        return log.end_of_epoch(epoch)

    def truncation_for(self, replica: ReplicaView, epoch: int, end: int) -> tuple[int, bool]:
        """(offset to which the follower truncates, whether that is final): KIP-279, getOffsetTruncationState."""
        log = replica.log
        if end == UNDEFINED:
            return min(replica.hw, log.end), True
        own_epoch, own_end = log.end_of_epoch(epoch)
        if own_end == UNDEFINED:
            return min(end, log.end), True
        if own_epoch != epoch:
            # The leader has an epoch that this log lacks: cut to our own, and ask again for the older one.
            return min(own_end, log.end), False
        return min(end, own_end, log.end), True

    # --- fencing

    def check_epoch(self, replica: ReplicaView, epoch: int) -> str:
        """The error for a request of this leader epoch (KIP-320); NONE if it is this leader's."""
        if epoch == replica.epoch:
            return NONE
        return FENCED if epoch < replica.epoch else UNKNOWN_EPOCH

    def accepts_controller(self, known: int, epoch: int) -> bool:
        """Does a broker obey a controller of this epoch?"""
        return epoch >= known

    # --- the controller

    def heartbeat_interval(self, config: Config) -> int:
        """How often a broker renews its session."""
        return config.heartbeat

    def fence(self, state: PartitionState, broker: int, min_isr: int, unclean: bool) -> PartitionState:
        """The state without a dead broker: it leaves the ISR, unless it is the last, and leads no more. `unclean`: it
        came back without the clean shutdown file, so its unflushed records may be lost."""
        isr = tuple(r for r in state.isr if r != broker) or state.isr
        leader = NO_LEADER if state.leader == broker else state.leader
        if isr == state.isr and leader == state.leader:
            return state
        epoch = state.epoch + 1 if leader != state.leader or self.era.raises_epoch_on_shrink else state.epoch
        return replace(state, leader=leader, epoch=epoch, isr=isr, version=state.version + 1)

    def alter_isr(self, state: PartitionState, isr: tuple[int, ...], min_isr: int) -> PartitionState:
        """The state with the ISR that its leader proposed. Simplification: before 3.6 KRaft's controller raised the
        leader epoch then too, if the ISR shrank (KAFKA-15021)."""
        return replace(state, isr=isr, version=state.version + 1)

    def elect(
        self, state: PartitionState, live: Sequence[int], config: Config, vote_of: VoteOf
    ) -> PartitionState | None:
        """The state with a leader, for a partition without one: the first live replica of the ISR in the order of
        assignment; if there is none and unclean elections are allowed, the first live replica
        (PartitionChangeBuilder). None if no replica can lead."""
        for replica in state.replicas:
            if replica in state.isr and replica in live:
                return self.led_by(state, replica, state.isr, False)
        if config.unclean_election:
            for replica in state.replicas:
                if replica in live:
                    return self.led_by(state, replica, (replica,), True)
        return None

    def may_prefer(self, state: PartitionState, replica: int) -> bool:
        """May leadership go back to the preferred replica?"""
        return replica in state.isr

    @staticmethod
    def led_by(state: PartitionState, leader: int, isr: tuple[int, ...], unclean: bool) -> PartitionState:
        """The state in a new leader epoch under this leader."""
        return replace(
            state,
            leader=leader,
            epoch=state.epoch + 1,
            isr=isr,
            version=state.version + 1,
            elr=tuple(r for r in state.elr if r not in isr) if not unclean else (),
            last_known=NO_LEADER,
            unclean=unclean,
            recalled=unclean and leader == state.last_known and not (state.isr or state.elr),
        )

    # --- transactions

    def bumps_epoch_after_abort(self) -> bool:
        """After an abort with undecided batches, does a producer go on in a new epoch (KIP-360)? Otherwise its error is
        fatal."""
        return True

    def verifies_transactions(self) -> bool:
        """Does a leader ask the coordinator whether a transaction is open before it appends its first batch (KIP-890,
        part 1)?"""
        return False

    def bumps_epoch_at_end(self) -> bool:
        """Does each transaction have a producer epoch of its own, and do leaders add their partitions to it
        (transactions v2, KIP-890, part 2)?"""
        return False

    def fences_members(self) -> bool:
        """Do offsets in a transaction name their member and generation, and does a member wait for the offsets of open
        transactions (KIP-447)? Otherwise they are accepted of any producer that is not fenced."""
        return True

    # --- consumers

    def read_replica(self, reader: int, leader: int, isr: tuple[int, ...]) -> int:
        """Which broker a consumer fetches from."""
        return leader
