"""Whose records may stand twice or out of order: producers that are known to be without idempotence."""

from __future__ import annotations

import polars as pl

from ..partitions.partition import Partition


def without_idempotence(p: Partition, values: pl.Series) -> set[tuple[str, str]]:
    """The sends (process, value) of these values whose producer is known to be without idempotence: as it was
    configured, as acks 0 and 1 turn it off (KIP-98 needs acks=all), or as brokers keep them without a producer id.
    """
    sent = p.sends.filter(pl.col("value").is_in(values.drop_nulls().unique().implode()))
    if not len(sent):
        return set()
    idless = _without_producer_id(p, sent["value"])
    known = {name: p.settings.idempotent(name) for name in sent["process"].unique()}
    return {
        (process, value)
        for process, value, acks in sent.select("process", "value", "acks").iter_rows()
        if known[process] is False or (known[process] is None and (acks in ("0", "1") or value in idless))
    }


def _without_producer_id(p: Partition, values: pl.Series) -> set[str]:
    if p.kept is None:
        return set()
    held = p.kept.records.filter(pl.col("control").is_null() & pl.col("value").is_in(values.unique().implode()))
    by_value = held.group_by("value").agg(pl.col("producer_id").is_null().all().alias("idless"))
    return set(by_value.filter("idless")["value"])
