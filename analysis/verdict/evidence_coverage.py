"""The brokers' evidence of one partition, bounded: replicas, snapshots, clocks, damage."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..partitions.partition import Partition

MAX_DAMAGE = 100  # rows of a partition that are listed; all are counted

Record = dict[str, Any]


def evidence_coverage(p: Partition) -> Record | None:
    """The brokers' evidence of a partition as a JSON-able record; None without brokers' files.

    brokers: those with records in their logs. empty: those with empty logs. missing: assigned replicas without a
    collected log. lacking: the number of missing replicas, if the assignment is not recorded. assigned: the number of
    assigned replicas, 0 if not recorded. damage: at most MAX_DAMAGE places. damaged: the number of all places.
    """
    logs = p.replica_logs
    if logs is None:
        return None
    held = set(logs.batches["broker"].unique()) | set(logs.records["broker"].unique())
    # A replica that never wrote has an empty log. Its checkpoints and epoch file prove that, if they were collected.
    points = logs.checkpoints.group_by("broker").agg(pl.col("offset").max())
    empty = set(points.filter(offset=0)["broker"])
    silent = set(logs.epochs["broker"].unique()) - set(points["broker"])
    # If retention removed all records, the log has an empty segment whose name is the next offset.
    collected = held | empty | silent | set(logs.segments["broker"].unique())
    named = {name for frame in (logs.batches, logs.records) for name in frame["snapshot"].unique()}
    damage = logs.damage.select(pl.col("file").alias("source"), "byte", "line", "reason")
    damage = damage.sort("source", "byte", "line", nulls_last=True)
    clocks = {} if p.timeline is None else p.timeline.clocks
    return {
        "brokers": sorted(held),
        "empty": sorted(set(logs.segments["broker"].unique()) - held),
        "missing": sorted(set(logs.replicas) - collected),
        "lacking": 0 if logs.replicas else max(0, _factor(p) - len(collected)),
        "assigned": len(logs.replicas) or _factor(p),
        "snapshots": [name for name in logs.snapshots if name in named and name],
        "at the end": "" in named,
        "records": logs.held,
        "clocks": {
            name: {
                "description": clock.description,
                "doubtful": clock.conflict,
                "bounded": clock.bounded,
                "ahead": clock.offset,
            }
            for name, clock in clocks.items()
        },
        "damage": damage.head(MAX_DAMAGE).to_dicts(),
        "damaged": len(damage),
    }


def _factor(p: Partition) -> int:
    """The replication factor from run.json; 0 if it is not set."""
    factor = p.settings.topic(p.topic).get("replication.factor")
    return factor if isinstance(factor, int) else 0
