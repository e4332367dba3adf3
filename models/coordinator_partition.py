"""The partition of a coordinator's topic, by Kafka's hash of the group or transactional id."""

from __future__ import annotations


def coordinator_partition(name: str, partitions: int) -> int:
    """The partition with the records of a group.id or transactional.id: Utils.abs(name.hashCode()) % partitions."""
    units = name.encode("utf-16-be", "surrogatepass")
    found = 0
    for low in range(0, len(units), 2):
        found = found * 31 + int.from_bytes(units[low : low + 2]) & 0xFFFFFFFF
    signed = found - (1 << 32) if found >> 31 else found
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions
