"""The log of one key as Jepsen's kafka workload defines it; a Partition of such a history is one key.

Source: jepsen.tests.kafka. Unlike in native histories, polls of every outcome and sends that must have committed show
the log, its index is dense, and no read is known to be final.
"""

from __future__ import annotations

import polars as pl

from .observations import Observations, once


@once
def jepsen_log(p: Observations) -> pl.DataFrame:
    """The (offset, value) pairs that the log is known to have held, in order of offset; columns process and at too."""
    seen = [frame.select("offset", "value", "process", "at") for frame in (committed_sends(p), p.reads)]
    known = pl.concat(seen).drop_nulls("offset").unique(["offset", "value"], keep="first", maintain_order=True)
    return known.sort("offset", maintain_order=True)


@once
def jepsen_index(p: Observations) -> pl.DataFrame:
    """The first and last place of each value in the dense log; columns value, first, last.

    An offset with several values counts once, with the first of them in the order of the log.
    """
    chosen = jepsen_log(p).unique("offset", keep="first", maintain_order=True).with_row_index("place")
    place = pl.col("place").cast(pl.Int64)
    return chosen.group_by("value", maintain_order=True).agg(first=place.min(), last=place.max())


def committed_sends(p: Observations) -> pl.DataFrame:
    """Sends of operations that are ok, or indeterminate but read by another operation."""
    seen = pl.col("at").is_in(p.confirmed.implode())
    return p.sends.filter((pl.col("outcome") == "ok") | ((pl.col("outcome") == "info") & seen))


def values_read(p: Observations) -> pl.DataFrame:
    """The values that an ok operation read, each once."""
    return p.reads.filter(outcome="ok").select("value").unique()
