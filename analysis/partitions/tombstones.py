"""Tombstones get names, so that rules can tell them apart: no value identifies one, but its offset does."""

from __future__ import annotations

import polars as pl

NAME = pl.format("tombstone@{}", "offset")


def named(sends: pl.DataFrame, reads: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.Series]:
    """Sends and reads with names in place of tombstones' values, and the names; what has no offset stays as it is.

    A poll without a value confirms the tombstone that stands there, and says nothing elsewhere: it may be that
    nobody recorded what it gave.
    """
    nameless = pl.col("value").is_null() & pl.col("offset").is_not_null()
    if not sends["value"].null_count() or not len(sent := sends.filter(nameless)):
        return sends, reads, pl.Series("value", [], dtype=pl.String)
    told = pl.when(nameless).then(NAME).otherwise("value").alias("value")
    here = nameless & pl.col("offset").is_in(sent["offset"].unique().implode())
    confirmed = pl.when(here).then(NAME).otherwise("value").alias("value")
    return sends.with_columns(told), reads.with_columns(confirmed), sent.select(NAME).to_series().unique()


def nameless(sends: pl.DataFrame) -> pl.DataFrame:
    """Sends with null for the value of a tombstone again, as brokers keep it."""
    return sends.with_columns(pl.when(pl.col("value") != NAME).then("value").otherwise(None).alias("value"))
