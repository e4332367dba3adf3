"""Findings without a cause, and why they have none, so that no breach goes unreported."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...histories.tables import Finding
from ..causes.cases import LostRange
from ..incidents.incident import Explained
from ..rules import RULES
from ..wording import some


def unexplained_findings(findings: Iterable[Finding], causes: Iterable[Explained]) -> list[Finding]:
    """The breaches that neither have a cause of their own nor belong to a loss that has one."""
    causes = list(causes)
    explained = {name for cause in causes for name in cause.findings}
    losses = [cause.lost for cause in causes if cause.lost]
    return [
        one
        for one in findings
        if one.severity == "violation"
        and explained.isdisjoint([one.id, *one.related])
        and not (one.first_offset is not None and any(lost.overlaps(LostRange.of(one)) for lost in losses))
    ]


def why_no_cause(breaches: Iterable[Finding], with_files: Collection[str]) -> list[str]:
    """The reasons why breaches have no cause, as sentences. `with_files`: partitions with collected broker files."""
    named = [("" if one.topic is None else f"{one.topic}-{one.partition}", one.rule) for one in breaches]
    bare = dict.fromkeys(name for name, _ in named if name and name not in with_files)
    rules = dict.fromkeys(rule for name, rule in named if name not in bare)
    with_causes = [rule for rule in rules if rule in RULES and RULES[rule].explained_as is not None]
    without_causes = [rule for rule in rules if rule not in with_causes]
    sentences = []
    if bare:
        partitions = some(list(bare)) if with_files else "its partitions"
        sentences.append(f"The run has no broker files of {partitions}, so the cause is not known.")
    if without_causes:
        sentences.append(f"Findings of {', '.join(without_causes)} have no causes of their own; see their evidence.")
    if with_causes:
        sentences.append(f"The brokers' files prove no cause of {', '.join(with_causes)}.")
    return sentences
