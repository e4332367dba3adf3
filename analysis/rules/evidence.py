"""Judges brokers' logs, and the sends beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from ..partitions.partition import Partition, once
from ..partitions.tombstones import nameless
from ..replicas.replica_logs import ReplicaLogs, complete_sends
from .judgement import Judgement


@dataclass(frozen=True)
class LogsJudge:
    """Judges a partition by its collected logs and its acknowledged sends (replica_logs.SENT_RECORDS)."""

    of_logs: Callable[[ReplicaLogs, pl.DataFrame], Judgement]

    def __call__(self, p: Partition) -> Judgement:
        return Judgement() if p.replica_logs is None else self.of_logs(p.replica_logs, _nameless(p))


@once
def _nameless(p: Partition) -> pl.DataFrame:
    """`sends_of`, with null as the value of a tombstone, as the logs have it."""
    return nameless(sends_of(p)) if len(p.tombstones) else sends_of(p)


@once
def sends_of(p: Partition) -> pl.DataFrame:
    """Acknowledged sends, with the columns that replica rules and causes take (replica_logs.SENT_RECORDS)."""
    entry = pl.Series(p.entry_of_send)
    seen = p.entries.select(read=pl.col("times") > 0, held="in_final", first_read="first_read")
    seen = seen.select(pl.all().gather(entry.set(entry < 0, None))).with_columns(
        pl.col("read", "held").fill_null(False)
    )
    columns = p.sends.with_columns(*seen, place="at")
    # A send whose outcome only the log shows was not acknowledged to a client.
    return complete_sends(columns.filter(pl.col("acknowledged")))
