"""Names for tombstones, so that rules can distinguish them: a tombstone has no value, but its offset identifies it."""

from __future__ import annotations

import polars as pl

NAME = pl.format("tombstone@{}", "offset")


def name_tombstones(sends: pl.DataFrame, reads: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.Series]:
    """Sends and reads with names as the values of tombstones, and these names. Rows without an offset are unchanged.

    A polled record without a value confirms a tombstone sent to that offset. At other offsets it proves nothing: the
    value may just not have been recorded.
    """
    has_no_value = pl.col("value").is_null() & pl.col("offset").is_not_null()
    if not sends["value"].null_count() or not len(sent := sends.filter(has_no_value)):
        return sends, reads, pl.Series("value", [], dtype=pl.String)
    with_names = pl.when(has_no_value).then(NAME).otherwise("value").alias("value")
    here = has_no_value & pl.col("offset").is_in(sent["offset"].unique().implode())
    confirmed = pl.when(here).then(NAME).otherwise("value").alias("value")
    return sends.with_columns(with_names), reads.with_columns(confirmed), sent.select(NAME).to_series().unique()


def nameless(sends: pl.DataFrame) -> pl.DataFrame:
    """Sends with the tombstones' names replaced by null, as they are in the brokers' logs."""
    return sends.with_columns(value=pl.when(pl.col("value") != NAME).then("value").otherwise(None))
