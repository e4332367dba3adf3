"""Breaches of which no cause is told, and why none is: what was found must not go unsaid because nobody knows why."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ...histories.tables import Finding
from ..causes.explaining import EXPLAINERS
from ..causes.losses import LOSSES
from ..wording import some

Record = dict[str, Any]


def unexplained(findings: Iterable[Finding], causes: list[Record]) -> list[Finding]:
    """The breaches that neither have a cause of their own nor belong to a loss that has one."""
    told = {name for cause in causes for name in cause["findings"]}
    losses = [cause["lost"] for cause in causes if cause.get("lost")]
    return [
        one
        for one in findings
        if one.severity == "violation"
        and told.isdisjoint([one.id, *one.related])
        and not any(_is_of(one, lost) for lost in losses)
    ]


def _is_of(one: Finding, lost: Record) -> bool:
    if one.first_offset is None or (one.topic, one.partition) != (lost["topic"], lost["partition"]):
        return False
    last = one.first_offset if one.last_offset is None else one.last_offset
    return bool(one.first_offset <= lost["last"] and lost["first"] <= last)


def why_no_cause(breaches: Iterable[Finding], with_files: Collection[str]) -> list[str]:
    """Sentences that say why no cause is told; `with_files` names the partitions of which brokers' files tell."""
    bare: dict[str, None] = {}
    rules: dict[str, None] = {}
    for one in breaches:
        name = f"{one.topic}-{one.partition}"
        if name in with_files:
            rules[one.rule] = None
        else:
            bare[name] = None
    never = [rule for rule in rules if rule not in (*LOSSES, *EXPLAINERS)]
    asked = [rule for rule in rules if rule not in never]
    says = []
    if bare:
        says.append(f"The run holds no broker's files that tell of {some(list(bare))}, so why is not known.")
    if never:
        says.append(f"Why is never asked of {', '.join(never)}.")
    if asked:
        says.append(f"The brokers' files prove no cause of {', '.join(asked)}.")
    return says
