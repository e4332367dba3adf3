"""What really happens in a run, noted where it happens: acknowledgements, truncations, elections, reads.

The brokers never look at it. It is the truth that a bundle's truth.json tells and the invariants are
checked on.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .acks import Ack, Acks, Loss
from .batches import Batch
from .packed import Rows
from .state import PartitionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from .broker import Broker
    from .consumer import Consumer
    from .log import ReplicaLog
    from .process import Process
    from .producer import ProducerBatch
    from .replica import Replica


@dataclass(frozen=True, slots=True)
class Removal:
    """Records cut from one broker's log, and where it ended then."""

    time: int
    broker: int
    batches: list[Batch]
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class Breach:
    """An invariant seen broken while the run went on."""

    invariant: str
    time: int
    partition: int
    text: str
    base: int = -1  # the offsets that it is about, `end` not included; -1 where it is about none
    end: int = -1


class Ledger:
    """Collects; judges nothing but the few invariants that must be seen at the moment."""

    def __init__(self, partitions: int, logs: Callable[[int], dict[int, ReplicaLog]]) -> None:
        self.logs = logs  # partition -> broker -> its log
        self.acks = [Acks() for _ in range(partitions)]
        # producer -> sorted ranges of value numbers that leaders wrote, and that they wrote more than once
        self.written: list[dict[int, list[tuple[int, int]]]] = [{} for _ in range(partitions)]
        self.rewritten: list[dict[int, list[tuple[int, int]]]] = [{} for _ in range(partitions)]
        self.acknowledged_end: dict[int, int] = {}  # partition -> end of what is acknowledged
        self.removals: list[list[Removal]] = [[] for _ in range(partitions)]
        self.leaders: list[dict[int, int]] = [{} for _ in range(partitions)]  # leader epoch -> broker
        self.states: list[PartitionState | None] = [None] * partitions  # as the quorum has them
        # leader epoch -> the quorum's state before it; and who began to lead last
        self.elected: list[dict[int, PartitionState]] = [{} for _ in range(partitions)]
        self.rivals: list[tuple[int, int, int, int]] = []  # partition, leader epoch, and two brokers that led it
        self.newest: list[tuple[Replica, PartitionState] | None] = [None] * partitions
        self.breaches: list[Breach] = []
        # partition -> producer -> sorted ranges of value numbers that some consumer polled
        self.seen: dict[int, dict[int, list[tuple[int, int]]]] = {}
        self.read_by: dict[str, dict[int, list[tuple[int, int]]]] = {}  # polled, and handled, offset ranges
        self.handled_by: dict[str, dict[int, list[tuple[int, int]]]] = {}
        self.resets: list[tuple[str, int, int, int]] = []  # consumer, partition, from, to
        self.latencies = array("q")  # from a batch's first record to its acknowledgement, microseconds
        self.witness: Callable[[ProducerBatch], None] | None = None  # is told of appends, where a story is asked for
        self.shrinks = 0
        self.elections = 0
        self.unclean_elections = 0
        self._committed = [Rows() for _ in range(partitions)]  # base, end, uid
        self._committed_end = [0] * partitions

    # --- acknowledgements and commits

    def appended(self, batch: ProducerBatch, epoch: int) -> None:
        """A leader wrote these values, perhaps not for the first time."""
        batch.epoch = epoch
        first, end = batch.first, batch.first + batch.count
        known = self.written[batch.partition].setdefault(batch.producer, [])
        if known and known[-1][1] > first:
            for low, high in known[max(0, bisect_left(known, (first, 0)) - 1) :]:
                if low < end and high > first:
                    again = self.rewritten[batch.partition].setdefault(batch.producer, [])
                    merge(again, max(first, low), min(end, high))
        merge(known, first, end)
        if self.witness is not None:
            self.witness(batch)

    def acknowledged(self, batch: ProducerBatch, base: int, acks: int, time: int) -> None:
        partition = batch.partition
        known = self.states[partition]
        isr = known.isr if known is not None else ()
        end = base + batch.count
        row = (base, end, batch.producer, batch.first, acks, time, batch.epoch, isr)
        kept = self.acks[partition]
        kept.append(row)
        self.latencies.append(time - batch.created)
        newest = self.newest[partition]
        if newest is not None and newest[1].epoch > batch.epoch and not (ack := Ack(*row)).held_by(newest[0].log):
            # Acknowledged by a leader that was already replaced: nobody begins to lead without it later.
            kept.losses[len(kept) - 1] = self._explain(ack, *newest, time)
        if end > self.acknowledged_end.get(partition, 0):
            self.acknowledged_end[partition] = end

    def committed(self, replica: Replica) -> None:
        """A leader's high watermark moved: what is below it was exposed, and must never change."""
        partition = replica.partition
        mark, end = replica.hw, self._committed_end[partition]
        if mark > end:
            for batch in replica.log.read(max(end, replica.log.start), 1 << 30, mark):
                self._committed[partition].append((batch.base, batch.end, batch.uid))
            self._committed_end[partition] = mark

    def removed(self, broker: int, partition: int, batches: list[Batch], end: int, reason: str, time: int) -> None:
        self.removals[partition].append(Removal(time, broker, batches, end, reason))

    # --- elections

    def changed(self, partition: int, before: PartitionState, after: PartitionState) -> None:
        """The quorum's state of a partition changed."""
        self.states[partition] = after
        if len(after.isr) < len(before.isr):
            self.shrinks += 1
        if after.leader >= 0 and after.epoch > before.epoch:
            self.elected[partition][after.epoch] = before
        if after.leader >= 0 and after.epoch > before.epoch and after.leader != before.leader:
            self.elections += 1
            self.unclean_elections += after.unclean

    def led(self, broker: Broker, replica: Replica, state: PartitionState) -> None:
        """A broker begins to lead: is everything there that was committed, and what was acknowledged?"""
        partition = replica.partition
        other = self.leaders[partition].setdefault(state.epoch, broker.id)
        now = broker.loop.now
        if other != broker.id:
            self.rivals.append((partition, state.epoch, other, broker.id))
            self._breach("one-leader-per-epoch", now, partition, f"{other} and {broker.id} lead epoch {state.epoch}")
        known = self.states[partition]
        if known is not None and known.epoch > state.epoch:
            return  # it learns late of a leadership that is already over
        self._check_committed(replica, now)
        newest = self.newest[partition]
        if newest is not None and newest[1].epoch == state.epoch and known is not None:
            # A leader that comes back in its own epoch was not elected again: the ISR is as it stands.
            self.elected[partition][state.epoch] = known
        self.newest[partition] = (replica, state)
        acks = self.acks[partition]
        acks.losses = {
            number: acks.losses.get(number) or self._explain(ack, replica, state, now)
            for number, ack in acks.missing_from(replica.log)
        }

    def _check_committed(self, replica: Replica, now: int) -> None:
        partition, log = replica.partition, replica.log
        committed = self._committed[partition]
        gone: tuple[int, int, int] | None = None  # the first row that is missing, and the offsets from it on that are
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
            now,
            partition,
            f"broker {replica.broker} leads epoch {replica.epoch} without the committed {offsets(base, end)}",
            (base, end),
        )
        committed.cut(number)
        self._committed_end[partition] = min(base, log.end)

    def _explain(self, ack: Ack, replica: Replica, state: PartitionState, now: int) -> Loss:
        """The design's cause of a loss, from what this leader did with the record and how it was elected."""
        partition, broker = replica.partition, replica.broker
        before = self.elected[partition].get(state.epoch, state)
        cut = above = None
        dark: set[int] = set()  # brokers whose disks lost the record with the power
        had = {node for node, log in self.logs(partition).items() if ack.held_by(log)}
        for removal in self.removals[partition]:
            these = any(ack.same(batch) for batch in removal.batches)
            if these:
                (dark if removal.reason == "unclean-disk" else had).add(removal.broker)
            if removal.broker == broker and these:
                cut = removal
            elif removal.broker == broker and removal.reason == "high-watermark" and removal.time > ack.time:
                above = removal if removal.end > ack.base else above
        if len(dark.intersection(ack.isr)) > 1 and not had.difference(dark).intersection(ack.isr):
            # Nobody was the last to stand, and whoever is elected now takes nothing away.
            cause, detail = "correlated-failure", "all in sync that had it lost their unflushed tails with the power"
        elif state.unclean and not state.recalled:
            cause, detail = "unclean-election", "it was not in the ISR"
        elif (
            cut is not None
            and cut.reason == "unclean-disk"
            # The change that recalls the last known leader may be the one that empties the ELR.
            and (state.recalled or {*before.isr, *before.elr} <= {broker})
        ):
            cause, detail = "last-replica-standing", "its unflushed tail was lost with the power"
        elif cut is not None and cut.reason == "unclean-disk":
            cause, detail = (
                "unknown",
                "it was one of several in the ISR, and its unflushed tail was lost with the power",
            )
        elif cut is not None and cut.reason == "high-watermark":
            cause, detail = "high-watermark-truncation", "it had truncated to its high watermark"
        elif cut is not None:
            cause, detail = "leader-epoch-divergence", "it had truncated to the answer for its leader epoch"
        elif ack.acks == 1:
            cause, detail = "single-ack-failover", "it had not fetched what the leader alone acknowledged"
        elif above is not None:
            cause, detail = (
                "high-watermark-truncation",
                "it had truncated to its high watermark, and kept other records",
            )
        else:
            # Without fencing a replica can join the ISR below what was committed (KAFKA-7128), and without
            # waiting for replicas there is nothing to join; the design has no name for either.
            cause, detail = "unknown", "it was in the ISR and never had it"
        return Loss(cause, detail, now, broker, state.epoch)

    def explain_late(self, ack: Ack, partition: int) -> Loss:
        """For a loss that no election showed: acknowledged by a leader already replaced, or lost after it."""
        newest = self.newest[partition]
        assert newest is not None
        return self._explain(ack, *newest, ack.time)

    def shrunk(self, broker: Process, replica: Replica, out: tuple[int, ...], now: int) -> None:
        """An ISR is about to shrink: was any of those taken out well?"""
        limit = replica.config.lag_time_max
        for node in out:
            remote = replica.remotes[node]
            if now - remote.caught_up <= limit and broker.cluster.brokers[node].answers():
                self._breach(
                    "no-false-shrink",
                    broker.loop.now,
                    replica.partition,
                    f"follower {node} was taken out of the ISR though it caught up "
                    f"{(now - remote.caught_up) // 1000} ms ago",
                )

    # --- consumers

    def read(self, name: str, partition: int, batch: Batch) -> None:
        merge(
            self.seen.setdefault(partition, {}).setdefault(batch.producer, []),
            batch.first,
            batch.first + batch.end - batch.base,
        )
        _extend(self.read_by, name, partition, batch)

    def handled(self, name: str, given: list[tuple[int, Batch]]) -> None:
        for partition, batch in given:
            _extend(self.handled_by, name, partition, batch)

    def reset(self, name: str, partition: int, before: int, after: int) -> None:
        self.resets.append((name, partition, before, after))

    def polled_nothing(self, consumer: Consumer, acknowledged: dict[int, int], now: int) -> None:
        """A poll found nothing though something acknowledged before it began stands at its position."""
        for partition, end in acknowledged.items():
            if consumer.position.get(partition, end) < end and not consumer.goal:
                self._breach(
                    "no-stale-read",
                    now,
                    partition,
                    f"{consumer.name} polled nothing at {consumer.position[partition]}, "
                    f"though {end - 1} was acknowledged before",
                    (end - 1, end),
                )

    def _breach(self, invariant: str, time: int, partition: int, text: str, about: tuple[int, int] = (-1, -1)) -> None:
        if len(self.breaches) < 1000:
            self.breaches.append(Breach(invariant, time, partition, text, *about))


def merge(ranges: list[tuple[int, int]], first: int, end: int) -> None:
    """Add a range to a sorted list of ranges that do not touch."""
    if not ranges or ranges[-1][1] < first:
        ranges.append((first, end))
        return
    if ranges[-1][1] == first:
        ranges[-1] = (ranges[-1][0], end)
        return
    place = bisect_left(ranges, (first, 0))
    if place and ranges[place - 1][1] >= first:
        place -= 1
        first = ranges[place][0]
    last = place
    while last < len(ranges) and ranges[last][0] <= end:
        end = max(end, ranges[last][1])
        last += 1
    ranges[place:last] = [(first, end)]


def _extend(ranges: dict[str, dict[int, list[tuple[int, int]]]], name: str, partition: int, batch: Batch) -> None:
    """Add a range of offsets; ranges that continue one another are kept as one."""
    mine = ranges.setdefault(name, {}).setdefault(partition, [])
    if mine and mine[-1][1] == batch.base:
        mine[-1] = (mine[-1][0], batch.end)
    else:
        mine.append((batch.base, batch.end))


def offsets(base: int, end: int) -> str:
    """A range of offsets in words; `end` is the offset after the last."""
    return f"offset {base}" if end == base + 1 else f"offsets {base} to {end - 1}"
