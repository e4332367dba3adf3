"""The summaries of many plainly valid partitions: what summary.py makes of one, with all figures together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from ...histories.tables import MAX_INT64
from ..figures.bins import bins_over
from ..figures.breaches import TOTALS
from ..figures.series import latency, over_time, unplaced_outcomes
from ..partitions.final_reads import FinalReads
from .many_partitions import ManyPartitions

Record = dict[str, Any]
NO_FIGURES: Record = {"bins": None, "replicas": None}
# Counts that are 0.
ABSENT = ("transactions", "synthetic", "batches", "transactional batches", "resolved", "kept records")


def summaries_of(many: ManyPartitions) -> Iterator[Record]:
    """The summary of each partition, in order. The figures of all are with the first one."""
    final = {row.pop("tp"): row for row in many.final_reads.iter_rows(named=True)}
    more: Record = {"processes": tuple(many.final_processes), "hides": MAX_INT64}
    figures = _figures(many)
    unplaced = {str(topic): unplaced_outcomes(sends) for (topic,), sends in many.unplaced.group_by("topic")}
    for row in _counts(many).iter_rows(named=True):
        number, topic, partition = (row.pop(name) for name in ("tp", "topic", "partition"))
        begun, ended, quartile = (row.pop(name) for name in ("begun", "ended", "latency"))
        outcomes = unplaced.pop(topic, None)  # with one partition of the topic
        yield {
            "topic": topic,
            "partition": partition,
            "label": f"{topic}-{partition}",
            "topic_generation": None,
            "counts": {**dict.fromkeys(ABSENT, 0), **row},
            "span": None if begun is None else [begun, ended],
            "latency": None if quartile is None else int(quartile),
            "final": FinalReads(**final[number], **more)._asdict() if number in final else None,
            "unjudged": {},
            "missing settings": [],
            "evidence": None,
            "repeated_values": 0,
            "findings": {},
            "figures": figures if outcomes is None else {**(figures or NO_FIGURES), "unplaced": outcomes},
            "causes": [],
        }
        figures = None


def _counts(many: ManyPartitions) -> pl.DataFrame:
    """One row for each partition: tp, topic, partition, counts, begun and ended (ns), latency (ns)."""
    kind = pl.col("kind")
    counts = [
        many.sends.group_by("tp").agg(sends=pl.len(), acknowledged=pl.col("acknowledged").sum()),
        many.reads.group_by("tp").agg(reads=pl.len()),
        many.marks.group_by("tp").agg(
            groups=((kind == "commit") | pl.col("group")).sum(),
            commits=(kind == "commit").sum(),
            generations=pl.col("group_generation").is_not_null().sum(),
        ),
        many.end_offsets.group_by("tp").agg(end_offsets=pl.len()),
    ]
    found = many.keys
    for frame in counts:
        found = found.join(frame, on="tp", how="left", maintain_order="left")
    found = found.fill_null(0).with_columns(records=pl.col("reads") + pl.col("acknowledged"))
    times = [frame.select("tp", "invoked", "completed") for frame in (many.sends, many.reads, many.marks)]
    spans = pl.concat(
        frame.group_by("tp").agg(
            pl.col("invoked").min().alias("first"), pl.col("invoked").max(), pl.col("completed").max()
        )
        for frame in times
    )
    spans = spans.group_by("tp").agg(
        begun=pl.min_horizontal("first", "invoked", "completed").min(),
        ended=pl.max_horizontal("first", "invoked", "completed").max(),
    )
    took = pl.concat(times[:2]).with_columns(latency=pl.col("completed") - pl.col("invoked"))
    quartiles = took.group_by("tp").agg(pl.col("latency").quantile(0.25, "lower"))
    return found.join(spans, on="tp", how="left").join(quartiles, on="tp", how="left").sort("tp")


def _figures(many: ManyPartitions) -> Record | None:
    """The figures of all partitions as one record (figures/__init__.py), without those of single partitions."""
    times = pl.concat([frame.select("invoked", "completed") for frame in (many.sends, many.reads, many.marks)])
    start, end = times["invoked"].min(), times.select(pl.max_horizontal("invoked", "completed").max()).item()
    if not isinstance(start, int) or not isinstance(end, int):
        return None
    bins = bins_over(start, end)
    acknowledged = many.acknowledged.select(
        "first_read", acked=pl.coalesce("completed", "invoked"), lost=pl.lit(False), legal=pl.lit(False)
    )
    handled = many.marks.filter((pl.col("kind") == "handle") & (pl.col("outcome") == "ok"))
    owner = pl.when(many.group == "").then("process").otherwise(pl.format("group {}", many.group))
    repeated = handled.group_by("tp", owner.alias("owner"), "offset").len().filter(pl.col("len") > 1)
    impact = dict.fromkeys(TOTALS, 0) | {"acknowledged": len(acknowledged), "handled_again": len(repeated)}
    return {
        "partitions": len(many.keys),
        "bins": bins.to_json(),
        "span": [start, end],
        "series": over_time(many, acknowledged, bins),
        "latency": latency(many, bins),
        "unplaced": None,
        "impact": {**impact, "by_producer": [], "by_reader": [], "processes_left_out": 0},
        **{name: [] for name in ("lags", "heat", "times", "never_received", "windows")},
        "offsets": None,
        "replicas": None,
    }
