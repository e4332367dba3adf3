"""The rules on the whole run: transactions torn between partitions, and cycles of transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from ..histories.settings import Settings
from ..histories.tables import Finding
from .finding_order import SEVERITIES
from .incidents.transaction_ends import with_causes_of_pieces
from .results import to_frame
from .rules import RULES
from .rules.cycles import CyclesByType, Drawing, judge_cycles
from .rules.torn import judge_torn
from .summary import counts_of
from .verdict.consequences import with_configured_severity

MAX_DRAWN = 6  # cycles of a run
# The judgement of rules on the whole run: findings as of `to_frame`, and a record as in a summary of a partition.
RunJudgement = tuple[pl.DataFrame, dict[str, Any]]


def judge_pieces(
    unexpected: list[pl.DataFrame], beside: list[pl.DataFrame], losses: pl.DataFrame, settings: Settings
) -> RunJudgement:
    """The judgement of torn-transaction.

    `beside` are the pieces beside the unexpected ones (expected_of_operations). A finding is related to the lost writes
    or aborted reads (`losses`: Results.losses) that have all of its values.
    """
    findings, causes = [], []
    for number, (found, explanations) in enumerate(judge_torn(unexpected, beside)):
        finding = replace(_with_id(found, number, settings), related=_losses_behind(found, losses))
        finding, explained = with_causes_of_pieces(finding, explanations)
        findings.append(finding)
        causes += explained
    table, record = of_run([(finding, None) for finding in findings])
    return table, {**record, "causes": [one.record() for one in causes]}


def _with_id(finding: Finding, number: int, settings: Settings) -> Finding:
    """A finding of the whole run with its id and its configured severity."""
    of_rule = f"{finding.rule}/{finding.topic}-{finding.partition}/{number}"
    return replace(with_configured_severity(finding, settings), id=of_rule)


def of_run(found: Sequence[tuple[Finding, Drawing | None]], missing: Sequence[Any] = ()) -> RunJudgement:
    """The judgement with these findings, those of cycles with their drawings, and missing settings."""
    findings = [finding for finding, _ in found]
    drawings = [
        {"id": finding.id, "rule": finding.rule, "severity": finding.severity, **drawing}
        for finding, drawing in found
        if drawing is not None
    ]
    drawings.sort(key=lambda drawing: SEVERITIES.index(drawing["severity"]))
    record = {"unjudged": {}, "missing settings": [*missing], "cycles": drawings[:MAX_DRAWN]}
    return to_frame(findings), {"findings": counts_of(findings), **record}


def _losses_behind(finding: Finding, losses: pl.DataFrame) -> list[str]:
    """The ids of the losses in a finding's partition, if they have all of its values."""
    here = losses.filter(topic=finding.topic, partition=finding.partition)
    values = set(finding.values)
    behind = [(name, values.intersection(lost)) for name, lost in here.select("id", "values").rows()]
    is_covered = bool(values) and values == set().union(*(lost for _, lost in behind))
    return sorted(name for name, lost in behind if lost) if is_covered else []


def judge_whole_run(found: Mapping[str, CyclesByType], settings: Settings) -> RunJudgement:
    """The judgement of the rules of cycles; `found` are the cycles between transactions, by search and type."""
    findings, missing = judge_cycles(found, settings)
    rules = settings.rules or RULES
    chosen = [(finding, drawing) for finding, drawing in findings if finding.rule in rules]
    numbered = [(_with_id(finding, number, settings), drawing) for number, (finding, drawing) in enumerate(chosen)]
    return of_run(numbered, [[rule, setting] for rule, setting in missing if rule in rules])
