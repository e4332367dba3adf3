"""The invariants of consumer groups, one function each, as in invariants.py."""

from __future__ import annotations

from itertools import pairwise

from ..replication.cluster import Cluster
from ..replication.coordinators.log_coordinator import COORDINATOR
from ..replication.ledger import Breach


def one_owner(cluster: Cluster) -> list[Breach]:
    """Within a generation a partition has one owner at a time.

    A static member's new process replaces the old one within the generation; the old one notices at its next request.
    """
    found: list[Breach] = []
    held = sorted(cluster.group.holds, key=lambda hold: (hold.partition, hold.generation, hold.since))
    for one, other in pairwise(held):
        same = (one.partition, one.generation) == (other.partition, other.generation)
        instances = [hold.member.rpartition("-")[0] for hold in (one, other)]
        same = same and (cluster.config.static_members == "none" or instances[0] != instances[1])
        if same and one.member != other.member and other.since < one.until:
            text = f"{one.member} and {other.member} own the partition in generation {one.generation}"
            found.append(Breach("one-owner", other.since, one.partition, text))
    return found


def no_fenced_commit(cluster: Cluster) -> list[Breach]:
    """No commit of a generation is accepted once a newer one has its assignment."""
    found: list[Breach] = []
    for record, time, life in cluster.group.accepted:
        generations = [(g, since) for (of, g), since in cluster.group.generations.items() if of == life]
        newer = [g for g, since in generations if g > record.generation and since < record.time]
        if newer:
            text = f"{record.member} commits in generation {record.generation}, though {max(newer)} has begun"
            found.append(Breach("no-fenced-commit", time, cluster.config.group_log, text))
    return found


def no_commit_loss(cluster: Cluster) -> list[Breach]:
    """A commit that was acknowledged to its member stays in the group's log."""
    if not cluster.config.strategy or (log := cluster.leader_log(cluster.config.group_log)) is None:
        return []
    records = [
        record
        for batch in log.batches()
        if batch.producer == COORDINATOR
        for record in cluster.coordinator_logs.group_records[batch.first : batch.values_end]
    ]
    stored = {(record.generation, record.member, record.offset) for record in records}
    return [
        Breach("no-commit-loss", time, cluster.config.group_log, f"{member}'s commit of {name}@{offset} is gone")
        for generation, member, offsets, time in cluster.group.acknowledged
        for partition, offset in offsets.items()
        if (generation, member, (partition, offset)) not in stored
        for name in [cluster.config.log_name(partition)]
    ]
