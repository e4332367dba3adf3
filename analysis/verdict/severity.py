"""The severity of findings, as the configuration, --strict and --allow decide it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...histories.settings import Settings
from ...histories.tables import Finding
from ..partitions.partition import Partition
from ..rules import Judgement
from .consequences import accept_consequences, link_consequences


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
