"""Judges a run of transactions on lists or registers (Elle's workloads): one pass, in this process.

    splits → events and steps → transactions → versions of each key → dependencies → windows of time → cycles

Everything is polars until the windows; only what may be in a cycle becomes a graph. The driver holds the whole history:
about three times the size of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import polars as pl

from ..histories.bundle import Run
from ..histories.files import blocks
from ..histories.readers import READERS
from ..histories.readers import transaction_lines as lines
from ..histories.settings import Settings
from .kernel import MAX_DRAWN, configured_severity, of_run
from .results import Results
from .rules.anomalies import findings_of_anomalies, severities_under
from .stages import QUARANTINED
from .transactions import list_append, rw_register
from .transactions.anomalies import Anomaly, collect, repeated_writes
from .transactions.cycles import Cycles, cycles_of
from .transactions.txn_history import TxnHistory, history_of
from .transactions.version_edges import Versions, dependencies_of, edges_of

MAX_COMPONENTS = 20  # of a type of cycle: each has one finding, and the last has the count of the others
Progress = Callable[..., None]


def judge_transactions(run: Run, progress: Progress = lambda *_: None) -> Results:
    """Judges one run. Findings and counts are those of verdict.json."""
    results = Results(run)
    history = _read(run, results, progress)
    progress("judging", 0, 1, "histories")
    writes = history.writes()
    repeated = repeated_writes(writes)
    results.add_counts({"keys": len(history.keys), "repeated keys": len(repeated)})
    history = replace(history, steps=history.steps.join(repeated, on="key", how="anti", maintain_order="left"))
    del writes
    judge = _judge_lists if run.settings.dialect == "elle-append" else _judge_registers
    anomalies, cycles = judge(history, run.settings, results)
    found = findings_of_anomalies(history, anomalies, cycles, run.settings.model)
    findings, drawings = [], []
    for number, (finding, drawing) in enumerate(found):
        if run.settings.rules and finding.rule not in run.settings.rules:
            continue
        severity = configured_severity(finding, run.settings)
        findings.append(replace(finding, id=f"{finding.rule}/{number}", severity=severity))
        if drawing is not None:
            drawings.append({"id": findings[-1].id, "rule": finding.rule, "severity": severity, **drawing})
    drawings.sort(key=lambda one: one["severity"] != "violation")
    results.add_of_run(*of_run(findings, cycles=drawings[:MAX_DRAWN]))
    return results


def _read(run: Run, results: Results, progress: Progress) -> TxnHistory:
    events, steps = [pl.DataFrame(schema=lines.EVENTS)], [pl.DataFrame(schema=lines.STEPS)]
    for done, split in enumerate(run.splits):
        progress("reading", done, len(run.splits), "splits")
        number = 0
        for block in blocks(split):
            parsed = READERS[split.reader].parse(block.data, split.path)
            first = (split.number << 32) + block.first_line
            events.append(parsed.events.with_columns(pl.col("line") + first))
            steps.append(parsed.steps.with_columns(pl.col("line") + first))
            left_out = parsed.quarantine.select((pl.col("line") + first).alias("place"), "reason")
            number = block.first_line + block.lines
            if block.damage:
                row = {"place": [first + max(block.lines - 1, 0)], "reason": [block.damage]}
                left_out = pl.concat([left_out, pl.DataFrame(row, schema=QUARANTINED)])
            if len(left_out):
                results.add_quarantine(left_out)
        results.add_lines(split.number, number)
    placed = [pl.concat(frames).rename({"line": "place"}) for frames in (events, steps)]
    history = history_of(placed[0], placed[1], is_whole=not results.left_out)
    results.add_counts({"events": sum(map(len, events)), "operations": len(history.txns)})
    results.add_counts({str(name): number for name, number in history.txns.group_by("outcome").len().iter_rows()})
    unpaired = history.txns.filter(pl.col("start") < 0, outcome="ok")
    results.add_counts({"without invocation": len(unpaired)})
    return history


def _cycles(versions: Versions, history: TxnHistory, results: Results) -> dict[str, Cycles]:
    edges, too_large = edges_of(versions)
    if too_large:
        results.add_counts({"keys too large": too_large})
    return cycles_of(dependencies_of(edges, history), MAX_COMPONENTS, exact=True)


def _try_order(
    orders: Iterable[Versions],
    anomalies: list[Anomaly],
    cycles: dict[str, Cycles],
    history: TxnHistory,
    settings: Settings,
    results: Results,
) -> None:
    """Counts the order of versions as not known if there is no breach so far, but one under each of these orders."""
    severity = severities_under(settings.model)
    if not any(severity[name] == "violation" for name in (*cycles, *(one.type for one in anomalies))):
        guesses = (_cycles(versions, history, results) for versions in orders)
        is_broken = all(any(severity[name] == "violation" for name in guessed) for guessed in guesses)
        results.add_counts({"orders not known": is_broken})


def _judge_lists(history: TxnHistory, settings: Settings, results: Results) -> tuple[list[Anomaly], dict[str, Cycles]]:
    lists = list_append.lists_of(history)
    anomalies = collect(list_append.anomalies_of(history, lists))
    cycles = _cycles(list_append.versions_of(lists), history, results)
    if settings.model.endswith("snapshot-isolation"):
        _try_order([list_append.versions_of(lists, guessed=True)], anomalies, cycles, history, settings, results)
    return anomalies, cycles


def _judge_registers(
    history: TxnHistory, settings: Settings, results: Results
) -> tuple[list[Anomaly], dict[str, Cycles]]:
    registers = rw_register.registers_of(history)
    versions, cyclic = rw_register.versions_of(registers, settings.keys)
    anomalies = collect(rw_register.anomalies_of(history, registers, cyclic))
    cycles = _cycles(versions, history, results)
    _try_order(rw_register.guessed_versions(registers), anomalies, cycles, history, settings, results)
    results.add_counts({"unwritten versions": registers.unwritten})
    return anomalies, cycles
