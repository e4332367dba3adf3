"""A bounded summary of one partition: what verdicts and plots need, whatever the size of the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import polars as pl

from ..histories.tables import Finding
from .figures import figures_of
from .figures.series import span_of
from .partitions.absences import replaced
from .partitions.marks import COUNTS
from .partitions.partition import Partition
from .rules import Judgement
from .verdict.evidence_coverage import evidence_coverage

SAMPLE = 10_000  # operations for the quartile of latencies


def summarise(p: Partition, findings: list[Finding], judgements: Mapping[str, Judgement]) -> dict[str, Any]:
    """The summary of a partition as a JSON-able record: counts, final reads, unmet assumptions, evidence, figures."""
    final, span, logs = p.final, span_of(p.sends, p.reads, p.marks), p.replica_logs
    return {
        "topic": p.topic,
        "partition": p.partition,
        "label": p.label,
        "topic_generation": None if p.generation is None else asdict(p.generation),
        "counts": {
            "sends": len(p.sends),
            "acknowledged": int(p.sends["acknowledged"].sum()),
            "reads": len(p.reads),
            "records": len(p.reads) + int(p.sends["acknowledged"].sum()),
            "transactions": int(p.sends["txn"].sum()) + int(p.reads["txn"].sum()),
            "end_offsets": len(p.end_offsets),
            "synthetic": int(p.sends["synthetic"].sum()),
            "batches": 0 if logs is None else len(logs.batches),
            "transactional batches": 0 if logs is None else int(logs.batches["transactional"].sum()),
            "resolved": p.resolved_count,
            "kept records": 0 if logs is None else logs.held,
            **p.marks.select(COUNTS).row(0, named=True),
        },
        "span": None if span is None else list(span),
        "latency": _latency(p),
        "final": None if final is None else final._asdict(),
        "unjudged": {rule: list(one.unknowns) for rule, one in judgements.items() if one.unknowns},
        "missing settings": _missing_settings(p, findings, judgements),
        "evidence": evidence_coverage(p),
        "repeated_values": p.repeated_values,
        "findings": counts_of(findings),
        "figures": figures_of(p, findings),
    }


def _missing_settings(
    p: Partition, findings: list[Finding], judgements: Mapping[str, Judgement]
) -> list[tuple[str, str]]:
    """Pairs of a rule and a setting: the rule's verdict depends on the setting, and run.json does not set it."""
    missing = {(rule, setting) for rule, one in judgements.items() for setting in one.missing_settings}
    if p.settings.dialect == "jepsen":
        return []
    if "cleanup.policy" in p.settings.topic(p.topic):
        return sorted(missing)
    for finding in (finding for finding in findings if finding.severity == "violation"):
        if finding.rule in ("lost-write", "unseen") and replaced(p)["value"].is_in(finding.values).any():
            missing.add((finding.rule, f"cleanup.policy of {p.topic}, taken as delete"))
    return sorted(missing)


def _latency(p: Partition) -> int | None:
    """The lower quartile of the latencies of sends and reads in ns, from a sample of about SAMPLE; None without any.

    Other operations, such as assignments, need not wait for a broker.
    """
    took = []
    for frame in (p.sends.filter(~pl.col("synthetic")), p.reads):
        sample = frame.select("invoked", "completed").gather_every(len(frame) // SAMPLE + 1)
        took.append(sample.select(pl.col("completed") - pl.col("invoked")).to_series())
    quartile = pl.concat(took).quantile(0.25, "lower")
    return None if quartile is None else int(quartile)


def counts_of(findings: list[Finding]) -> dict[str, dict[str, int]]:
    """The number of findings (`violation`) and of records (`violation records`), by rule and then by severity."""
    counts: dict[str, dict[str, int]] = {}
    for finding in findings:
        by_severity = counts.setdefault(finding.rule, {})
        by_severity[finding.severity] = by_severity.get(finding.severity, 0) + 1
        by_severity[f"{finding.severity} records"] = by_severity.get(f"{finding.severity} records", 0) + finding.count
    return counts
