"""The groups in `__consumer_offsets`, as facts for `timeline` and `explain`."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..partitions.coordinators import group_evidence
from ..partitions.partition import Partition
from ..timelines.facts import Fact
from ..wording import plural

Row = dict[str, Any]


def facts_of_groups(p: Partition) -> list[Fact]:
    """Assignments, removed offsets, commits that go back, and the last commit of each group."""
    facts = []
    for (group,), rows in group_evidence(p).group_by("group", maintain_order=True):
        commits = rows.filter(kind="committed").with_columns(previous=pl.col("offset").shift())
        count = plural(len(commits), "commit")
        back = commits.filter(pl.col("offset") < pl.col("previous"))
        facts += [_assigned(p, row) for row in rows.filter(kind="assigned").rows(named=True)]
        facts += [_owned(p, row) for row in rows.filter(pl.col("kind").is_in(["owned", "released"])).rows(named=True)]
        facts += [
            _fact(p, row, f"the committed offset of group {group} in {p.name} was removed")
            for row in rows.filter(kind="removed").rows(named=True)
        ]
        facts += [
            _fact(p, row, f"group {group} committed {p.name}@{row['offset']} after @{row['previous']}")
            for row in back.rows(named=True)
        ]
        facts += [
            _fact(p, row, f"group {group} committed {p.name}@{row['offset']}, the last of {count}")
            for row in commits.tail(1).rows(named=True)
        ]
    return facts


def facts_of_offset(p: Partition, offset: int) -> list[Fact]:
    """The first commit of each group that is beyond the offset."""
    beyond = group_evidence(p).filter(pl.col("offset") > offset, kind="committed")
    return [
        _fact(p, row, f"group {row['group']} passed it with the commit of {p.name}@{row['offset']}")
        for row in beyond.unique("group", keep="first", maintain_order=True).rows(named=True)
    ]


def _assigned(p: Partition, row: Row) -> Fact:
    text = f"generation {row['generation']} of group {row['group']} assigned {p.name} to {_member(p, row)}"
    return _fact(p, row, text)


def _owned(p: Partition, row: Row) -> Fact:
    """A member of a group of KIP-848 got the partition, or gave it up; a member that left has no epoch."""
    epoch = "" if row["generation"] is None else f" in member epoch {row['generation']}"
    did = "owned" if row["kind"] == "owned" else "no longer owned"
    return _fact(p, row, f"{_member(p, row)} of group {row['group']} {did} {p.name}{epoch}")


def _member(p: Partition, row: Row) -> str:
    """The process of the history with this member id, or else the client id; then the member id."""
    found = (frame.filter(member=row["member"])["process"].head(1) for frame in (p.marks, p.context))
    process = next((name for names in found for name in names), row["client"])
    return f"{process} ({row['member']}" + (f", instance {row['instance']})" if row["instance"] else ")")


def _fact(p: Partition, row: Row, sentence: str) -> Fact:
    source = (row["dated"], row["file"], None, row["byte"])
    return Fact(sentence, "group", *source, partition=p.name, offset=row["offset"])
