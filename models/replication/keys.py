"""The keys of records, and which records are tombstones, where a run has keys (cleanup.policy=compact).

Both are functions of the producer, the partition and the value's number, so that nothing stores them.
"""

from __future__ import annotations

from typing import NamedTuple

from .config import Config

MASK = (1 << 64) - 1


class RecordKey(NamedTuple):
    """The key of a record, and whether the record has no value, and so deletes its key."""

    key: str
    is_tombstone: bool


class Keys:
    """The keys k0, k1, … of one run's records."""

    def __init__(self, config: Config) -> None:
        everywhere = [f"k{number}" for number in range(config.keys)]
        self._tombstones = config.tombstones
        if config.partitioner == "key":
            found: list[list[str]] = [[] for _ in range(config.partitions)]
            for key in everywhere:
                found[partition_of(key, config.partitions)].append(key)
            self._keys = found
        else:
            self._keys = [everywhere] * config.partitions

    def of(self, producer: int, partition: int, number: int) -> RecordKey:
        """The key of the record with this value."""
        keys, mixed = self._keys[partition], _mix(producer, partition, number)
        return RecordKey(keys[mixed % len(keys)], (mixed >> 32) % 1000 < self._tombstones)


def _mix(producer: int, partition: int, number: int) -> int:
    """A hash of three small numbers: the finalizer of SplitMix64."""
    found = (number * 0x9E3779B97F4A7C15 + producer * 0xC2B2AE3D27D4EB4F + partition * 0x165667B19E3779F9) & MASK
    found = (found ^ found >> 30) * 0xBF58476D1CE4E5B9 & MASK
    found = (found ^ found >> 27) * 0x94D049BB133111EB & MASK
    return found ^ found >> 31


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key (BuiltInPartitioner.partitionForKey)."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions


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
