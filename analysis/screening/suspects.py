"""Finds the offsets of a range that an unproved rule may report; the others are plain (condense.py).

A *plain* offset has one acknowledged send of a value. All of its reads returned that value, and not before the send. A
final read is among them; in a run without final reads, any read. No record above it was known before its send was
invoked, its producer's order agrees with its offset, and every group handled it that must have.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ...models.arrays import Ints, Mask
from ..extremes import suffix_minima
from ..partitions.common import Common
from ..partitions.foreign_clock import HOUR_NS
from ..partitions.marks import IS_LOG_END, IS_MOVE, IS_OF_GROUP, POSITION
from ..partitions.observations import last_heal
from ..partitions.unit import Tables
from .clocks import Clock, LastTimes, clocks_of, last_times_of
from .groups import group_of, unhandled_records
from .premises import IS_ODD_MARK
from .range_facts import INVOKED, ORDER, OrderKey, Rows, SentBy, are_final, as_one_partition, rows_in_order

MAX_LATE_SENDS = 1_000  # of a process in a range, before which it sent to higher ranges


class Span(NamedTuple):
    """Adjacent offsets."""

    first: int
    end: int  # exclusive


class Operation(NamedTuple):
    """An operation of a process."""

    process: str
    key: OrderKey


Spans = list[Span]
Operations = dict[int, list[Operation]]  # by range


class Borders(NamedTuple):
    """What each range needs of the facts of the others (condense.py: borders_of)."""

    has_final: bool
    lost_below: int  # an acknowledged record below this offset that the final reads lack is lost; 0: not certain
    known_above: dict[int, int]  # ns, by range: since when a record or an end above it was known
    sent_by: dict[str, dict[int, SentBy]]  # by process and range
    judges_groups: bool  # whether a rule about groups is unproved
    limits: dict[str, int]  # by group: the offset below which it must have handled all records
    spans: Spans  # that hold a consumer's jump
    polls: Operations  # open polls, in the ranges where their process read before or afterwards
    repeated: Ints  # hashes of values that were sent twice, as int64
    unplaced_values: list[str]  # that were sent to an unknown partition
    clocks: list[Clock]  # of the rows in no range
    latency: float | None  # the lower quartile (ns) of the whole partition


class Suspects(NamedTuple):
    """The offsets of a range that are not plain, and the rows elsewhere on which their judgement depends."""

    offsets: Ints
    spans: Spans  # that hold a consumer's jump
    values: list[str]  # which reads returned at another offset than their send's
    keys: list[str]  # of sends at these offsets
    times: list[int]  # ns: operations that contradict what was known before: the highest record then is the witness
    sends: Operations  # sends whose predecessor may be in that range
    plain_since: int  # ns: since when a plain record of the range was known
    clocks: list[Clock]
    last_times: list[LastTimes]
    has_stale_end: bool
    missed: list[str]  # values that a group skipped, and that must be lost


@dataclass(frozen=True)
class Cells:
    """The rows of a range, and arrays with one cell for each of its offsets."""

    first: int
    sends: pl.DataFrame  # in the order of offsets
    reads: pl.DataFrame  # in the order of time
    marks: pl.DataFrame  # handled records
    cell_of_send: Ints  # by row of `sends`
    cell_of_read: Ints  # by row of `reads`
    row_of_send: Ints  # by cell: a row of `sends`; -1: none
    is_match: Mask  # of each read: it returned the value of the send
    first_read: Ints  # ns, of the send's value; MAX_INT64: never
    known: Ints  # ns: since when any record was known; MAX_INT64: none
    is_odd: Mask  # has records, but not one plain send that all reads returned

    @classmethod
    def of(cls, tables: Tables, number: int, size: int) -> Cells:
        """The cells of the range of that number and size."""
        rows = rows_in_order(tables)
        sends, reads, first = rows.sends, rows.reads, number * size
        of_send, of_read = (frame["offset"].to_numpy() - first for frame in (sends, reads))
        row_of_send = np.full(size, -1, np.int64)
        row_of_send[of_send] = np.arange(len(sends))
        is_match = np.zeros(len(reads), bool)
        if len(sends):
            row = row_of_send[of_read]
            is_match = (row >= 0) & reads["value"].eq_missing(sends["value"].gather(np.maximum(row, 0))).to_numpy()
        acked, done = (frame["completed"].fill_null(MAX_INT64).to_numpy() for frame in (sends, reads))
        first_read, known = np.full(size, MAX_INT64), np.full(size, MAX_INT64)
        np.minimum.at(first_read, of_read[is_match], done[is_match])
        np.minimum.at(known, of_read, done)
        np.minimum.at(known, of_send, acked)
        is_plain = pl.col("acknowledged") & pl.all_horizontal(pl.col("value", "completed", "invoked").is_not_null())
        is_odd = np.bincount(of_send, minlength=size) > 1
        is_odd[of_send[~sends.select(is_plain).to_series().to_numpy()]] = True
        is_odd[of_read[~is_match | reads["completed"].is_null().to_numpy()]] = True
        is_odd[of_send[first_read[of_send] < sends["invoked"].fill_null(MAX_INT64).to_numpy()]] = True
        return cls(first, sends, reads, rows.marks, of_send, of_read, row_of_send, is_match, first_read, known, is_odd)

    @property
    def tables(self) -> Iterator[tuple[str, pl.DataFrame, Ints]]:
        """The name and the rows of each table, and the cell of each row."""
        yield "sends", self.sends, self.cell_of_send
        yield "reads", self.reads, self.cell_of_read
        yield "marks", self.marks, self.marks["offset"].to_numpy() - self.first


def suspects_of_range(
    tables: Tables, rest: Rows, number: int, topic: str, borders: Borders, common: Common
) -> Suspects | None:
    """The suspects of the range of that number; None if its partition cannot be condensed.

    `rest`: the rows of the partition in no range.
    """
    settings = common.settings
    cells = Cells.of(tables, number, settings.range_offsets)
    sends, reads = cells.sends, cells.reads
    clocks = clocks_of(sends, reads, cells.marks)
    if _is_irregular(cells) or clocks is None:
        return None
    unplaced = common.unplaced.filter(topic=topic).select(rest.sends.columns)
    senders = pl.concat([rest.sends, unplaced])
    if _has_early_read(cells, senders):
        return None  # clocks may differ (partitions/foreign_clock.py), which all rows decide
    late = _late_sends(cells, senders, rest.marks, borders.known_above[number])
    order = _out_of_order(sends, number, borders)
    # The reads that prove that a record was not lost.
    is_proof = are_final(reads, last_heal(common.context), settings) if borders.has_final else np.ones(len(reads), bool)
    missed = _missed_by_groups(cells, is_proof, rest.marks, borders, common)
    if late is None or order is None or missed is None:
        return None
    unordered, in_higher_ranges = order
    is_proved = np.zeros(len(cells.row_of_send), bool)
    is_proved[cells.cell_of_read[cells.is_match & is_proof]] = True
    is_suspect = cells.is_odd | ((cells.row_of_send >= 0) & ~is_proved)
    is_suspect[late.cells] = True
    is_suspect[unordered - cells.first] = True
    suspect_sends = sends.filter(pl.Series(is_suspect[cells.cell_of_send]))
    plain = cells.known[~is_suspect]
    return Suspects(
        offsets=np.flatnonzero(is_suspect) + cells.first,
        spans=_jumps_at_moves(reads, rest.marks),
        values=reads["value"].filter(pl.Series(~cells.is_match)).drop_nulls().unique().to_list(),
        keys=suspect_sends["key"].drop_nulls().unique().to_list(),
        times=late.times,
        sends=in_higher_ranges,
        plain_since=int(plain.min()) if len(plain) else MAX_INT64,
        clocks=clocks,
        last_times=last_times_of(_completions(cells)),
        has_stale_end=late.has_stale_end,
        missed=missed,
    )


def _is_irregular(cells: Cells) -> bool:
    """Whether there are transactions, synthetic invocations, or generations of handled records."""
    odd_sends = cells.sends.select((pl.col("txn") | pl.col("synthetic") | (pl.col("index") > 0)).any()).item()
    odd_marks = cells.marks.select((IS_ODD_MARK | pl.col("group_generation").is_not_null()).any()).item()
    return bool(odd_sends or cells.reads["txn"].any() or odd_marks)


def _has_early_read(cells: Cells, senders: pl.DataFrame) -> bool:
    """Whether a read returned a record before it was sent; `senders` are the sends without a recorded offset."""
    invoked = cells.sends["invoked"].fill_null(MIN_INT64).to_numpy()
    if (cells.first_read[cells.cell_of_send] < invoked).any():
        return True
    read = cells.reads.select("value", "completed").filter(pl.Series(~cells.is_match))
    early = read.join(senders.select("value", "invoked"), on="value").filter(pl.col("completed") < pl.col("invoked"))
    return len(early) > 0


def _completions(cells: Cells) -> pl.DataFrame:
    rows = [
        frame.select("process", "completed", is_odd=pl.Series(cells.is_odd[cell]))
        for frame, cell in ((cells.sends, cells.cell_of_send), (cells.reads, cells.cell_of_read))
    ]
    return pl.concat(rows).drop_nulls()


class _Late(NamedTuple):
    cells: Ints  # of the sends
    times: list[int]  # ns: invocations of the sends and requests of the end offsets
    has_stale_end: bool


def _late_sends(cells: Cells, senders: pl.DataFrame, marks: pl.DataFrame, known_above: int) -> _Late | None:
    """Sends and end offsets that were invoked after a higher record was known; None if that was an hour before.

    For example, a send that was acknowledged at offset 5 is late if offset 7 was read before it was invoked. `senders`:
    the sends without a recorded offset, which are at the offsets where their values were read.
    """
    size = len(cells.row_of_send)
    ends = marks.filter(IS_LOG_END & (pl.col("offset") - cells.first).is_between(0, size, closed="left"))
    of_end, requested = ends["offset"].to_numpy() - cells.first, ends["invoked"].fill_null(MIN_INT64).to_numpy()
    # By cell: since when a record or an end at or above it was known. The last is that of all higher ranges.
    since = np.minimum(suffix_minima(_known_with_ends(cells, ends)), known_above)
    unmatched = cells.reads.select("value", cell=pl.Series(cells.cell_of_read)).filter(pl.Series(~cells.is_match))
    possible = senders.filter(pl.col("outcome") != "fail").select("value", "invoked")
    found = unmatched.join(possible, on="value").drop_nulls()
    cell = np.concatenate([cells.cell_of_send, found["cell"].to_numpy()])
    invoked = np.concatenate([cells.sends["invoked"].fill_null(MIN_INT64).to_numpy(), found["invoked"].to_numpy()])
    if len(cell) and (invoked - np.minimum(since[cell + 1], cells.known[cell])).max() >= HOUR_NS:
        return None
    is_late, is_stale = since[cell + 1] < invoked, since[of_end] < requested
    times = np.unique(np.concatenate([invoked[is_late], requested[is_stale]]))
    return _Late(np.unique(cell[is_late]), times.tolist(), bool(is_stale.any()))


def _known_with_ends(cells: Cells, ends: pl.DataFrame) -> Ints:
    """By cell, since when (ns) its record was known: an end offset shows that the record before it was there."""
    known = cells.known.copy()
    above = ends.filter(pl.col("offset") > cells.first)
    before_end = above["offset"].to_numpy() - cells.first - 1
    np.minimum.at(known, before_end, above["completed"].fill_null(MAX_INT64).to_numpy())
    return known


def _out_of_order(sends: pl.DataFrame, number: int, borders: Borders) -> tuple[Ints, Operations] | None:
    """The offsets of sends before or after which their producer's offsets go back.

    And the sends whose predecessor may be in a higher range. None: there are too many.
    """
    if not len(sends):
        return np.empty(0, np.int64), {}
    columns = ("process", *INVOKED, "offset")
    ordered = sends.filter("acknowledged").select(columns).sort("process", *INVOKED).with_row_index("row")
    back = ordered.filter(pl.col("offset") < pl.col("offset").shift().over("process"))["row"].to_numpy()
    rows = {*back.tolist(), *(back - 1).tolist()}
    wanted: Operations = {}
    for (process,), own in ordered.group_by("process", maintain_order=True):
        keys: list[OrderKey] = []
        for above, sent in borders.sent_by.get(str(process), {}).items():
            if above <= number or sent.first >= own.select(INVOKED).row(-1):
                continue
            keys = keys or [OrderKey(*row) for row in own.select(INVOKED).iter_rows()]
            low, high = bisect_right(keys, sent.first), min(bisect_left(keys, sent.last) + 1, len(keys))
            if high - low > MAX_LATE_SENDS:
                return None
            rows.update(own["row"][low:high].to_list())
            wanted.setdefault(above, []).extend(Operation(str(process), key) for key in keys[low:high])
    return ordered["offset"].gather(sorted(rows)).to_numpy(), wanted


def _jumps_at_moves(reads: pl.DataFrame, marks: pl.DataFrame) -> Spans:
    """The jumps from a position that was set among a process's reads of the range; others are between runs of reads."""
    within = reads.group_by("process").agg(begun=pl.col("completed").min(), ended=pl.col("completed").max())
    moves = marks.filter(IS_MOVE).join(within, on="process")
    moves = moves.filter(pl.col("completed").fill_null(MAX_INT64).is_between("begun", "ended"))
    if not len(moves):
        return []
    own = reads.filter(pl.col("process").is_in(moves["process"].unique().implode()))
    steps = pl.concat(
        [own.select("process", *ORDER, "offset"), moves.select("process", *ORDER, position=POSITION)], how="diagonal"
    ).sort("process", *ORDER, nulls_last=True)
    jumps = steps.with_columns(pl.col("position").shift().over("process")).filter(
        pl.col("offset") != pl.col("position")
    )
    return [jump_between(position, offset) for offset, position in jumps.select("offset", "position").iter_rows()]


def jump_between(position: int, offset: int) -> Span:
    """The offsets on which the judgement of a jump from a position to an offset depends: all that it skipped."""
    return Span(min(position, offset), offset + 1)


def _missed_by_groups(
    cells: Cells, is_proof: Mask, marks: pl.DataFrame, borders: Borders, common: Common
) -> list[str] | None:
    """The values of records that a group skipped, all of them lost; None if one is not certainly lost.

    Where a group missed a record that was there, its cause depends on all polls of the group.
    """
    if not borders.judges_groups or not borders.limits:
        return []
    groups = as_one_partition(pl.DataFrame({"group": [*borders.limits], "limit": [*borders.limits.values()]}))
    key = ["offset", "value"]
    records = as_one_partition(pl.concat([frame.select(key) for frame in (cells.sends, cells.reads)]).unique())
    # Of the consumers without a group.id only those that committed, or were assigned the partition, are members.
    active = marks.filter(IS_OF_GROUP)["process"].unique()
    is_member = (group_of(common.settings) != "") | pl.col("process").is_in(active.implode())
    reads, handled = (as_one_partition(frame.filter(is_member)) for frame in (cells.reads, cells.marks))
    missed = unhandled_records(groups, records, reads, handled, common.context, common.settings)
    missed = missed.filter(pl.col("offset") < pl.col("limit"))
    lost = cells.sends.filter("acknowledged").join(cells.reads.filter(pl.Series(is_proof)), on=key, how="anti")
    is_lost = missed["offset"] < borders.lost_below
    if not is_lost.all() or len(missed.join(lost, on=key, how="anti")):
        return None
    return missed["value"].unique().to_list()
