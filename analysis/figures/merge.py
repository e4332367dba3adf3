"""Merges the figure data of partitions, in any order, into one record of the run.

The record is figures.json:

    format, name, started_at, span (ns), bins {shift, first, count}, faults, faults_left_out
    series     sums over all partitions by bin (series.py: over_time)
    latency    [bin, bucket, count] lists, added up
    impact     acknowledged, lost, lost_complete (whether no more can be lost), lost_read, duplicated, legally_gone,
               handled_again; by_topic, by_producer, by_reader
    never_received  [process, partition, first, last, records] (breaches.py)
    heat       rows of findings by partition: {partition, cells: [{rule, severity, bins, records}]}
    partitions [{name, topic, partition, violations, acknowledged, lost, lost_read, series, lags, offsets, replicas,
               transactions, owners, causes}], the worst first
    windows    operations around the worst findings
    cycles     cycles of transactions: id, rule, severity, operations, steps (rules/cycles.py)
    times      {finding id: {from, to, acked_from, acked_to}}
    ..._left_out  how many items exceed the bounds below
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...histories.settings import Settings
from ..finding_order import partition_key
from ..rules import RULES
from ..timelines.fault_kinds import INSTANT, STOPS
from .breaches import KINDS, TOTALS
from .series import OF_ACKNOWLEDGED, Bins, bins_over, numbers_in, sum_by_bin

FORMAT = 1
MAX_PARTITIONS = 16  # partitions with figures of their own
MAX_ROWS = 60  # rows of the heat map
MAX_WINDOWS = 16
MAX_TIMES = 400
MAX_NAMES = 40  # topics, producers and readers that are counted separately
MAX_FAULTS = 120

Record = dict[str, Any]


class _Fault(NamedTuple):
    """A fault of a node, while it lasted."""

    kind: str
    node: str  # empty: of the whole cluster
    since: int  # ns
    until: int | None  # ns; None: never healed


def fault_bands(context: pl.DataFrame) -> tuple[list[Record], int]:
    """Bands (kind, nodes, place, from and to in ns) sorted by time, and the number of bands left out.

    `to`: None if the fault was never healed; equal to `from` for an INSTANT fault. Only these have a place: orders-0,
    or logs-0@237, logs-1@240. A fault of several nodes becomes several bands if they were healed at different times.
    """
    events = context.filter(pl.col("kind").is_in(["fault", "heal"])).sort("invoked", "at")
    faults, moments = _faults_in(events)
    bands = [*moments, *_bands_of(faults)]
    bands.sort(
        key=lambda band: (band["from"], band["to"] is None, band["to"] or 0, band["kind"], band["nodes"], band["place"])
    )
    return bands[:MAX_FAULTS], max(len(bands) - MAX_FAULTS, 0)


def _faults_in(events: pl.DataFrame) -> tuple[list[_Fault], list[Record]]:
    """The faults that lasted, each of one node, and the bands of INSTANT faults."""
    open_since: dict[tuple[str, str], int] = {}  # by kind and node
    faults: list[_Fault] = []
    moments: list[Record] = []
    for row in events.iter_rows(named=True):
        kind, nodes, place = _parse_detail(row["detail"])
        start, end = row["invoked"], row["invoked"] if row["completed"] is None else row["completed"]
        if row["kind"] == "heal":
            kinds = STOPS if kind == "restart" else (kind,)
            ended = [key for key in open_since if key[0] in kinds and (not nodes or key[1] in nodes or not key[1])]
            faults += [_Fault(*key, open_since.pop(key), end) for key in ended]
        elif kind in INSTANT:
            moments.append({"kind": kind, "nodes": nodes, "place": place, "from": start, "to": start})
        else:
            for node in nodes or [""]:
                # A kill ends the pause of a process.
                if kind == "kill" and ("pause", node) in open_since:
                    faults.append(_Fault("pause", node, open_since.pop(("pause", node)), start))
                open_since.setdefault((kind, node), start)
    return faults + [_Fault(*key, since, None) for key, since in open_since.items()], moments


def _bands_of(faults: Iterable[_Fault]) -> Iterator[Record]:
    """Bands of faults that lasted. Those of a kind that began and ended together are one."""
    nodes: dict[tuple[str, int, int | None], set[str]] = {}
    for fault in faults:
        nodes.setdefault((fault.kind, fault.since, fault.until), set()).add(fault.node)
    for (kind, since, until), names in nodes.items():
        yield {"kind": kind, "nodes": sorted(names - {""})[:20], "place": "", "from": since, "to": until}


def _parse_detail(detail: str | None) -> tuple[str, list[str], str]:
    """Kind, nodes and place from a fault's JSON. If it is not a JSON object, the text is the kind."""
    try:
        fault = json.loads(detail or "{}")
    except (ValueError, RecursionError):
        fault = detail
    if not isinstance(fault, dict):
        return (str(fault)[:40] or "fault"), [], ""
    nodes = fault.get("nodes")
    names = [str(node)[:40] for node in nodes][:20] if isinstance(nodes, list) else []
    return str(fault.get("kind") or "fault")[:40], names, _place(fault)


def _place(fault: dict[str, Any]) -> str:
    topic, partition, offsets = (fault.get(name) for name in ("topic", "partition", "offsets"))
    if topic is None:
        return ""
    if isinstance(offsets, dict):
        return ", ".join(f"{topic}-{number}@{offset}" for number, offset in offsets.items())[:80]
    return (str(topic) if partition is None else f"{topic}-{partition}")[:80]


def merge_figures(
    records: Iterable[Record],
    context: pl.DataFrame,
    settings: Settings,
    lost_complete: bool = True,
    findings: pl.DataFrame | None = None,
) -> Record:
    """The run's record, from `Results.records`. Partitions without observations add nothing.

    `lost_complete`: no more writes can be lost than were found (`verdict.document.finds_all_losses`). `findings`: all
    of the run, as some of transactions show only across partitions.
    """
    summaries = list(records)
    ordered = sorted((summary for summary in summaries if summary.get("figures")), key=partition_key)
    dated = [summary for summary in ordered if summary["figures"]["bins"]]
    unplaced = _merge_unplaced(ordered)
    faults, faults_left_out = fault_bands(context)
    figures = [summary["figures"] for summary in dated]
    times = [(time, time) for band in faults for time in (band["from"], band["to"]) if time is not None]
    bins, span = common_bins([*figures, *unplaced], times)
    # The figures of many small partitions are one sum: it has the number of `partitions` (screening/summaries.py).
    worst = sorted((summary for summary in dated if "partitions" not in summary["figures"]), key=badness)
    undated = [summary for summary in ordered if not summary["figures"]["bins"]]
    only_on_brokers = [_with_empty_figures(summary, bins) for summary in undated if summary["figures"].get("replicas")]
    windows = [{"partition": s["label"], **w} for s in worst for w in s["figures"]["windows"]]
    windows.sort(key=lambda window: (window["severity"] != "violation", _number_in_rule(window["id"])))
    heat, heat_left_out = _heat(worst, bins)
    partitions = [_partition(summary, bins) for summary in (worst + only_on_brokers)[:MAX_PARTITIONS]]
    return {
        "format": FORMAT,
        "name": settings.name,
        "started_at": str(settings.config.get("started_at") or "")[:64],
        "span": list(span),
        "bins": bins.to_json(),
        "faults": faults,
        "faults_left_out": faults_left_out,
        "series": series_of([*figures, *unplaced], bins),
        "latency": latency_of(figures, bins),
        "impact": {**_impact(dated), "lost_complete": lost_complete},
        "never_received": _never_received(dated),
        "heat": heat,
        "heat_left_out": heat_left_out,
        "partitions": partitions if findings is None else [_with_findings(part, findings) for part in partitions],
        "partitions_left_out": max(len(worst) + len(only_on_brokers) - MAX_PARTITIONS, 0),
        "windows": windows[:MAX_WINDOWS],
        "cycles": [cycle for summary in summaries for cycle in summary.get("cycles", ())],
        "times": _times(worst),
    }


def badness(summary: Record) -> tuple[Any, ...]:
    """A sort key: most lost records first, then most records in violations, in permitted findings, and in all."""
    counts = summary["findings"].values()
    breaches = sum(rule.get("violation records", 0) for rule in counts)
    permitted = sum(rule.get("permitted records", 0) for rule in counts)
    lost = summary["figures"]["impact"]["lost"]
    size = summary["counts"]["records"]
    return (-lost, -breaches, -permitted, -size, *partition_key(summary))


def _number_in_rule(finding: str) -> int:
    """A sort key: the first findings of a rule in all partitions come before the second ones."""
    number = finding.rsplit("/", 1)[-1]
    return int(number) if number.isdecimal() else 0


def _merge_unplaced(ordered: list[Record]) -> list[Record]:
    """Sends without a partition, once for each topic: all its partitions report the same ones."""
    by_topic: dict[str, Record] = {}
    for summary in ordered:
        if summary["figures"]["unplaced"]:
            by_topic.setdefault(summary["topic"], summary["figures"]["unplaced"])
    return list(by_topic.values())


def common_bins(figures: Iterable[Record], spans: Iterable[tuple[int, int]] = ()) -> tuple[Bins, tuple[int, int]]:
    """The bins of several figures together, and the span (ns) of these and of other `spans`."""
    every, shift = [*spans], 0
    for record in figures:
        bins = Bins(**record["bins"])
        whole = bins.first << bins.shift, ((bins.first + bins.count) << bins.shift) - 1
        every.append(record.get("span", whole))  # sends without a partition have bins alone
        shift = max(shift, bins.shift)
    if not every:
        return Bins(0, 0, 1), (0, 0)
    start, end = min(low for low, _ in every), max(high for _, high in every)
    return bins_over(start, end, shift), (start, end)


def series_of(figures: Iterable[Record], bins: Bins) -> dict[str, list[int]]:
    """The sums by bin of the series in several figures."""
    names = ("ok", "fail", "info", "read", *OF_ACKNOWLEDGED)
    totals = {name: np.zeros(bins.count, np.int64) for name in names}
    for record in figures:
        own = Bins(**record["bins"])
        for name, values in record["series"].items():
            totals[name] += sum_by_bin(values, own, bins)
    return {name: values.tolist() for name, values in totals.items()}


def latency_of(figures: Iterable[Record], bins: Bins) -> list[list[int]]:
    """The sums of the latencies (series.py: latency) in several figures."""
    cells: Counter[tuple[int, int]] = Counter()
    for record in figures:
        where = numbers_in(Bins(**record["bins"]), bins).tolist()
        for number, bucket, count in zip(*record["latency"], strict=True):
            cells[where[number], bucket] += count
    rows = [(number, bucket, count) for (number, bucket), count in sorted(cells.items())]
    return [list(column) for column in zip(*rows, strict=True)] or [[], [], []]


def _impact(dated: list[Record]) -> Record:
    topics: dict[str, list[int]] = {}
    producers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    total = dict.fromkeys(TOTALS, 0)
    left_out = 0
    for summary in dated:
        own = summary["figures"]["impact"]
        for name in total:
            total[name] += own[name]
        _add(topics, summary["topic"], [own["acknowledged"], *(own[kind] for kind in KINDS)])
        for name, *counts in own["by_producer"]:
            _add(producers, name, counts)
        for name, count in own["by_reader"]:
            _add(readers, name, [count])
        left_out += own["processes_left_out"]
    return {
        **total,
        "by_topic": _most_harmed({name: counts for name, counts in topics.items() if any(counts[1:])}),
        "by_producer": _most_harmed(producers),
        "by_reader": _most_harmed(readers),
        "complete": left_out == 0 and max(len(producers), len(readers)) <= MAX_NAMES,
    }


def _never_received(dated: list[Record]) -> list[list[Any]]:
    rows = [row for summary in dated for row in summary["figures"]["never_received"]]
    return sorted(rows, key=lambda row: (-row[-1], row))[:MAX_NAMES]


def _add(totals: dict[str, list[int]], name: str, counts: list[int]) -> None:
    before = totals.get(name, [0] * len(counts))
    totals[name] = [one + other for one, other in zip(before, counts, strict=True)]


def _most_harmed(totals: dict[str, list[int]]) -> list[list[Any]]:
    # The last columns count the harm.
    ordered = sorted(totals.items(), key=lambda item: (-sum(item[1][-3:]), item[0]))
    return [[name, *counts] for name, counts in ordered[:MAX_NAMES]]


def _heat(worst: list[Record], bins: Bins) -> tuple[list[Record], int]:
    found = [summary for summary in worst if summary["figures"]["heat"]]
    rows = []
    for summary in found[:MAX_ROWS]:
        where = numbers_in(Bins(**summary["figures"]["bins"]), bins).tolist()
        cells = []
        for cell in summary["figures"]["heat"]:
            records: Counter[int] = Counter()
            for number, count in zip(cell["bins"], cell["records"], strict=True):
                records[where[number]] += count
            numbers = sorted(records)
            cells.append({**cell, "bins": numbers, "records": [records[number] for number in numbers]})
        rows.append({"partition": summary["label"], "cells": cells})
    return rows, max(len(found) - MAX_ROWS, 0)


def _with_empty_figures(summary: Record, bins: Bins) -> Record:
    """The summary with the figures of a partition without client operations."""
    zeros = [0] * bins.count
    series = dict.fromkeys(OF_ACKNOWLEDGED, zeros)
    impact = {"acknowledged": 0, "lost": 0, "lost_read": 0}
    figures = {"bins": bins.to_json(), "series": series, "lags": [], "impact": impact, "offsets": None}
    return {**summary, "figures": {**figures, "replicas": summary["figures"]["replicas"]}}


def _partition(summary: Record, bins: Bins) -> Record:
    figures = summary["figures"]
    own = Bins(**figures["bins"])
    counts = summary["findings"].values()
    return {
        "name": summary["label"],
        "topic": summary["topic"],
        "partition": summary["partition"],
        "topic_generation": summary["topic_generation"],
        "violations": sum(rule.get("violation", 0) for rule in counts),
        "acknowledged": figures["impact"]["acknowledged"],
        "lost": figures["impact"]["lost"],
        "lost_read": figures["impact"]["lost_read"],
        "series": {name: sum_by_bin(figures["series"][name], own, bins).tolist() for name in OF_ACKNOWLEDGED},
        "lags": [{"process": line["process"], "behind": _lag(line, own, bins)} for line in figures["lags"]],
        "offsets": figures["offsets"],
        "replicas": figures["replicas"],
        "transactions": figures.get("transactions"),
        "owners": figures.get("owners") or [],
        "causes": _causes(summary),
    }


def _with_findings(part: Record, findings: pl.DataFrame) -> Record:
    """The partition; each of its transactions with the rules of the findings that are explained by its end."""
    if not part["transactions"]:
        return part
    rules = [name for name, rule in RULES.items() if rule.explained_as == "ending"]
    generation = part["topic_generation"]
    number = generation["number"] if generation and generation["count"] > 1 else None  # as findings have it
    here = findings.filter(
        pl.col("rule").is_in(rules),
        pl.col("topic") == part["topic"],
        pl.col("partition") == part["partition"],
        pl.col("topic_generation").eq_missing(pl.lit(number, pl.Int32)),
    )
    named = here.select("rule", "first_offset").drop_nulls().rows()
    shown = []
    for txn in part["transactions"]["shown"]:
        within = {rule for rule, offset in named if any(first <= offset <= last for first, last in txn["runs"])}
        shown.append({**txn, "findings": sorted(within)})
    return {**part, "transactions": {**part["transactions"], "shown": shown}}


def _causes(summary: Record) -> list[list[Any]]:
    """First offset, last offset and cause of each explained loss; a range that several rules found is one."""
    lost = [(cause["lost"], cause["cause"]) for cause in summary.get("causes", []) if cause.get("lost")]
    return [list(row) for row in dict.fromkeys((about["first"], about["last"], name) for about, name in lost)]


def _lag(line: Record, bins: Bins, run_bins: Bins) -> list[int | None]:
    """The maximum lag in each bin; the lag at the partition's end grows until the end of the run."""
    merged: list[int | None] = [None] * run_bins.count
    where = numbers_in(bins, run_bins).tolist()
    for number, behind in zip(where, line["behind"], strict=True):
        if behind is not None:
            merged[number] = max(merged[number] or 0, behind)
    if line["since"] is not None:
        for number, end in enumerate(run_bins.ends().tolist()):
            if number > where[-1]:
                merged[number] = end - line["since"]
    return merged


def _times(worst: list[Record]) -> dict[str, Record]:
    rows = [row for summary in worst for row in summary["figures"]["times"]]
    return {row["id"]: {name: row[name] for name in row if name != "id"} for row in rows[:MAX_TIMES]}
