"""The keys of records, and which records are tombstones, where a run has keys (cleanup.policy=compact).

Both are functions of the producer, the partition and the value's number, so that nothing stores them.
"""

from __future__ import annotations

from dataclasses import dataclass

from .config import Config
from .storage.batches import Batch

MASK = (1 << 64) - 1


class Keys:
    """The keys k0, k1, … of one run's records."""

    def __init__(self, config: Config) -> None:
        everywhere = range(config.keys)
        self._tombstones = config.tombstones
        if config.partitioner == "key":
            found: list[list[int]] = [[] for _ in range(config.partitions)]
            for key in everywhere:
                found[partition_of(key, config.partitions)].append(key)
            self._keys = found
        else:
            self._keys = [list(everywhere)] * config.partitions

    def key(self, producer: int, partition: int, number: int) -> int:
        """The number of a record's key."""
        keys = self._keys[partition]
        return keys[_mix(producer, partition, number) % len(keys)]

    def is_tombstone(self, producer: int, partition: int, number: int) -> bool:
        """Whether a record has no value, and so deletes its key."""
        return (_mix(producer, partition, number) >> 32) % 1000 < self._tombstones


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of one partition's records, for its cleaner."""

    keys: Keys
    partition: int

    def key(self, batch: Batch, index: int) -> str:
        """The key of a record."""
        return f"k{self.keys.key(batch.producer, self.partition, batch.first + index)}"

    def is_tombstone(self, batch: Batch, index: int) -> bool:
        """Whether a record deletes its key."""
        return self.keys.is_tombstone(batch.producer, self.partition, batch.first + index)


def _mix(producer: int, partition: int, number: int) -> int:
    """A hash of three small numbers: the finalizer of SplitMix64."""
    found = (number * 0x9E3779B97F4A7C15 + producer * 0xC2B2AE3D27D4EB4F + partition * 0x165667B19E3779F9) & MASK
    found = (found ^ found >> 30) * 0xBF58476D1CE4E5B9 & MASK
    found = (found ^ found >> 27) * 0x94D049BB133111EB & MASK
    return found ^ found >> 31


def partition_of(key: int, partitions: int) -> int:
    """The partition of key number `key` (BuiltInPartitioner.partitionForKey)."""
    return (murmur2(f"k{key}".encode()) & 0x7FFFFFFF) % partitions


def murmur2(key: bytes) -> int:
    """The hash of a key, unsigned (org.apache.kafka.common.utils.Utils.murmur2)."""
    multiplier, mask = 0x5BD1E995, 0xFFFFFFFF
    found = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        found = found * multiplier & mask ^ word
    if rest := key[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * multiplier & mask
    found = (found ^ found >> 13) * multiplier & mask
    return found ^ found >> 15
