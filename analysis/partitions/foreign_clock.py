"""Finds a process whose times contradict all others in a partition: another unit, or a clock that is hours off.

Or a process whose clock was set back: many operations were invoked hours before those on earlier lines of its file.
Or two processes with clocks that differ, by however little: one read records before the other sent them.

A log bounds clocks: whatever has a lower offset was appended earlier, and a record is appended after its send was
invoked, before it was acknowledged, and before it was read. A process has another clock if its times contradict the
others, but agree with all of them once they are shifted by hours or multiplied by a unit. After a breach by a broker no
shift agrees, because the other reads and appends of the process fit only the recorded times.

No broker returns a record at its offset before it is sent, so such an early read proves that clocks differ. A single
one may be an error of the recorder. So there are many, or the times agree once a constant is added to each clock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ...histories.tables import PLACES_OF_SPLIT
from ...models.arrays import Ints, Mask
from ..wording import duration, plural
from .observations import Observations, once

UNITS = {"microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}  # ns in each
HOUR_NS = 3_600 * 10**9
MIN_RECORDS = 20  # of a process; fewer may agree with anything
MAX_PROCESSES = 100  # with the highest records; each takes a pass over the partition

INVOCATIONS = ("process", "invoked", "invoked_at")

Times = npt.NDArray[np.float64]


class _Log(NamedTuple):
    """Sends and reads in the order of their offsets: when a record was appended at the earliest and at the latest."""

    process: Ints
    earliest: Times  # the invocation of its send; -inf for a read
    latest: Times  # the completion


@once
def foreign_clock(p: Observations) -> str:
    """A clause that names a process whose clock contradicts all others or was set back; empty if there is none."""
    if went_back := clock_set_back(p):
        return went_back
    log, names = _log(p)
    if _is_consistent(log, np.ones(len(log.process), bool)):
        # Sends without an offset are not in this log, but may be read too early.
        return _differing_clocks(p, log, names) if p.possible_sends["offset"].null_count() else ""
    counts = np.bincount(log.process, minlength=len(names))
    for process in map(int, np.argsort(-counts, kind="stable")[:MAX_PROCESSES]):
        # If a writer's clock is wrong, its readers contradict others, too. The others agree only without the writer.
        if counts[process] < MIN_RECORDS or not _is_consistent(log, log.process != process):
            continue
        if difference := _clock_difference(log, process):
            return f"the times of {names[process]} contradict those of all other processes, unless {difference}"
    return _differing_clocks(p, log, names)


@once
def clock_set_back(p: Observations) -> str:
    """A clause that names a process with a clock that was set back; empty if there is none."""
    operations = [frame.select(INVOCATIONS) for frame in (p.sends.filter(~pl.col("synthetic")), p.reads, p.marks)]
    for process, hours, _ in set_back(pl.concat(operations)).head(1).iter_rows():
        return f"the times of {process} go back by {plural(hours, 'hour')}"
    return ""


def set_back(operations: pl.DataFrame) -> pl.DataFrame:
    """The place where a process's clock was set back: MIN_RECORDS operations are hours after those on the next lines.

    A single operation may be out of order. Takes the columns INVOCATIONS; returns process, hours, and the place of the
    first invocation by the new clock, sorted by place.
    """
    of_file = ("process", pl.col("invoked_at") // PLACES_OF_SPLIT)
    before = pl.col("invoked").rolling_min(MIN_RECORDS).shift().over(of_file)
    after = pl.col("invoked").reverse().rolling_max(MIN_RECORDS).reverse().over(of_file)
    return (
        operations.drop_nulls()
        .sort("invoked_at", maintain_order=True)
        .with_columns(hours=(before - after) // HOUR_NS)
        .filter(pl.col("hours") >= 1)
        .select("process", "hours", place="invoked_at")
    )


def _log(p: Observations) -> tuple[_Log, list[str]]:
    placed = pl.col("offset").is_not_null() & pl.col("process").is_not_null()
    columns = ("offset", "process", "value", "completed")
    sends = p.sends.filter(placed & ~pl.col("synthetic")).select(*columns, "invoked")
    reads = p.reads.filter(placed).select(*columns, pl.lit(None, pl.Int64).alias("invoked"))
    rows = pl.concat([sends, reads])
    # Records that took the place of lost ones are later than what follows in the log.
    replaced = rows.group_by("offset").agg(pl.col("value").n_unique()).filter(pl.col("value") > 1)
    rows = rows.join(replaced, on="offset", how="anti").sort("offset", maintain_order=True)
    names = rows["process"].unique().sort()
    codes = names.search_sorted(rows["process"]).to_numpy().astype(np.int64)
    earliest = rows["invoked"].cast(pl.Float64).fill_null(-np.inf).to_numpy()
    latest = rows["completed"].cast(pl.Float64).fill_null(np.inf).to_numpy()
    return _Log(codes, earliest, latest), names.to_list()


def _clock_difference(log: _Log, process: int) -> str:
    """The difference of a process's clock from the others', as a clause; empty if none can be proved."""
    own = log.process == process
    if own.all():
        return ""
    # The others bound when each record of the process was appended.
    after = np.maximum.accumulate(np.where(own, -np.inf, log.earliest))[own]
    before = np.minimum.accumulate(np.where(own, np.inf, log.latest)[::-1])[::-1][own]
    earliest, latest = log.earliest[own], log.latest[own]
    lowest, highest = _shifts(after, before, earliest, latest, 1)
    if lowest <= 0 <= highest:
        return ""
    shift = lowest if lowest > 0 else highest
    if lowest <= highest and abs(shift) >= HOUR_NS:
        hours = plural(round(abs(shift) / HOUR_NS), "hour")
        return f"its clock is {hours} or more {'behind' if shift > 0 else 'ahead'}"
    end = _latest_finite(log.latest[~own])
    for unit, factor in UNITS.items():
        lowest, highest = _shifts(after, before, earliest, latest, factor)
        covers = end / 2 <= _latest_finite(latest) * factor <= end * 1.1
        # A coarse time is rounded down, so it may be one unit early.
        if covers and lowest <= factor and highest >= -factor:
            return f"they are {unit}, not nanoseconds"
    return ""


def _differing_clocks(p: Observations, log: _Log, names: list[str]) -> str:
    """A clause that names two processes whose clocks differ, by their early reads; empty if none can be proved."""
    early = _early_reads(p)
    if not len(early):
        return ""
    pairs = early.group_by("reader", "writer").agg(pl.len(), pl.col("ns").max())
    pairs = pairs.sort("len", "ns", "reader", "writer", descending=[True, True, False, False])
    reader, writer, number, ns = pairs.row(0)
    if number < MIN_RECORDS:
        codes = [names.index(name) for name in (reader, writer) if name in names]
        if len(codes) < 2 or not _agrees_when_shifted(log, codes):
            return ""
    up_to, them = ("", "it") if number == 1 else ("up to ", "them")
    before = f"{up_to}{duration(ns)} before {writer} sent {them}"
    return f"{reader} read {plural(number, 'record')} {before}, so their clocks differ"


def _early_reads(p: Observations) -> pl.DataFrame:
    """The reads of values at the offsets of their only sends, before these were invoked: reader, writer, ns."""
    sends = p.possible_sends.filter(~pl.col("value").is_duplicated(), ~pl.col("synthetic"))
    sent = sends.select("value", "invoked", placed="offset", writer="process")
    read = p.reads.select("value", "offset", "completed", reader="process")
    return (
        read.join(sent.drop_nulls(["value", "invoked"]), on="value")
        .filter(
            pl.col("completed") < pl.col("invoked"), pl.col("placed").fill_null(pl.col("offset")) == pl.col("offset")
        )
        .select("reader", "writer", ns=pl.col("invoked") - pl.col("completed"))
    )


def _agrees_when_shifted(log: _Log, processes: list[int]) -> bool:
    """Whether adding a constant to each clock makes all times agree; False if these processes have too few records."""
    counts = np.bincount(log.process)
    if len(counts) > MAX_PROCESSES or counts[processes].min() < MIN_RECORDS:
        return False
    order = np.argsort(log.process, kind="stable")
    first_rows = np.searchsorted(log.process[order], np.arange(len(counts)))
    # How far the clock of one process may be ahead of another's: a record is appended after all records below it.
    ahead = np.empty((len(counts), len(counts)))
    for process in range(len(counts)):
        below = np.maximum.accumulate(np.where(log.process == process, log.earliest, -np.inf))
        ahead[process] = np.minimum.reduceat((log.latest - below)[order], first_rows)
    for between in range(len(counts)):
        ahead = np.minimum(ahead, ahead[:, between, None] + ahead[between])
    return bool(np.diag(ahead).min() >= 0)


def _is_consistent(log: _Log, chosen: Mask) -> bool:
    """Whether the times of the chosen rows can all be of one clock."""
    return bool(np.all(np.maximum.accumulate(log.earliest[chosen]) <= log.latest[chosen]))


def _shifts(after: Times, before: Times, earliest: Times, latest: Times, factor: int) -> tuple[float, float]:
    """The range of shifts (ns) under which the times, multiplied by the factor, agree with the others."""
    return float(np.max(after - latest * factor)), float(np.min(before - earliest * factor))


def _latest_finite(times: Times) -> float:
    return float(np.max(times, where=np.isfinite(times), initial=-np.inf))
