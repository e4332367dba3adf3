"""What consumers took part in without noticing: records that they never got, and records that they handled twice."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..partitions.indeterminate_polls import indeterminate_polls
from ..partitions.partition import Partition
from ..rules.loss import outcomes_of_sends

MAX_CONSUMERS = 40


def never_received(p: Partition) -> list[list[Any]]:
    """Acknowledged records that stand at offsets at which a consumer got another record, cut off since, and went on.

    Rows [process, partition, first offset, last offset, records], most records first. What a member of the same group
    got, the consumer got.
    """
    crowded = p.entries.filter(pl.col("offset").is_duplicated())["offset"].unique()
    if not len(crowded):
        return []
    polled = p.reads.with_columns(_owners(p, p.reads))
    reads = polled.filter(pl.col("offset").is_not_null())
    stands = (
        outcomes_of_sends(p)
        .filter(~(pl.col("lost") | pl.col("legal") | pl.col("doubtful")))
        .select("offset", stands="value")
    )
    saw = reads.filter(pl.col("offset").is_in(crowded.implode())).join(stands, on="offset")
    got = polled.select("whose", stands="value")
    last = reads.group_by("whose").agg(pl.col("offset").last().alias("last"))  # rows are in the order of time
    missed = (
        saw.filter(pl.col("value") != pl.col("stands"))
        .unique(["process", "offset"])
        .join(got, on=["whose", "stands"], how="anti")
        .join(last, on="whose")
        .filter(pl.col("offset") <= pl.col("last"))
    )
    rows = []
    for (process,), mine in missed.group_by("process"):
        offsets = mine["offset"].to_numpy()
        offsets = offsets[~indeterminate_polls(p, [str(process)]).hold(offsets)]
        if len(offsets):
            rows.append([process, p.name, int(offsets.min()), int(offsets.max()), len(offsets)])
    return sorted(rows, key=lambda row: (-row[-1], row[0]))[:MAX_CONSUMERS]


def handled_again(p: Partition) -> int:
    """Records that a group, or a consumer without one, handled more than once; at-least-once delivery permits it."""
    done = p.marks.filter((pl.col("kind") == "handle") & (pl.col("outcome") == "ok"))
    if not len(done):
        return 0
    handled = done.with_columns(_owners(p, done)).group_by("whose", "offset").len("times")
    held = p.reads.with_columns(_owners(p, p.reads)).group_by("whose", "offset").agg(pl.col("value").n_unique())
    # Another record at the same offset is handled for the first time.
    values = handled.join(held, on=["whose", "offset"], how="left")["value"].fill_null(1)
    return int((handled["times"] > values).sum())


def _owners(p: Partition, rows: pl.DataFrame) -> pl.Series:
    """The group of each row's process, else the process itself."""
    names = rows["process"].unique().drop_nulls().to_list()
    groups = [f"group {p.settings.group_of(name)}" if p.settings.group_of(name) else name for name in names]
    return rows["process"].replace_strict(names, groups, return_dtype=pl.String).alias("whose")
