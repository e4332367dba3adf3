"""Ties findings of one event together: a lost tail, the values that replaced it, the reorderings that follow."""

from __future__ import annotations

from ..histories.tables import Finding
from .partition import Partition

# What may follow from a loss at the same offsets, and how it is recognised.
_BY_OFFSET = {
    *("inconsistent-offsets", "nonmonotonic-poll", "stale-end-offset", "poll-skip", "unseen"),
    "replica-divergence",
}
_BY_VALUE = {"realtime-order", "nonmonotonic-send", "int-nonmonotonic-send", "acknowledged-absent"}


def link(p: Partition, findings: list[Finding]) -> None:  # noqa: ARG001
    """Fills `related` both ways, in place."""
    losses = [finding for finding in findings if finding.rule == "lost-write"]
    if not losses:
        return
    lost_by_value = {value: loss for loss in losses for value in loss.values}
    for finding in findings:
        for loss in _losses_of(finding, losses, lost_by_value):
            finding.related.append(loss.id)
            loss.related.append(finding.id)


def _losses_of(finding: Finding, losses: list[Finding], lost_by_value: dict[str, Finding]) -> list[Finding]:
    if finding.rule in _BY_VALUE:
        loss = lost_by_value.get(finding.values[0]) if finding.values else None
        return [loss] if loss else []
    if finding.rule in _BY_OFFSET:
        return [loss for loss in losses if _overlap(finding, loss)]
    return []


def _overlap(one: Finding, other: Finding) -> bool:
    known = (one.first_offset, one.last_offset, other.first_offset, other.last_offset)
    if any(offset is None for offset in known):
        return False
    first, last, start, end = (int(offset) for offset in known if offset is not None)
    return first <= end and start <= last
