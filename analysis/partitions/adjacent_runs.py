"""Groups adjacent records, so that one event is one finding."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from .entries import Ints as Offsets


def adjacent_runs(rows: pl.DataFrame, between: Offsets, *same: str) -> Iterator[pl.DataFrame]:
    """Splits rows, sorted by offset, into runs without an offset of `between` inside and with equal `same` columns."""
    if not len(rows):
        return
    offsets = rows["offset"].to_numpy()
    gaps = np.searchsorted(between, offsets[1:], "left") - np.searchsorted(between, offsets[:-1], "right")
    breaks = gaps > 0
    for name in same:
        breaks |= rows[name].ne_missing(rows[name].shift(1)).to_numpy()[1:]
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(rows)]
    for start, end in pairwise(starts):
        yield rows[start:end]


def coexisting(records: pl.DataFrame, rows: pl.DataFrame) -> Offsets:
    """Offsets of `records` (offset, since) that existed together with a neighbour in `rows` (offset, until; sorted).

    Only these separate runs: a record that was written after its neighbours were gone does not.
    """
    if not len(rows) or not len(records):
        return records["offset"].to_numpy()
    offsets, until = rows["offset"].to_numpy(), rows["until"].fill_null(MAX_INT64).to_numpy()
    after = np.searchsorted(offsets, records["offset"].to_numpy(), "left")
    nearest = np.maximum(until[np.maximum(after - 1, 0)], until[np.minimum(after, len(rows) - 1)])
    return np.unique(records.filter(pl.col("since").fill_null(0) <= pl.Series(nearest))["offset"].to_numpy())
