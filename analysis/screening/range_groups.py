"""What ranges of offsets show of consumer groups: the records that they passed over, and the ends that they committed.

The premise is `_groups_handle_what_they_commit` of premises.py, in the whole partition.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from ...histories.bundle import Settings
from ...histories.tables import MAX_INT64
from ..partitions.entries import Ints
from ..partitions.marks import IS_COMMIT, IS_OF_GROUP
from .many_partitions import group_of

Unhandled = dict[str, int]  # the first record of a range that a group did not handle


def groups_of(marks: pl.DataFrame, settings: Settings) -> list[str]:
    """The groups with commits or assignments; an empty name stands for one that run.json does not name."""
    return marks.filter(IS_OF_GROUP).select(group_of(settings)).to_series().unique().sort().to_list()


def unhandled_by(
    groups: list[str], placed: pl.DataFrame, done: pl.DataFrame, handlers: list[str], settings: Settings
) -> Unhandled:
    """By group the first of the `placed` records (offset, value) that no member handled (`done`).

    If no process records what it handles, these are the reads; else only groups of such `handlers` count.
    """
    recorders = {settings.group_of(name) for name in handlers}
    there = done.with_columns(group_of(settings).alias("group")).join(placed, on=["offset", "value"], how="semi")
    unhandled: Unhandled = {}
    for group in groups:
        by_group = there.filter((pl.col("group") == group) & pl.lit(not handlers or group in recorders))
        first = placed.join(by_group, on="offset", how="anti")["offset"].min()
        if isinstance(first, int):
            unhandled[group] = first
    return unhandled


def ends_are_known(commits: pl.DataFrame, ends: Ints, since: Ints) -> bool:
    """Whether each commit's offset was known as an end when it was made: from `since` (ns) on at or behind `ends`."""
    known = pl.DataFrame({"end": ends, "since": since}).sort("end")
    known = known.with_columns(pl.col("since").cum_min(reverse=True))
    dated = commits.sort("offset").join_asof(
        known, left_on="offset", right_on="end", strategy="forward", check_sortedness=False
    )
    late = pl.col("since").fill_null(MAX_INT64) > pl.col("completed").fill_null(MAX_INT64)
    return not dated.select(late.any()).item()


def groups_follow(
    marks: pl.DataFrame, first_read: dict[str, int], unhandled: Iterable[Unhandled], end: int | None, settings: Settings
) -> bool:
    """Whether the groups' commits grow up to the `end` of the final reads, and they handled all records below these.

    `first_read`: the least offset that each group read; records below it count as well.
    """
    groups = groups_of(marks, settings)
    named = marks.with_columns(group_of(settings).alias("group"))
    commits = named.filter(IS_COMMIT).sort("completed", "at", "index")
    goes_back = commits.filter(pl.col("offset") < pl.col("offset").shift().over("group"))
    beyond = commits.filter(pl.col("offset") > end) if end is not None else commits.clear()
    is_assigned = (pl.col("kind") == "assign") & marks["group"] & (pl.col("outcome") == "ok")
    claimed = pl.concat([commits, named.filter(is_assigned)]).group_by("group").agg(pl.col("offset").max())
    limits = dict(claimed.drop_nulls().iter_rows())
    is_short = any(
        offset < max(limits.get(group, -1), first_read.get(group, -1))
        for of_range in unhandled
        for group, offset in of_range.items()
    )
    return "" not in groups and not len(goes_back) and not len(beyond) and not is_short
