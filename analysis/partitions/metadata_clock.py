"""How far the metadata log is ahead of the history: the clients' machine may have another time than the cluster.

Two things contradict equal clocks. A partition is created before its first record is acknowledged, and a broker
registers after it is restarted. The lines in which brokers begin epochs then show the difference, as far as the
history bounds the brokers' clocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from ...histories.evidence.clock import SLACK_MS, Clock, Fault
from ...models.internal_topics import METADATA_TOPIC
from ..extremes import least
from ..replicas.leaders import longest_copy
from ..timelines.facts import MS

MAX_WIDTH_MS = 15_000  # between the bounds of a difference that brokers' lines do not show


def metadata_clock(
    clocks: Mapping[str, Clock],
    ahead: Mapping[str, tuple[int, int]],
    metadata: pl.DataFrame,
    sends: pl.DataFrame,
    faults: Sequence[Fault],
    started: int | None,
) -> Clock:
    """The clock of the metadata log, of a topic-partition and of all brokers.

    `ahead`: how far the brokers' clocks are ahead of it by their lines (ahead_of_elections). `started`: the start of
    the run, ms since the epoch.
    """
    unknown = Clock(METADATA_TOPIC)
    if started is None or not len(metadata):
        return unknown
    records = longest_copy(metadata)
    low = _created_before_acknowledgements(records, sends, started)
    high = _registered_after_restarts(records, faults, started)
    is_behind, is_ahead = high is not None and high < -SLACK_MS, low is not None and low > SLACK_MS
    if is_behind == is_ahead:
        return unknown
    offset = _shown_by_brokers(clocks, ahead)
    if offset is None or not _is_within(offset, low, high):
        offset = low if low is not None and high is not None and low <= high <= low + MAX_WIDTH_MS else None
    if offset is None:
        return unknown
    return Clock(METADATA_TOPIC, offset, offset - SLACK_MS, offset + SLACK_MS, by_records=True)


def _is_within(offset: int, low: int | None, high: int | None) -> bool:
    return (low is None or offset >= low - SLACK_MS) and (high is None or offset <= high + SLACK_MS)


def _created_before_acknowledgements(records: pl.DataFrame, sends: pl.DataFrame, started: int) -> int | None:
    is_created = (pl.col("kind") == "partition") & ~pl.col("is_copy").fill_null(False)
    created = least(records.filter(is_created, pl.col("leader") >= 0)["time"], None)
    acked = least(sends.filter(pl.col("acknowledged"))["completed"], None)
    return None if created is None or acked is None else created - started - acked // MS


def _registered_after_restarts(records: pl.DataFrame, faults: Sequence[Fault], started: int) -> int | None:
    bounds = []
    registered = records.filter(pl.col("kind") == "register").sort("offset")
    for [broker], own in registered.group_by("broker_id", maintain_order=True):
        restarts = [
            f.invoked // MS for f in faults if (f.type, f.kind) == ("heal", "restart") and str(broker) in f.nodes
        ]
        if restarts and len(own) == len(restarts) + 1:  # the first start is before the history
            starts = zip(own["time"].to_list()[1:], restarts, strict=True)
            bounds += [time - started - restart for time, restart in starts]
    return min(bounds, default=None)


def _shown_by_brokers(clocks: Mapping[str, Clock], ahead: Mapping[str, tuple[int, int]]) -> int | None:
    """How far it is ahead (ms) by the lines of brokers with bounded clocks, else of all; None if they differ."""
    usable = {name: clock for name, clock in clocks.items() if name in ahead and not clock.has_conflict}
    bounded = {name for name, clock in usable.items() if clock.low is not None}
    shown = sorted(usable[name].offset - ahead[name][0] for name in bounded or usable)
    return shown[0] if shown and shown[-1] - shown[0] <= SLACK_MS else None
