"""The data of the plots as small JSON-able records: one for each partition, merged into one for the run.

Their size is bounded for any history. They contain only integers and text, and are equal for both engines.
"""

from __future__ import annotations

from typing import Any

from ...histories.tables import Finding
from ..partitions.partition import Partition
from .breaches import heat, impact, never_received, times_of, with_times
from .merge import MAX_PARTITIONS, badness, merge_figures
from .offsets import offset_map
from .owners import owner_figures
from .replicas import replica_figures
from .series import (
    bins_over,
    lags,
    latency,
    outcomes_of_acknowledged,
    over_time,
    rows_by_process,
    span_of,
    unplaced_outcomes,
)
from .transactions import transaction_figures
from .windows import windows

__all__ = ["MAX_PARTITIONS", "badness", "figures_of", "merge_figures", "own_figures_of"]


def figures_of(p: Partition, findings: list[Finding]) -> dict[str, Any]:
    """The part of one partition in the figures of the run, in bounded size; merge.py adds up all partitions."""
    span = span_of(p.sends, p.reads, p.marks)
    if span is None:
        return {"bins": None, "unplaced": unplaced_outcomes(p.unplaced), "replicas": replica_figures(p)}
    bins = bins_over(*span)
    acknowledged = outcomes_of_acknowledged(p, findings)
    times = times_of(p, findings)
    return {
        "bins": bins.to_json(),
        "span": list(span),
        "series": over_time(p, acknowledged, bins),
        "latency": latency(p, bins),
        "unplaced": unplaced_outcomes(p.unplaced),
        "heat": heat(acknowledged, findings, times, bins),
        "times": with_times(findings, times, acknowledged),
        "impact": impact(p, acknowledged, findings),
        "never_received": never_received(p),
        # own_figures_of has these.
        **{"lags": [], "offsets": None, "windows": [], "replicas": None, "transactions": None, "owners": []},
    }


def own_figures_of(p: Partition, findings: list[Finding]) -> dict[str, Any]:
    """The figures of the partition itself. The run has those of its MAX_PARTITIONS worst partitions (`badness`)."""
    span = span_of(p.sends, p.reads, p.marks)
    if span is None:
        return {}
    acknowledged, consumers = outcomes_of_acknowledged(p, findings), rows_by_process(p)
    return {
        "lags": lags(p, acknowledged, consumers, bins_over(*span)),
        "offsets": offset_map(p, acknowledged, findings, consumers),
        "windows": windows(p, findings),
        "replicas": replica_figures(p),
        "transactions": transaction_figures(p),
        "owners": owner_figures(p),
    }
