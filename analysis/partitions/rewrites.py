"""Which acknowledged records of a partition followed which at the same offsets: the log began anew in between.

A log's end goes back only where records are lost. So of acknowledgements in the order of time, the first that names an
offset again begins a new generation, and records that were lost in one event are of one generation and were followed
by the same one.
"""

from __future__ import annotations

import numpy as np
import polars as pl


def generations(acknowledged: pl.DataFrame, place: str) -> pl.DataFrame:
    """`acknowledged` (columns offset, completed and `place`) with `generation`, and `followed`: the generation of the
    next record at that offset, null where none followed. They come in the order of time, as sends of a partition do.
    """
    offsets = acknowledged["offset"].drop_nulls()
    if offsets.n_unique() == len(offsets):  # as in nearly every log
        nothing = pl.lit(None, dtype=pl.Int64).alias("followed")
        return acknowledged.with_columns(pl.lit(0, dtype=pl.Int64).alias("generation"), nothing)
    ordered = acknowledged.sort("completed", place, nulls_last=True).with_row_index("nth")
    previous = ordered.select(
        pl.when(pl.col("offset").is_not_null()).then(pl.col("nth").shift(1).over("offset")).cast(pl.Int64)
    ).to_series()
    starts, start = [0], 0
    for row in np.flatnonzero(previous.is_not_null().to_numpy()).tolist():
        if previous[row] >= start:
            start = row
            starts.append(row)
    generation = np.searchsorted(np.array(starts), np.arange(len(ordered)), "right") - 1
    return (
        ordered.with_columns(pl.Series("generation", generation, dtype=pl.Int64))
        .with_columns(pl.col("generation").shift(-1).over("offset").alias("followed"))
        .drop("nth")
    )


def events(lost: pl.DataFrame, *then: str) -> list[pl.DataFrame]:
    """Lost records (of `generations`), those of one event together, sorted by offset.

    Where nothing followed at an offset, its record went with those below it, as what follows begins at the lower end.
    Records below all that followed went with those above them, unless the next generation lost records too: that
    one began above them, so they stood until its own event.
    """
    ordered = lost.sort("generation", "offset", *then, nulls_last=True)
    after = pl.col("followed").forward_fill().over("generation")
    again = (pl.col("generation") + 1).is_in(ordered["generation"].unique().implode())
    before = pl.when(~again).then(after.backward_fill().over("generation"))
    known = ordered.with_columns(pl.coalesce(after, before, -1).alias("followed"))
    return known.partition_by("generation", "followed", maintain_order=True) if len(known) else []
