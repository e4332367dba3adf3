"""Records the acknowledgements, truncations, elections and reads of a run, for truth.json and the invariants.

No part of the protocol reads it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .acks import Ack, Acks, Loss, Ranges, add_range, missing_parts, value_ranges
from .event_loop import EventLoop
from .loss_causes import RivalLeaders, Truncation, explain_loss
from .partition_state import PartitionState
from .ports import AppendListener, Records, ReplicaView
from .producer_batch import ProducerBatch
from .storage.batches import Batch
from .storage.packed_rows import Rows
from .storage.replica_log import ReplicaLog
from .storage.transactions import FIRST_TRANSACTIONAL


@dataclass(frozen=True, slots=True)
class Breach:
    """An invariant that was broken, in the run or in its result."""

    invariant: str
    time: int
    partition: int
    text: str
    base: int = -1  # the offsets concerned, `end` not included; -1 if there are none
    end: int = -1


class PositionReset(NamedTuple):
    """A reset of a consumer's position in a partition."""

    consumer: str
    partition: int
    before: int
    after: int


class Election(NamedTuple):
    """The quorum's state of a partition before and after the election of a leader."""

    before: PartitionState
    after: PartitionState


class NewestLeader(NamedTuple):
    """The leader of a partition's newest epoch, the quorum's state when it began to lead, and its election."""

    replica: ReplicaView
    state: PartitionState
    election: Election


class Ledger:
    """The events of a run. It also checks the few invariants that can only be checked during the run."""

    def __init__(
        self,
        partitions: int,
        loop: EventLoop,
        states: Sequence[PartitionState],
        logs_of: Callable[[int], dict[int, ReplicaLog]],
        is_responsive: Callable[[int], bool],
    ) -> None:
        self._loop = loop
        self._states = states  # in the quorum, by partition
        self._logs_of = logs_of  # partition -> broker -> its log
        self._is_responsive = is_responsive  # of a broker
        self.acks = [Acks() for _ in range(partitions)]
        # producer -> ranges of value numbers that leaders wrote, and that they wrote more than once
        self.written: list[dict[int, Ranges]] = [{} for _ in range(partitions)]
        self.rewritten: list[dict[int, Ranges]] = [{} for _ in range(partitions)]
        self.acknowledged_end: dict[int, int] = {}  # partition -> offset after the last acknowledged record
        self.truncations: list[list[Truncation]] = [[] for _ in range(partitions)]
        self.leaders: list[dict[int, int]] = [{} for _ in range(partitions)]  # leader epoch -> broker
        self.elected: list[dict[int, Election]] = [{} for _ in range(partitions)]  # by leader epoch
        self.rivals: list[RivalLeaders] = []
        self.newest: list[NewestLeader | None] = [None] * partitions
        self.breaches: list[Breach] = []
        # partition -> producer -> ranges of value numbers that some consumer polled
        self.polled_values: dict[int, dict[int, Ranges]] = _nested_ranges()
        self.read_by: dict[str, dict[int, Ranges]] = _nested_ranges()  # consumer -> partition -> offsets that it polled
        self.handled_by: dict[str, dict[int, Ranges]] = _nested_ranges()  # and that its application handled
        self.resets: list[PositionReset] = []
        self.latencies = array("q")  # from a batch's first record to its acknowledgement, microseconds
        self.append_listener: AppendListener | None = None  # set by a tracer
        self.transaction_listener: AppendListener | None = None  # gets the batches of transactional producers
        self.shrinks = 0
        self.elections = 0
        self.unclean_elections = 0
        self._committed = [Rows() for _ in range(partitions)]  # base, end, uid
        self._committed_end = [0] * partitions

    # --- acknowledgements and commits

    def on_appended(self, batch: ProducerBatch, epoch: int) -> None:
        """A leader appended these values, perhaps not for the first time."""
        batch.epoch = epoch
        if batch.pid >= FIRST_TRANSACTIONAL and self.transaction_listener is not None:
            self.transaction_listener(batch)
        first, end = batch.first, batch.first + batch.count
        known = self.written[batch.partition].setdefault(batch.producer, [])
        if known and known[-1][1] > first:
            for low, high in known[max(0, bisect_left(known, (first, 0)) - 1) :]:
                if low < end and high > first:
                    again = self.rewritten[batch.partition].setdefault(batch.producer, [])
                    add_range(again, max(first, low), min(end, high))
        add_range(known, first, end)
        if self.append_listener is not None:
            self.append_listener(batch)

    def on_acknowledged(self, batch: ProducerBatch, base: int) -> None:
        """A producer got the acknowledgement of a batch."""
        partition, time = batch.partition, self._loop.now
        end = base + batch.count
        row = (base, end, batch.producer, batch.first, time, batch.epoch, self._states[partition].isr)
        all_acks = self.acks[partition]
        all_acks.append(row)
        self.latencies.append(time - batch.created)
        newest = self.newest[partition]
        if newest is not None and newest.state.epoch > batch.epoch and not (ack := Ack(*row)).is_in(newest.replica.log):
            # Acknowledged by a leader that was already replaced, so no later election reveals the loss.
            all_acks.losses[len(all_acks) - 1] = self._explain(ack, newest, time)
        if end > self.acknowledged_end.get(partition, 0):
            self.acknowledged_end[partition] = end

    def on_high_watermark(self, replica: ReplicaView) -> None:
        """A leader's high watermark moved: the records below it are committed, and must never change."""
        partition = replica.partition
        mark, end = replica.hw, self._committed_end[partition]
        if mark > end:
            for batch in replica.log.read(max(end, replica.log.start), 1 << 30, mark):
                self._committed[partition].append((batch.base, batch.end, batch.uid))
            self._committed_end[partition] = mark

    def on_truncated(self, broker: int, partition: int, batches: list[Batch], end: int, reason: str) -> None:
        """A broker truncated its log, perhaps without removing records."""
        self.truncations[partition].append(Truncation(self._loop.now, broker, batches, end, reason))

    def on_delete_records(self, partition: int, log: ReplicaLog, offset: int, delete: Callable[[], None]) -> None:
        """Record what a leader's log lacks below an offset, and what a deletion removes there."""
        newest, acks = self.newest[partition], self.acks[partition]
        gone: list[tuple[Ack, Loss]] = []
        for part, loss in self.missing_acks(partition, log):
            above = part.since(log.start)
            if above is not None and (below := above.until(offset)) is not None:
                gone.append((below, loss))
        before, held = log.start, list(log.read(log.start, 1 << 30, offset))
        delete()
        if log.start == before:
            return
        acks.lost_before_deletion += gone
        for batch in held if newest is not None and newest.replica.log is log else ():
            add_range(acks.deleted.setdefault(batch.producer, []), batch.first, batch.values_end)

    def on_compacted(self, partition: int, log: ReplicaLog) -> None:
        """Record the values that compaction removed from a leader's log at all of their offsets: they are no loss if
        these are truncated later.
        """
        newest, deleted = self.newest[partition], self.acks[partition].deleted
        if newest is None or newest.replica.log is not log:
            return
        left = {(batch.producer, batch.first + index) for batch in log.batches() for index in batch.remaining()}
        for batch in log.batches():
            for value in range(batch.first, batch.values_end) if batch.removed else ():
                if (batch.producer, value) not in left:
                    add_range(deleted.setdefault(batch.producer, []), value, value + 1)

    # --- elections

    def on_stored(self, partition: int, before: PartitionState, after: PartitionState) -> None:
        """The quorum stored a change of a partition."""
        if len(after.isr) < len(before.isr):
            self.shrinks += 1
        if after.leader >= 0 and after.epoch > before.epoch:
            self.elected[partition][after.epoch] = Election(before, after)
        if after.leader >= 0 and after.epoch > before.epoch and after.leader != before.leader:
            self.elections += 1
            self.unclean_elections += after.is_unclean

    def on_leader(self, replica: ReplicaView, state: PartitionState) -> None:
        """Check that a new leader's log has all committed and acknowledged records."""
        partition, broker = replica.partition, replica.broker
        other = self.leaders[partition].setdefault(state.epoch, broker)
        if other != broker:
            self.rivals.append(RivalLeaders(partition, state.epoch, other, broker))
            what = f"brokers {other} and {broker} both lead epoch {state.epoch}"
            self._breach("one-leader-per-epoch", partition, what)
        known = self._states[partition]
        if known.epoch > state.epoch:
            return  # its leadership is already over
        self._check_committed(replica)
        newest = self.newest[partition]
        if newest is not None and newest.state.epoch == state.epoch:
            # A leader that resumes in its own epoch was not elected again, so the ISR is the current one.
            self.elected[partition][state.epoch] = Election(known, state)
        election = self._election_of(replica, state, newest.state.epoch if newest is not None else -1)
        newest = self.newest[partition] = NewestLeader(replica, state, election)
        acks = self.acks[partition]
        known_losses = acks.losses if other == broker else {}  # a second leader shows why the first one lacked records
        acks.losses = {
            number: known_losses.get(number) or self._explain(ack, newest, self._loop.now)
            for number, ack in acks.missing_from(replica.log)
        }

    def _check_committed(self, replica: ReplicaView) -> None:
        partition, log = replica.partition, replica.log
        committed = self._committed[partition]
        gone: tuple[int, int, int] | None = None  # the number of the first missing row, its offset, and the end
        for number, (base, end, uid) in enumerate(committed.rows()):
            if end <= log.start:
                continue
            base = max(base, log.start)
            held = log.at(base)
            if held is not None and held.uid == uid and held.end < end:
                held = log.at(end - 1)
            if held is None or held.uid != uid:
                gone = (gone[0], gone[1], end) if gone else (number, base, end)
            elif gone:
                break
        if gone is None:
            return
        number, base, end = gone
        self._breach(
            "no-committed-loss",
            partition,
            f"broker {replica.broker} leads epoch {replica.epoch} without the committed {offsets(base, end)}",
            (base, end),
        )
        committed.cut(number)
        self._committed_end[partition] = min(base, log.end)

    def explain_late(self, ack: Ack, partition: int) -> Loss:
        """The cause of a loss that no election revealed: the leader was already replaced, or lost it later."""
        newest = self.newest[partition]
        assert newest is not None
        return self._explain(ack, newest, ack.time)

    def _election_of(self, leader: ReplicaView, state: PartitionState, since: int) -> Election:
        """The election that made a broker the leader in this state.

        If it was already elected uncleanly after the epoch `since`, but did not begin to lead, that first election
        counts. If others were, and did not begin to lead either, the state before is that before the first of them.
        """
        elected = self.elected[leader.partition]
        own = elected.get(state.epoch, Election(state, state))
        unseen = [elected[epoch] for epoch in range(since + 1, state.epoch) if epoch in elected]
        unclean = [one for one in unseen if one.after.is_unclean]
        again = [one for one in unclean if one.after.leader == leader.broker]
        if again or not own.after.is_unclean:
            return [*again, own][0]
        return Election([*unclean, own][0].before, own.after)

    def _explain(self, ack: Ack, newest: NewestLeader, time: int) -> Loss:
        leader, (before, after) = newest.replica, newest.election
        partition = leader.partition
        rivals = [one for one in self.rivals if one.partition == partition]
        truncations = self.truncations[partition]
        return explain_loss(ack, leader, after, before, self._logs_of(partition), truncations, rivals, time)

    def missing_acks(self, partition: int, log: ReplicaLog) -> list[tuple[Ack, Loss]]:
        """The acknowledged values that a leader's log has at no offset and no deletion removed, with their causes."""
        acks = self.acks[partition]
        gone = list(acks.missing_from(log))
        held = value_ranges(log, {ack.producer for _, ack in gone})
        found: list[tuple[Ack, Loss]] = []
        for number, ack in gone:
            loss = acks.losses.get(number) or self.explain_late(ack, partition)
            for part in missing_parts(ack, held.get(ack.producer, [])):
                found += [(rest, loss) for rest in missing_parts(part, acks.deleted.get(ack.producer, []))]
        return found

    def on_isr_shrink(self, replica: ReplicaView, out: tuple[int, ...], wall: int) -> None:
        """Check that no follower that caught up in time is removed from an ISR; `wall` is the leader's clock."""
        limit = replica.config.lag_time_max
        for node in out:
            behind = wall - replica.followers[node].caught_up
            if behind <= limit and self._is_responsive(node):
                self._breach(
                    "no-false-shrink",
                    replica.partition,
                    f"follower {node} was removed from the ISR though it caught up {behind // 1000} ms ago",
                )

    # --- consumers

    def on_polled(self, name: str, partition: int, batch: Batch) -> None:
        """A consumer's poll returned these records."""
        first = batch.first
        add_range(self.polled_values[partition][batch.producer], first, first + batch.end - batch.base)
        _extend(self.read_by[name][partition], batch)

    def on_handled(self, name: str, records: Records) -> None:
        """A consumer's application handled these records."""
        for partition, batch in records:
            _extend(self.handled_by[name][partition], batch)

    def on_reset(self, name: str, partition: int, before: int, after: int) -> None:
        """A consumer's position was reset."""
        self.resets.append(PositionReset(name, partition, before, after))

    def on_empty_poll(self, name: str, position: Mapping[int, int], acknowledged: Mapping[int, int]) -> None:
        """Check that no record at the position of an empty poll was acknowledged before it began."""
        for partition, end in acknowledged.items():
            if position.get(partition, end) < end:
                self._breach(
                    "no-stale-read",
                    partition,
                    f"{name} polled nothing at {position[partition]}, though {end - 1} was acknowledged before",
                    (end - 1, end),
                )

    def _breach(self, invariant: str, partition: int, text: str, about: tuple[int, int] = (-1, -1)) -> None:
        if len(self.breaches) < 1000:
            self.breaches.append(Breach(invariant, self._loop.now, partition, text, *about))


def _nested_ranges() -> Any:
    """Ranges by two keys; those of new keys are empty."""
    return defaultdict(lambda: defaultdict(list))


def _extend(known: Ranges, batch: Batch) -> None:
    """Add a batch's range of offsets; adjacent ranges become one."""
    base = batch.base
    if known and known[-1][1] == base:
        base, _ = known.pop()
    known.append((base, batch.end))


def offsets(base: int, end: int) -> str:
    """A range of offsets as text; `end` is the offset after the last."""
    return f"offset {base}" if end == base + 1 else f"offsets {base} to {end - 1}"
