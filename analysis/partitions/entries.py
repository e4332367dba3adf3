"""The entries of a partition's log: one for each value that was observed at each offset.

Histories have millions of records. Nearly all offsets have one value, which was read as it was sent. So sends and
reads are matched by offset in arrays. Values are compared there, and only rows that disagree are grouped by value.
That is several times faster than joins by value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from ...models.arrays import Ints, Mask


def number_pairs(offsets: Ints, values: pl.Series) -> tuple[Ints, int]:
    """Numbers rows by their (offset, value): equal pairs have equal numbers, dense from 0. Returns also the count."""
    if not len(offsets):
        return np.empty(0, np.int64), 0
    dense = _dense_offsets(offsets)
    first = np.full(int(dense.max()) + 1, -1, np.int64)
    first[dense[::-1]] = np.arange(len(dense) - 1, -1, -1)  # the last write wins, so it is the first row
    agrees = values.eq_missing(values.gather(first[dense])).to_numpy()
    numbers = dense.copy()
    if not agrees.all():
        others = np.flatnonzero(~agrees)
        frame = pl.DataFrame({"offset": dense[others], "value": values.gather(others)})
        ranks = frame.select(pl.struct("offset", "value").rank("dense")).to_series().to_numpy().astype(np.int64)
        numbers[others] = len(first) + ranks - 1
    used = np.zeros(int(numbers.max()) + 1, bool)
    used[numbers] = True
    if used.all():
        return numbers, len(used)
    return np.cumsum(used)[numbers] - 1, int(used.sum())


def _dense_offsets(offsets: Ints) -> Ints:
    """Offsets as small numbers: shifted if they are dense (the usual case), else ranked."""
    low, high = int(offsets.min()), int(offsets.max())
    if high - low < 4 * len(offsets) + 1024:
        return offsets - low
    return np.unique(offsets, return_inverse=True)[1].astype(np.int64)


def index_entries(
    sends: pl.DataFrame, reads: pl.DataFrame, final: list[str], uncommitted: list[str], healed_at: int
) -> tuple[pl.DataFrame, Ints, Ints]:
    """The entries, and the entry of each send and of each read (-1: offset or value unknown).

    Columns of an entry: offset, value; of its sends: send (row of the first, null: none), sent_ok (acknowledged),
    undecided (indeterminate, or acks=0), aborted; of its reads: times, first_read (ns), first_reader and first_read_at
    (its place), last_read, read (by a consumer that sees only committed records), in_final (by the `final` processes
    once all was `healed_at`, in ns). `uncommitted` are the processes that read uncommitted records.
    """
    sent = _rows_with_offset_and_value(sends)
    seen = _rows_with_offset_and_value(reads)
    # Gathered before the conversion to numpy: nulls would make them floats, which lose the digits of large offsets.
    offsets = np.concatenate([sends["offset"].gather(sent).to_numpy(), reads["offset"].gather(seen).to_numpy()])
    values = pl.concat([sends["value"].gather(sent), reads["value"].gather(seen)])
    numbers, count = number_pairs(offsets, values)
    numbers = _renumber_by_offset(numbers, offsets, count)
    of_send, of_read = np.full(len(sends), -1, np.int64), np.full(len(reads), -1, np.int64)
    of_send[sent], of_read[seen] = numbers[: len(sent)], numbers[len(sent) :]
    row_of_entry = np.zeros(count, np.int64)
    row_of_entry[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    entries = pl.DataFrame(
        {
            "offset": pl.Series(offsets[row_of_entry], dtype=pl.Int64),
            "value": values.gather(row_of_entry),
            **_columns_of_sends(sends, sent, of_send[sent], count),
            **_columns_of_reads(reads, seen, of_read[seen], count, final, uncommitted, healed_at),
        }
    )
    return entries, of_send, of_read


def _renumber_by_offset(numbers: Ints, offsets: Ints, count: int) -> Ints:
    """Renumbers so that offsets ascend. Values at the same offset are in the order of their first rows."""
    offset = np.zeros(count, np.int64)
    offset[numbers] = offsets
    if count < 2 or (np.diff(offset) >= 0).all():
        return numbers
    rank = np.empty(count, np.int64)
    rank[np.argsort(offset, kind="stable")] = np.arange(count)
    return rank[numbers]


def _rows_with_offset_and_value(rows: pl.DataFrame) -> Ints:
    known = rows["offset"].is_not_null() & rows["value"].is_not_null()
    return known.arg_true().to_numpy().astype(np.int64)


def _columns_of_sends(sends: pl.DataFrame, rows: Ints, entry: Ints, count: int) -> dict[str, Any]:
    first = np.full(count, -1, np.int64)
    first[entry[::-1]] = rows[::-1]
    outcome = sends["outcome"].gather(rows)
    sent_ok = sends["acknowledged"].gather(rows)
    groups = {"sent_ok": sent_ok, "undecided": ~sent_ok & (outcome != "fail"), "aborted": outcome == "fail"}
    flags = {name: _any_by_entry(in_group.to_numpy(), entry, count) for name, in_group in groups.items()}
    # A value may have been sent again after an abort: one send that was not aborted is enough.
    flags["aborted"] &= ~flags["sent_ok"] & ~flags["undecided"]
    return {"send": _nullable(first), **flags}


def _columns_of_reads(
    reads: pl.DataFrame, rows: Ints, entry: Ints, count: int, final: list[str], uncommitted: list[str], healed_at: int
) -> dict[str, Any]:
    done = reads["completed"].fill_null(MAX_INT64).to_numpy()[rows]
    if len(done) > 1 and (np.diff(done) < 0).any():  # rare: lines are usually in order of time
        order = np.argsort(done, kind="stable")
        rows, entry, done = rows[order], entry[order], done[order]
    first, last = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    first[entry[::-1]] = rows[::-1]
    last[entry] = rows
    times, first_rows = reads["completed"], _nullable(first)
    return {
        "times": np.bincount(entry, minlength=count),
        "first_reader": reads["process"].gather(first_rows),
        "first_read_at": reads["at"].gather(first_rows),
        "first_read": times.gather(first_rows),
        "last_read": times.gather(_nullable(last)),
        "read": _any_by_entry(~_is_read_by(reads, uncommitted)[rows], entry, count),
        "in_final": _any_by_entry(_is_read_by(reads, final)[rows] & (done >= healed_at), entry, count),
    }


def _is_read_by(reads: pl.DataFrame, processes: list[str]) -> Mask:
    if not processes:
        return np.zeros(len(reads), bool)
    return reads["process"].is_in(processes).to_numpy()


def _any_by_entry(flags: Mask, entry: Ints, count: int) -> Mask:
    has_flag = np.zeros(count, bool)
    has_flag[entry[flags]] = True
    return has_flag


def _nullable(rows: Ints) -> pl.Series:
    unknown = rows < 0
    numbers = pl.Series(np.where(unknown, 0, rows), dtype=pl.Int64)
    return numbers.set(pl.Series(unknown), None) if unknown.any() else numbers
