"""The rules that variants replace: one method a rule. The defaults are Kafka's since 2.1 (KIP-101, 279, 320).

A variant is a subclass in `variants/` that replaces one rule and names the invariants that it breaks. The
core asks these questions and never looks at a variant's name.
"""

# ruff: noqa: ARG002  a rule is asked with all that any variant of it may need

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from .log import UNDEFINED, ReplicaLog
from .requests import FENCED, NONE, UNKNOWN_EPOCH
from .state import NO_LEADER, PartitionState

if TYPE_CHECKING:
    from .config import Config
    from .replica import Remote, Replica

# A broker's (leader epoch that it is consistent with, log end offset) in one partition; None if it cannot
# be asked.
Standing = Callable[[int], tuple[int, int] | None]


class Protocol:
    """Kafka's replication protocol as of KIP-320: sound while clean elections and flushed disks are."""

    name: ClassVar[str] = "kip-320"
    summary: ClassVar[str] = "leader epochs, KIP-279's truncation, KIP-320's fencing"
    source: ClassVar[str] = "KIP-101, KIP-279, KIP-320; Partition.scala, AbstractFetcherThread.scala"
    version: ClassVar[str] = "3.3.2"  # the rules are those since 2.1; the quorum is KRaft's, which 3.3 brought
    # invariants that some schedule of the matrix or of the scenarios breaks, by name; see invariants.py
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss")
    needs: ClassVar[tuple[str, ...]] = ()  # faults that show what it is about, so a search draws them too
    # configuration that shows what the variant changes
    options: ClassVar[dict[str, object]] = {}
    # The era decides the wording of logs, and who keeps the cluster's state.
    zookeeper: ClassVar[bool] = False
    epochs_in_log: ClassVar[bool] = True  # batches carry their leader epoch; message formats 0 and 1 had none
    bumps_epoch_on_shrink: ClassVar[bool] = (
        True  # the controller raises the leader epoch when it takes a replica out of an ISR
    )
    fences_together: ClassVar[bool] = False  # brokers whose sessions ended leave at once, not one after the other
    demotes_leaving: ClassVar[bool] = True  # a leader in controlled shutdown is told that it was replaced (KAFKA-7482)
    consumers_validate: ClassVar[bool] = True  # consumers ask whether their position survived (KIP-320)
    hides_lagging_mark: ClassVar[bool] = True  # a new leader tells no end before its mark reached its epoch (KIP-207)
    reads_followers: ClassVar[bool] = False

    # --- the high watermark and acknowledgements

    def high_watermark(self, replica: Replica) -> int:
        """The leader's: what every replica of the ISR has, as the leader knows it by their fetches."""
        low = replica.log.end
        for remote in replica.waited:
            if remote.leo < low:
                low = remote.leo
        return low

    def enough(self, replica: Replica) -> bool:
        """May a write with acks=all be accepted?"""
        return len(replica.isr) >= replica.config.min_insync_replicas

    # --- the ISR

    def out_of_sync(self, replica: Replica, remote: Remote, now: int) -> bool:
        """replica.lag.time.max.ms: behind, and not caught up for that long (Replica.isCaughtUp)."""
        return remote.leo != replica.log.end and now - remote.caught_up > replica.config.lag_time_max

    def may_join(self, replica: Replica, remote: Remote) -> bool:
        """At the high watermark, and at the start of this leader epoch: without the latter, committed records
        could be missing (KAFKA-7128, Partition.isFollowerInSync)."""
        return remote.leo >= replica.hw and remote.leo >= replica.epoch_start

    # --- truncation

    def keeps_fetching(self, replica: Replica, state: PartitionState) -> bool:
        """Does a follower go on fetching where its leader stays in a new epoch? Since 2.2 its requests must name the
        new one, so it begins anew (Partition.makeFollower)."""
        return False

    def truncate_at_once(self, replica: Replica) -> int | None:
        """Where a new follower cuts its log before asking anybody; None to ask for epochs."""
        if replica.log.last_epoch == UNDEFINED:
            return min(replica.hw, replica.log.end)
        return None

    def answer_epoch(self, log: ReplicaLog, epoch: int) -> tuple[int, int]:
        """The leader's answer to OffsetsForLeaderEpoch: (epoch found, offset where it ends)."""
        return log.end_of_epoch(epoch)

    def truncate_by_epoch(self, replica: Replica, epoch: int, end: int) -> tuple[int, bool]:
        """(where the follower cuts, is that all?): KIP-279, getOffsetTruncationState."""
        log = replica.log
        if end == UNDEFINED:
            return min(replica.hw, log.end), True
        own_epoch, own_end = log.end_of_epoch(epoch)
        if own_end == UNDEFINED:
            return min(end, log.end), True
        if own_epoch != epoch:
            # The leader knows an epoch that this log does not: cut to ours and ask again for the older one.
            return min(own_end, log.end), False
        return min(end, own_end, log.end), True

    # --- fencing

    def check_epoch(self, replica: Replica, epoch: int) -> str:
        """Is a request of this leader epoch for this leader? (KIP-320)"""
        if epoch == replica.epoch:
            return NONE
        return FENCED if epoch < replica.epoch else UNKNOWN_EPOCH

    def accepts_controller(self, known: int, epoch: int) -> bool:
        """Does a broker obey a controller of this epoch?"""
        return epoch >= known

    # --- the controller

    def heartbeat(self, config: Config) -> int:
        """How often a broker renews its session."""
        return config.heartbeat

    def fence(self, state: PartitionState, broker: int, min_isr: int, unclean: bool) -> PartitionState:
        """A broker is gone: out of the ISR, unless it is the last; no longer leader. `unclean` says that it
        came back without the clean shutdown file, so its unflushed records may be lost."""
        isr = tuple(r for r in state.isr if r != broker) or state.isr
        leader = NO_LEADER if state.leader == broker else state.leader
        if isr == state.isr and leader == state.leader:
            return state
        epoch = state.epoch + 1 if leader != state.leader or self.bumps_epoch_on_shrink else state.epoch
        return replace(state, leader=leader, epoch=epoch, isr=isr, version=state.version + 1)

    def shrink(self, state: PartitionState, isr: tuple[int, ...], min_isr: int) -> PartitionState:
        """A leader's new ISR, shrunk or expanded, is taken over. Simplification: before 3.6 KRaft's controller
        raised the leader epoch then too, if the ISR shrank (KAFKA-15021)."""
        return replace(state, isr=isr, version=state.version + 1)

    def elect(
        self, state: PartitionState, live: Sequence[int], config: Config, standing: Standing
    ) -> PartitionState | None:
        """A leader for a partition that has none: the first live replica of the ISR in the order of
        assignment; if there is none and unclean elections are allowed, the first live replica
        (PartitionChangeBuilder)."""
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

    # --- consumers

    def read_from(self, reader: int, leader: int, isr: tuple[int, ...]) -> int:
        """Which broker a consumer fetches from."""
        return leader
