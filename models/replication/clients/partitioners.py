"""Partitioners: which partition a producer writes its next record to.

Source: DefaultPartitioner and RoundRobinPartitioner of the Java client, KIP-480 (sticky). Simplification: sticky does
not weigh partitions by the load of their leaders, as it does since 3.3 (KIP-794).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random

from ..keys import partition_of

OpenBatch = Callable[[int], object]  # a partition's batch that still takes records, or None
Partitioner = Callable[[OpenBatch], int]


def at_random(rng: Random, partitions: int, _: int) -> Partitioner:
    """A random partition for each record: the simulator's default, so that all partitions have the same load."""
    if partitions == 1:
        return lambda _: 0
    return lambda _: int(rng.random() * partitions)


def round_robin(_: Random, partitions: int, __: int) -> Partitioner:
    """The partitions in turn."""
    numbers = count()
    return lambda _: next(numbers) % partitions


def sticky(rng: Random, partitions: int, _: int) -> Partitioner:
    """One partition until its batch is full or sent, then another one."""
    current = int(rng.random() * partitions)

    def choose(open_batch: OpenBatch) -> int:
        nonlocal current
        if partitions > 1 and open_batch(current) is None:
            current = (current + 1 + int(rng.random() * (partitions - 1))) % partitions
        return current

    return choose


def by_key(rng: Random, partitions: int, keys: int) -> Partitioner:
    """The partition of the record's key, by the key's hash. Each of the keys k0, k1, … is equally likely."""
    by_number = [partition_of(f"k{number}", partitions) for number in range(keys)]
    return lambda _: by_number[int(rng.random() * keys)]


PARTITIONERS: dict[str, Callable[[Random, int, int], Partitioner]] = {
    "random": at_random,
    "round-robin": round_robin,
    "sticky": sticky,
    "key": by_key,
}
