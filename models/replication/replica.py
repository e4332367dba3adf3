"""One broker's replica of one partition: its log, its high watermark, and when it leads, what it knows of
the others.

The leader learns a follower's log end from the offset that the follower fetches next, and the follower
learns the high watermark from the answer, one round trip later: that lag is what KIP-101 is about.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from .batches import Batch
from .config import Config
from .log import ReplicaLog
from .requests import (
    DUPLICATE,
    NONE,
    NOT_ENOUGH,
    NOT_ENOUGH_AFTER,
    OLD_PRODUCER,
    OUT_OF_ORDER,
    AlterIsr,
    ProduceRequest,
)
from .state import NO_LEADER, PartitionState

if TYPE_CHECKING:
    from .producer import ProducerBatch
    from .protocol import Protocol


class Remote:
    """What a leader knows of one follower."""

    __slots__ = ("caught_up", "fetch_leo", "fetch_time", "leo", "start")

    def __init__(self, caught_up: int) -> None:
        self.leo = -1  # unknown until its first fetch
        self.start = 0  # its log start offset
        self.caught_up = caught_up  # lastCaughtUpTimeMs, in microseconds on the leader's clock
        self.fetch_time = 0
        self.fetch_leo = -1  # the leader's own end at that fetch


class Replica:
    """The state of one partition on one broker, and the rules of a leader. It sends nothing itself."""

    __slots__ = (
        "alter",
        "broker",
        "checkpointed_hw",
        "config",
        "epoch",
        "epoch_start",
        "hw",
        "isr",
        "last_isr_change",
        "leader",
        "log",
        "log_view",
        "low_watermark",
        "partition",
        "purgatory",
        "remotes",
        "replicas",
        "rules",
        "version",
        "waited",
    )

    def __init__(self, broker: int, partition: int, rules: Protocol, config: Config) -> None:
        self.broker = broker
        self.partition = partition
        self.rules = rules
        self.config = config
        self.log = ReplicaLog()
        self.hw = 0
        self.checkpointed_hw = 0  # what replication-offset-checkpoint says
        self.leader = NO_LEADER
        self.epoch = -1
        self.epoch_start = 0
        self.log_view = -1  # the latest leader epoch whose history this log is known to contain
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.version = -1
        self.alter: AlterIsr | None = None  # the ISR change that waits for an answer
        self.last_isr_change = 0
        self.remotes: dict[int, Remote] = {}
        self.waited: tuple[Remote, ...] = ()  # the followers that the high watermark waits for
        self.low_watermark = 0
        # produce requests with acks=all: (offset to reach, request, index of its batch, base offset)
        self.purgatory: deque[tuple[int, ProduceRequest, int, int]] = deque()

    @property
    def leads(self) -> bool:
        return self.leader == self.broker

    def start_leading(self, state: PartitionState, now: int) -> None:
        """Take the lead in a new epoch (Partition.makeLeader). Nothing is truncated; the high watermark
        stays."""
        self._follow_state(state)
        self.epoch_start = self.log.end
        self.log_view = state.epoch
        # Simplification: kip-101 and kip-279 too begin the epoch here, as Kafka does since KAFKA-7415 (2.0.1);
        # before, it began with its first batch.
        if self.rules.epochs_in_log:
            self.log.assign_epoch(state.epoch, self.log.end)
        # A replica in the ISR gets the benefit of the doubt for one lag time.
        self.remotes = {r: Remote(now if r in state.isr else 0) for r in state.replicas if r != self.broker}
        self.await_isr()

    def start_following(self, state: PartitionState) -> None:
        self._follow_state(state)
        self.remotes = {}
        self.waited = ()

    def _follow_state(self, state: PartitionState) -> None:
        self.replicas = state.replicas
        self.leader, self.epoch = state.leader, state.epoch
        self.isr, self.version = state.isr, state.version
        self.alter = None

    def take_isr(self, isr: tuple[int, ...], version: int, now: int) -> None:
        self.isr, self.version, self.alter = isr, version, None
        self.last_isr_change = now
        self.await_isr()

    def await_isr(self) -> None:
        """The high watermark waits for the ISR and for those about to join it (KIP-497's maximal ISR): a
        change under way may already be in force elsewhere. Simplification: Partition.maybeIncrementLeaderHW
        also waits for those outside who were level within replica.lag.time.max.ms, so that they can join."""
        members = set(self.isr)
        if self.alter is not None:
            members.update(self.alter.isr)
        self.waited = tuple(remote for node, remote in self.remotes.items() if node in members)

    # --- writes

    def append(self, batch: ProducerBatch, acks: int, uid: int) -> tuple[str, int]:
        """Append a producer's batch as leader: (error, base offset)."""
        if acks == -1 and not self.rules.enough(self):
            return NOT_ENOUGH, -1
        log = self.log
        if batch.pid >= 0:
            error, base = self._check_sequence(batch)
            if error:
                return error, base
        base = log.end
        epoch = self.epoch if self.rules.epochs_in_log else -1
        log.append(
            Batch(
                base,
                base + batch.count,
                epoch,
                batch.producer,
                batch.first,
                batch.created,
                uid,
                batch.pid,
                batch.producer_epoch,
                batch.sequence,
            )
        )
        return NONE, base

    def _check_sequence(self, batch: ProducerBatch) -> tuple[str, int]:
        """Idempotence: ProducerStateManager's checks. A producer unknown here may begin anywhere, since
        2.5."""
        state = self.log.producers.get(batch.pid)
        if state is None:
            return NONE, -1
        if batch.producer_epoch < state.epoch:
            return OLD_PRODUCER, -1
        if batch.producer_epoch > state.epoch:
            return (NONE, -1) if batch.sequence == 0 else (OUT_OF_ORDER, -1)
        last = batch.sequence + batch.count - 1
        for first, end, base in state.recent:
            if first == batch.sequence and end == last:
                return DUPLICATE, base
        expected = state.recent[-1][1] + 1 if state.recent else 0
        return (NONE, -1) if batch.sequence == expected else (OUT_OF_ORDER, -1)

    def advance(self) -> bool:
        """Move the leader's high watermark up if it can; say whether it moved."""
        mark = self.rules.high_watermark(self)
        if mark > self.hw:
            self.hw = mark
            return True
        return False

    def outcome(self) -> str:
        """Of a write that reached the high watermark (Partition.checkEnoughReplicasReachOffset)."""
        return NONE if self.rules.enough(self) else NOT_ENOUGH_AFTER

    # --- followers, as seen by the leader

    def note_fetch(self, follower: int, offset: int, start: int, now: int) -> Remote | None:
        """A follower fetches from `offset`, so it has everything below (Replica.updateFetchStateOrThrow)."""
        remote = self.remotes.get(follower)
        if remote is None:
            return None
        end = self.log.end
        if offset >= end:
            if now > remote.caught_up:  # the clock may have been set back
                remote.caught_up = now
        elif offset >= remote.fetch_leo:
            # It has everything there was at its previous fetch.
            remote.caught_up = max(remote.caught_up, remote.fetch_time)
        remote.leo = offset
        remote.start = start
        remote.fetch_time = now
        remote.fetch_leo = end
        return remote

    def joining(self, follower: int, remote: Remote) -> tuple[int, ...] | None:
        """The ISR with this follower in it, if it may join now."""
        if follower in self.isr or self.alter is not None or not self.rules.may_join(self, remote):
            return None
        return (*self.isr, follower)

    def lagging(self, now: int) -> tuple[int, ...]:
        """Followers of the ISR that fell behind."""
        if self.alter is not None or len(self.isr) == 1:
            return ()
        rules = self.rules
        return tuple(
            node for node in self.isr if node != self.broker and rules.out_of_sync(self, self.remotes[node], now)
        )

    def lowest_start(self) -> int:
        """The low watermark (LW): the smallest log start offset of all replicas, as the leader knows them."""
        return min([self.log.start, *(remote.start for remote in self.remotes.values())])
