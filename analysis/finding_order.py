"""The order of findings, worst first; the same for findings and for rows of findings.parquet.

Findings are sorted by severity (violation, permitted, note). Within a severity, consequences of a loss come last, as
the loss explains them. Then the order of the rules decides, and then the number of records, largest first. The sort is
stable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from ..histories.tables import Finding
from .rules import ALL_RULES

SEVERITIES = ("violation", "permitted", "note")
_GRAVITY = {name: rank for rank, name in enumerate(SEVERITIES)}
_POSITION = {name: rank for rank, name in enumerate(ALL_RULES)}


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, the worst first."""
    return sorted(findings, key=lambda one: (*rank(one.rule, one.severity, is_consequence(one)), -one.count))


def worst_rows_first(findings: pl.DataFrame) -> pl.DataFrame:
    """Rows with the columns of FINDINGS, the worst first. Severities that this version does not know come last."""
    gravity = pl.col("severity").replace_strict(_GRAVITY, default=len(_GRAVITY), return_dtype=pl.Int64)
    of_loss = (pl.col("rule") != "lost-write") & (pl.col("related").list.len().fill_null(0) > 0)
    return findings.sort(gravity, of_loss, by_rule(), -pl.col("count"), maintain_order=True)


def partition_key(summary: dict[str, Any]) -> tuple[str, int, int]:
    """The sort key of a summary: topic, partition, and number of the topic's generation (0 if there is only one)."""
    generation = summary.get("topic_generation")
    return summary["topic"], summary["partition"], generation["number"] if generation else 0


def rank(rule: str, severity: str, is_consequence: bool = False) -> tuple[int, bool, int]:
    """The sort key of a finding before its number of records: by its severity, then consequences last, then by rule."""
    return _GRAVITY[severity], is_consequence, _POSITION[rule]


def by_rule() -> pl.Expr:
    """The column `rule` as its position in the order of the rules; an unknown rule comes last."""
    return pl.col("rule").replace_strict(_POSITION, default=len(_POSITION), return_dtype=pl.Int64)


def is_consequence(finding: Finding) -> bool:
    """Whether a finding is a consequence of a loss."""
    return bool(finding.related) and finding.rule != "lost-write"
