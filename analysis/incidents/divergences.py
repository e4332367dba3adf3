"""Explains why replicas differ, and what a split brain leaves beside lost records.

That is two leaders of one epoch, two logs, and sends out of order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from ...histories.tables import MAX_INT64, Finding
from .. import causes
from ..causes.cases import Explanation, Lost
from ..partitions.partition import Partition
from ..timelines.facts import Fact, dated, ordered
from ..timelines.timeline import Timeline
from .losses import Losses

SPLIT_BRAIN = "split-brain"
Lines = set[tuple[str | None, int]]  # files, and lines of them


def explain_divergence(p: Partition, finding: Finding, losses: Losses) -> Explanation | None:
    """Why replicas differ at the end, or in a run without clients at any time. With clients, a loss that the difference
    overlaps has an explanation of its own, and one that was truncated together with it explains it. None without a
    proof: the replica may not have truncated yet."""
    differing = _differing(p, finding)
    if p.timeline is None or differing is None:
        return None
    if finding.snapshot == (p.timeline.replica_logs.last or None):
        explanation = causes.explain_divergence(p.timeline, differing)
        if explanation.is_known:
            return explanation
    if finding.severity != "violation":
        return None
    if len(p.sends) or len(p.unplaced):
        return _explain_by_truncation(p.timeline, finding, differing, losses)
    return _explain_losing_side(p, p.timeline, finding.snapshot or "", differing)


def _explain_by_truncation(timeline: Timeline, finding: Finding, differing: Lost, losses: Losses) -> Explanation | None:
    """The explanation of lost records behind the difference that the same truncation removed; None without one.

    For example, a dead leader's client had written offset 5 again to the next leader, and an unclean election of the
    dead one then lost the offsets from 6 on: the truncation to offset 5 also removed the copy that differs.
    """
    taken = timeline.replica_logs.times.get(finding.snapshot or "", MAX_INT64)
    for lost, explanation in losses:
        is_behind = differing.last < lost.first and explanation.is_known
        cuts = [fact for fact in dated(explanation.chain, taken) if fact.kind == "truncated"]
        own = [cut.offset for cut in cuts if cut.broker in finding.replicas and cut.offset is not None]
        if is_behind and min(own, default=MAX_INT64) <= differing.first:
            return explanation
    return None


def _differing(p: Partition, finding: Finding) -> Lost | None:
    """The range of a finding about replicas that differ, as causes take it."""
    if finding.first_offset is None or finding.last_offset is None:
        return None
    return Lost(p.topic, p.partition, finding.first_offset, finding.last_offset, finding.count)


def _explain_losing_side(p: Partition, timeline: Timeline, snapshot: str, differing: Lost) -> Explanation | None:
    """The cause for which committed records are not on the side of the later leader, as of a loss; None if that side
    is not known. The checkpointed high watermark shows that they were committed, which is equivalent to acks=all."""
    losing = _losing_records(timeline, snapshot, differing)
    if not len(losing):
        return None
    broker, first, last = losing["broker"][0], int(losing["offset"][0]), int(losing["offset"][-1])
    values = tuple(losing["value"].drop_nulls())
    lost = Lost(p.topic, p.partition, first, last, len(losing), frozenset({"all"}), values)
    explanation = causes.explain_loss(timeline, lost)
    if not explanation.is_known:
        return explanation
    marks = timeline.ends_of(broker, "high-watermark")
    committed = [mark.fact for mark in marks if mark.snapshot == snapshot and mark.end > first]
    return replace(explanation, chain=tuple(ordered([*explanation.chain, *committed[:1]])))


def _losing_records(timeline: Timeline, snapshot: str, differing: Lost) -> pl.DataFrame:
    """One replica's records in a range of offsets where a later leader wrote other values; none without epochs."""
    is_there = pl.col("offset").is_between(differing.first, differing.last)
    held = timeline.replica_logs.records.filter(is_there, snapshot=snapshot)
    latest = pl.col("leader_epoch").max()
    won = held.filter(latest.over("broker") == latest)
    losing = held.filter(latest.over("broker") < latest).join(won, on=["offset", "value"], how="anti", nulls_equal=True)
    losing = losing.sort("offset", "broker")
    return losing.filter(broker=losing["broker"][0]) if len(losing) else losing


class SplitBrainLoss(NamedTuple):
    """The explanation of records that a split brain lost, with these records and the lines that its chain cites."""

    values: frozenset[str]
    lines: Lines
    explanation: Explanation


def split_brain_losses(losses: Losses) -> list[SplitBrainLoss]:
    """The losses with the cause split-brain."""
    return [
        SplitBrainLoss(frozenset(lost.values), _lines_of(explanation.chain), explanation)
        for lost, explanation in losses
        if explanation.cause == SPLIT_BRAIN
    ]


def explain_split_brain(p: Partition, finding: Finding, losses: Iterable[SplitBrainLoss]) -> Explanation | None:
    """The split brain that a finding shows; None without proof.

    The finding is about a record that a split brain lost (sends that went back had reached both leaders), about two
    leaders of one epoch, or about their logs, which differ.
    """
    if p.timeline is None or not p.timeline.led_by_two:
        return None
    lines = {(one.source, one.line) for one in finding.evidence if one.line is not None}
    for loss in losses:
        if not loss.values.isdisjoint(finding.values) or lines & loss.lines:
            return loss.explanation
    differing = _differing(p, finding) if finding.rule == "replica-divergence" else None
    if differing is not None:
        explanation: Explanation | None = causes.explain_divergence(p.timeline, differing)
    else:
        explanation = _explain_leaders(p.timeline, lines)
    return explanation if explanation is not None and explanation.cause == SPLIT_BRAIN else None


def _explain_leaders(timeline: Timeline, lines: Lines) -> Explanation | None:
    """The explanation of a leader epoch, if these are the lines in which two brokers logged that they lead it."""
    for epoch in timeline.led_by_two:
        if lines & _lines_of(timeline.terms[epoch].facts):
            return causes.explain_leaders(timeline, epoch)
    return None


def _lines_of(facts: Iterable[Fact]) -> Lines:
    """The files and lines that record facts."""
    return {(one.source, one.line) for fact in facts for one in (fact, *fact.also) if one.line is not None}
