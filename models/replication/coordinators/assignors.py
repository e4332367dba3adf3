"""Kafka's assignors, by which a group's leader assigns partitions, for members that subscribe to one topic.

Members are in the order of their ids, as in Kafka, where they begin with the client's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Partitions = tuple[int, ...]
Assignment = dict[str, Partitions]


class Claim(NamedTuple):
    """The partitions that a member claims to own, and the last generation of which it got its assignment (KIP-792)."""

    partitions: Partitions = ()
    generation: int = -1


Owned = Mapping[str, Claim]  # by member


def range_assignor(partitions: int, owned: Owned) -> Assignment:
    """Ranges of adjacent partitions; the first members get one more (RangeAssignor)."""
    members = sorted(owned)
    size, more = divmod(partitions, len(members))
    found: Assignment = {}
    first = 0
    for index, member in enumerate(members):
        end = first + size + (index < more)
        found[member] = tuple(range(first, end))
        first = end
    return found


def round_robin(partitions: int, owned: Owned) -> Assignment:
    """The members get partitions in turn (RoundRobinAssignor)."""
    members = sorted(owned)
    return {member: tuple(range(index, partitions, len(members))) for index, member in enumerate(members)}


def sticky(partitions: int, owned: Owned) -> Assignment:
    """Balanced; each member keeps as many of its partitions as it may (AbstractStickyAssignor.constrainedAssign)."""
    members, owners = sorted(owned), owners_of(owned)
    size, more = divmod(partitions, len(members))
    retained: dict[str, list[int]] = {}
    for member in members:
        mine = [p for p in sorted(owned[member].partitions) if p < partitions and owners[p] == member]
        limit = size + (more > 0 and len(mine) > size)
        more -= limit > size
        retained[member] = mine[:limit]
    taken = {p for mine in retained.values() for p in mine}
    free = [p for p in range(partitions) if p not in taken]
    for member in members:
        while len(retained[member]) < size:
            retained[member].append(free.pop(0))
    for member in members:
        if more > 0 and len(retained[member]) == size and free:
            retained[member].append(free.pop(0))
            more -= 1
    return {member: tuple(sorted(mine)) for member, mine in retained.items()}


def cooperative_sticky(partitions: int, owned: Owned) -> Assignment:
    """As `sticky`, but without partitions that another member must revoke first (CooperativeStickyAssignor)."""
    wanted, owners = sticky(partitions, owned), owners_of(owned)
    return {member: tuple(p for p in mine if owners.get(p, member) == member) for member, mine in wanted.items()}


def owners_of(owned: Owned) -> dict[int, str | None]:
    """The owner of each claimed partition: the member with the latest generation; None if two claim it of that one."""
    claims: dict[int, dict[int, list[str]]] = {}  # partition -> generation -> members
    for member, claim in owned.items():
        for partition in claim.partitions:
            claims.setdefault(partition, {}).setdefault(claim.generation, []).append(member)
    latest = {partition: of_partition[max(of_partition)] for partition, of_partition in claims.items()}
    return {partition: members[0] if len(members) == 1 else None for partition, members in latest.items()}


ASSIGNORS: dict[str, Callable[[int, Owned], Assignment]] = {
    "range": range_assignor,
    "roundrobin": round_robin,
    "sticky": sticky,
    "cooperative-sticky": cooperative_sticky,
}
# The assignors of brokers (group.consumer.assignors), from the targets of the members. Simplification: with `uniform`
# one partition more stays with members that have it, where Kafka gives it by the order of a hash table.
SERVER_ASSIGNORS: dict[str, Callable[[int, Owned], Assignment]] = {"uniform": sticky, "range": range_assignor}
COOPERATIVE = ("cooperative-sticky",)
