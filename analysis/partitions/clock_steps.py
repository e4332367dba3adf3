"""Clocks of brokers that were set while the broker ran: no offset fits all of its lines, so their times prove nothing.

A clock that was set back leaves lines that are earlier than those before them in the same file. One that was set
forward leaves lines which the offset of the later ones dates before the election that they report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from ...histories.evidence.clock import SLACK_MS, Clock
from ...histories.evidence.tables import FINAL
from .clock_bounds import BROKERS_LINES, lines_of_elections


def without_steps(clocks: Mapping[str, Clock], log_events: pl.DataFrame, metadata: pl.DataFrame) -> Mapping[str, Clock]:
    """The clocks; those that were set while their brokers ran are in conflict. The frames are of one partition."""
    stepped = _set_back(log_events) | _before_elections(clocks, log_events, metadata)
    return {
        name: replace(clock, has_conflict=True, by_records=True, was_set=True)
        if name in stepped and not clock.has_conflict
        else clock
        for name, clock in clocks.items()
    }


def _set_back(log_events: pl.DataFrame) -> set[str]:
    """The brokers with two lines in a row that are earlier than a line before them in the same file.

    A single line may wait in a paused process. Files that were joined in the wrong order go back before their begin.
    """
    file = ("broker", "file")
    lines = log_events.filter(pl.col("time").is_not_null(), snapshot=FINAL).sort(*file, "line")
    before = lines.with_columns(
        latest=pl.col("time").cum_max().shift().over(file), earliest=pl.col("time").cum_min().shift().over(file)
    )
    went_back = (pl.col("time") < pl.col("latest") - SLACK_MS) & (pl.col("time") >= pl.col("earliest"))
    twice = before.with_columns(back=went_back & went_back.shift().over(file))
    return {*twice.filter("back")["broker"]}


def _before_elections(clocks: Mapping[str, Clock], log_events: pl.DataFrame, metadata: pl.DataFrame) -> set[str]:
    """The brokers with a bounded clock that logged some leader epochs, but not all, long before their elections.

    If all of them do, the metadata log may have another time than the history.
    """
    lines = lines_of_elections(log_events, metadata, BROKERS_LINES)
    early: dict[str, set[bool]] = {}
    for broker, late in lines.select("broker", pl.col("time") - pl.col("elected")).iter_rows():
        if broker in clocks and clocks[broker].low is not None:
            early.setdefault(broker, set()).add(late - clocks[broker].offset < -SLACK_MS)
    return {broker for broker, found in early.items() if found == {True, False}}
