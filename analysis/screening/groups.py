"""The premise that consumer groups handle what they commit: of many partitions (column tp), or of one in ranges."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MAX_INT64
from ...models.arrays import Ints
from ..figures.breaches import owner_of
from ..partitions.marks import IS_COMMITTED, IS_HANDLED, IS_OF_GROUP


def group_of(settings: Settings) -> pl.Expr:
    """An expression on rows with a process: its group.id, as `group`; empty if run.json sets none."""
    groups = {name: settings.group_of(name) for name in settings.processes}
    return pl.col("process").replace_strict(groups, default="", return_dtype=pl.String).alias("group")


def handlers_of(context: pl.DataFrame) -> list[str]:
    """The processes that record which records they handled."""
    return context.filter(kind="handles")["process"].unique().sort().to_list()


def groups_of(marks: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """The groups (tp, group) with commits or assignments."""
    return marks.filter(IS_OF_GROUP).select("tp", group_of(settings)).unique()


def unhandled_records(
    groups: pl.DataFrame,
    placed: pl.DataFrame,
    reads: pl.DataFrame,
    marks: pl.DataFrame,
    context: pl.DataFrame,
    settings: Settings,
) -> pl.DataFrame:
    """The records that no member of a group handled: tp, group, offset, value; among `placed` (tp, offset, value).

    Members handled what they marked so. If no process records that, they handled what they read.
    """
    handlers = handlers_of(context)
    done = marks.filter(IS_HANDLED) if handlers else reads
    handled = done.select("tp", group_of(settings), "offset", "value")
    if handlers:  # only their groups count
        handled = handled.filter(pl.col("group").is_in({settings.group_of(name) for name in handlers}))
    return groups.join(placed, on="tp").join(handled, on=["tp", "group", "offset", "value"], how="anti")


def contradicting_groups(
    marks: pl.DataFrame, first_read: pl.DataFrame, unhandled: pl.DataFrame, final: pl.DataFrame, settings: Settings
) -> Iterator[pl.DataFrame]:
    """Rows where a group's commits go back or pass the end of the final reads, or where it skipped a record.

    `first_read`: the least offset (tp, group, offset) that each group read. It skipped an `unhandled` record below
    that, a commit, or an assigned offset.
    """
    yield groups_of(marks, settings).filter(group="")  # which of these members share a group is not known
    committed = marks.filter(IS_COMMITTED).with_columns(group_of(settings)).sort("completed", "at", "index")
    yield committed.filter(pl.col("offset") < pl.col("offset").shift().over("tp", "group"))
    yield committed.filter(kind="commit").join(final, on="tp").filter(pl.col("offset") > pl.col("end"))
    claimed = pl.concat([frame.select("tp", "group", "offset") for frame in (committed, first_read)])
    limits = claimed.group_by("tp", "group").agg(limit=pl.col("offset").max())
    yield unhandled.join(limits, on=["tp", "group"]).filter(pl.col("offset") < pl.col("limit"))


def ends_are_known(commits: pl.DataFrame, ends: Ints, since: Ints) -> bool:
    """Whether each commit's offset was at or below an end known when it was made; `ends` are known `since` (ns)."""
    known = pl.DataFrame({"end": ends, "since": since}).sort("end")
    known = known.with_columns(pl.col("since").cum_min(reverse=True))
    dated = commits.sort("offset").join_asof(
        known, left_on="offset", right_on="end", strategy="forward", check_sortedness=False
    )
    late = pl.col("since").fill_null(MAX_INT64) > pl.col("completed").fill_null(MAX_INT64)
    return not dated.select(late.any()).item()


def handled_again(marks: pl.DataFrame, settings: Settings, *key: str) -> int:
    """The number of records that a group, or a single consumer, handled again; `key`: columns of the partition."""
    handled = marks.filter(kind="handle", outcome="ok")
    return len(handled.group_by(*key, owner_of(settings), "offset").len().filter(pl.col("len") > 1))
