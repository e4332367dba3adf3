"""The rules that variants override, one method each. The defaults are Kafka's since 2.1 (KIP-101, 279, 320).

A variant is a subclass in `variants/` that overrides some rules and lists the invariants that it breaks. Other
differences between releases are data (eras.py). The parts of a run call these rules and never check a variant's name.
"""

# ruff: noqa: ARG002  a rule gets everything that any variant of it may need

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, NamedTuple

from . import errors
from .config import Config
from .eras import ERAS, Era
from .partition_state import NO_LEADER, PartitionState
from .ports import FollowerView, ReplicaView
from .storage.replica_log import UNDEFINED, EpochEnd, ReplicaLog


class Vote(NamedTuple):
    """A broker's vote in one partition; the greatest vote wins."""

    log_view: int  # the latest leader epoch with which its log is consistent
    end: int  # its log end offset


VoteOf = Callable[[int], Vote | None]  # None: the broker does not respond


class EpochTruncation(NamedTuple):
    """The offset to which a follower truncates; then it fetches (final), or requests the end of another epoch."""

    offset: int
    is_final: bool


def least_end(replica: ReplicaView) -> int:
    """The least known log end of the replicas that a leader's high watermark waits for."""
    low = replica.log.end
    for follower in replica.maximal_isr:
        if follower.leo < low:
            low = follower.leo
    return low


class Rules:
    """Kafka's replication protocol as of KIP-320: sound while elections are clean and disks are flushed."""

    name: ClassVar[str] = "kip-320"
    summary: ClassVar[str] = "leader epochs, KIP-279's truncation, KIP-320's fencing"
    source: ClassVar[str] = "KIP-101, KIP-279, KIP-320; Partition.scala, AbstractFetcherThread.scala"
    version: ClassVar[str] = "3.3.2"  # the rules are those since 2.1; the quorum is KRaft's, which 3.3 brought
    era: ClassVar[Era] = ERAS["3.3"]
    # The invariants that some schedule of the matrix or the scenarios breaks (exploration/invariants.py).
    breaks: ClassVar[tuple[str, ...]] = (
        "no-acknowledged-loss",
        "no-committed-loss",
        "atomic-transactions",
        "no-aborted-read",
        "no-hanging-transaction",
    )
    reassigns: ClassVar[bool] = True  # partitions may move to other brokers
    needs: ClassVar[tuple[str, ...]] = ()  # faults that reveal the variant's effect, so a search draws them too
    options: ClassVar[dict[str, object]] = {}  # the configuration that reveals the variant's effect

    # --- the high watermark and acknowledgements

    def high_watermark(self, replica: ReplicaView) -> int:
        """The leader's high watermark: the least known log end of the ISR."""
        return least_end(replica)

    def has_enough_replicas(self, replica: ReplicaView) -> bool:
        """Whether the leader accepts writes with acks=all."""
        return len(replica.isr) >= replica.config.min_insync_replicas

    # --- the ISR

    def is_out_of_sync(self, replica: ReplicaView, follower: FollowerView, now: int) -> bool:
        """Whether a follower is behind, and has not caught up for replica.lag.time.max.ms (Replica.isCaughtUp)."""
        return follower.leo != replica.log.end and now - follower.caught_up > replica.config.lag_time_max

    def may_join_isr(self, replica: ReplicaView, follower: FollowerView) -> bool:
        """Whether a follower may join the ISR: it reached the high watermark and the start of this leader epoch.

        Below the latter it could lack committed records (KAFKA-7128, Partition.isFollowerInSync).
        """
        return follower.leo >= replica.hw and follower.leo >= replica.epoch_start

    # --- truncation

    def keeps_fetching(self, replica: ReplicaView, state: PartitionState) -> bool:
        """Whether a follower keeps fetching if its leader stays in a new epoch.

        Since 2.2 its requests must have the new epoch, so it restarts (Partition.makeFollower).
        """
        return False

    def initial_truncation(self, replica: ReplicaView) -> int | None:
        """The offset to which a new follower truncates without a request; None if it requests the leader's epochs."""
        if replica.log.last_epoch == UNDEFINED:
            return min(replica.hw, replica.log.end)
        return None

    def end_offset_for_epoch(self, log: ReplicaLog, epoch: int) -> EpochEnd:
        """The leader's response to OffsetsForLeaderEpoch: the epoch that it found, and that epoch's end offset."""
        return log.end_of_epoch(epoch)

    def truncation_for(self, replica: ReplicaView, found: EpochEnd) -> EpochTruncation:
        """How the follower truncates after the leader's response (KIP-279, getOffsetTruncationState)."""
        log = replica.log
        if found.end == UNDEFINED:
            return EpochTruncation(min(replica.hw, log.end), is_final=True)
        own = log.end_of_epoch(found.epoch)
        if own.end == UNDEFINED:
            return EpochTruncation(min(found.end, log.end), is_final=True)
        if own.epoch != found.epoch:
            # This log lacks the leader's epoch: truncate to the end of an older one, and request that one's end.
            return EpochTruncation(min(own.end, log.end), is_final=False)
        return EpochTruncation(min(found.end, own.end, log.end), is_final=True)

    # --- fencing

    def check_epoch(self, replica: ReplicaView, epoch: int) -> str:
        """The error for a request with this leader epoch (KIP-320); NONE if it is this leader's."""
        if epoch == replica.epoch:
            return errors.NONE
        return errors.FENCED_LEADER_EPOCH if epoch < replica.epoch else errors.UNKNOWN_LEADER_EPOCH

    def accepts_controller(self, known: int, epoch: int) -> bool:
        """Whether a broker obeys a controller of this epoch."""
        return epoch >= known

    # --- the controller

    def heartbeat_interval(self, config: Config) -> int:
        """The interval in which a broker renews its session."""
        return config.heartbeat

    def fence(self, state: PartitionState, broker: int, min_isr: int, is_unclean: bool) -> PartitionState:
        """The state without a dead broker: it leaves the ISR, unless it is the last, and does not lead.

        `is_unclean`: it came back without the clean shutdown file, so its unflushed records may be lost.
        """
        isr = tuple(r for r in state.isr if r != broker) or state.isr
        leader = NO_LEADER if state.leader == broker else state.leader
        if isr == state.isr and leader == state.leader:
            return state
        epoch = state.epoch + 1 if leader != state.leader or self.era.raises_epoch_on_shrink else state.epoch
        return replace(state, leader=leader, epoch=epoch, isr=isr, version=state.version + 1)

    def alter_isr(self, state: PartitionState, isr: tuple[int, ...], min_isr: int) -> PartitionState:
        """The state with the ISR that its leader proposed.

        Simplification: before 3.6 KRaft's controller then raised the leader epoch if the ISR shrank (KAFKA-15021).
        """
        return replace(state, isr=isr, version=state.version + 1)

    def elect(
        self, state: PartitionState, live: Sequence[int], config: Config, vote_of: VoteOf
    ) -> PartitionState | None:
        """The state after an election (PartitionChangeBuilder); None if no replica can lead.

        The leader is the first live replica of the ISR in the order of assignment; if there is none and unclean
        elections are enabled, the first live replica.
        """
        for replica in state.replicas:
            if replica in state.isr and replica in live:
                return self.led_by(state, replica, state.isr, False)
        if config.unclean_election:
            for replica in state.replicas:
                if replica in live:
                    return self.led_by(state, replica, (replica,), True)
        return None

    def may_prefer(self, state: PartitionState, replica: int) -> bool:
        """Whether the preferred replica may be elected."""
        return replica in state.isr

    @staticmethod
    def led_by(state: PartitionState, leader: int, isr: tuple[int, ...], is_unclean: bool) -> PartitionState:
        """The state in a new leader epoch under this leader."""
        return replace(
            state,
            leader=leader,
            epoch=state.epoch + 1,
            isr=isr,
            version=state.version + 1,
            elr=tuple(r for r in state.elr if r not in isr) if not is_unclean else (),
            last_known=NO_LEADER,
            is_unclean=is_unclean,
            was_last_known=is_unclean and leader == state.last_known and not (state.isr or state.elr),
        )

    # --- transactions

    def bumps_epoch_after_abort(self) -> bool:
        """Whether a producer continues in a new epoch after an abort with undecided batches (KIP-360).

        Otherwise its error is fatal.
        """
        return True

    def renumbers_after_gap(self) -> bool:
        """Whether an idempotent producer retries batches after a gap in the sequence in a new epoch (KIP-360, 2.5).

        Before, the batch that finds the gap fails (TransactionManager.canRetry).
        """
        return self.bumps_epoch_after_abort() and not self.era.zookeeper

    def verifies_transactions(self) -> bool:
        """Whether a leader verifies a transaction with the coordinator before its first batch (KIP-890, part 1)."""
        return False

    def bumps_epoch_at_end(self) -> bool:
        """Whether each transaction has its own producer epoch, and leaders add their partitions to it.

        These are transactions v2 (KIP-890, part 2).
        """
        return False

    def fences_members(self) -> bool:
        """Whether offsets in a transaction name their member and generation, and members wait for the offsets of open
        transactions (KIP-447). Otherwise they are accepted of any producer that is not fenced."""
        return True

    def fences_commits(self) -> bool:
        """Whether the group's coordinator refuses commits of unknown members, and of older generations or epochs."""
        return True

    # --- consumers

    def has_next_offsets(self) -> bool:
        """Whether an application knows the leader epochs of the offsets that it adds to a transaction (KIP-1094).

        The consumer's own commits have them since 2.1, if the era's consumers validate their positions.
        """
        return False

    def read_replica(self, reader: int, leader: int, isr: tuple[int, ...]) -> int:
        """The broker from which a consumer fetches."""
        return leader
