"""Explains the findings of a partition by their causes."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import polars as pl

from ...histories.tables import Finding
from ..causes.cases import LOSSES, UNKNOWN, Explanation
from ..partitions.partition import Partition
from ..replicas.replica_logs import ReplicaLogs
from ..rules import RULES
from ..rules.rule import sends_of
from .divergences import explain_divergence, explain_split_brain, split_brain_losses
from .incident import MAX_TEXT, Explained
from .losses import ExplainedFindings, ExplainedRange, Losses, explain_losses
from .missed import explain_missed, explain_regression
from .repeats import explain_duplicate, explain_misread, explain_replaced
from .transaction_ends import explain_aborted, explain_ending
from .truncations import explain_truncations

MAX_COPIES = 3
_LOG = pl.col("file").str.replace(r"/\d{20}\.log$", "")  # the folder of a segment; a dump has no other files

# By what a rule's findings are explained as (Rule.explained_as); losses have `explain_losses`.
EXPLAINERS: dict[str, Callable[[Partition, Finding, Losses], Explanation | None]] = {
    "divergence": explain_divergence,
    "missed": explain_missed,
    "regression": lambda p, finding, _: explain_regression(p, finding),
    "duplicate": lambda p, finding, _: explain_duplicate(p, finding),
    "misread": lambda p, finding, _: explain_misread(p, finding),
    "replaced": lambda p, finding, _: explain_replaced(p, finding),
    "ending": lambda p, finding, _: explain_ending(p, finding),
}


def explain(p: Partition, findings: list[Finding]) -> tuple[list[Finding], list[Explained]]:
    """The findings with their cause where it is known, and their explanations.

    Findings with equal explanations share one; joining.py joins the explanations of one event.
    """
    shared: dict[Any, ExplainedFindings] = {}
    together: list[ExplainedFindings] = []
    for one in _explain_all(p, findings):
        key, explanation = _sharing_key(one), one.explanation
        if key not in shared:
            shared[key] = one._replace(findings=[])
            together.append(shared[key])
            if explanation.chain:
                # A consequence of a loss with the same facts shares the explanation of the loss.
                shared.setdefault((explanation.cause, explanation.chain), shared[key])
        shared[key].findings.extend(one.findings)
    of_findings = [_explained(p, one) for one in together]
    explained = [*_unexplained_yet(explain_truncations(p, findings), of_findings), *of_findings]
    causes: dict[str, dict[str, None]] = {finding.id: {} for finding in findings}
    for name, cause in ((name, one.cause) for one in explained for name in one.findings):
        causes[name][cause] = None
    known = {name: ", ".join(found) if found.keys() - {UNKNOWN} else None for name, found in causes.items()}
    return [replace(finding, cause=known[finding.id]) for finding in findings], explained


def _unexplained_yet(truncations: list[Explained], of_findings: list[Explained]) -> list[Explained]:
    """The truncations, without those of no finding and unknown cause that are in the chain of a finding's cause."""
    known = {fact for one in of_findings if one.is_known for fact in one.chain}
    return [one for one in truncations if one.is_known or one.findings or known.isdisjoint(one.cuts)]


def _explained(p: Partition, one: ExplainedFindings) -> Explained:
    lost = None
    if one.lost is not None:
        lost = replace(one.lost.as_range(), copies=remaining_copies(p.replica_logs, one.lost.values))
    ids = tuple(finding.id for finding in one.findings)
    return Explained(**vars(one.explanation), sentence=one.findings[0].sentence[:MAX_TEXT], findings=ids, lost=lost)


def remaining_copies(logs: ReplicaLogs | None, values: Collection[str]) -> tuple[tuple[str, int], ...]:
    """At most MAX_COPIES logs with the most of these lost values, and how many of them each has.

    They are in a snapshot, in a leftover folder, or in a replica's last log that differs from the leader's: the records
    can be copied from there.
    """
    if logs is None or not values:
        return ()
    wanted = pl.Series("value", list(values), pl.String)
    records = pl.concat([frame.select("file", "value") for frame in (logs.records, logs.leftovers)])
    held = records.filter(pl.col("value").is_in(wanted.implode())).group_by(log=_LOG).agg(pl.col("value").n_unique())
    return tuple(held.sort("value", "log", descending=[True, False]).head(MAX_COPIES).rows())


def _explain_all(p: Partition, findings: list[Finding]) -> list[ExplainedFindings]:
    """All explanations, in the order of findings."""
    losses = [finding for finding in findings if finding.rule in LOSSES]
    explained: list[ExplainedFindings] = []
    if p.timeline is not None and losses:
        explained += explain_losses(p.timeline, losses, sends_of(p))
    explained = [_with_ending(p, one) for one in explained]
    of_losses = [ExplainedRange(lost, explanation) for _, lost, explanation in explained if lost is not None]
    split_brains = split_brain_losses(of_losses)
    for finding in findings:
        explain_finding = EXPLAINERS.get(RULES[finding.rule].explained_as or "") if finding.severity != "note" else None
        explanation = explain_finding(p, finding, of_losses) if explain_finding is not None else None
        if (explanation is None or not explanation.is_known) and finding.rule not in LOSSES:
            explanation = explain_split_brain(p, finding, split_brains) or explanation
        if explanation is not None:
            explained.append(ExplainedFindings([finding], None, explanation))
    position = {finding.id: number for number, finding in enumerate(findings)}
    return sorted(explained, key=lambda item: position[item.findings[0].id])


def _with_ending(p: Partition, explained: ExplainedFindings) -> ExplainedFindings:
    """The explanation of a loss, or the proved cause of the abort if its records are aborted in the log."""
    [finding, *others], lost, explanation = explained
    if others or lost is None or explanation.is_known or explanation.readings:
        return explained
    ending = explain_aborted(p, replace(finding, first_offset=lost.first, last_offset=lost.last))
    return explained if ending is None else explained._replace(explanation=ending)


def _sharing_key(explained: ExplainedFindings) -> Any:
    """A key that is equal for findings which share an explanation.

    For a loss or a conflict it identifies the explanation; otherwise it has the chain, or else the missing evidence."""
    [finding, *_], lost, explanation = explained
    if lost is not None or explanation.readings:
        return id(explanation)
    if explanation.chain:
        return explanation.cause, explanation.chain
    return finding.rule, finding.severity, explanation.cause, explanation.missing
