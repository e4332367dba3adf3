"""What a finished run did to its records: lost, diverged, duplicated, reordered, with the cause of each.

Everything is told in runs of neighbouring offsets, so that a large loss is a short list.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from .acks import Ack, Loss
from .batches import Batch
from .ledger import Ledger, merge
from .log import ReplicaLog

if TYPE_CHECKING:
    from .cluster import Cluster


@dataclass(frozen=True, slots=True)
class Lost:
    """An acknowledged batch that the final leader does not hold."""

    partition: int
    ack: Ack
    cause: str
    detail: str
    time: int
    leader: int
    epoch: int
    read: bool  # had a consumer polled some of it


@dataclass(frozen=True, slots=True)
class Repeat:
    """Values of a producer that stand twice in a log, or behind later ones."""

    partition: int
    producer: int
    first: int
    count: int
    offset: int
    earlier: int  # offset of the first copy; -1 for a reordering


def lost(cluster: Cluster) -> list[Lost]:
    """Acknowledged values that are gone, in the order of their offsets. A partition without a leader at the
    end has lost nothing yet: its records may come back. A value that stands at another offset, written by
    an earlier attempt, is not lost."""
    found: list[Lost] = []
    ledger = cluster.ledger
    for partition in range(cluster.config.partitions):
        log = cluster.leader_log(partition)
        if log is None:
            continue
        reads = _Reads(cluster, partition)
        acks = ledger.acks[partition]
        above = [(part.since(log.start), loss) for part, loss in _gone(ledger, partition, log)]
        for part, loss in [*((part.until(log.start), loss) for part, loss in acks.passed), *above]:
            if part is not None:
                read = reads.saw(part)
                found.append(Lost(partition, part, loss.cause, loss.detail, loss.time, loss.leader, loss.epoch, read))
    return sorted(found, key=lambda one: (one.partition, one.ack.base, one.ack.time))


def _gone(ledger: Ledger, partition: int, log: ReplicaLog) -> list[tuple[Ack, Loss]]:
    """What was acknowledged and a leader's log does not hold, and why."""
    acks = ledger.acks[partition]
    gone = [(number, ack) for number, ack in acks.missing_from(log) if ack.acks != 0]
    held = _held(log, {ack.producer for _, ack in gone})
    found: list[tuple[Ack, Loss]] = []
    for number, ack in gone:
        loss = acks.losses.get(number) or ledger.explain_late(ack, partition)
        found += [(part, loss) for part in _missing(ack, held.get(ack.producer, []))]
    return found


def lost_below(ledger: Ledger, partition: int, log: ReplicaLog, offset: int) -> list[tuple[Ack, Loss]]:
    """What a leader's log lacks from its start up to an offset, and why."""
    found: list[tuple[Ack, Loss]] = []
    for part, loss in _gone(ledger, partition, log):
        above = part.since(log.start)
        if above is not None and (within := above.until(offset)) is not None:
            found.append((within, loss))
    return found


def silence(cluster: Cluster) -> int:
    """The longest time in which some partition acknowledged nothing, microseconds: from the first send on, up to the
    last acknowledgement, or to the end of the load if not everything was acknowledged."""
    longest = count = 0
    quiet: list[int] = []  # since when each partition acknowledged nothing more
    for acks in cluster.ledger.acks:
        before = cluster.config.producers_start
        for ack in acks:
            longest = max(longest, ack.time - before)
            before = ack.time
            count += ack.end - ack.base
        quiet.append(before)
    return longest if count >= cluster.config.ops else max(longest, cluster.healed_at - min(quiet))


def latency(cluster: Cluster) -> dict[str, float]:
    """From a batch's first record to its acknowledgement, in milliseconds; empty if nothing was acknowledged."""
    ordered = sorted(cluster.ledger.latencies)
    last = len(ordered) - 1
    places = {"median": last // 2, "p99": last * 99 // 100, "max": last} if ordered else {}
    return {name: ordered[place] / 1000 for name, place in places.items()}


def neighbours(gone: Iterable[Lost], alike: Callable[[Lost], object]) -> list[list[Lost]]:
    """Losses in runs: of one partition, each beginning where the one before it ended, and alike."""
    runs: list[list[Lost]] = []
    for one in gone:
        before = runs[-1][-1] if runs else None
        follows = before is not None and (before.partition, before.ack.end) == (one.partition, one.ack.base)
        if before is not None and follows and alike(before) == alike(one):
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def absent(cluster: Cluster) -> list[list[Ack]]:
    """By partition: what was acknowledged and stands in no replica, where nobody leads at the end. Nobody serves a
    log without it, so it is not lost as an election loses it; but it will not come back."""
    found: list[list[Ack]] = []
    for partition, acks in enumerate(cluster.ledger.acks):
        logs = list(cluster.logs_of(partition).values())
        kept = cluster.leader_log(partition) is not None
        gone = [] if kept else [a for a in acks if a.acks != 0 and not any(a.held_by(log) for log in logs)]
        producers = {ack.producer for ack in gone}
        held = [_held(log, producers) for log in logs]
        for ranges in held:
            gone = [part for ack in gone for part in _missing(ack, ranges.get(ack.producer, []))]
        found.append(gone)
    return found


def _held(log: ReplicaLog, producers: set[int]) -> dict[int, list[tuple[int, int]]]:
    """The ranges of values that a log holds, of these producers, sorted."""
    held: dict[int, list[tuple[int, int]]] = {}
    for batch in log.batches() if producers else ():
        if batch.producer in producers:
            merge(held.setdefault(batch.producer, []), batch.first, batch.first + batch.end - batch.base)
    return held


def _missing(ack: Ack, held: list[tuple[int, int]]) -> list[Ack]:
    """The parts of an acknowledged batch whose values are in none of these ranges."""
    parts: list[Ack] = []
    at, end = ack.first, ack.first + ack.end - ack.base
    place = max(0, bisect_right(held, (at, 1 << 60)) - 1)
    while at < end:
        while place < len(held) and held[place][1] <= at:
            place += 1
        covered = held[place] if place < len(held) else (end, end)
        stop = min(max(covered[0], at), end)
        if stop > at:
            parts.append(ack.part(at - ack.first, stop - ack.first))
        at = max(stop, min(covered[1], end)) if stop < end else end
    return parts


class _Reads:
    """Whether a batch was polled before it vanished, from the values that consumers saw."""

    def __init__(self, cluster: Cluster, partition: int) -> None:
        self._seen = cluster.ledger.seen.get(partition, {})

    def saw(self, ack: Ack) -> bool:
        ranges = self._seen.get(ack.producer, [])
        place = bisect_right(ranges, (ack.first, 1 << 60)) - 1
        last = ack.first + ack.end - ack.base - 1
        if place >= 0 and ranges[place][1] > ack.first:
            return True
        return place + 1 < len(ranges) and ranges[place + 1][0] <= last


def went_back(acks: Iterable[Ack]) -> list[tuple[int, int, int]]:
    """(producer, value number, value number before it) where a producer's acknowledged offsets go back, in the
    order in which it sent."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    last: dict[int, Ack] = {}
    for ack in acks if _in_turn(acks) else sorted(acks, key=attrgetter("producer", "first")):
        before = last.get(ack.producer)
        if ack.acks != 0 and before is not None and ack.base < before.end - 1:
            back = (ack.producer, ack.first, before.first + before.end - before.base - 1)
            found.setdefault(ack.producer, []).append(back)
        if ack.acks != 0:
            last[ack.producer] = ack
    return [back for producer in sorted(found) for back in found[producer]]


def _in_turn(acks: Iterable[Ack]) -> bool:
    """Was everything acknowledged in the order in which it was sent, as nearly always? Then nothing is sorted."""
    last: dict[int, int] = {}
    for ack in acks:
        if ack.first < last.get(ack.producer, 0):
            return False
        last[ack.producer] = ack.first
    return True


def repeats(log: ReplicaLog, partition: int) -> tuple[list[Repeat], list[Repeat]]:
    """(duplicates, reorderings) in one log."""
    duplicates: list[Repeat] = []
    reordered: list[Repeat] = []
    seen: dict[int, _Ranges] = {}
    for batch in log.batches():
        if batch.end <= log.start:
            continue  # deleted, though its segment is there
        ranges = seen.setdefault(batch.producer, _Ranges())
        end = batch.first + batch.end - batch.base
        place = bisect_right(ranges.firsts, batch.first)
        if place == len(ranges.firsts) and (not place or ranges.ends[-1] <= batch.first):
            if not ranges.goes_on(batch):
                ranges.insert(place, batch.first, end, batch.base)
            ranges.ends[-1] = end
            continue
        overlaps = [
            one
            for one in range(max(0, place - 1), min(place + 1, len(ranges.firsts)))
            if ranges.firsts[one] < end and ranges.ends[one] > batch.first
        ]
        if overlaps:
            earlier = overlaps[0]
            first = max(batch.first, ranges.firsts[earlier])
            shared = min(end, ranges.ends[earlier]) - first
            before = ranges.offsets[earlier] + first - ranges.firsts[earlier]
            offset = batch.base + first - batch.first
            duplicates.append(Repeat(partition, batch.producer, first, shared, offset, before))
        else:
            ranges.insert(place, batch.first, end, batch.base)
            reordered.append(Repeat(partition, batch.producer, batch.first, end - batch.first, batch.base, -1))
    return duplicates, reordered


class _Ranges:
    """A producer's values in a log: sorted ranges, each with the offset of its first value. Arrays, as two producers
    that take turns leave as many ranges as there are batches."""

    def __init__(self) -> None:
        self.firsts, self.ends, self.offsets = array("q"), array("q"), array("q")

    def insert(self, place: int, first: int, end: int, offset: int) -> None:
        self.firsts.insert(place, first)
        self.ends.insert(place, end)
        self.offsets.insert(place, offset)

    def goes_on(self, batch: Batch) -> bool:
        """Does a batch continue the last range, in values and in offsets?"""
        if not self.ends or self.ends[-1] != batch.first:
            return False
        return self.offsets[-1] + self.ends[-1] - self.firsts[-1] == batch.base


def conflicts(one: ReplicaLog, other: ReplicaLog) -> list[tuple[int, int]]:
    """Ranges of offsets (inclusive) at which two logs hold different records."""
    found: list[tuple[int, int]] = []
    offset = max(one.start, other.start)
    limit = min(one.end, other.end)
    while offset < limit:
        mine, theirs = one.at(offset), other.at(offset)
        assert mine is not None
        assert theirs is not None
        end = min(mine.end, theirs.end, limit)
        same = (
            mine.producer == theirs.producer
            and mine.first - mine.base == theirs.first - theirs.base
            and mine.epoch == theirs.epoch
        )
        if not same:
            if found and found[-1][1] == offset - 1:
                found[-1] = (found[-1][0], end - 1)
            else:
                found.append((offset, end - 1))
        offset = end
    return found


def divergent(cluster: Cluster) -> dict[int, dict[tuple[int, int], list[tuple[int, int]]]]:
    """For each partition, the pairs of replicas whose logs differ, and where."""
    found: dict[int, dict[tuple[int, int], list[tuple[int, int]]]] = {}
    for partition, state in enumerate(cluster.quorum.states):
        holders = [b for b in sorted(state.replicas) if partition in cluster.brokers[b].replicas]
        for index, one in enumerate(holders):
            for other in holders[index + 1 :]:
                ranges = conflicts(
                    cluster.brokers[one].replicas[partition].log,
                    cluster.brokers[other].replicas[partition].log,
                )
                if ranges:
                    found.setdefault(partition, {})[(one, other)] = ranges
    return found
