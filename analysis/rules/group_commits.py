"""The groups of a partition with their members, and their commits."""

from __future__ import annotations

import polars as pl

from ...histories.tables import MIN_INT64
from ..partitions.marks import IS_COMMIT, IS_OF_GROUP
from ..partitions.partition import Partition


def groups_of(p: Partition) -> dict[str, list[str]]:
    """Groups that committed here, or that this partition was assigned to or taken from, each with its members.

    Consumers without a group.id (name "") may share a group, so they are one: a record that any of them handled is
    handled.
    """
    active = p.marks.filter(IS_OF_GROUP)
    groups: dict[str, list[str]] = {}
    for process in sorted(active["process"].unique()):
        groups.setdefault(p.settings.group_of(process), []).append(process)
    for process in sorted(p.settings.processes):
        group = p.settings.group_of(process)
        if group and group in groups and process not in groups[group]:
            groups[group].append(process)
    return groups


def groups_or_clients(p: Partition) -> list[tuple[str, list[str]]]:
    """The groups with their members. For the order of commits, a consumer without a group.id is a group of its own."""
    known = groups_of(p)
    alone = [(process, [process]) for process in known.pop("", [])]
    return [*known.items(), *alone]


def commits_of(p: Partition, members: list[str]) -> pl.DataFrame:
    """The ok commits of these processes, as rows of `p.marks` with an offset, in the order of completion."""
    return p.marks.filter(IS_COMMIT & pl.col("process").is_in(members)).sort("completed", "at", "index")


def with_begin(commits: pl.DataFrame) -> pl.DataFrame:
    """Adds `begun`, the earliest time (ns) at which each commit may have happened.

    An automatic commit happened some time before its callback, but after its process's automatic one before it.
    """
    seen = pl.when("auto").then("completed").shift(1).forward_fill().over("process")
    return commits.with_columns(begun=pl.when("auto").then(seen.fill_null(MIN_INT64) + 1).otherwise("invoked"))
