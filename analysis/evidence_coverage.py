"""The brokers' evidence of one partition, bounded: replicas, snapshots, clocks, damage."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..histories.evidence.clock import Clock
from .partitions.partition import Partition

MAX_DAMAGE = 100  # rows of a partition that are listed; all are counted

Record = dict[str, Any]


def evidence_coverage(p: Partition) -> Record | None:
    """brokers whose logs hold records, those whose logs are empty, assigned replicas whose logs are not kept (or how
    many, where nobody names them), how many are assigned (0 if nobody says), snapshots, records, clocks, damage; or
    None where no broker's files are known.
    """
    if p.replica_logs is None:
        return None
    held = set(p.replica_logs.batches["broker"].unique()) | set(p.replica_logs.records["broker"].unique())
    # A replica that never wrote has an empty log: its checkpoints and epoch file say so, where they were kept.
    points = p.replica_logs.checkpoints.group_by("broker").agg(pl.col("offset").max())
    empty = set(points.filter(pl.col("offset") == 0)["broker"])
    silent = set(p.replica_logs.epochs["broker"].unique()) - set(points["broker"])
    # One of which retention took all has an empty segment, named by the offset that comes next.
    told = held | empty | silent | set(p.replica_logs.segments["broker"].unique())
    named = {name for frame in (p.replica_logs.batches, p.replica_logs.records) for name in frame["snapshot"].unique()}
    damage = p.replica_logs.damage.select(pl.col("file").alias("source"), "byte", "line", "reason")
    damage = damage.sort("source", "byte", "line", nulls_last=True)
    clocks = {} if p.timeline is None else p.timeline.clocks
    return {
        "brokers": sorted(held),
        "empty": sorted(set(p.replica_logs.segments["broker"].unique()) - held),
        "missing": sorted(set(p.replica_logs.replicas) - told),
        "lacking": 0 if p.replica_logs.replicas else max(0, _factor(p) - len(told)),
        "assigned": len(p.replica_logs.replicas) or _factor(p),
        "snapshots": [name for name in p.replica_logs.snapshots if name in named and name],
        "at the end": "" in named,
        "records": p.replica_logs.held,
        "clocks": {name: _of_clock(clock) for name, clock in clocks.items()},
        "damage": damage.head(MAX_DAMAGE).to_dicts(),
        "damaged": len(damage),
    }


def _of_clock(clock: Clock) -> Record:
    return {"says": clock.description, "doubtful": clock.conflict, "bounded": clock.bounded, "ahead": clock.offset}


def _factor(p: Partition) -> int:
    told = p.settings.topic(p.topic).get("replication.factor")
    return told if isinstance(told, int) else 0
