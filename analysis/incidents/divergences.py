"""Explains why replicas differ."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from ...histories.tables import Finding
from .. import causes
from ..causes.cases import Explanation, Lost
from ..partitions.partition import Partition
from ..timelines.facts import ordered
from ..timelines.timeline import Timeline


def explain_divergence(p: Partition, finding: Finding) -> Explanation | None:
    """Why replicas differ at the end, or in a run without clients at any time. None without a proof at the end of a
    run with clients: the replica may not have truncated yet, and a loss has an explanation of its own."""
    first, last = finding.first_offset, finding.last_offset
    if p.timeline is None or first is None or last is None:
        return None
    if finding.snapshot == (p.timeline.replica_logs.last or None):
        explanation = causes.explain_divergence(p.timeline, Lost(p.topic, p.partition, first, last, finding.count))
        if explanation.cause != "unknown":
            return explanation
    if finding.severity != "violation" or len(p.sends) or len(p.unplaced):
        return None
    return _explain_losing_side(p, p.timeline, finding, (first, last))


def _explain_losing_side(
    p: Partition, timeline: Timeline, finding: Finding, offsets: tuple[int, int]
) -> Explanation | None:
    """The cause for which committed records are not on the side of the later leader, as of a loss; None if that side
    is not known. The checkpointed high watermark shows that they were committed, which is equivalent to acks=all."""
    losing = _losing_records(timeline, finding.snapshot or "", offsets)
    if not len(losing):
        return None
    broker, first, last = losing["broker"][0], int(losing["offset"][0]), int(losing["offset"][-1])
    values = tuple(losing["value"].drop_nulls())
    lost = Lost(p.topic, p.partition, first, last, len(losing), frozenset({"all"}), values)
    explanation = causes.explain_loss(timeline, lost)
    if explanation.cause == "unknown":
        return explanation
    marks = timeline.ends_of(broker, "high-watermark")
    committed = [mark.fact for mark in marks if mark.snapshot == (finding.snapshot or "") and mark.end > first]
    return replace(explanation, chain=ordered([*explanation.chain, *committed[:1]]))


def _losing_records(timeline: Timeline, snapshot: str, offsets: tuple[int, int]) -> pl.DataFrame:
    """One replica's records in a range of offsets where a later leader wrote other values; none without epochs."""
    held = timeline.replica_logs.records.filter(pl.col("offset").is_between(*offsets), snapshot=snapshot)
    latest = pl.col("leader_epoch").max()
    won = held.filter(latest.over("broker") == latest)
    losing = held.filter(latest.over("broker") < latest).join(won, on=["offset", "value"], how="anti", nulls_equal=True)
    losing = losing.sort("offset", "broker")
    return losing.filter(broker=losing["broker"][0]) if len(losing) else losing
