"""Groups records, so that one event is one finding: adjacent records, and those that one rewrite of a log replaced."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from ...models.arrays import Ints as Offsets

NO_OFFSETS: Offsets = np.empty(0, np.int64)


def adjacent_runs(rows: pl.DataFrame, between: Offsets, *same: str) -> Iterator[pl.DataFrame]:
    """Splits rows, sorted by offset, into runs without an offset of `between` inside and with equal `same` columns."""
    if len(rows) <= 1:  # as most runs of scattered offsets
        yield from [rows] * len(rows)
        return
    offsets = rows["offset"].to_numpy()
    gaps = np.searchsorted(between, offsets[1:], "left") - np.searchsorted(between, offsets[:-1], "right")
    breaks = gaps > 0
    for name in same:
        breaks |= rows[name].ne_missing(rows[name].shift(1)).to_numpy()[1:]
    starts = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(rows)]
    for start, end in pairwise(starts):
        yield rows[start:end]


def coexisting_offsets(records: pl.DataFrame, rows: pl.DataFrame) -> Offsets:
    """Offsets of `records` (offset, since) that existed together with a neighbour in `rows` (offset, until; sorted).

    Only these separate runs: a record that was written after its neighbours were gone does not.
    """
    if not len(rows) or not len(records):
        return records["offset"].to_numpy()
    offsets, until = rows["offset"].to_numpy(), rows["until"].fill_null(MAX_INT64).to_numpy()
    after = np.searchsorted(offsets, records["offset"].to_numpy(), "left")
    nearest = np.maximum(until[np.maximum(after - 1, 0)], until[np.minimum(after, len(rows) - 1)])
    return np.unique(records.filter(pl.col("since").fill_null(0) <= pl.Series(nearest))["offset"].to_numpy())


def with_rewrites(acknowledged: pl.DataFrame, place: str) -> pl.DataFrame:
    """`acknowledged` (columns offset, completed and `place`), sorted by time, with two columns.

    A log's end only moves back if records are lost. So the first acknowledgement of an offset that was acknowledged
    before begins a rewrite of the log. Records lost in one event have the same rewrite and the same next rewrite.

    `rewrite`: the number of the rewrite that wrote the record; 0: before the first one. `next_rewrite`: that of the
    next record at its offset; null: there is none.
    """
    offsets = acknowledged["offset"].drop_nulls()
    if offsets.n_unique() == len(offsets):  # as in nearly every log
        no_next = pl.lit(None, pl.Int64).alias("next_rewrite")
        return acknowledged.with_columns(pl.lit(0, dtype=pl.Int64).alias("rewrite"), no_next)
    ordered = acknowledged.sort("completed", place, nulls_last=True).with_row_index("nth")
    previous = ordered.select(
        pl.when(pl.col("offset").is_not_null()).then(pl.col("nth").shift(1).over("offset")).cast(pl.Int64)
    ).to_series()
    starts, start = [0], 0
    for row in np.flatnonzero(previous.is_not_null().to_numpy()).tolist():
        if previous[row] >= start:
            start = row
            starts.append(row)
    rewrite = np.searchsorted(np.array(starts), np.arange(len(ordered)), "right") - 1
    return (
        ordered.with_columns(pl.Series("rewrite", rewrite, dtype=pl.Int64))
        .with_columns(next_rewrite=pl.col("rewrite").shift(-1).over("offset"))
        .drop("nth")
    )


def lost_runs(lost: pl.DataFrame, present: pl.DataFrame, then: str) -> Iterator[pl.DataFrame]:
    """Lost records (rows of `with_rewrites`) in runs that were lost in one event, sorted by offset, and by `then`.

    A record of `present` (offset, invoked) separates two runs if it was there together with one of them.
    """
    present = present.select("offset", since="invoked")
    for event in _events(lost, then):
        yield from adjacent_runs(event, coexisting_offsets(present, event.select("offset", until="completed")))


def _events(lost: pl.DataFrame, then: str) -> list[pl.DataFrame]:
    """Groups lost records by event.

    A rewrite begins at the lower log end. So a record without a successor was lost with the records below it.
    Records below the first successor were lost with those above them. There is one exception: if the next rewrite
    lost records too, it began above these records, so they existed until its own event.
    """
    ordered = lost.sort("rewrite", "offset", then, nulls_last=True)
    after = pl.col("next_rewrite").forward_fill().over("rewrite")
    again = (pl.col("rewrite") + 1).is_in(ordered["rewrite"].unique().implode())
    before = pl.when(~again).then(after.backward_fill().over("rewrite"))
    known = ordered.with_columns(next_rewrite=pl.coalesce(after, before, -1))
    return known.partition_by("rewrite", "next_rewrite", maintain_order=True) if len(known) else []
