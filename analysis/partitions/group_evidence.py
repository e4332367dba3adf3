"""The records of `__consumer_offsets`, from the brokers' copies, about groups that commit to one partition."""

from __future__ import annotations

import polars as pl

from ...histories.evidence.tables import FINAL
from .evidence import on_clock_of_history
from .observations import Observations, once

_ITEM = ("group", "at", "kind", "member")


@once
def group_evidence(p: Observations) -> pl.DataFrame:
    """Rows of GROUPS about this partition at the end of the run, in the order of the log, with `dated` (ns or null).

    All records of a group are in one partition of `__consumer_offsets`; the longest copy of it counts. A group is left
    out if copies differ, as after an unclean election. There are no rows if the topic was deleted during the run.
    """
    rows = p.groups.filter(pl.col("snapshot") == FINAL)
    if p.generation is not None or not len(rows):
        return p.groups.clear().with_columns(dated=pl.lit(None, pl.Int64))
    differ = rows.group_by(_ITEM).agg(pl.col("offset").n_unique()).filter(pl.col("offset") > 1)["group"]
    ends = rows.group_by("group", "broker").agg(end=pl.col("at").max()).sort("end", "broker", descending=[True, False])
    best = ends.unique("group", keep="first", maintain_order=True)
    return (
        rows.filter(~pl.col("group").is_in(differ.implode()))
        .join(best.select("group", "broker"), on=["group", "broker"], how="semi", maintain_order="left")
        .with_columns(dated=on_clock_of_history(pl.col("time"), p.settings))
        .sort("group", "at", "member", maintain_order=True)
    )


def committed_at_last(p: Observations) -> pl.DataFrame:
    """The row of each group's last committed offset, unless the offset was removed later."""
    offsets = group_evidence(p).filter(pl.col("kind").is_in(["committed", "removed"]))
    last = offsets.unique("group", keep="last", maintain_order=True)
    return last.filter(pl.col("kind") == "committed").sort("group")
