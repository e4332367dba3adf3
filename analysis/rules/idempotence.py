"""Sends without idempotence, whose records may be written twice or out of order."""

from __future__ import annotations

import polars as pl

from ...histories.settings import idempotence
from ..partitions.partition import Partition


def without_idempotence(p: Partition, values: pl.Series) -> set[tuple[str, str]]:
    """The sends (process, value) of these values that certainly lack idempotence.

    Evidence is the producer's configuration, acks 0 or 1 (KIP-98 needs acks=all), or a record without a producer id.
    """
    wanted = pl.col("value").is_in(values.drop_nulls().unique().implode())
    sent = pl.concat([frame.filter(wanted).select("process", "value", "acks") for frame in (p.sends, p.unplaced)])
    if not len(sent):
        return set()
    without_id = _without_producer_id(p, sent["value"])
    configured = {
        (process, acks): idempotence(p.settings.processes.get(process, {}), acks)
        for process, acks in sent.select("process", "acks").unique().iter_rows()
    }
    return {
        (process, value)
        for process, value, acks in sent.iter_rows()
        if configured[process, acks] is False or (configured[process, acks] is None and value in without_id)
    }


def _without_producer_id(p: Partition, values: pl.Series) -> set[str]:
    if p.replica_logs is None:
        return set()
    held = p.replica_logs.records.filter(pl.col("control").is_null() & pl.col("value").is_in(values.unique().implode()))
    by_value = held.group_by("value").agg(without_id=pl.col("producer_id").is_null().all())
    return set(by_value.filter("without_id")["value"])
