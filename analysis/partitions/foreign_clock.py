"""Finds a process whose times contradict all others in a partition: another unit, or a clock that is hours off.

A log bounds clocks: whatever has a lower offset was appended earlier, and a record is appended after its send was
invoked, before it was acknowledged, and before it was read. A process has another clock if its times contradict the
others, but agree with all of them once they are shifted by hours or multiplied by a unit. After a breach by a broker no
shift agrees, because the other reads and appends of the process fit only the recorded times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ..wording import plural
from .observations import Observations, once

UNITS = {"microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}  # ns in each
HOUR_NS = 3_600 * 10**9
MIN_RECORDS = 20  # of a process; fewer may agree with anything
MAX_PROCESSES = 100  # with the most records; each takes a pass over the partition

Times = npt.NDArray[np.float64]


class _Log(NamedTuple):
    """Sends and reads in the order of their offsets: when a record was appended at the earliest and at the latest."""

    process: npt.NDArray[np.int64]
    earliest: Times  # the invocation of its send; -inf for a read
    latest: Times  # the completion


@once
def foreign_clock(p: Observations) -> str:
    """A clause that names the process with a clock that contradicts all others; empty if there is none."""
    log, names = _log(p)
    counts = np.bincount(log.process, minlength=len(names))
    for process in map(int, np.argsort(-counts, kind="stable")[:MAX_PROCESSES]):
        # If a writer's clock is wrong, its readers contradict others, too. The others agree only without the writer.
        if counts[process] < MIN_RECORDS or not _is_consistent(log, log.process != process):
            continue
        if difference := _clock_difference(log, process):
            return f"the times of {names[process]} contradict those of all other processes, unless {difference}"
    return ""


def _log(p: Observations) -> tuple[_Log, list[str]]:
    placed = pl.col("offset").is_not_null() & pl.col("process").is_not_null()
    sends = p.sends.filter(placed & ~pl.col("synthetic")).select("offset", "process", "invoked", "completed")
    reads = p.reads.filter(placed).select("offset", "process", pl.lit(None, pl.Int64).alias("invoked"), "completed")
    rows = pl.concat([sends, reads]).sort("offset", maintain_order=True)
    names = rows["process"].unique().sort()
    codes = names.search_sorted(rows["process"]).to_numpy().astype(np.int64)
    earliest = rows["invoked"].cast(pl.Float64).fill_null(-np.inf).to_numpy()
    latest = rows["completed"].cast(pl.Float64).fill_null(np.inf).to_numpy()
    return _Log(codes, earliest, latest), names.to_list()


def _clock_difference(log: _Log, process: int) -> str:
    """How the process's clock differs from the others', as a clause; empty if it does not, or cannot be known."""
    own = log.process == process
    if own.all():
        return ""
    # The others bound when each record of the process was appended.
    after = np.maximum.accumulate(np.where(own, -np.inf, log.earliest))[own]
    before = np.minimum.accumulate(np.where(own, np.inf, log.latest)[::-1])[::-1][own]
    earliest, latest = log.earliest[own], log.latest[own]
    least, most = _shifts(after, before, earliest, latest, 1)
    if least <= 0 <= most:
        return ""
    shift = least if least > 0 else most
    if least <= most and abs(shift) >= HOUR_NS:
        hours = plural(round(abs(shift) / HOUR_NS), "hour")
        return f"its clock is {hours} or more {'behind' if shift > 0 else 'ahead'}"
    end = _last(log.latest[~own])
    for unit, factor in UNITS.items():
        least, most = _shifts(after, before, earliest, latest, factor)
        covers = end / 2 <= _last(latest) * factor <= end * 1.1
        # A coarse time is rounded down, so it may be one unit early.
        if covers and least <= factor and most >= -factor:
            return f"they are {unit}, not nanoseconds"
    return ""


def _is_consistent(log: _Log, chosen: npt.NDArray[np.bool_]) -> bool:
    """Whether the times of the chosen rows can all be of one clock."""
    return bool(np.all(np.maximum.accumulate(log.earliest[chosen]) <= log.latest[chosen]))


def _shifts(after: Times, before: Times, earliest: Times, latest: Times, factor: int) -> tuple[float, float]:
    """The least and the greatest shift in ns under which the times, multiplied by the factor, agree with the others."""
    return float(np.max(after - latest * factor)), float(np.min(before - earliest * factor))


def _last(times: Times) -> float:
    return float(np.max(times, where=np.isfinite(times), initial=-np.inf))
