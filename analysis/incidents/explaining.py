"""Explains the findings of a partition by their causes, and returns the explanations as plain records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from ...histories.tables import Finding
from ..causes.cases import LOSSES, Explanation, Lost
from ..partitions.partition import Partition
from ..rules import RULES
from ..rules.rule import sends_of
from .divergences import explain_divergence, explain_split_brain, split_brain_losses
from .incident import MAX_TEXT
from .losses import ExplainedFindings, ExplainedRange, Losses, explain_losses
from .missed import explain_missed, explain_regression
from .repeats import explain_duplicate, explain_misread
from .transaction_ends import explain_aborted, explain_ending
from .truncations import explain_truncations

Record = dict[str, Any]

# By what a rule's findings are explained as (Rule.explained_as); losses have `explain_losses`.
EXPLAINERS: dict[str, Callable[[Partition, Finding, Losses], Explanation | None]] = {
    "divergence": lambda p, finding, _: explain_divergence(p, finding),
    "missed": explain_missed,
    "regression": lambda p, finding, _: explain_regression(p, finding),
    "duplicate": lambda p, finding, _: explain_duplicate(p, finding),
    "misread": lambda p, finding, _: explain_misread(p, finding),
    "ending": lambda p, finding, _: explain_ending(p, finding),
}


def explain(p: Partition, findings: list[Finding]) -> tuple[list[Finding], list[Record]]:
    """The findings with their cause where it is known, and one record for each explanation.

    A record has findings (ids), says (the sentence of the first finding), lost (the LostRange of a loss), cause, chain
    (facts with says, time in ns, place or source with line or byte), prevented_by, citation, missing, readings; without
    findings also event (what happened, in says without its reason).
    Findings with equal explanations share one record; joining.py joins the records of one event.
    """
    records = explain_truncations(p)
    shared: dict[Any, Record] = {}
    causes: dict[str, dict[str, None]] = {finding.id: {} for finding in findings}
    for together, lost, explanation in _explain_all(p, findings):
        key = _sharing_key(together[0], lost, explanation)
        if key not in shared:
            about: Record = {"findings": [], "says": together[0].sentence[:MAX_TEXT]}
            shared[key] = {**about, "lost": lost and asdict(lost.as_range()), **explanation.record()}
            records.append(shared[key])
            if explanation.chain:
                # A consequence of a loss with the same facts shares the explanation of the loss.
                shared.setdefault((explanation.cause, tuple(explanation.chain)), shared[key])
        for finding in together:
            shared[key]["findings"].append(finding.id)
            causes[finding.id][explanation.cause] = None
    known = {name: ", ".join(found) if found.keys() - {"unknown"} else None for name, found in causes.items()}
    return [replace(finding, cause=known[finding.id]) for finding in findings], records


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
        if (explanation is None or explanation.cause == "unknown") and finding.rule not in LOSSES:
            explanation = explain_split_brain(p, finding, split_brains) or explanation
        if explanation is not None:
            explained.append(ExplainedFindings([finding], None, explanation))
    position = {finding.id: number for number, finding in enumerate(findings)}
    return sorted(explained, key=lambda item: position[item.findings[0].id])


def _with_ending(p: Partition, explained: ExplainedFindings) -> ExplainedFindings:
    """The explanation of a loss, or the proved cause of the abort if its records are aborted in the log."""
    [finding, *others], lost, explanation = explained
    if others or lost is None or explanation.cause != "unknown" or explanation.readings:
        return explained
    ending = explain_aborted(p, replace(finding, first_offset=lost.first, last_offset=lost.last))
    return explained if ending is None else explained._replace(explanation=ending)


def _sharing_key(finding: Finding, lost: Lost | None, explanation: Explanation) -> Any:
    """A key that is equal for findings which share a record.

    For a loss or a conflict it identifies the explanation; otherwise it has the chain, or else the missing evidence."""
    if lost is not None or explanation.readings:
        return id(explanation)
    if explanation.chain:
        return explanation.cause, tuple(explanation.chain)
    return finding.rule, finding.severity, explanation.cause, tuple(explanation.missing)
