"""Which brokers hold which partition."""

from __future__ import annotations


def assign_replicas(brokers: tuple[int, ...], partitions: int, replication_factor: int) -> list[tuple[int, ...]]:
    """The replicas of each partition, the preferred leader first.

    Round robin, as Kafka assigns them without racks (AdminUtils.assignReplicasToBrokers). Simplification: the first
    broker is the first leader, where Kafka begins at a random one.
    """
    return [
        tuple(brokers[(partition + replica) % len(brokers)] for replica in range(replication_factor))
        for partition in range(partitions)
    ]
