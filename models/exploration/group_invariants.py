"""The invariants of consumer groups, one function each, as in invariants.py."""

from __future__ import annotations

from itertools import combinations, pairwise

from ..replication.cluster import Cluster
from ..replication.config import SECOND
from ..replication.coordinators.group_ledger import MemberEpoch, Ownership
from ..replication.coordinators.log_coordinator import COORDINATOR
from ..replication.ledger import Breach


def one_owner(cluster: Cluster) -> list[Breach]:
    """Within a generation a partition has one owner at a time; with KIP-848 the owners' epochs do not matter.

    A static member's new process replaces the old one within the generation; the old one notices at its next request.
    """
    if cluster.config.has_member_epochs:
        return _one_member(cluster)
    found: list[Breach] = []
    held = sorted(cluster.group.ownerships, key=lambda owned: (owned.partition, owned.generation, owned.since))
    for one, other in pairwise(held):
        same = (one.partition, one.generation) == (other.partition, other.generation)
        instances = [owned.member.rpartition("-")[0] for owned in (one, other)]
        same = same and (cluster.config.static_members == "none" or instances[0] != instances[1])
        if same and one.member != other.member and other.since < one.until:
            text = f"{one.member} and {other.member} own the partition in generation {one.generation}"
            found.append(Breach("one-owner", other.since, one.partition, text))
    return found


def no_fenced_commit(cluster: Cluster) -> list[Breach]:
    """No commit of a generation is accepted once a newer one has its assignment.

    With KIP-848 no commit is accepted in another epoch than the member's, or of a member that was removed.
    """
    if cluster.config.has_member_epochs:
        return _stale_commits(cluster)
    found: list[Breach] = []
    for record, time, deaths in cluster.group.accepted:
        newer = [
            generation.number
            for generation, since in cluster.group.generations.items()
            if generation.deaths == deaths and generation.number > record.generation and since < record.time
        ]
        if newer:
            text = f"{record.member} commits in generation {record.generation}, though {max(newer)} has begun"
            found.append(Breach("no-fenced-commit", time, cluster.config.group_log, text))
    return found


def _one_member(cluster: Cluster) -> list[Breach]:
    """A member gets a partition only after its former owner has given it up, or one of the two was fenced.

    A member is fenced once the coordinator has removed it, has accepted an older request of it after a later one, or
    has raised its epoch in a downgrade. It may not know that yet. A late request to join, or a late heartbeat in the
    epoch before, gives up what the member has received since then; a downgrade gives up what a member that is behind
    was to revoke. Nothing of the member's former epochs is accepted after that.
    """
    found: list[Breach] = []
    held = sorted(cluster.group.ownerships, key=lambda owned: (owned.partition, owned.since))
    for one, other in combinations(held, 2):
        is_other = one.partition == other.partition and one.member != other.member
        are_owners = is_other and other.since < one.until
        if are_owners and not any(_is_fenced(cluster, owned, other.since) for owned in (one, other)):
            text = f"{other.member} owns the partition, and {one.member}, too, which was not fenced"
            found.append(Breach("one-owner", other.since, one.partition, text))
    return found


def _is_fenced(cluster: Cluster, owned: Ownership, by: int) -> bool:
    """Whether the coordinator fenced a member after it got the partition."""
    changes = pairwise(cluster.group.member_epochs.get(owned.member, ()))
    removals = [MemberEpoch(after.time, before.epoch) for before, after in changes if after.epoch <= 0]
    ends = [*removals, *cluster.group.fenced.get(owned.member, ())]
    return any(end.epoch >= owned.generation and end.time <= by for end in ends)


def _stale_commits(cluster: Cluster) -> list[Breach]:
    found: list[Breach] = []
    for record, time, _ in cluster.group.accepted:
        known = [
            change.epoch for change in cluster.group.member_epochs.get(record.member, ()) if change.time < record.time
        ]
        epoch = known[-1] if known else 0
        if epoch != record.generation:
            text = f"{record.member} commits in epoch {record.generation}, though "
            text += f"its epoch is {epoch}" if epoch else "it is no member"
            found.append(Breach("no-fenced-commit", time, cluster.config.group_log, text))
    return found


def no_commit_loss(cluster: Cluster) -> list[Breach]:
    """A commit that was acknowledged to its member stays in the group's log."""
    if not cluster.config.has_group or (log := cluster.leader_log(cluster.config.group_log)) is None:
        return []
    records = [
        record
        for batch in log.batches()
        if batch.producer == COORDINATOR
        for record in cluster.coordinator_logs.group_records[batch.first : batch.values_end]
    ]
    stored = {(record.generation, record.member, record.committed) for record in records}
    return [
        Breach(
            "no-commit-loss",
            time,
            cluster.config.group_log,
            f"{member}'s commit of {name}@{offset}, acknowledged at {time / SECOND:.3f} s, is gone at the end",
        )
        for generation, member, offsets, time in cluster.group.acknowledged
        for partition, offset in offsets.items()
        if (generation, member, (partition, offset)) not in stored
        for name in [cluster.config.log_name(partition)]
    ]
