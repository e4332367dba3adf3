"""Finds the losses of a finished run with their causes, and divergence, duplicates, reordering and transactions.

Results are ranges of offsets, so a large loss is a short list.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter
from typing import Any, NamedTuple

from ..replication.acks import Ack, Loss, Ranges, missing_parts, value_ranges
from ..replication.cluster import Cluster
from ..replication.storage.batches import Batch
from ..replication.storage.replica_log import ReplicaLog
from .compaction_truth import NewestRecords

OffsetRanges = list[tuple[int, int]]  # first and last offset, both included
Divergences = dict[int, dict[tuple[int, int], OffsetRanges]]  # partition -> pair of brokers -> offsets


@dataclass(frozen=True, slots=True)
class LostAck:
    """An acknowledged batch that is not in the final leader's log."""

    partition: int
    ack: Ack
    loss: Loss
    was_read: bool  # a consumer had polled some of it


@dataclass(frozen=True, slots=True)
class Repeat:
    """Values of a producer that are in a log twice, or after later ones."""

    partition: int
    producer: int
    first: int
    count: int
    offset: int
    earlier: int  # offset of the first copy; -1 for a reordering


class Repeats(NamedTuple):
    """The repeated values of one log: in it twice, and in it once but after later ones."""

    duplicates: list[Repeat]
    reordered: list[Repeat]


def losses(cluster: Cluster) -> list[LostAck]:
    """Acknowledged values that are gone, in the order of their offsets.

    A partition without a leader at the end has lost nothing yet: its records may come back. A value at another offset,
    written by an earlier attempt, is not lost. Nor is a record that was compacted or deleted before a truncation gave
    its offset to another record.
    """
    found: list[LostAck] = []
    ledger = cluster.ledger
    for partition in range(cluster.config.data_partitions):
        log = cluster.leader_log(partition)
        if log is None:
            continue
        polled = ledger.polled_values.get(partition, {})
        acks = ledger.acks[partition]
        above = [(part.since(log.start), loss) for part, loss in ledger.missing_acks(partition, log)]
        for part, loss in [*((part.until(log.start), loss) for part, loss in acks.lost_before_deletion), *above]:
            if part is not None:
                found.append(LostAck(partition, part, loss, _was_polled(polled.get(part.producer, []), part)))
    return sorted(found, key=lambda one: (one.partition, one.ack.base, one.ack.time))


def longest_silence(cluster: Cluster) -> int:
    """The longest time in microseconds in which some partition acknowledged nothing, from the first send on.

    It ends with the last acknowledgement, or with the load if not everything was acknowledged.
    """
    longest = count = 0
    last_ack: list[int] = []  # the time of each partition's last acknowledgement
    for partition, acks in enumerate(cluster.ledger.acks):
        if partition in cluster.config.copies:
            continue  # what a group writes is no part of the load
        before = cluster.config.producers_start
        if partition >= cluster.config.first_partitions:
            before = next((ack.time for ack in acks), before)  # it was added later
        for ack in acks:
            longest = max(longest, ack.time - before)
            before = ack.time
            count += ack.count
        last_ack.append(before)
    return longest if count >= cluster.config.ops else max(longest, cluster.healed_at - min(last_ack))


def ack_latency(cluster: Cluster) -> dict[str, float]:
    """From a batch's first record to its acknowledgement, in milliseconds; empty if nothing was acknowledged."""
    ordered = sorted(cluster.ledger.latencies)
    last = len(ordered) - 1
    places = {"median": last // 2, "p99": last * 99 // 100, "max": last} if ordered else {}
    return {name: ordered[place] / 1000 for name, place in places.items()}


def adjacent_losses(found: Iterable[LostAck], key: Callable[[LostAck], object]) -> list[list[LostAck]]:
    """Groups of losses with one partition and one `key`; each loss begins where the previous one ended."""
    runs: list[list[LostAck]] = []
    for one in found:
        before = runs[-1][-1] if runs else None
        follows = before is not None and (before.partition, before.ack.end) == (one.partition, one.ack.base)
        if before is not None and follows and key(before) == key(one):
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def missing_everywhere(cluster: Cluster) -> list[list[Ack]]:
    """By partition: acknowledged values that no replica has, if the partition has no leader at the end.

    No election lost them, because no leader serves a log without them; but they will not come back.
    """
    found: list[list[Ack]] = []
    for partition, acks in enumerate(cluster.ledger.acks):
        logs = list(cluster.logs_of(partition).values())
        has_leader = cluster.leader_log(partition) is not None
        gone = [] if has_leader else [a for a in acks if not any(a.is_in(log) for log in logs)]
        producers = {ack.producer for ack in gone}
        held = [value_ranges(log, producers) for log in logs]
        for ranges in held:
            gone = [part for ack in gone for part in missing_parts(ack, ranges.get(ack.producer, []))]
        gone = [part for ack in gone for part in missing_parts(ack, acks.deleted.get(ack.producer, []))]
        if cluster.config.compacts and partition < cluster.config.partitions:
            gone = NewestRecords(cluster, partition).required(gone)
        found.append(gone)
    return found


def _was_polled(polled: Ranges, ack: Ack) -> bool:
    """Whether some of an acknowledged batch is in the ranges of its producer's polled values."""
    place = bisect_right(polled, (ack.first, 1 << 60)) - 1
    if place >= 0 and polled[place][1] > ack.first:
        return True
    return place + 1 < len(polled) and polled[place + 1][0] < ack.values_end


class Regression(NamedTuple):
    """A batch with a smaller offset than the one that its producer sent before it."""

    ack: Ack
    before: Ack


def offset_regressions(acks: Iterable[Ack]) -> list[Regression]:
    """Where a producer's acknowledged offsets go back, in the order in which it sent."""
    found: dict[int, list[Regression]] = {}
    last: dict[int, Ack] = {}
    for ack in acks if _is_in_order(acks) else sorted(acks, key=attrgetter("producer", "first")):
        before = last.get(ack.producer)
        if before is not None and ack.base < before.end - 1:
            found.setdefault(ack.producer, []).append(Regression(ack, before))
        last[ack.producer] = ack
    return [back for producer in sorted(found) for back in found[producer]]


def _is_in_order(acks: Iterable[Ack]) -> bool:
    """Whether everything was acknowledged in the order of sending. If so (nearly always), sorting is skipped."""
    last: dict[int, int] = {}
    for ack in acks:
        if ack.first < last.get(ack.producer, 0):
            return False
        last[ack.producer] = ack.first
    return True


def find_repeats(log: ReplicaLog, partition: int) -> Repeats:
    """The duplicates and the reorderings in one log."""
    repeats = Repeats([], [])
    seen: dict[int, _ProducerValues] = {}
    for batch in (part for whole in log.batches() for part in whole.parts()):
        if batch.end <= log.start or batch.producer < 0:
            continue  # deleted with its segment still there, or a transaction marker
        ranges = seen.setdefault(batch.producer, _ProducerValues())
        end = batch.values_end
        place = bisect_right(ranges.firsts, batch.first)
        if place == len(ranges.firsts) and (not place or ranges.ends[-1] <= batch.first):
            if not ranges.continues(batch):
                ranges.insert(place, batch.first, end, batch.base)
            ranges.ends[-1] = end
            continue
        overlaps = [
            index
            for index in range(max(0, place - 1), min(place + 1, len(ranges.firsts)))
            if ranges.firsts[index] < end and ranges.ends[index] > batch.first
        ]
        if overlaps:
            earlier = overlaps[0]
            first = max(batch.first, ranges.firsts[earlier])
            shared = min(end, ranges.ends[earlier]) - first
            before = ranges.offsets[earlier] + first - ranges.firsts[earlier]
            offset = batch.base + first - batch.first
            repeats.duplicates.append(Repeat(partition, batch.producer, first, shared, offset, before))
        else:
            ranges.insert(place, batch.first, end, batch.base)
            repeats.reordered.append(Repeat(partition, batch.producer, batch.first, end - batch.first, batch.base, -1))
    return repeats


class _ProducerValues:
    """A producer's values in a log: sorted ranges, each with the offset of its first value.

    Arrays, because two producers that alternate leave as many ranges as batches.
    """

    def __init__(self) -> None:
        self.firsts, self.ends, self.offsets = array("q"), array("q"), array("q")

    def insert(self, place: int, first: int, end: int, offset: int) -> None:
        self.firsts.insert(place, first)
        self.ends.insert(place, end)
        self.offsets.insert(place, offset)

    def continues(self, batch: Batch) -> bool:
        """Whether a batch continues the last range, in values and in offsets."""
        if not self.ends or self.ends[-1] != batch.first:
            return False
        return self.offsets[-1] + self.ends[-1] - self.firsts[-1] == batch.base


def conflicting_offsets(one: ReplicaLog, other: ReplicaLog) -> OffsetRanges:
    """The offsets at which two logs have different records."""
    found: OffsetRanges = []
    offset = max(one.start, other.start)
    limit = min(one.end, other.end)
    while offset < limit:
        left, right = one.at(offset), other.at(offset)
        assert left is not None
        assert right is not None
        end = min(left.end, right.end, limit)
        if left.removed or right.removed:
            end = offset + 1  # in a compacted batch each offset is compared alone
        same = (
            left.producer == right.producer
            and left.first - left.base == right.first - right.base
            and left.epoch == right.epoch
        )
        is_present = not (left.is_removed(offset) or right.is_removed(offset))
        if not same and is_present:
            if found and found[-1][1] == offset - 1:
                found[-1] = (found[-1][0], end - 1)
            else:
                found.append((offset, end - 1))
        offset = end
    return found


def divergences(cluster: Cluster) -> Divergences:
    """For each partition the pairs of replicas whose logs differ, and the offsets."""
    found: Divergences = {}
    for partition, state in enumerate(cluster.quorum.states):
        logs = cluster.logs_of(partition)
        for one, other in combinations(sorted(logs.keys() & set(state.replicas)), 2):
            ranges = conflicting_offsets(logs[one], logs[other])
            if ranges:
                found.setdefault(partition, {})[(one, other)] = ranges
    return found


def transaction_truth(cluster: Cluster) -> dict[str, Any] | None:
    """Numbers of transactions by stored decision and by the producer's outcome, and the partitions with a hanging one.

    None if the run has no transactions.
    """
    if not cluster.config.transactional:
        return None
    ledger = cluster.transactions
    decisions = [transaction.decision for transaction in ledger.transactions]
    outcomes = [transaction.outcome for transaction in ledger.transactions]
    return {
        "committed": decisions.count("commit"),
        "aborted": decisions.count("abort"),
        "undecided": decisions.count(""),
        "known_as": {outcome or "none": outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        "timed_out": ledger.timed_out,
        "fenced": ledger.fenced,
        "hanging": {
            cluster.config.log_name(partition): [stable, mark]
            for partition, stable, mark in cluster.open_transactions()
        },
    }
