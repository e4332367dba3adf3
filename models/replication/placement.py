"""Assigns replicas to brokers: Kafka's assignment, that of its replication design, and plain round robin.

Each function returns the replicas of each partition, the preferred leader first. With plain round robin all partitions
of one leader have the same second replica, so its death moves all of its load to one broker; the others spread it.
Simplification: the start is configured (`simulation.assignment.start`); Kafka's is random. KRaft's StripedReplicaPlacer
is plain round robin over brokers that it shuffles whenever each has led once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .config import Config

Assignment = list[tuple[int, ...]]


def round_robin(brokers: Sequence[int], partitions: int, replication_factor: int, start: int = 0) -> Assignment:
    """Replica r of partition p is on broker (p + r) mod n."""
    count = len(brokers)
    return [
        tuple(brokers[(start + partition + replica) % count] for replica in range(replication_factor))
        for partition in range(partitions)
    ]


def shifted(brokers: Sequence[int], partitions: int, replication_factor: int, start: int = 0) -> Assignment:
    """The replication design of 2012 (Kafka Replication, cwiki).

    Of the partitions that broker i leads, the k-th has its j-th further replica on broker (i + j + k) mod n, or on the
    next broker without a replica of it.
    """
    count = len(brokers)
    found: Assignment = []
    for partition in range(partitions):
        leader, row = (start + partition) % count, partition // count
        places = [leader]
        for j in range(1, replication_factor):
            place = (leader + j + row) % count
            while place in places:
                place = (place + 1) % count
            places.append(place)
        found.append(tuple(brokers[place] for place in places))
    return found


def kafka(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    start: int = 0,
    racks: Mapping[int, str] | None = None,
) -> Assignment:
    """AdminUtils.assignReplicasToBrokers.

    First replicas are round robin from `start`; the others shift by one more whenever every broker has led once
    (nextReplicaShift). With racks (KIP-36) the brokers alternate by rack, and a replica goes to a rack and a broker
    without one, as long as there is any.
    """
    racks = racks or dict.fromkeys(brokers, "")  # all in one rack
    order = _alternate_racks(racks)
    rack_count, count = len(set(racks.values())), len(order)
    shift, found = start, []
    for partition in range(partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        chosen, step = [order[first]], 0
        while len(chosen) < replication_factor:
            broker = order[_replica_index(first, shift * rack_count, step, count)]
            step += 1
            used = {racks[one] for one in chosen}
            if broker not in chosen and (racks[broker] not in used or len(used) == rack_count):
                chosen.append(broker)
        found.append(tuple(chosen))
    return found


def _replica_index(first: int, shift: int, replica: int, brokers: int) -> int:
    """AdminUtils.replicaIndex: never the first replica's own place."""
    return (first + 1 + (shift + replica) % (brokers - 1)) % brokers


def _alternate_racks(racks: Mapping[int, str]) -> list[int]:
    """AdminUtils.getRackAlternatedBrokerList: one broker of each rack after the other, as long as there are any."""
    by_rack = {
        rack: [broker for broker in sorted(racks) if racks[broker] == rack] for rack in sorted({*racks.values()})
    }
    longest = max(len(brokers) for brokers in by_rack.values())
    return [brokers[place] for place in range(longest) for brokers in by_rack.values() if place < len(brokers)]


ASSIGNMENTS: dict[str, Callable[[Sequence[int], int, int, int], Assignment]] = {
    "round-robin": round_robin,
    "shifted": shifted,
    "kafka": kafka,
}


def assign_replicas(config: Config) -> Assignment:
    """The configured assignment of all replicated partitions; with racks, it is Kafka's."""
    size = range(1, config.brokers + 1), config.logs, config.replication_factor, config.assignment_start
    return kafka(*size, config.racks) if config.racks else ASSIGNMENTS[config.assignment](*size)
