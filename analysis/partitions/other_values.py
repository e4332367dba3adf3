"""Other values at the offset of a send that are known from a later time."""

from __future__ import annotations

import numpy as np
import polars as pl

from .partition import Partition


def with_other_value(p: Partition, sent: pl.DataFrame) -> pl.DataFrame:
    """Adds `other`: another value at the same offset that is known from a later time, `other_since` (ns)."""
    if (np.diff(p.entries["offset"].to_numpy()) > 0).all():
        nothing = {name: pl.lit(None, pl.Int64) for name in ("other_since", "other_at")}
        return sent.with_columns(other=pl.lit(None, pl.String), **nothing)
    crowded = p.entries.filter(pl.col("offset").is_duplicated()).select("offset", "value")
    reads = p.entries.filter(pl.col("times") > 0).select("offset", "value", "first_read", "first_read_at")
    acks = p.sends.filter(outcome="ok").select("offset", "value", acked="completed", acked_at="at")
    known = (
        crowded.join(reads, on=["offset", "value"], how="left")
        .join(acks.unique(["offset", "value"]), on=["offset", "value"], how="left")
        .select(
            "offset",
            other="value",
            other_since=pl.min_horizontal("first_read", "acked"),
            other_at=pl.when(pl.col("acked").is_null() | (pl.col("first_read") < pl.col("acked")))
            .then("first_read_at")
            .otherwise("acked_at"),
        )
        .drop_nulls("other_since")
    )
    # The newest value of an offset, and the newest other than that: a value's latest other one is one of these.
    ordered = known.sort("other_since", "other_at", maintain_order=True)
    newest = ordered.unique("offset", keep="last", maintain_order=True)
    others = ordered.join(newest, on=["offset", "other"], how="anti", maintain_order="left")
    known = pl.concat([newest, others.unique("offset", keep="last", maintain_order=True)])
    pairs = sent.select("offset", "value", since=pl.min_horizontal("completed", "first_read")).join(known, on="offset")
    later = pairs.filter((pl.col("other") != pl.col("value")) & (pl.col("other_since") > pl.col("since")))
    latest = later.sort("other_since", "other_at").group_by("value", maintain_order=True).last()
    latest = latest.select("value", "other", "other_since", "other_at")
    return sent.join(latest, on="value", how="left", maintain_order="left")
