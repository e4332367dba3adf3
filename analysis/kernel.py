"""Judges one unit: runs every rule on its partitions, links the findings of one event, numbers them.

It uses frames and rules, but neither Spark nor files. Both engines call the same function.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import polars as pl

from ..histories.settings import Settings
from ..histories.tables import FINDINGS, MAX_INT64, Finding, no_rows
from .batches import Unit, by_unit
from .figures import MAX_PARTITIONS, badness, own_figures_of
from .finding_order import SEVERITIES
from .incidents.explaining import explain
from .incidents.transaction_ends import with_causes_of_pieces, with_explanations
from .partitions.common import Common
from .partitions.foreign_clock import clock_set_back
from .partitions.partition import Partition
from .partitions.unit import OBSERVED, Tables, partitions_of
from .rules import RULES, Judgement, Rule
from .rules.cycles import RULES_OF_CYCLES, CyclesByType, judge_cycles
from .rules.torn import judge_torn, torn_transaction
from .screening import screen as screening
from .summary import counts_of, summarise
from .transactions.dependencies import dependencies
from .transactions.pieces import NO_PIECES, Expected, Pieces, bounded_pieces
from .verdict.consequences import accept_consequences, link_consequences

MAX_DRAWN = 6  # cycles of a run

# The evidence of findings within the pipeline: Results resolves places to files and lines once all splits are counted.
RAW_EVIDENCE = pl.List(
    pl.Struct({"place": pl.Int64, "source": pl.String, "line": pl.Int64, "byte": pl.Int64, "says": pl.String})
)


@dataclass
class Judged:
    """The findings and summaries of units, and what the judgement of their transactions needs."""

    findings: list[Finding] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    dependencies: list[pl.DataFrame] = field(default_factory=list)  # DEPENDENCIES
    odd: list[pl.DataFrame] = field(default_factory=list)  # PIECES (transactions/pieces.py)
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
        found.odd.extend([judged.pieces.odd] if len(judged.pieces.odd) else [])
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
    pieces = with_explanations(p, bounded_pieces(p)) if torn_transaction.name in judgements else NO_PIECES
    is_summarised = causes or not p.is_named_only
    summary = {**summarise(p, findings, judgements), "causes": causes} if is_summarised else None
    return _JudgedPartition(p, findings, summary, between, pieces)


class RunJudgement(NamedTuple):
    """The judgement of rules on the whole run."""

    findings: pl.DataFrame  # as of `to_frame`
    record: dict[str, Any]  # as in a summary of a partition


def judge_pieces(
    odd: list[pl.DataFrame], beside: list[pl.DataFrame], losses: pl.DataFrame, settings: Settings
) -> RunJudgement:
    """The judgement of torn-transaction.

    `odd` are PIECES, `beside` the pieces beside them (expected_of_operations). A finding is related to the lost writes
    or aborted reads (`losses`: Results.losses) that have all of its values.
    """
    findings, causes = [], []
    for number, (found, explanations) in enumerate(judge_torn(odd, beside)):
        finding = replace(_with_id(found, number, settings), related=_losses_behind(found, losses))
        finding, explained = with_causes_of_pieces(finding, explanations)
        findings.append(finding)
        causes += explained
    table, record = of_run(findings)
    return RunJudgement(table, {**record, "causes": causes})


def _with_id(finding: Finding, number: int, settings: Settings) -> Finding:
    """A finding of the whole run with its id and its configured severity."""
    of_rule = f"{finding.rule}/{finding.topic}-{finding.partition}/{number}"
    return replace(with_configured_severity(finding, settings), id=of_rule)


def of_run(findings: list[Finding], missing: Sequence[Any] = (), cycles: Sequence[dict[str, Any]] = ()) -> RunJudgement:
    """The judgement with these findings, missing settings, and drawings of cycles."""
    record = {"unjudged": {}, "missing settings": [*missing], "cycles": [*cycles]}
    return RunJudgement(to_frame(findings), {"findings": counts_of(findings), **record})


def _losses_behind(finding: Finding, losses: pl.DataFrame) -> list[str]:
    """The ids of the losses in a finding's partition, if they have all of its values."""
    here = losses.filter(topic=finding.topic, partition=finding.partition)
    values = set(finding.values)
    behind = [(name, values.intersection(lost)) for name, lost in here.select("id", "values").rows()]
    is_covered = bool(values) and values == set().union(*(lost for _, lost in behind))
    return sorted(name for name, lost in behind if lost) if is_covered else []


def judge_whole_run(found: Mapping[str, CyclesByType], settings: Settings) -> RunJudgement:
    """The judgement of the rules of cycles.

    `found` are the cycles between its transactions (find_cycles).
    """
    judged = judge_cycles(found, settings)
    rules = settings.rules or RULES
    chosen = [(finding, drawing) for finding, drawing in judged.findings if finding.rule in rules]
    findings = [_with_id(finding, number, settings) for number, (finding, _) in enumerate(chosen)]
    drawings = [
        {"id": finding.id, "rule": finding.rule, "severity": finding.severity, **drawing}
        for finding, (_, drawing) in zip(findings, chosen, strict=True)
    ]
    drawings.sort(key=lambda drawing: SEVERITIES.index(drawing["severity"]))
    missing = [[rule, setting] for rule, setting in judged.missing_settings if rule in rules]
    return of_run(findings, missing, drawings[:MAX_DRAWN])


class ScreenedBatch(NamedTuple):
    """The summaries of plainly valid partitions; the rows of all others by unit and table, and unproved rules."""

    summaries: list[dict[str, Any]]
    left: list[tuple[Unit, str, pl.DataFrame]]
    unproved: dict[Unit, frozenset[str]]


def as_small(unit: Unit, table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table of a unit, with its topic and partition, as batches have them."""
    key = {"topic": pl.lit(unit.topic), "partition": pl.lit(unit.partition, pl.Int32)}
    return rows.with_columns(**key).select(list(OBSERVED[table]))


def screen_batch(small: Tables, apart: Collection[Unit], common: Common) -> ScreenedBatch:
    """Screens the partitions with few rows of a batch (`small`, with columns topic and partition).

    Units that have rows `apart` from these are left as they are.
    """
    if not small:
        return ScreenedBatch([], [], {})
    whole = {name: pl.concat([no_rows(OBSERVED[name]), *small.get(name, ())]) for name in OBSERVED}
    screened = screening.screen_batch(whole, apart, common)
    valid = pl.DataFrame([*screened.valid], schema={"topic": pl.String, "partition": pl.Int32}, orient="row")
    left = [
        (unit, name, own)
        for name, rows in whole.items()
        for unit, own in by_unit(rows.join(valid, on=["topic", "partition"], how="anti", maintain_order="left"))
    ]
    return ScreenedBatch(screened.summaries, left, {Unit(*key): rules for key, rules in screened.unproved.items()})


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


def findings_of(p: Partition, judgements: Mapping[str, Judgement]) -> list[Finding]:
    """The findings of all rules in order, numbered within their rule, with severity and links as configured."""
    generation = p.generation.number if p.generation and p.generation.count > 1 else None
    findings = [
        replace(
            with_configured_severity(finding, p.settings), id=f"{rule}/{p.label}/{number}", topic_generation=generation
        )
        for rule, judgement in judgements.items()
        for number, finding in enumerate(judgement.findings)
    ]
    return accept_consequences(link_consequences(findings, p), p)


def with_configured_severity(finding: Finding, settings: Settings) -> Finding:
    """The finding with its severity under --strict and --allow."""
    severity = "violation" if settings.strict and finding.severity == "permitted" else finding.severity
    is_allowed = bool({finding.rule, f"{finding.rule}:acks={finding.acks}"}.intersection(settings.allow))
    is_accepted = severity == "violation" and is_allowed
    return replace(finding, severity="permitted" if is_accepted else severity, is_accepted=is_accepted)


def _key(finding: Finding) -> tuple[Any, ...]:
    return (finding.first_offset, finding.last_offset, finding.count, tuple(finding.values), finding.snapshot)


def _order(finding: Finding) -> tuple[Any, ...]:
    offset = finding.first_offset if finding.first_offset is not None else MAX_INT64
    where = (offset, finding.last_offset or 0, finding.values, finding.snapshot or "", finding.replicas)
    return (*where, finding.processes, [item.place or 0 for item in finding.evidence])


def to_frame(findings: Iterable[Finding]) -> pl.DataFrame:
    """One row for each finding: the columns of FINDINGS, with evidence as RAW_EVIDENCE (unresolved places)."""
    schema = {**FINDINGS, "evidence": RAW_EVIDENCE}
    rows = []
    for finding in findings:
        evidence = [
            {"place": item.place, "source": item.source, "line": item.line, "byte": item.byte, "says": item.sentence}
            for item in finding.evidence
        ]
        rows.append({**{name: getattr(finding, name) for name in schema}, "evidence": evidence})
    return pl.DataFrame(rows, schema=schema)
