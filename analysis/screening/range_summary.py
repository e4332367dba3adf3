"""The summary of a large plainly valid partition from the facts of its ranges: what summary.py makes of a Partition."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ..figures.merge import common_bins, latency_of, series_of
from ..figures.series import outcomes, span_of, unplaced_outcomes
from ..partitions.common import Common
from ..partitions.marks import COUNTS, IS_LOG_END
from ..partitions.observations import last_heal
from .many_partitions import final_reads_of
from .range_facts import RangeFacts, Rows, as_one_partition
from .summaries import NO_FIGURES, Record, plain_figures, plain_summary


def summary_of(topic: str, partition: int, facts: Sequence[RangeFacts], rest: Rows, common: Common) -> Record:
    """The summary of a partition with no unproved rules."""
    figures = _figures(topic, facts, rest, common)
    final = final_reads_in(facts, rest, common)
    return plain_summary(
        (topic, partition),
        _counts(facts, rest),
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


def _counts(facts: Sequence[RangeFacts], rest: Rows) -> dict[str, int]:
    in_rest = ("end_offsets", "groups", "commits")  # marks of a range are dropped once it is closed (incremental/)
    sums = {name: sum(fact.counts.get(name, 0) for fact in facts) for name in ("sends", "reads", *in_rest)}
    return {
        "sends": sums["sends"] + len(rest.sends),
        "acknowledged": sums["sends"],
        "reads": sums["reads"],
        "records": sums["sends"] + sums["reads"],
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


def _figures(topic: str, facts: Sequence[RangeFacts], rest: Rows, common: Common) -> Record:
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
