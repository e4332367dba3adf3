"""What must hold of a group that copies records: one function an invariant, as in invariants.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ..replication.cluster import Cluster
from ..replication.copy_ledger import Copy, Source
from ..replication.ledger import Breach
from ..replication.storage.transactions import committed_batches
from .transaction_invariants import visible_batches


def dated_copies(cluster: Cluster) -> Iterator[tuple[int, Source]]:
    """The time and the source of each copy in the final leaders' logs that read_committed consumers see."""
    for partition in cluster.config.copies:
        for batch in visible_batches(cluster, partition):
            for number in range(batch.first, batch.values_end):
                yield batch.time, cluster.copies[Copy(batch.producer, partition, number)]


def visible_copies(cluster: Cluster) -> Counter[Source]:
    """The number of copies of each source that read_committed consumers see."""
    return Counter(source for _, source in dated_copies(cluster))


def committed_offsets(cluster: Cluster) -> dict[int, int] | None:
    """The group's offsets by the definition: of each partition the last record in the group's log that belongs to a
    committed transaction or to none; None: the log has no leader."""
    log = cluster.leader_log(cluster.config.group_log)
    if log is None:
        return None
    found: dict[int, tuple[int, int]] = {}  # partition -> offset of the record, committed offset
    for batch in committed_batches(log.batches(), log.end):
        records = cluster.coordinator_logs.group_records[batch.first : batch.values_end]
        for at, record in enumerate(records, batch.base):
            if record.committed is not None:
                partition, offset = record.committed
                found[partition] = max(found.get(partition, (-1, 0)), (at, offset))
    return {partition: offset for partition, (_, offset) in found.items()}


def exactly_once(cluster: Cluster) -> list[Breach]:
    """Each source below the committed offset has one visible copy, and no other source has any."""
    return _breaches(cluster, "exactly-once", lambda copies, is_handled: copies != is_handled)


def at_least_once(cluster: Cluster) -> list[Breach]:
    """Each source below the committed offset has a visible copy."""
    return _breaches(cluster, "at-least-once", lambda copies, is_handled: copies < is_handled)


def _breaches(cluster: Cluster, invariant: str, is_broken: Callable[[int, bool], bool]) -> list[Breach]:
    found = []
    for (partition, offset), copies, is_handled in _sources(cluster):
        if is_broken(copies, is_handled):
            have = {0: "no copy", 1: "a copy"}.get(copies, f"{copies} copies")
            place = "past" if is_handled else "not past"
            name = cluster.config.log_name(partition)
            text = f"{name}@{offset} has {have}, and the group's committed offset is {place} it"
            found.append(Breach(invariant, cluster.loop.now, partition, text, offset, offset + 1))
    return found


def _sources(cluster: Cluster) -> Iterator[tuple[Source, int, bool]]:
    """The sources that consumers see, the number of their copies, and whether they are below the committed offset."""
    config = cluster.config
    offsets = committed_offsets(cluster) if config.processing != "none" else None
    if offsets is None or any(cluster.leader_log(partition) is None for partition in config.copies):
        return
    copies = visible_copies(cluster)
    for partition in range(config.partitions):
        replica = cluster.leader_replica(partition)
        for batch in committed_batches(replica.log.batches(), replica.stable_end) if replica is not None else ():
            for offset in range(batch.base, batch.end):
                source = Source(partition, offset)
                yield source, copies[source], offset < offsets.get(partition, 0)
