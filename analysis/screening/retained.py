"""Retains the rows of a range that condense.py wants, and those plain rows that can be witnesses of a finding."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ...models.arrays import Ints, Mask
from ..figures.merge import latency_of, series_of
from ..figures.series import Bins
from ..partitions.common import Common
from ..partitions.observations import last_heal
from ..partitions.unit import Tables
from .groups import handled_again
from .range_facts import INVOKED, ORDER, Rows, plain_figures_of
from .suspects import Cells, Operation, Operations

MAX_DRAWN = 100  # wanted offsets of a range: then figures have all records of the polls that returned these
STRETCH = 1 << 12  # plain offsets with witnesses of their own, at most


class Wanted(NamedTuple):
    """What each range retains."""

    offsets: Ints  # sorted
    values: list[str]
    hashes: Ints  # of values, as int64
    keys: list[str]  # the last send with each is retained
    times: dict[int, list[int]]  # by range (ns): the highest record that was known before is retained
    sends: Operations  # the sends before and after these
    polls: Operations  # the reads before and after these
    latency: float | None  # the lower quartile (ns) of the partition


class OtherRows(NamedTuple):
    """What the rows of a range that are not retained add to the summary of the partition."""

    counts: dict[str, int]
    figures: dict[str, Any] | None
    latency: float | None  # the lower quartile (ns) of all rows of the partition


class Condensed(NamedTuple):
    """The retained tables of a range, and the other rows."""

    tables: Tables
    others: OtherRows


def condense_range(tables: Tables, number: int, wanted: Wanted, common: Common) -> Condensed:
    """The retained rows of the range of that number."""
    cells = Cells.of(tables, number, common.settings.range_offsets)
    keep = _retained_cells(cells, number, wanted, last_heal(common.context))
    _retain_witnesses(cells, keep)
    retained = {name: [rows.filter(pl.Series(keep[cell]))] for name, rows, cell in cells.tables}
    retained["positions"] = [_positions_after(cells, keep)]
    left = Rows(**{name: rows.filter(pl.Series(~keep[cell])) for name, rows, cell in cells.tables})
    again = handled_again(left.marks, common.settings)
    counts = {"sends": len(left.sends), "reads": len(left.reads), "handled_again": again}
    figures = plain_figures_of(left, cells.first_read[cells.cell_of_send[~keep[cells.cell_of_send]]])
    filled = {name: frames for name, frames in retained.items() if len(frames[0])}
    return Condensed(filled, OtherRows(counts, figures, wanted.latency))


def concat_parts(parts: Iterable[Tables]) -> dict[str, pl.DataFrame]:
    """The tables of all parts of a partition, each in the order of the history."""
    frames: Tables = defaultdict(list)
    for part in parts:
        for name, rows in part.items():
            frames[name] += rows
    return {name: pl.concat(rows).sort("at", "index", maintain_order=True) for name, rows in frames.items()}


def _retained_cells(cells: Cells, number: int, wanted: Wanted, healed_at: int) -> Mask:
    """The cells that are suspect or a witness of those elsewhere."""
    sends, reads = cells.sends, cells.reads
    keep = np.zeros(len(cells.row_of_send), bool)
    low, high = np.searchsorted(wanted.offsets, [cells.first, cells.first + len(keep)])
    keep[wanted.offsets[low:high] - cells.first] = True
    if high - low <= MAX_DRAWN:
        polls = reads["at"].filter(pl.Series(keep[cells.cell_of_read])).unique()
        keep[cells.cell_of_read[reads["at"].is_in(polls.implode()).to_numpy()]] = True
    if wanted.values:
        keep[cells.cell_of_send[sends["value"].is_in(wanted.values).fill_null(False).to_numpy()]] = True
    if len(wanted.hashes):
        keep[cells.cell_of_send[np.isin(sends["value"].hash().to_numpy().view(np.int64), wanted.hashes)]] = True
    if wanted.keys:
        keyed = sends.select("key", "offset").filter(pl.col("key").is_in(wanted.keys)).unique("key", keep="last")
        keep[keyed["offset"].to_numpy() - cells.first] = True
    plain = np.flatnonzero((cells.known < MAX_INT64) & ~cells.is_odd)
    order = np.argsort(cells.known[plain], kind="stable")
    highest = np.maximum.accumulate(plain[order]) if len(plain) else plain
    before = np.searchsorted(cells.known[plain[order]], wanted.times.get(number, ()), "left") - 1
    keep[highest[before[before >= 0]]] = True
    for frame, wanted_keys, columns in (
        (sends.filter("acknowledged"), wanted.sends, INVOKED),
        (reads, wanted.polls, ORDER),
    ):
        keep[_neighbours(frame, wanted_keys.get(number, ()), columns) - cells.first] = True
    for _, frame, cell in cells.tables:
        for rows in (frame, frame.filter(pl.Series(~cells.is_odd[cell]))):
            keep[_extremes(rows, healed_at) - cells.first] = True
    return keep


def _neighbours(frame: pl.DataFrame, operations: Sequence[Operation], columns: Sequence[str]) -> Ints:
    """The offsets of the rows of a process before and after each operation, in the order of the columns."""
    offsets: list[int] = []
    for process, wanted in groupby(sorted(operations), key=lambda operation: operation.process):
        own = frame.filter(process=process).with_columns(pl.col(columns[0]).fill_null(MAX_INT64)).sort(columns)
        placed = own.select(columns).rows()
        for _, key in wanted:
            at = bisect_right(placed, key)
            offsets += own["offset"][max(at - 2, 0) : at + 1].to_list()
    return np.array(offsets, np.int64)


def _extremes(frame: pl.DataFrame, healed_at: int) -> Ints:
    """The offsets of each process's first and last rows, by offset and by time, before and after the last heal."""
    if not len(frame):
        return np.empty(0, np.int64)
    time = pl.col("completed").fill_null(MIN_INT64)
    edges = frame.group_by("process", late=time >= healed_at).agg(
        low=pl.col("offset").min(),
        high=pl.col("offset").max(),
        first=pl.col("offset").sort_by(ORDER, nulls_last=True).first(),
        last=pl.col("offset").sort_by([time, "at", "index"]).last(),
        begun=pl.col("offset").sort_by("invoked", nulls_last=True).first(),
    )
    return np.unique(edges.select("low", "high", "first", "last", "begun").to_numpy())


def _retain_witnesses(cells: Cells, keep: Mask) -> None:
    """Retains of each stretch of other cells the ends, and the records that were invoked or known first or last."""
    cell = np.flatnonzero((cells.row_of_send >= 0) & ~keep)
    if not len(cell):
        return
    stretch = np.cumsum(np.append(True, (np.diff(cell) > 1) | (np.diff(cell // STRETCH) > 0)))
    invoked = cells.sends["invoked"].to_numpy()[cells.row_of_send[cell]]
    chosen = []
    for measure in (cell, -cell, invoked, -invoked, cells.known[cell]):
        order = np.lexsort((measure, stretch))
        chosen.append(cell[order[np.append(True, np.diff(stretch) > 0)]])
    keep[np.concatenate(chosen)] = True


def _positions_after(cells: Cells, keep: Mask) -> pl.DataFrame:
    """The positions of consumers after reads that are not retained: after the last one of each row of them."""
    reads = cells.reads.select("process", *ORDER, position=pl.col("offset") + 1).with_columns(
        is_retained=pl.Series(keep[cells.cell_of_read]), stretch=pl.Series(cells.cell_of_read // STRETCH)
    )
    following = pl.col("is_retained", "stretch").shift(-1).over("process")
    steps = reads.with_columns(following.name.prefix("next_"))
    is_last = pl.col("next_is_retained").fill_null(True) | (pl.col("stretch") != pl.col("next_stretch"))
    return steps.filter(~pl.col("is_retained") & is_last).select("process", *ORDER, "position")


def with_others(summary: dict[str, Any], parts: Sequence[OtherRows]) -> dict[str, Any]:
    """The summary of a condensed partition, with the counts and figures of the rows that its ranges did not retain."""
    latency = parts[0].latency
    sends, reads, again = (sum(part.counts[name] for part in parts) for name in ("sends", "reads", "handled_again"))
    added = dict.fromkeys(("sends", "acknowledged", "placed"), sends)
    added |= {"reads": reads, **dict.fromkeys(("records", "at offsets"), sends + reads)}
    counts = {name: number + added.get(name, 0) for name, number in summary["counts"].items()}
    summary = {**summary, "counts": counts, "latency": None if latency is None else int(latency)}
    figures = summary["figures"]
    every = [figures, *(part.figures for part in parts if part.figures)]
    if len(every) == 1:
        return summary
    bins, impact = Bins(**figures["bins"]), figures["impact"]
    added = {"acknowledged": impact["acknowledged"] + sends, "handled_again": impact["handled_again"] + again}
    both = {"series": series_of(every, bins), "latency": latency_of(every, bins)}
    return {**summary, "figures": {**figures, **both, "impact": {**impact, **added}}}
