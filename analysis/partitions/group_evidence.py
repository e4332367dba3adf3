"""The records of `__consumer_offsets`, from the brokers' copies, about groups that commit to one partition."""

from __future__ import annotations

import polars as pl

from .evidence import longest_copies, on_clock_of_history
from .observations import Observations, once


@once
def group_evidence(p: Observations) -> pl.DataFrame:
    """Rows of GROUPS about this partition at the end of the run, in the order of the log, with `dated` (ns or null).

    All records of a group are in one partition of `__consumer_offsets` (`longest_copies`). There are no rows if the
    topic was deleted during the run.
    """
    rows = p.groups if p.generation is None else p.groups.clear()
    best = longest_copies(rows, "group", ("at", "kind", "member"), "offset", ("at",))
    dated = best.with_columns(dated=on_clock_of_history(pl.col("time"), p.settings))
    return dated.sort("group", "at", "member", maintain_order=True)


def committed_at_last(p: Observations) -> pl.DataFrame:
    """The row of each group's last committed offset, unless the offset was removed later."""
    offsets = group_evidence(p).filter(pl.col("kind").is_in(["committed", "removed"]))
    last = offsets.unique("group", keep="last", maintain_order=True)
    return last.filter(kind="committed").sort("group")
