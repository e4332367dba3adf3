"""The owners of a partition in a consumer group for the plots, in bounded size. One record for each group:

group     group.id
epochs    whether generations are member epochs (KIP-848)
holds     [[owner, generation or null, since, until or null, crashed]]: times (ns) in which a member owned the
          partition by its own record, and whether its crash ended that
commits   [[time, owner, offset, accepted]]: fewer, if there are many

Without such records of clients, ownerships are those that the coordinator wrote to `__consumer_offsets`.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ...histories.tables import MAX_INT64
from ..partitions.coordinators import group_evidence
from ..partitions.partition import Partition
from ..rules.consumer_groups import Group, groups_of
from ..rules.membership import have_own_epochs, ownerships_of

MAX_GROUPS = 4  # of a partition
MAX_OWNERSHIPS = 80
MAX_COMMITS = 30

Record = dict[str, Any]


def owner_figures(p: Partition) -> list[Record]:
    """The records above, in the order of the groups' names."""
    groups = {name: Group(name, ()) for name in group_evidence(p)["group"]}
    groups |= {group.id: group for group in groups_of(p) if group.id}
    found = [_group_figures(p, groups[name]) for name in sorted(groups)]
    return [record for record in found if record["holds"]][:MAX_GROUPS]


def _group_figures(p: Partition, group: Group) -> Record:
    owned = _by_members(p, group) or _by_coordinator(p, group)
    return {
        "group": group.id[:64],
        "epochs": have_own_epochs(p, group),
        "holds": owned[:MAX_OWNERSHIPS],
        "commits": _commits(p, group),
    }


def _by_members(p: Partition, group: Group) -> list[list[Any]]:
    crashes = {row[:2] for row in p.context.filter(kind="crash").select("process", "invoked").iter_rows()}
    rows = ownerships_of(p, group).sort("since", "at").select("process", "generation", "since", "until", "is_revoked")
    return [
        [name[:48], gen, since, None if until == MAX_INT64 else until, not revoked and (name, until) in crashes]
        for name, gen, since, until, revoked in rows.iter_rows()
    ]


def _by_coordinator(p: Partition, group: Group) -> list[list[Any]]:
    """An ownership lasts until the next generation that assigns the partition; with KIP-848, until its release."""
    found: list[list[Any]] = []
    now: dict[str, list[Any]] = {}
    assigned_at = -1
    rows = group_evidence(p).filter(pl.col("dated").is_not_null(), group=group.id)
    for kind, at, member, generation, time in rows.select("kind", "at", "member", "generation", "dated").iter_rows():
        ended = {member} if kind == "released" else {*now} if kind == "assigned" and at != assigned_at else set()
        for name in ended.intersection(now):
            now.pop(name)[3] = time
        assigned_at = at if kind == "assigned" else assigned_at
        if kind in ("assigned", "owned") and member not in now:
            now[member] = [str(member)[:48], generation, time, None, False]
            found.append(now[member])
    return found


def _commits(p: Partition, group: Group) -> list[list[Any]]:
    made = p.marks.filter(
        group.is_member & pl.col("completed").is_not_null() & pl.col("offset").is_not_null(), kind="commit"
    ).sort("completed", "at", "index")
    rows = [
        [time, name[:48], offset, outcome == "ok"]
        for time, name, offset, outcome in made.select("completed", "process", "offset", "outcome").iter_rows()
    ]
    step = max(1, -(-len(rows) // MAX_COMMITS))
    refused = [row for row in rows if not row[3]][: MAX_COMMITS // 2]
    return sorted([*rows[::step], *(row for row in refused if row not in rows[::step])], key=lambda row: row[0])
