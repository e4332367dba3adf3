"""Whether the clock of a process may differ from the others', or may have been set back, from a summary of each range.

The same signs as in partitions/foreign_clock.py, which takes all rows. Some clocks that agree count as differing, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import MIN_INT64, PLACES_OF_SPLIT
from ..partitions.foreign_clock import HOUR_NS, UNITS


class Clock(NamedTuple):
    """The operations of a process in a range and a split: their places, and the times (ns) of their invocations."""

    process: str
    split: int
    places: tuple[int, int]
    times: tuple[int, int]


class LastTimes(NamedTuple):
    """The completions (ns) of a process in a range: the last one of a plain record, the first and the last of all."""

    process: str
    plain: int  # MIN_INT64: none
    first: int
    last: int


def clocks_of(*tables: pl.DataFrame) -> list[Clock] | None:
    """The clocks by which tables of observations were recorded; None if one may have been set back by an hour."""
    time, place = pl.col("invoked"), pl.col("invoked_at")
    operations = pl.concat([rows.select("process", time, place) for rows in tables]).drop_nulls()
    spans = operations.group_by("process", split=place // PLACES_OF_SPLIT).agg(
        place.min().alias("low"), place.max().alias("high"), time.min().alias("begun"), time.max().alias("ended")
    )
    if len(spans.filter(pl.col("ended") - pl.col("begun") >= HOUR_NS)):
        ordered = operations.sort("invoked_at", maintain_order=True)
        back = ordered.select(back=time.cum_max().over("process", place // PLACES_OF_SPLIT) - time)
        if len(back.filter(pl.col("back") >= HOUR_NS)):
            return None
    columns = spans.select("process", "split", "low", "high", "begun", "ended").iter_rows()
    return [Clock(process, split, (low, high), (begun, ended)) for process, split, low, high, begun, ended in columns]


def was_set_back(clocks: Iterable[Clock]) -> bool:
    """Whether the clock of a process may have been set back by an hour from one range to another."""
    ordered = sorted(clocks, key=lambda clock: (clock.process, clock.split, clock.places[0]))
    for _, group in groupby(ordered, key=lambda clock: (clock.process, clock.split)):
        own = list(group)
        begins = [clock.places[0] for clock in own]
        latest = np.maximum.accumulate([clock.times[1] for clock in own])
        for clock in own if len(own) > 1 else ():
            before = int(np.searchsorted(begins, clock.places[1], "left")) - 1
            if before >= 0 and latest[before] - clock.times[0] >= HOUR_NS:
                return True
    return False


def last_times_of(rows: pl.DataFrame) -> list[LastTimes]:
    """The last times in rows of (process, completed, is_odd)."""
    time = pl.col("completed")
    plain = time.filter(~pl.col("is_odd")).max().fill_null(MIN_INT64)
    times = rows.group_by("process").agg(plain=plain, first=time.min(), last=time.max())
    return [LastTimes(*row) for row in times.iter_rows()]


def has_other_unit(times: Iterable[LastTimes]) -> bool:
    """Whether the times of a process end with those of the others if they are multiplied by a unit."""
    of_process: dict[str, LastTimes] = {}
    for one in times:
        other = of_process.get(one.process, one)
        plain, first, last = max(one.plain, other.plain), min(one.first, other.first), max(one.last, other.last)
        of_process[one.process] = LastTimes(one.process, plain, first, last)
    low = max((own.plain for own in of_process.values()), default=0) / 2
    high = max((own.last for own in of_process.values()), default=0) * 1.1
    # Of the records that are not plain, some do not count.
    ends = [(own.plain if own.plain > MIN_INT64 else own.first, own.last) for own in of_process.values()]
    return any(first * factor <= high and low <= last * factor for first, last in ends for factor in UNITS.values())
