"""Judges one unit: runs every rule on its partitions, and explains and summarises what they find.

It uses frames and rules, but neither Spark nor files. Both engines call the same function.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import polars as pl

from ..histories.tables import MAX_INT64, Finding
from .figures import MAX_PARTITIONS, badness, own_figures_of
from .incidents.explaining import explain
from .incidents.transaction_ends import with_explanations
from .partitions.common import Common
from .partitions.foreign_clock import clock_set_back
from .partitions.partition import Partition
from .partitions.unit import Tables, partitions_of
from .rules import RULES, Judgement, Rule
from .rules.cycles import RULES_OF_CYCLES
from .rules.torn import torn_transaction
from .summary import summarise
from .transactions.dependencies import dependencies
from .transactions.pieces import MAX_PIECES, NO_PIECES, Expected, Pieces, pieces_of
from .verdict.consequences import findings_of


@dataclass
class Judged:
    """The findings and summaries of units, and what the judgement of their transactions needs."""

    findings: list[Finding] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    dependencies: list[pl.DataFrame] = field(default_factory=list)  # DEPENDENCIES
    unexpected: list[pl.DataFrame] = field(default_factory=list)  # PIECES (transactions/pieces.py)
    expected: list[Expected] = field(default_factory=list)  # of the other pieces


def judge_unit(
    topic: str,
    partition: int,
    tables: Tables,
    common: Common,
    each: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]] = map,
    unproved: Collection[str] | None = None,
) -> Judged:
    """Findings of a unit, each with its id, a bounded summary of each of its partitions, and its dependencies.

    `each` applies a function to all items, like `map`; it may run several at once. The rules that are not
    `unproved` are known to report nothing (screening); None: all rules judge.
    """
    found = Judged()
    worst: list[_JudgedPartition] = []
    for judged in each(partial(_judge_partition, unproved=unproved), partitions_of(topic, partition, tables, common)):
        found.findings.extend(judged.findings)
        found.dependencies.extend([judged.dependencies] if len(judged.dependencies) else [])
        found.unexpected.extend([judged.pieces.unexpected] if len(judged.pieces.unexpected) else [])
        found.expected.extend([judged.pieces.expected] if len(judged.pieces.expected.states) else [])
        if judged.summary is not None:
            found.summaries.append(judged.summary)
            if judged.summary["figures"]["bins"]:
                # Only the worst are kept, as a partition may be large.
                insort(worst, judged, key=lambda judged: badness(judged.summary))
                del worst[MAX_PARTITIONS:]
    own_figures = each(lambda judged: own_figures_of(judged.partition, judged.findings), worst)
    for judged, figures in zip(worst, own_figures, strict=True):
        judged.summary["figures"] |= figures
    return found


class _JudgedPartition(NamedTuple):
    """A judged partition and its summary: None if the partition is only named and has no cause."""

    partition: Partition
    findings: list[Finding]
    summary: Any
    dependencies: pl.DataFrame
    pieces: Pieces


def _judge_partition(p: Partition, unproved: Collection[str] | None) -> _JudgedPartition:
    if p.is_unobserved and not explain(p, [])[1]:
        return _JudgedPartition(p, [], None, pl.DataFrame(), NO_PIECES)
    judgements = judge(p, unproved)
    findings, causes = explain(p, findings_of(p, judgements))
    between = dependencies(p) if judgements.keys() & RULES_OF_CYCLES.keys() else pl.DataFrame()
    pieces = NO_PIECES
    if torn_transaction.name in judgements:
        found = pieces_of(p)
        pieces = with_explanations(p, found._replace(unexpected=found.unexpected.head(MAX_PIECES)))
    is_summarised = causes or not p.is_named_only
    summary = (
        {**summarise(p, findings, judgements), "causes": [one.record() for one in causes]} if is_summarised else None
    )
    return _JudgedPartition(p, findings, summary, between, pieces)


def judge(p: Partition, names: Collection[str] | None = None) -> dict[str, Judgement]:
    """The judgement of one partition by each rule that applies (of those `names`), by rule name, in report order."""
    chosen = [rule for rule in RULES.values() if not p.settings.rules or rule.name in p.settings.rules]
    judging = [rule for rule in chosen if p.settings.dialect in rule.judges and (names is None or rule.name in names)]
    return {rule.name: _judgement(p, rule) for rule in judging}


def _judgement(p: Partition, rule: Rule) -> Judgement:
    """The judgement of one rule, without findings that depend on a topic deletion of unknown outcome."""
    judge = rule.judges[p.settings.dialect]
    judgement = judge(p)
    findings, unknowns = sorted(judgement.findings, key=_order), [*judgement.unknowns]
    if p.if_deleted:
        if_deleted = {_key(finding) for other in p.if_deleted for finding in judge(other).findings}
        in_both = [finding for finding in findings if _key(finding) in if_deleted]
        if len(in_both) < len(findings) or len(in_both) < len(if_deleted):
            unknowns.append(f"the topic {p.topic} may have been deleted, and the findings in {p.name} depend on it")
        findings = in_both
    timed = "process clock" in rule.assumes and p.settings.dialect != "jepsen"  # whose order is that of its lines
    if timed and findings and (clock := clock_set_back(p)):
        findings, unknowns = [], [*unknowns, clock]
    unknowns += [reason for need, reason in p.ambiguous if need in rule.needs]
    return Judgement(tuple(findings), tuple(dict.fromkeys(unknowns)), judgement.missing_settings)


def _key(finding: Finding) -> tuple[Any, ...]:
    return (finding.first_offset, finding.last_offset, finding.count, tuple(finding.values), finding.snapshot)


def _order(finding: Finding) -> tuple[Any, ...]:
    offset = finding.first_offset if finding.first_offset is not None else MAX_INT64
    where = (offset, finding.last_offset or 0, finding.values, finding.snapshot or "", finding.replicas)
    return (*where, finding.processes, [item.place or 0 for item in finding.evidence])
