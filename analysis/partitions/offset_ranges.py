"""Ranges of offsets of a large partition: each fits in memory, whatever the size of the partition."""

from __future__ import annotations

import polars as pl

MAX_RANGES = 1 << 12  # of a large partition; beyond them it is judged whole
REST = -1  # the range of rows that belong to none, such as moves of consumers


def by_range(table: str, rows: pl.DataFrame, size: int) -> list[tuple[int, pl.DataFrame]]:
    """The rows of a partition's table by the range of `size` offsets that they are in; REST for those without one.

    Of marks only handled records have ranges: the others are few, and concern the whole partition.
    """
    offsets = rows["offset"]
    if table == "marks":
        offsets = rows.select(pl.when(pl.col("kind") == "handle").then("offset")).to_series()
    low, high = offsets.min(), offsets.max()  # of a column: a query would wait for the threads that read
    if not isinstance(low, int) or not isinstance(high, int):
        return [(REST, rows)]
    if not offsets.null_count() and 0 <= low // size == high // size < MAX_RANGES:  # as in most blocks
        return [(low // size, rows)]
    parts = rows.group_by(range_of(pl.lit(offsets), size).alias("range"), maintain_order=True)
    return [(int(str(key)), part) for (key,), part in parts]


def range_of(offset: pl.Expr, size: int) -> pl.Expr:
    """The range of an offset; REST for none, and for offsets that no log of a run has."""
    number = offset // size
    return pl.when(number.is_between(0, MAX_RANGES - 1)).then(number).otherwise(REST)
