"""The summary of a large plainly valid partition from the facts of its ranges: what summary.py makes of a Partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from ...histories.bundle import Settings
from ...histories.tables import MAX_INT64, MIN_INT64
from ..figures.bins import bins_of, bins_over
from ..figures.breaches import TOTALS
from ..figures.merge import latency_of, series_of
from ..figures.series import outcomes, unplaced_outcomes
from ..partitions.final_reads import FinalReads
from ..partitions.marks import IS_LOG_END
from ..partitions.observations import last_heal
from ..partitions.unit import Common
from .range_facts import RangeFacts, Rows, final_position, span_of
from .summaries import ABSENT

Record = dict[str, Any]


def summary_of(
    topic: str, partition: int, facts: Sequence[RangeFacts], rest: Rows, common: Common, settings: Settings
) -> Record:
    """The summary of a partition with no unproved rules."""
    took = rest.sends.select(pl.col("completed") - pl.col("invoked")).to_series().drop_nulls()
    latencies = pl.Series([*took, *(took for fact in facts for took in fact.latencies)], dtype=pl.Int64)
    quartile = latencies.quantile(0.25, "lower")
    figures = _figures(topic, facts, rest, common)
    final = final_reads_of(facts, rest, common, settings)
    return {
        "topic": topic,
        "partition": partition,
        "label": f"{topic}-{partition}",
        "topic_generation": None,
        "counts": _counts(facts, rest),
        "span": figures["span"] if figures["bins"] else None,
        "latency": None if quartile is None else int(quartile),
        "final": None if final is None else final._asdict(),
        "unjudged": {},
        "missing settings": [],
        "evidence": None,
        "repeated_values": 0,
        "findings": {},
        "figures": figures,
        "causes": [],
    }


def _counts(facts: Sequence[RangeFacts], rest: Rows) -> dict[str, int]:
    kind, marks = pl.col("kind"), rest.marks
    in_rest = ("end_offsets", "groups", "commits")  # marks of a range are dropped once it is closed (incremental/)
    sums = {name: sum(fact.counts.get(name, 0) for fact in facts) for name in ("sends", "reads", *in_rest)}
    return {
        **dict.fromkeys(ABSENT, 0),
        "sends": sums["sends"] + len(rest.sends),
        "acknowledged": sums["sends"],
        "reads": sums["reads"],
        "records": sums["sends"] + sums["reads"],
        "end_offsets": sums["end_offsets"] + len(marks.filter(IS_LOG_END)),
        "groups": sums["groups"] + len(marks.filter((kind == "commit") | pl.col("group"))),
        "commits": sums["commits"] + len(marks.filter(kind == "commit")),
        "generations": len(marks.filter(pl.col("group_generation").is_not_null())),
    }


def final_reads_of(facts: Sequence[RangeFacts], rest: Rows, common: Common, settings: Settings) -> FinalReads | None:
    """The final reads: they return all acknowledged records from offset 0 on."""
    reads = [fact.final for fact in facts if fact.final]
    position = final_position(rest, settings)
    if not reads and position is None:
        return None
    end = max((last + 1 for last, _, _ in reads), default=0)
    late = rest.marks.filter(IS_LOG_END & (pl.col("invoked") >= last_heal(common.context))).sort("invoked", "at")
    end = max(end, *late["offset"].tail(1)) if len(late) else end
    requested = late.filter(pl.col("offset") == end)["invoked"].max()
    return FinalReads(
        processes=tuple(settings.final_processes()),
        start=0,
        end=end,
        since=position[1] if position else min(first for _, first, _ in reads),
        until=max((until for _, _, until in reads), default=position[1] if position else MIN_INT64),
        requested=requested if isinstance(requested, int) else None,
        complete=True,
        hides=MAX_INT64,
    )


def _figures(topic: str, facts: Sequence[RangeFacts], rest: Rows, common: Common) -> Record:
    own = [{"figures": fact.figures} for fact in facts if fact.figures]
    unplaced = unplaced_outcomes(common.unplaced.filter(pl.col("topic") == topic))
    spans = [fact["figures"]["span"] for fact in own]
    if (other := span_of(rest.sends, rest.marks)) is not None:
        spans.append(other)
    if not spans:
        return {"bins": None, "unplaced": unplaced, "replicas": None}
    start, end = min(first for first, _ in spans), max(last for _, last in spans)
    bins = bins_over(start, end, max((bins_of(fact["figures"]["bins"]).shift for fact in own), default=0))
    without_offset = {"bins": bins.to_json(), "series": outcomes(rest.sends, bins)}
    acknowledged = sum(fact.counts["sends"] for fact in facts)
    impact = dict.fromkeys(TOTALS, 0) | {"acknowledged": acknowledged}
    impact["handled_again"] = sum(fact.counts["handled_again"] for fact in facts)
    return {
        "bins": bins.to_json(),
        "span": [start, end],
        "series": series_of(own, [without_offset], bins),
        "latency": latency_of(own, bins),
        "unplaced": unplaced,
        "impact": {**impact, "by_producer": [], "by_reader": [], "processes_left_out": 0},
        **{name: [] for name in ("lags", "heat", "times", "never_received", "windows")},
        "offsets": None,
        "replicas": None,
    }
