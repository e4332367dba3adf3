"""One broker's replica of one partition: its log, its high watermark, and as leader its view of the followers.

A follower's fetch offset is its log end, by which the leader advances the high watermark. The follower gets the new
high watermark in the next response, one round trip later. This lag is the subject of KIP-101.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from .. import errors
from ..config import Config
from ..partition_state import NO_LEADER, PartitionState
from ..producer_batch import ProducerBatch
from ..requests import AlterIsrRequest, BatchResult, ProduceRequest
from ..rules import Rules
from ..storage.batches import Batch
from ..storage.replica_log import ReplicaLog


@dataclass(slots=True, eq=False)
class FollowerProgress:
    """A leader's view of one follower."""

    caught_up: int  # lastCaughtUpTimeMs, in microseconds of the leader's clock
    leo: int = -1  # unknown until its first fetch
    start: int = 0  # its log start offset
    fetch_time: int = 0
    fetch_leo: int = -1  # the leader's own end at that fetch


@dataclass(slots=True, eq=False)
class DelayedProduce:
    """A batch of a produce request with acks=all that waits for the high watermark."""

    required: int  # the high watermark that it waits for
    request: ProduceRequest
    batch_index: int  # in the request
    appended: BatchResult  # its result if it is replicated


class DelayedDelete(NamedTuple):
    """A DeleteRecords request that waits for the low watermark."""

    required: int  # the low watermark that it waits for
    deadline: int


class Replica:
    """The state of one partition on one broker. It sends nothing itself."""

    def __init__(self, broker: int, partition: int, rules: Rules, config: Config) -> None:
        self.broker = broker
        self.partition = partition
        self.rules = rules
        self.config = config
        self.log = ReplicaLog()
        self.hw = 0
        self.checkpointed_hw = 0  # in replication-offset-checkpoint
        self.leader = NO_LEADER
        self.epoch = -1
        self.epoch_start = 0
        self.log_view = -1  # the latest leader epoch whose history this log is known to contain
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.version = -1
        self.pending_isr: AlterIsrRequest | None = None  # the proposed ISR, without a response yet
        self.last_isr_change = 0
        self.followers: dict[int, FollowerProgress] = {}
        self.maximal_isr: tuple[FollowerProgress, ...] = ()  # the followers that the high watermark waits for
        self.deletes: list[DelayedDelete] = []
        self.purgatory: deque[DelayedProduce] = deque()

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition in its own view."""
        return self.leader == self.broker

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        return self.log.transactions.stable_end(self.hw)

    def start_leading(self, state: PartitionState, now: int) -> None:
        """Lead in a new epoch (Partition.makeLeader). Nothing is truncated; the high watermark stays."""
        self._follow_state(state)
        self.epoch_start = self.log.end
        self.log_view = state.epoch
        # Simplification: with kip-101 and kip-279 too the epoch begins here, as in Kafka since KAFKA-7415 (2.0.1);
        # before, it began with its first batch.
        if self.rules.era.epochs_in_log:
            self.log.assign_epoch(state.epoch, self.log.end)
        # A replica in the ISR counts as caught up for one lag time.
        self.followers = {r: FollowerProgress(now if r in state.isr else 0) for r in state.replicas if r != self.broker}
        self.update_maximal_isr()

    def start_following(self, state: PartitionState) -> None:
        """Follow the leader of this state."""
        self._follow_state(state)
        self.followers = {}
        self.maximal_isr = ()

    def _follow_state(self, state: PartitionState) -> None:
        self.replicas = state.replicas
        self.leader, self.epoch = state.leader, state.epoch
        self.isr, self.version = state.isr, state.version
        self.pending_isr = None

    def assign(self, replicas: tuple[int, ...]) -> None:
        """Apply the replicas of a reassignment in this leader's epoch."""
        self.replicas = replicas
        known = self.followers
        self.followers = {r: known.get(r) or FollowerProgress(0) for r in replicas if r != self.broker}
        self.update_maximal_isr()

    def apply_isr(self, isr: tuple[int, ...], version: int, now: int) -> None:
        """Apply an ISR that the quorum stored."""
        self.isr, self.version, self.pending_isr = isr, version, None
        self.last_isr_change = now
        self.update_maximal_isr()

    def update_maximal_isr(self) -> None:
        """Set the followers that the high watermark waits for: the ISR and a proposed one (KIP-497's maximal ISR).

        The quorum may already have stored the proposed ISR. Simplification: Partition.maybeIncrementLeaderHW also waits
        for replicas outside of the ISR that caught up within replica.lag.time.max.ms, so that they can join.
        """
        members = set(self.isr)
        if self.pending_isr is not None:
            members.update(self.pending_isr.isr)
        self.maximal_isr = tuple(follower for node, follower in self.followers.items() if node in members)

    # --- writes

    def append(self, batch: ProducerBatch, acks: int, uid: int) -> BatchResult:
        """Append a producer's batch as leader."""
        if acks == -1 and not self.rules.has_enough_replicas(self):
            return BatchResult(errors.NOT_ENOUGH_REPLICAS, -1)
        log = self.log
        if batch.pid >= 0:
            refusal = self._check_sequence(batch)
            if refusal is not None:
                return refusal
        base = log.end
        epoch = self.epoch if self.rules.era.epochs_in_log else -1
        log.append(
            Batch(
                base,
                base + batch.count,
                batch.producer,
                batch.first,
                epoch,
                batch.timestamp,
                uid,
                batch.pid,
                batch.producer_epoch,
                batch.sequence,
            )
        )
        return BatchResult(errors.NONE, base)

    def _check_sequence(self, batch: ProducerBatch) -> BatchResult | None:
        """The refusal of an idempotent producer's batch; None if it may be appended (ProducerStateManager's checks).

        Since 2.5 an unknown producer may begin with any sequence number. A marker has -2 or less.
        """
        state = self.log.producers.get(batch.pid)
        if state is None:
            return None
        if batch.producer_epoch < state.epoch:
            return BatchResult(errors.INVALID_PRODUCER_EPOCH, -1)
        if batch.producer_epoch > state.epoch:
            return None if batch.sequence <= 0 else BatchResult(errors.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        recent = state.recent
        expected = recent[-1].last_sequence + 1 if recent else 0
        if batch.sequence == expected or batch.sequence < 0:
            return None
        last = batch.sequence + batch.count - 1
        for appended in recent:
            if appended.sequence == batch.sequence and appended.last_sequence == last:
                return BatchResult(errors.DUPLICATE_SEQUENCE_NUMBER, appended.base)
        return BatchResult(errors.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)

    def advance_high_watermark(self) -> bool:
        """Advance the leader's high watermark if possible; returns whether it moved."""
        mark = self.rules.high_watermark(self)
        if mark > self.hw:
            self.hw = mark
            return True
        return False

    def error_of_committed(self) -> str:
        """The error of a write that reached the high watermark (Partition.checkEnoughReplicasReachOffset)."""
        return errors.NONE if self.rules.has_enough_replicas(self) else errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # --- followers, as seen by the leader

    def record_fetch(self, node: int, offset: int, start: int, now: int) -> FollowerProgress | None:
        """A follower fetches from `offset`, so it has everything below (Replica.updateFetchStateOrThrow)."""
        follower = self.followers.get(node)
        if follower is None:
            return None
        end = self.log.end
        if offset >= end:
            if now > follower.caught_up:  # the clock may have been set back
                follower.caught_up = now
        elif offset >= follower.fetch_leo:
            # It has everything that the log had at its previous fetch.
            follower.caught_up = max(follower.caught_up, follower.fetch_time)
        follower.leo = offset
        follower.start = start
        follower.fetch_time = now
        follower.fetch_leo = end
        return follower

    def expanded_isr(self, node: int) -> tuple[int, ...] | None:
        """The ISR with this follower in it, if it may join now."""
        if node in self.isr or self.pending_isr is not None:
            return None
        return (*self.isr, node) if self.rules.may_join_isr(self, self.followers[node]) else None

    def out_of_sync_followers(self, now: int) -> tuple[int, ...]:
        """Followers of the ISR that fell behind."""
        if self.pending_isr is not None or len(self.isr) == 1:
            return ()
        rules = self.rules
        return tuple(
            node for node in self.isr if node != self.broker and rules.is_out_of_sync(self, self.followers[node], now)
        )
