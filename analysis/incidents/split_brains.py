"""Explains what a split brain leaves beside lost records: two leaders of one epoch, two logs, sends out of order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...histories.tables import Finding
from .. import causes
from ..causes.cases import Explanation, Lost
from ..partitions.partition import Partition
from ..timelines.facts import Fact
from ..timelines.timeline import Timeline
from .losses import Losses

SPLIT_BRAIN = "split-brain"
Lines = set[tuple[str | None, int]]  # files, and lines of them


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
    explanation = _explain_differing(p, p.timeline, finding) or _explain_leaders(p.timeline, lines)
    return explanation if explanation is not None and explanation.cause == SPLIT_BRAIN else None


def _explain_leaders(timeline: Timeline, lines: Lines) -> Explanation | None:
    """The explanation of a leader epoch, if these are the lines in which two brokers logged that they lead it."""
    for epoch in timeline.led_by_two:
        if lines & _lines_of(timeline.terms[epoch].facts):
            return causes.explain_leaders(timeline, epoch)
    return None


def _explain_differing(p: Partition, timeline: Timeline, finding: Finding) -> Explanation | None:
    if finding.rule != "replica-divergence" or finding.first_offset is None or finding.last_offset is None:
        return None
    differing = Lost(p.topic, p.partition, finding.first_offset, finding.last_offset, finding.count)
    return causes.explain_divergence(timeline, differing)


def _lines_of(facts: Iterable[Fact]) -> Lines:
    """The files and lines that record facts."""
    return {(one.source, one.line) for fact in facts for one in (fact, *fact.also) if one.line is not None}
