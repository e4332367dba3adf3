"""A bounded summary of one partition: what verdicts and plots need, whatever the size of the history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl

from ..histories.evidence.tables import FINAL
from ..histories.tables import Finding
from .figures import figures_of
from .figures.series import span_of
from .partitions.absences import replaced_values
from .partitions.marks import COUNTS
from .partitions.partition import Partition
from .replicas.replica_logs import ReplicaLogs
from .rules import Judgement
from .rules.committed_loss import removals_without_clients

SAMPLE = 10_000  # operations for the quartile of latencies


def summarise(p: Partition, findings: list[Finding], judgements: Mapping[str, Judgement]) -> dict[str, Any]:
    """The summary of a partition as a JSON-able record: counts, final reads, unmet assumptions, evidence, figures."""
    final, span, logs = p.final, span_of(p.sends, p.reads, p.marks), p.replica_logs
    placed = int((p.sends["acknowledged"] & p.sends["offset"].is_not_null()).sum())
    return {
        "topic": p.topic,
        "partition": p.partition,
        "label": p.label,
        "topic_generation": None if p.generation is None else asdict(p.generation),
        "counts": {
            "sends": len(p.sends),
            "acknowledged": int(p.sends["acknowledged"].sum()),
            "placed": placed,
            "reads": len(p.reads),
            "records": len(p.reads) + int(p.sends["acknowledged"].sum()),
            "at offsets": len(p.reads) + placed,
            "transactions": int(p.sends["txn"].sum()) + int(p.reads["txn"].sum()),
            "end_offsets": len(p.end_offsets),
            "synthetic": int(p.sends["synthetic"].sum()),
            "logs": 0 if logs is None else logs.collected,
            "batches": 0 if logs is None else len(logs.batches),
            "checkpoints": 0 if logs is None else len(logs.checkpoints),
            "transactional batches": 0 if logs is None else int(logs.batches["transactional"].sum()),
            "removals": len(removals_without_clients(p)),
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
        if finding.rule in ("lost-write", "unseen") and replaced_values(p)["value"].is_in(finding.values).any():
            missing.add((finding.rule, f"cleanup.policy of {p.topic}, taken as delete"))
    return sorted(missing)


def _latency(p: Partition) -> int | None:
    """The lower quartile of the latencies of sends and reads in ns, from a sample of about SAMPLE; None without any.

    Other operations, such as assignments, need not wait for a broker.
    """
    took = []
    for frame in (p.sends.filter(~pl.col("synthetic")) if p.sends["synthetic"].any() else p.sends, p.reads):
        begun, done = (frame[name].gather_every(len(frame) // SAMPLE + 1) for name in ("invoked", "completed"))
        took.append((done - begun).drop_nulls().to_numpy())
    known = np.sort(np.concatenate(took))
    return int(known[(len(known) - 1) // 4]) if len(known) else None


def counts_of(findings: list[Finding]) -> dict[str, dict[str, int]]:
    """The number of findings (`violation`) and of records (`violation records`), by rule and then by severity.

    Findings that --allow accepts count as `permitted`, and as `accepted`.
    """
    counts: dict[str, dict[str, int]] = {}
    for finding in findings:
        of_rule = counts.setdefault(finding.rule, {})
        for kind in (finding.severity, *["accepted"] * finding.is_accepted):
            of_rule[kind] = of_rule.get(kind, 0) + 1
            of_rule[f"{kind} records"] = of_rule.get(f"{kind} records", 0) + finding.count
    return counts


MAX_DAMAGE = 100  # rows of a partition that are listed; all are counted

Record = dict[str, Any]


def evidence_coverage(p: Partition) -> Record | None:
    """The brokers' evidence of a partition as a JSON-able record; None without brokers' files.

    brokers: those with records in their logs. empty: those with empty logs. missing: known replicas without a log in
    the latest snapshot, unless the topic had been deleted by then. why missing: clauses, as far as files prove that
    they had one. incomplete: clauses about logs that lack a segment, or that an earlier snapshot lacks. lacking: the
    number of missing replicas, if the assignment is not recorded. assigned: the number of known replicas, 0 if nothing
    records it. damage: at most MAX_DAMAGE places. damaged: the number of all places.
    """
    logs = p.replica_logs
    if logs is None:
        return None
    held = set(logs.batches["broker"].unique()) | set(logs.records["broker"].unique())
    # A replica without records has an empty segment, whose name is the next offset.
    logs_at_last = (frame.filter(snapshot=logs.last)["broker"] for frame in (logs.batches, logs.records, logs.segments))
    collected = set().union(*logs_at_last) - logs.missing_brokers
    known = _known_replicas(p, logs)
    expected = set() if logs.outlive_topic else known
    partly = [one for one in logs.missing if (one.snapshot, one.is_whole) != (logs.last, True)]
    named = {name for frame in (logs.batches, logs.records) for name in frame["snapshot"].unique()}
    damage = logs.damage.select(pl.col("file").alias("source"), "byte", "line", "reason")
    damage = damage.sort("source", "byte", "line", nulls_last=True)
    clocks = {} if p.timeline is None else p.timeline.clocks
    return {
        "brokers": sorted(held),
        "empty": sorted(set(logs.segments["broker"].unique()) - held),
        "missing": sorted(expected - collected | logs.missing_brokers),
        "why missing": sorted({one.description for one in logs.missing if one not in partly}),
        "incomplete": [one.description for one in partly],
        "lacking": 0 if logs.replicas or logs.outlive_topic else max(0, _factor(p) - len(collected)),
        "assigned": len(logs.replicas) or _factor(p) or len(known),
        "snapshots": [name for name in logs.snapshots if name in named and name],
        "at the end": "" in named,
        "records": logs.held,
        "clocks": {
            name: {
                "description": clock.description,
                "doubtful": clock.has_conflict,
                "by_records": clock.by_records,
                "bounded": clock.bounded,
                "ahead": clock.offset,
            }
            for name, clock in clocks.items()
        },
        "damage": damage.head(MAX_DAMAGE).to_dicts(),
        "damaged": len(damage),
    }


def _known_replicas(p: Partition, logs: ReplicaLogs) -> set[str]:
    """The assigned replicas and the last leader, as run.json may have an assignment from before a reassignment; if
    neither the assignment nor the number of replicas is recorded, those of the last ISR in brokers' logs.
    """
    if logs.replicas or _factor(p):
        return {*logs.replicas, *([] if logs.leader is None else [logs.leader])}
    dated = logs.log_events.filter(pl.col("time").is_not_null(), snapshot=FINAL).sort("time", "file", "line")
    reported = [isr for fields in dated["fields"] if isinstance(isr := json.loads(fields).get("isr"), list)]
    return {str(broker) for broker in reported[-1]} if reported else set()


def _factor(p: Partition) -> int:
    """The replication factor from run.json; 0 if it is not set."""
    factor = p.settings.topic(p.topic).get("replication.factor")
    return factor if isinstance(factor, int) else 0
