"""What an open transaction hides: consumers that read only committed records stop at its first record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64

if TYPE_CHECKING:
    from .partition import Partition


def hidden_from(p: Partition, processes: tuple[str, ...], end: int, until: int) -> int:
    """The first offset that an open transaction may have hidden from reads by these processes.

    The reads came to `end` (exclusive), the last of them at `until` (ns). Beyond all where nothing is hidden.
    """
    if not p.transactional or not (_stops(p, processes) or _asked_for_stable(p)):
        return MAX_INT64
    ended = pl.when(pl.col("outcome") == "info").then(MAX_INT64).otherwise(pl.col("completed").fill_null(MAX_INT64))
    columns = ("at", "offset")
    mine = pl.col("txn") & (ended >= until) & (pl.col("invoked") <= until)
    steps = pl.concat([frame.filter(mine).select(columns) for frame in (p.sends, p.unplaced)])
    # One of which the reads passed a record was not open.
    passed = steps.filter(pl.col("offset") < end)
    steps = steps.join(passed, on="at", how="anti")
    if not len(steps):
        return MAX_INT64
    known = steps["offset"].min()
    first = known if isinstance(known, int) else MAX_INT64
    return min(first, _first_gap(p, end)) if steps["offset"].null_count() else first


def _stops(p: Partition, processes: tuple[str, ...]) -> bool:
    return any(p.isolation(name) != "read_uncommitted" for name in processes)


def _asked_for_stable(p: Partition) -> bool:
    """Whether the only end that the reads could be held to may be the last stable offset."""
    late = pl.col("invoked") >= p.last_heal
    return bool(len(p.end_offsets.filter(late)) and not len(p.log_ends.filter(late)))


def _first_gap(p: Partition, end: int) -> int:
    """The first offset from `end` on that no acknowledged record is known to hold, so that another may stand there."""
    held = p.sends.filter(pl.col("acknowledged") & (pl.col("offset") >= end))["offset"].unique().sort().to_numpy()
    dense = held == end + np.arange(len(held))
    return end + (len(held) if dense.all() else int(np.argmin(dense)))
