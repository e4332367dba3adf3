"""The summaries of many plainly valid partitions: what summary.py makes of one, with all figures together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MAX_INT64
from ..figures.breaches import TOTALS, owner_of
from ..figures.series import Bins, bins_over, latency, over_time, span_of, unplaced_outcomes
from ..partitions.final_reads import FinalReads
from ..partitions.marks import COUNTS
from .many_partitions import ManyPartitions

Record = dict[str, Any]
NO_FIGURES: Record = {"bins": None, "replicas": None}
# Counts that are 0.
ABSENT = (
    *("transactions", "synthetic", "resolved"),
    *("logs", "batches", "checkpoints", "transactional batches", "kept records"),
)


def summaries_of(many: ManyPartitions) -> Iterator[Record]:
    """The summary of each partition, in order. The figures of all are with the first one."""
    final = {row.pop("tp"): row for row in many.final_reads.iter_rows(named=True)}
    figures = _figures(many)
    unplaced = {str(topic): unplaced_outcomes(sends) for (topic,), sends in many.unplaced.group_by("topic")}
    for row in _counts(many).iter_rows(named=True):
        number, topic, partition = (row.pop(name) for name in ("tp", "topic", "partition"))
        begun, ended, quartile = (row.pop(name) for name in ("begun", "ended", "latency"))
        outcomes = unplaced.pop(topic, None)  # with one partition of the topic
        own = figures if outcomes is None else {**(figures or NO_FIGURES), "unplaced": outcomes}
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
    """The summary of a plainly valid partition; `final`: a row of `final_reads_of`."""
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
    """The figures (figures/__init__.py) of plainly valid partitions, without those of single partitions."""
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


def handled_again(marks: pl.DataFrame, settings: Settings, *key: str) -> int:
    """The number of records that a group, or a single consumer, handled again; `key`: columns of the partition."""
    handled = marks.filter(kind="handle", outcome="ok")
    return len(handled.group_by(*key, owner_of(settings), "offset").len().filter(pl.col("len") > 1))


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
