"""Polls of which nobody knows how they ended: the offsets that each may have given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from .ranges import Ranges, merged

if TYPE_CHECKING:
    from .partition import Partition


def indeterminate_polls(p: Partition, processes: Iterable[str]) -> Ranges:
    """What polls of these processes may have given: from behind what the process read before to what it read next."""
    # Who neither read nor was assigned this partition polled others.
    here = {*p.reads["process"].unique(), *p.marks["process"].unique()} & {*processes}
    polls = p.context.filter((pl.col("kind") == "poll") & pl.col("process").is_in(list(here)))
    lows, highs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for process, invoked in polls.group_by("process").agg(pl.col("invoked").unique()).sort("process").iter_rows():
        mine = p.reads.filter((pl.col("process") == process) & pl.col("offset").is_not_null()).sort("completed", "at")
        offsets = mine["offset"].to_numpy()
        at = np.searchsorted(mine["completed"].fill_null(MAX_INT64).to_numpy(), np.array(invoked), "right")
        before, after = np.append(-1, offsets)[at], np.append(offsets, MAX_INT64)[at]
        lows.append(before + 1)
        # Where it goes back, or nowhere, nothing bounds what the poll may have given.
        highs.append(np.where(after > before, after - 1, MAX_INT64))
    return merged(np.concatenate(lows), np.concatenate(highs))
