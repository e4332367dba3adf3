"""The collected brokers' evidence of one partition, in bounded size: replicas, snapshots, clocks, damage."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..histories.evidence.clock import Clock
from .partitions.partition import Partition

MAX_DAMAGE = 100  # rows listed for a partition; all are counted

Record = dict[str, Any]


def evidence_coverage(p: Partition) -> Record | None:
    """The coverage record; None: no files of brokers were collected.

    brokers: with records in their logs. empty: with empty logs. missing: assigned replicas without a collected log.
    lacking: the number of missing ones, if the assignment is not recorded. assigned: the number of assigned
    replicas (0: not recorded).
    """
    if p.replica_logs is None:
        return None
    held = set(p.replica_logs.batches["broker"].unique()) | set(p.replica_logs.records["broker"].unique())
    # A replica without records has an empty log, which its collected checkpoints or epoch file show.
    points = p.replica_logs.checkpoints.group_by("broker").agg(pl.col("offset").max())
    empty = set(points.filter(pl.col("offset") == 0)["broker"])
    without_offset = set(p.replica_logs.epochs["broker"].unique()) - set(points["broker"])
    # If retention deleted all records, an empty segment remains, named by the next offset.
    collected = held | empty | without_offset | set(p.replica_logs.segments["broker"].unique())
    names = {name for frame in (p.replica_logs.batches, p.replica_logs.records) for name in frame["snapshot"].unique()}
    damage = p.replica_logs.damage.select(pl.col("file").alias("source"), "byte", "line", "reason")
    damage = damage.sort("source", "byte", "line", nulls_last=True)
    clocks = {} if p.timeline is None else p.timeline.clocks
    return {
        "brokers": sorted(held),
        "empty": sorted(set(p.replica_logs.segments["broker"].unique()) - held),
        "missing": sorted(set(p.replica_logs.replicas) - collected),
        "lacking": 0 if p.replica_logs.replicas else max(0, _replication_factor(p) - len(collected)),
        "assigned": len(p.replica_logs.replicas) or _replication_factor(p),
        "snapshots": [name for name in p.replica_logs.snapshots if name in names and name],
        "at the end": "" in names,
        "records": p.replica_logs.held,
        "clocks": {name: _of_clock(clock) for name, clock in clocks.items()},
        "damage": damage.head(MAX_DAMAGE).to_dicts(),
        "damaged": len(damage),
    }


def _of_clock(clock: Clock) -> Record:
    return {"says": clock.description, "doubtful": clock.conflict, "bounded": clock.bounded, "ahead": clock.offset}


def _replication_factor(p: Partition) -> int:
    factor = p.settings.topic(p.topic).get("replication.factor")
    return factor if isinstance(factor, int) else 0
