"""Kafka's internal topics, and the partition of each group or transactional id in them, by Kafka's hash."""

from __future__ import annotations

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
METADATA_TOPIC = "__cluster_metadata"


def is_internal(topic: str) -> bool:
    """Whether brokers write the topic for themselves, by its prefix: tools and vendors add others to Kafka's own."""
    return topic.startswith("__")


def coordinator_partition(name: str, partitions: int) -> int:
    """The partition with the records of a group.id or transactional.id: Utils.abs(name.hashCode()) % partitions."""
    units = name.encode("utf-16-be", "surrogatepass")
    found = 0
    for low in range(0, len(units), 2):
        found = found * 31 + int.from_bytes(units[low : low + 2]) & 0xFFFFFFFF
    signed = found - (1 << 32) if found >> 31 else found
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
