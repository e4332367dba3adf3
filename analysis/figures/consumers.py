"""Effects that consumers do not notice: records that they never received, and records that they handled twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ..partitions.indeterminate_polls import indeterminate_polls
from ..partitions.partition import Partition
from ..rules.loss import outcomes_of_sends

if TYPE_CHECKING:
    from ...histories.settings import Settings

MAX_CONSUMERS = 40


def never_received(p: Partition) -> list[list[Any]]:
    """Acknowledged records that a consumer skipped: it had read a record, truncated since, at the same offset.

    Rows [process, partition, first offset, last offset, records], most records first. A record that any member of the
    consumer's group received counts as received.
    """
    ambiguous = p.entries.filter(pl.col("offset").is_duplicated())["offset"].unique()
    if not len(ambiguous):
        return []
    polled = p.reads.with_columns(owner_of(p.settings))
    reads = polled.filter(pl.col("offset").is_not_null())
    present = (
        outcomes_of_sends(p)
        .filter(~(pl.col("lost") | pl.col("legal") | pl.col("doubtful")))
        .select("offset", present="value")
    )
    saw = reads.filter(pl.col("offset").is_in(ambiguous.implode())).join(present, on="offset")
    received = polled.select("owner", present="value")
    last = reads.group_by("owner").agg(last=pl.col("offset").last())  # rows are sorted by time
    missed = (
        saw.filter(pl.col("value") != pl.col("present"))
        .unique(["process", "offset"])
        .join(received, on=["owner", "present"], how="anti")
        .join(last, on="owner")
        .filter(pl.col("offset") <= pl.col("last"))
    )
    rows = []
    for (process,), missed_by_process in missed.group_by("process"):
        offsets = missed_by_process["offset"].to_numpy()
        offsets = offsets[~indeterminate_polls(p, [str(process)]).hold(offsets)]
        if len(offsets):
            rows.append([process, p.name, int(offsets.min()), int(offsets.max()), len(offsets)])
    return sorted(rows, key=lambda row: (-row[-1], row[0]))[:MAX_CONSUMERS]


def handled_again(p: Partition) -> int:
    """The number of records that a group, or a single consumer, handled again. At-least-once delivery permits it."""
    done = p.marks.filter(kind="handle", outcome="ok")
    if not len(done):
        return 0
    handled = done.group_by(owner_of(p.settings), "offset").len("times")
    read = p.reads.group_by(owner_of(p.settings), "offset").agg(pl.col("value").n_unique())
    # Handling another record at the same offset is not a repetition.
    values = handled.join(read, on=["owner", "offset"], how="left")["value"].fill_null(1)
    return int((handled["times"] > values).sum())


def owner_of(settings: Settings) -> pl.Expr:
    """An expression on rows with a process: its group, else the process itself, as `owner`."""
    groups = {name: f"group {settings.group_of(name)}" for name in settings.processes if settings.group_of(name)}
    return pl.col("process").replace(groups).alias("owner")
