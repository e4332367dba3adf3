"""The collected logs that still have records of a loss, so that they can be copied from there."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from ..replicas.replica_logs import ReplicaLogs

_LOG = pl.col("file").str.replace(r"/\d{20}\.log$", "")  # the folder of a segment; a dump has no other files

MAX_COPIES = 3


def remaining_copies(logs: ReplicaLogs | None, values: Collection[str]) -> tuple[tuple[str, int], ...]:
    """At most MAX_COPIES logs with the most of these lost values, and how many of them each has.

    They are in a snapshot, in a leftover folder, or in a replica's last log that differs from the leader's.
    """
    if logs is None or not values:
        return ()
    wanted = pl.Series("value", list(values), pl.String)
    records = pl.concat([frame.select("file", "value") for frame in (logs.records, logs.leftovers)])
    held = records.filter(pl.col("value").is_in(wanted.implode())).group_by(log=_LOG).agg(pl.col("value").n_unique())
    return tuple(held.sort("value", "log", descending=[True, False]).head(MAX_COPIES).rows())
