"""Ties findings of one event together: a lost tail, the values that replaced it, the reorderings that follow."""

from __future__ import annotations

from ..histories.tables import Finding
from .rules import RULES


def link_consequences(findings: list[Finding]) -> None:
    """Fills `related` both ways, in place. A lost write is related to the ones before and after it of its event."""
    losses = [finding for finding in findings if finding.rule == "lost-write"]
    if not losses:
        return
    lost_by_value = {value: loss for loss in losses for value in loss.values}
    for finding in findings:
        for loss in _losses_of(finding, losses, lost_by_value):
            finding.related.append(loss.id)
            loss.related.append(finding.id)
    latest: dict[tuple[str | None, int | None, int], Finding] = {}
    for loss in losses:
        if loss.event is not None:
            key = (loss.topic, loss.partition, loss.event)
            if (before := latest.get(key)) is not None:
                loss.related.append(before.id)
                before.related.append(loss.id)
            latest[key] = loss


def accept_consequences(findings: list[Finding]) -> None:
    """Permits, in place, what is linked to permitted losses alone and concerns nothing but what they lost."""
    losses = [finding for finding in findings if finding.rule == "lost-write"]
    permitted = {loss.id: loss for loss in losses if loss.severity == "permitted"}
    breaches = [loss for loss in losses if loss.id not in permitted]
    for finding in findings:
        if finding.severity != "violation" or finding.rule == "lost-write" or not finding.related:
            continue
        alone = permitted.keys() >= set(finding.related) and not any(_overlap(finding, loss) for loss in breaches)
        if alone and _is_covered(finding, list(permitted.values())):
            finding.severity = "permitted"


def _is_covered(finding: Finding, losses: list[Finding]) -> bool:
    lost = {value for loss in losses for value in loss.values}
    others = [value for value in finding.values if value not in lost]
    if RULES[finding.rule].of_records and (others or not finding.values):
        return False
    if finding.rule == "inconsistent-offsets" and len(others) > finding.count:
        return False  # an offset held two values beside the lost one
    return finding.count <= sum(loss.count for loss in losses) and _is_within(finding, losses)


def _is_within(finding: Finding, losses: list[Finding]) -> bool:
    """Whether the losses cover all offsets of a finding; one without offsets is known by its values."""
    if finding.first_offset is None or finding.last_offset is None:
        return RULES[finding.rule].of_records
    spans = [(loss.first_offset, loss.last_offset) for loss in losses]
    first = finding.first_offset
    for start, end in sorted((start, end) for start, end in spans if start is not None and end is not None):
        if start <= first <= end:
            first = end + 1
    return first > finding.last_offset


def _losses_of(finding: Finding, losses: list[Finding], lost_by_value: dict[str, Finding]) -> list[Finding]:
    follows = RULES[finding.rule].follows
    if follows == "value":
        loss = lost_by_value.get(finding.values[0]) if finding.values else None
        return [loss] if loss else []
    if follows == "offset":
        return [loss for loss in losses if _overlap(finding, loss)]
    return []


def _overlap(one: Finding, other: Finding) -> bool:
    known = (one.first_offset, one.last_offset, other.first_offset, other.last_offset)
    if any(offset is None for offset in known):
        return False
    first, last, start, end = (int(offset) for offset in known if offset is not None)
    return first <= end and start <= last
