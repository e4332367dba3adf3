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

EPOCH = pl.coalesce(
    pl.col("fields").str.json_path_match("$.leader_epoch"), pl.col("fields").str.json_path_match("$.leaderEpoch")
)


def without_steps(clocks: Mapping[str, Clock], log_events: pl.DataFrame, metadata: pl.DataFrame) -> Mapping[str, Clock]:
    """The clocks, in conflict for the brokers whose clock was set. The frames are those of one topic-partition."""
    dated = log_events.filter(pl.col("time").is_not_null(), snapshot=FINAL)
    stepped = _set_back(dated) | _before_elections(clocks, dated, metadata)
    return {
        name: replace(clock, has_conflict=True, by_records=True, was_set=True)
        if name in stepped and not clock.has_conflict
        else clock
        for name, clock in clocks.items()
    }


def _set_back(dated: pl.DataFrame) -> set[str]:
    """The brokers of which two lines in a row are earlier than one before them in their file.

    A single line may wait in a paused process. Files that were joined in the wrong order go back before their begin.
    """
    file = ("broker", "file")
    lines = dated.sort(*file, "line")
    before = lines.with_columns(
        latest=pl.col("time").cum_max().shift().over(file), earliest=pl.col("time").cum_min().shift().over(file)
    )
    went_back = (pl.col("time") < pl.col("latest") - SLACK_MS) & (pl.col("time") >= pl.col("earliest"))
    twice = before.with_columns(back=went_back & went_back.shift().over(file))
    return {*twice.filter("back")["broker"]}


def _before_elections(clocks: Mapping[str, Clock], dated: pl.DataFrame, metadata: pl.DataFrame) -> set[str]:
    """The brokers with a bounded clock of which some lines on leader epochs come long before the election, others not.

    If all of them do, the metadata log may have another time than the history.
    """
    elected = metadata.drop_nulls(["leader_epoch", "time"]).group_by("leader_epoch").agg(elected=pl.col("time").min())
    lines = dated.filter(pl.col("kind").is_in(["leader", "follower"]))
    lines = lines.with_columns(leader_epoch=EPOCH.cast(pl.Int32, strict=False)).join(elected, on="leader_epoch")
    early: dict[str, set[bool]] = {}
    for broker, late in lines.select("broker", pl.col("time") - pl.col("elected")).iter_rows():
        if broker in clocks and clocks[broker].low is not None:
            early.setdefault(broker, set()).add(late - clocks[broker].offset < -SLACK_MS)
    return {broker for broker, found in early.items() if found == {True, False}}
