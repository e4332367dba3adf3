"""The summaries of partitions in which all rules are proved; summary.py makes those of the others.

Many small partitions share one record of figures. The summary of a large one follows from the facts of its ranges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MAX_INT64
from ..figures.breaches import TOTALS
from ..figures.merge import common_bins, latency_of, series_of
from ..figures.series import Bins, bins_over, latency, outcomes, over_time, span_of, unplaced_outcomes
from ..partitions.common import Common
from ..partitions.final_reads import FinalReads
from ..partitions.marks import COUNTS, IS_LOG_END
from ..partitions.observations import last_heal
from .groups import handled_again
from .many_partitions import ManyPartitions, final_reads_of
from .range_facts import RangeFacts, Rows, as_one_partition

Record = dict[str, Any]
NO_FIGURES: Record = {"bins": None, "replicas": None}
# Counts that are 0.
ABSENT = (
    *("transactions", "synthetic", "resolved"),
    *("logs", "batches", "checkpoints", "transactional batches", "kept records", "removals"),
)


def summaries_of(many: ManyPartitions) -> Iterator[Record]:
    """The summary of each partition, in order. The figures of all are with the first one."""
    final = {row.pop("tp"): row for row in many.final_reads.iter_rows(named=True)}
    figures = _figures(many)
    unplaced = {str(topic): unplaced_outcomes(sends) for (topic,), sends in many.unplaced.group_by("topic")}
    for row in _counts(many).iter_rows(named=True):
        number, topic, partition = (row.pop(name) for name in ("tp", "topic", "partition"))
        begun, ended, quartile = (row.pop(name) for name in ("begun", "ended", "latency"))
        of_topic = unplaced.pop(topic, None)  # with one partition of the topic
        own = figures if of_topic is None else {**(figures or NO_FIGURES), "unplaced": of_topic}
        span = None if begun is None else [begun, ended]
        yield plain_summary((topic, partition), row, span, quartile, final.get(number), own, many.settings)
        figures = None


def plain_summary(
    key: tuple[str, int],
    counts: Record,
    span: list[int] | None,
    latency: float | None,
    final: Record | None,
    figures: Record | None,
    settings: Settings,
) -> Record:
    """The summary of a partition in which all rules are proved; `final`: a row of `final_reads_of`."""
    topic, partition = key
    done: Record = {"processes": tuple(settings.final_processes()), "complete": True, "hides": MAX_INT64}
    return {
        "topic": topic,
        "partition": partition,
        "label": f"{topic}-{partition}",
        "topic_generation": None,
        "counts": {**dict.fromkeys(ABSENT, 0), **counts},
        "span": span,
        "latency": None if latency is None else int(latency),
        "final": None if final is None else FinalReads(**done, **final)._asdict(),
        "unjudged": {},
        "missing settings": [],
        "evidence": None,
        "repeated_values": 0,
        "findings": {},
        "figures": figures,
        "causes": [],
    }


def plain_figures(
    span: tuple[int, int], bins: Bins, series: Record, latency: list[list[int]], acknowledged: int, handled_again: int
) -> Record:
    """The figures (figures/__init__.py) of such partitions, without those of single partitions."""
    counts = dict.fromkeys(TOTALS, 0) | {"acknowledged": acknowledged, "handled_again": handled_again}
    return {
        **NO_FIGURES,
        "bins": bins.to_json(),
        "span": list(span),
        "series": series,
        "latency": latency,
        "unplaced": None,
        "impact": {**counts, "by_producer": [], "by_reader": [], "processes_left_out": 0},
        **{name: [] for name in ("lags", "heat", "times", "never_received", "windows")},
        "offsets": None,
    }


def _counts(many: ManyPartitions) -> pl.DataFrame:
    """One row for each partition: tp, topic, partition, counts, begun and ended (ns), latency (ns)."""
    counts = [
        many.sends.group_by("tp").agg(sends=pl.len(), acknowledged=pl.col("acknowledged").sum()),
        many.reads.group_by("tp").agg(reads=pl.len()),
        many.marks.group_by("tp").agg(COUNTS),
        many.end_offsets.group_by("tp").agg(end_offsets=pl.len()),
    ]
    found = many.keys
    for frame in counts:
        found = found.join(frame, on="tp", how="left", maintain_order="left")
    found = found.fill_null(0).with_columns(records=pl.col("reads") + pl.col("acknowledged"))
    found = found.with_columns(pl.col("acknowledged").alias("placed"), pl.col("records").alias("at offsets"))
    times = [frame.select("tp", "invoked", "completed") for frame in (many.sends, many.reads, many.marks)]
    spans = (
        pl.concat(times)
        .group_by("tp")
        .agg(
            begun=pl.min_horizontal(pl.col("invoked", "completed").min()),
            ended=pl.max_horizontal(pl.col("invoked", "completed").max()),
        )
    )
    took = pl.concat(times[:2]).with_columns(latency=pl.col("completed") - pl.col("invoked"))
    quartiles = took.group_by("tp").agg(pl.col("latency").quantile(0.25, "lower"))
    return found.join(spans, on="tp", how="left").join(quartiles, on="tp", how="left").sort("tp")


def _figures(many: ManyPartitions) -> Record | None:
    """The figures of all partitions as one record."""
    span = span_of(many.sends, many.reads, many.marks)
    if span is None:
        return None
    bins = bins_over(*span)
    acknowledged = many.acknowledged.select(
        "first_read", acked=pl.coalesce("completed", "invoked"), lost=pl.lit(False), legal=pl.lit(False)
    )
    again = handled_again(many.marks, many.settings, "tp")
    series, latencies = over_time(many, acknowledged, bins), latency(many, bins)
    figures = plain_figures(span, bins, series, latencies, len(acknowledged), again)
    return {**figures, "partitions": len(many.keys)}


def summary_of(topic: str, partition: int, facts: Sequence[RangeFacts], rest: Rows, common: Common) -> Record:
    """The summary of a partition with no unproved rules."""
    figures = _figures_in(topic, facts, rest, common)
    final = final_reads_in(facts, rest, common)
    return plain_summary(
        (topic, partition),
        _counts_in(facts, rest),
        figures["span"] if figures["bins"] else None,
        latency_in(facts, rest),
        final.drop("tp").row(0, named=True) if len(final) else None,
        figures,
        common.settings,
    )


def latency_in(facts: Sequence[RangeFacts], rest: Rows) -> float | None:
    """The lower quartile of the latencies (ns) of sends and reads, from samples; None without any."""
    took = rest.sends.select(pl.col("completed") - pl.col("invoked")).to_series().drop_nulls()
    latencies = pl.Series([*took, *(took for fact in facts for took in fact.latencies)], dtype=pl.Int64)
    return latencies.quantile(0.25, "lower")


def _counts_in(facts: Sequence[RangeFacts], rest: Rows) -> dict[str, int]:
    in_rest = ("end_offsets", "groups", "commits")  # marks of a range are dropped once it is closed (incremental/)
    sums = {name: sum(fact.counts.get(name, 0) for fact in facts) for name in ("sends", "reads", *in_rest)}
    return {
        "sends": sums["sends"] + len(rest.sends),
        "acknowledged": sums["sends"],
        "placed": sums["sends"],
        "reads": sums["reads"],
        "records": sums["sends"] + sums["reads"],
        "at offsets": sums["sends"] + sums["reads"],
        "end_offsets": sums["end_offsets"] + len(rest.marks.filter(IS_LOG_END)),
        **{name: sums.get(name, 0) + number for name, number in rest.marks.select(COUNTS).row(0, named=True).items()},
    }


def final_reads_in(facts: Sequence[RangeFacts], rest: Rows, common: Common) -> pl.DataFrame:
    """`final_reads_of` the partition: one row, or none."""
    reads = [fact.final for fact in facts if fact.final]
    returned = as_one_partition(pl.DataFrame(reads, dict.fromkeys(("last", "first", "until"), pl.Int64), orient="row"))
    passes = returned.group_by("tp").agg(
        end=pl.col("last").max() + 1, first=pl.col("first").min(), until=pl.col("until").max()
    )
    readers = common.settings.final_readers()
    return final_reads_of(passes, as_one_partition(rest.marks), last_heal(common.context), readers)


def _figures_in(topic: str, facts: Sequence[RangeFacts], rest: Rows, common: Common) -> Record:
    own = [fact.figures for fact in facts if fact.figures]
    unplaced = unplaced_outcomes(common.unplaced.filter(topic=topic))
    other = span_of(rest.sends, rest.marks)
    if not own and other is None:
        return {**NO_FIGURES, "unplaced": unplaced}
    bins, span = common_bins(own, [] if other is None else [other])
    without_offset = {"bins": bins.to_json(), "series": outcomes(rest.sends, bins)}
    return plain_figures(
        span,
        bins,
        series_of([*own, without_offset], bins),
        latency_of(own, bins),
        acknowledged=sum(fact.counts["sends"] for fact in facts),
        handled_again=sum(fact.counts["handled_again"] for fact in facts),
    ) | {"unplaced": unplaced}
