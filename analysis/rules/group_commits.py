"""The groups of a partition with their members and their commits."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ...histories.tables import MIN_INT64
from ..partitions.marks import IS_COMMIT, IS_OF_GROUP
from ..partitions.partition import Partition, once


@dataclass(frozen=True)
class Group:
    """A consumer group."""

    id: str  # group.id; empty: consumers without one
    members: tuple[str, ...]  # processes

    @property
    def is_member(self) -> pl.Expr:
        """Selects the rows of its members."""
        return pl.col("process").is_in(self.members)

    def __str__(self) -> str:
        return f"group {self.id}" if self.id else "a group (group.id is not set)"


@once
def groups_of(p: Partition) -> list[Group]:
    """Groups that committed here, or that this partition was assigned to or taken from.

    Consumers without a group.id may share a group, so they are one: a record that any of them handled is handled.
    """
    groups: dict[str, list[str]] = {}
    for process in sorted(p.marks.filter(IS_OF_GROUP)["process"].unique()):
        groups.setdefault(p.settings.group_of(process), []).append(process)
    for process in sorted(p.settings.processes):
        group = p.settings.group_of(process)
        if group and group in groups and process not in groups[group]:
            groups[group].append(process)
    return [Group(name, tuple(members)) for name, members in groups.items()]


def groups_or_clients(p: Partition) -> list[Group]:
    """The groups. For the order of commits, a consumer without a group.id is a group of its own."""
    groups = groups_of(p)
    alone = [Group(process, (process,)) for group in groups if not group.id for process in group.members]
    return [*(group for group in groups if group.id), *alone]


@once
def commits_of(p: Partition, group: Group) -> pl.DataFrame:
    """The ok commits of a group, as rows of `p.marks` with an offset, in the order of completion."""
    return p.marks.filter(IS_COMMIT & group.is_member).sort("completed", "at", "index")


def committing_producers(p: Partition, group: Group) -> list[str]:
    """Members without a group.id that commit in transactions and poll nothing here, so their group is not known.

    Offsets that a producer commits are of the group of its consumer, another process.
    """
    committing = p.marks.filter(IS_COMMIT & group.is_member & pl.col("txn"))["process"].unique()
    reading = {*p.reads["process"].unique()} if len(committing) else set()
    return sorted(name for name in {*committing} - reading if not p.settings.group_of(name))


def with_begin(p: Partition, commits: pl.DataFrame) -> pl.DataFrame:
    """Adds `begun`: the earliest time (ns) at which each commit may have happened.

    An automatic commit may have happened as soon as its process had polled the record below it. For example, the
    callbacks of 10 and of 20 both come at 30 s, but offset 19 was polled at 9 s: the commit of 20 counts from 9 s.
    """
    automatic = commits.filter("auto").select("process", pl.col("offset") - 1).unique()
    if not len(automatic):
        return commits.with_columns(begun="invoked")
    polls = p.reads.join(automatic, on=["process", "offset"], how="semi")
    polled = polls.group_by("process", pl.col("offset") + 1).agg(polled=pl.col("completed").min())
    commits = commits.join(polled, on=["process", "offset"], how="left", maintain_order="left")
    begun = pl.when("auto").then(pl.col("polled").fill_null(MIN_INT64)).otherwise("invoked")
    return commits.with_columns(begun=begun).drop("polled")


def latest_before(commits: pl.DataFrame, earlier: pl.DataFrame, time: str) -> pl.DataFrame:
    """Commits with their `begun`, each with the last row of `earlier` that is before it; `time` orders those rows."""
    return commits.sort("begun", "at", "index").join_asof(
        earlier, left_on="begun", right_on=time, allow_exact_matches=False, coalesce=False, check_sortedness=False
    )
