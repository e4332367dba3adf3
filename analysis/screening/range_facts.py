"""Facts about one range of offsets of a large partition, from which ranges.py proves that rules report nothing there.

A partition may be larger than memory, but the records of a few offsets never are. All sends, reads and handled records
at the offsets of a range are matched in arrays by offset. What concerns other ranges is left to the facts: when records
were written, in which order processes went through the range, and a hash of each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MAX_INT64, MIN_INT64, OBSERVED, no_rows, without_key
from ...models.arrays import Ints, Mask
from ..extremes import greatest, least, suffix_minima
from ..figures.series import bins_over, latency, over_time, span_of
from ..partitions.common import Common
from ..partitions.marks import IS_COMMIT, IS_LOG_END, is_final_read
from ..partitions.observations import last_heal
from ..partitions.unit import Tables
from .groups import ends_are_known, groups_of, handled_again, unhandled_records
from .premises import GROUPS, IS_ODD_MARK, IS_ODD_SEND, POLLS, PROVED, SENDS, TIME, UNREAD

MAX_RUNS = 10_000  # of reads in a range
SAMPLE = 1_000  # operations of a range for the quartile of latencies
HASH_CHECK = "logjudge"  # its hash shows whether two machines hash alike
ORDERED_BY_TIME = (*TIME, *UNREAD)
INVOKED = ("invoked", "invoked_at", "index")  # the order of a producer's sends
ORDER = ("completed", "at", "index")  # the order of a consumer's reads and moves
Hashes = npt.NDArray[np.uint64]


class OrderKey(NamedTuple):
    """Orders the operations of a process, and the records of one operation."""

    time: int  # ns
    place: int
    record: int  # of the operation: the column `index`


class SentBy(NamedTuple):
    """The first and the last acknowledged send of a process."""

    process: str
    first: OrderKey
    last: OrderKey


class Unhandled(NamedTuple):
    """The first offset that a group did not handle."""

    group: str
    offset: int


class Extent(NamedTuple):
    """The least and the greatest of some numbers."""

    low: int
    high: int


class ReadUntil(NamedTuple):
    """How far reads came."""

    offset: int  # the last one
    first: int  # ns, completion
    last: int  # ns, completion


@dataclass(frozen=True)
class Rows:
    """The observations at the offsets of a range; or those of a partition that belong to no range, such as moves."""

    sends: pl.DataFrame
    reads: pl.DataFrame
    marks: pl.DataFrame


class RunOfReads(NamedTuple):
    """Records that a process read one after the other, without a gap."""

    process: str
    began: OrderKey
    ended: OrderKey
    first: int | None  # offset; None: it read none (a move)
    position: int | None  # the offset to read next; None: not known


class RangeFacts(NamedTuple):
    """The contribution of a range to the proof, in bounded size except for the hashes (8 bytes for each send)."""

    unproved: list[str]  # rules of premises that do not hold within the range
    counts: dict[str, int]
    known_since: int  # ns: first time at which a record or a returned end offset of the range was known
    invoked_until: int  # ns: last invocation of what the range holds
    sent_by: list[SentBy]  # one for each process
    runs: list[RunOfReads]
    found: list[str]  # values of sends without offset that were read here
    unhandled: list[Unhandled]  # one for each group
    unread: Extent | None  # acknowledged offsets that no process read
    in_final: bool  # the final reads returned all acknowledged records
    final: ReadUntil | None  # final reads
    read: ReadUntil | None  # all reads
    sent_since: Extent | None  # invocations (ns)
    stamped_since: Extent | None  # timestamps (ms)
    latencies: list[int]
    figures: dict[str, Any] | None
    hash_check: int

    @classmethod
    def of_json(cls, record: dict[str, Any]) -> RangeFacts:
        """The facts from their fields as JSON, where tuples became lists."""
        values = {**record}
        for name in ("unread", "sent_since", "stamped_since"):
            values[name] = Extent(*values[name]) if values[name] else None
        for name in ("final", "read"):
            values[name] = ReadUntil(*values[name]) if values[name] else None
        values["runs"] = [RunOfReads(run[0], OrderKey(*run[1]), OrderKey(*run[2]), *run[3:]) for run in values["runs"]]
        values["sent_by"] = [SentBy(name, OrderKey(*first), OrderKey(*last)) for name, first, last in values["sent_by"]]
        values["unhandled"] = [Unhandled(*row) for row in values["unhandled"]]
        return cls(**values)


class HashedFacts(NamedTuple):
    """The facts of a range, and the sorted hashes of the values sent."""

    facts: RangeFacts
    hashes: Hashes


def rows_of(tables: Tables) -> Rows:
    """The sends, reads and marks among the tables."""
    own = {name: [no_rows(without_key(schema)), *tables.get(name, ())] for name, schema in OBSERVED.items()}
    return Rows(**{name: pl.concat(frames) for name, frames in own.items()})


def rows_in_order(tables: Tables) -> Rows:
    """The rows of a range: its sends in the order of offsets, its reads in the order of time."""
    rows = rows_of(tables)
    sends, reads = rows.sends, rows.reads
    if not sends["offset"].is_sorted():
        sends = sends.sort("offset", maintain_order=True)
    if not (reads["at"].is_sorted() and reads["completed"].is_sorted(nulls_last=True)):
        reads = reads.sort(*ORDER, nulls_last=True, maintain_order=True)
    return Rows(sends, reads, rows.marks)


def range_facts(tables: Tables, rest: Rows, number: int, common: Common) -> HashedFacts:
    """The facts of the range of that number (partitions/offset_ranges.py).

    `rest` are the rows of the partition without an offset, and its marks.
    """
    settings, rows = common.settings, rows_in_order(tables)
    sends, reads = rows.sends, rows.reads
    first, end = number * settings.range_offsets, (number + 1) * settings.range_offsets
    matched = _match(sends, reads, first, end)
    indeterminate = _match_indeterminate(reads.filter(pl.Series(matched.entry < 0)), rest.sends)
    found = _NONE_FOUND if indeterminate is None else indeterminate
    ends = rest.marks.filter(IS_LOG_END & pl.col("offset").is_between(first, end, closed="left"))
    commits = rest.marks.filter(IS_COMMIT & pl.col("offset").is_between(first, end, closed="right"))
    known, later = _known_and_later(sends, matched.first_read, found, ends)
    (sent_by, is_in_order), runs = _sent_by(sends), _runs_of(reads)
    one_record_each = matched.agrees and indeterminate is not None and not (sends["offset"].diff() == 0).any()
    premises = {
        PROVED: one_record_each and not _is_irregular(rows),
        ORDERED_BY_TIME: _grows_with_time(known, later),
        SENDS: is_in_order,
        POLLS: runs is not None,
        GROUPS: ends_are_known(commits, known.offsets + 1, known.times),
    }
    is_final = are_final(reads, last_heal(common.context), settings)
    in_final = np.zeros(len(sends), np.bool_)
    in_final[matched.entry[is_final & (matched.entry >= 0)]] = True
    unread = sends["offset"].filter(pl.Series(matched.first_read == MAX_INT64))
    facts = RangeFacts(
        unproved=sorted({rule for rules, holds in premises.items() if not holds for rule in rules}),
        counts={"sends": len(sends), "reads": len(reads), "handled_again": handled_again(rows.marks, settings)},
        known_since=int(known.times.min()) if len(known.times) else MAX_INT64,
        invoked_until=int(later.times.max()) if len(later.times) else MIN_INT64,
        sent_by=sent_by,
        runs=runs or [],
        found=found["value"].to_list(),
        unhandled=_first_unhandled(rows, found, rest, common),
        unread=_extent(unread),
        in_final=bool(in_final.all()),
        final=_read_until(reads.filter(pl.Series(is_final))),
        read=_read_until(reads),
        sent_since=_extent(sends["invoked"]),
        stamped_since=_extent(pl.concat([frame["timestamp"].drop_nulls() for frame in (sends, reads)]), lowest=0),
        latencies=_latencies(sends, reads),
        figures=plain_figures_of(rows, matched.first_read),
        hash_check=int(pl.Series([HASH_CHECK]).hash()[0]),
    )
    return HashedFacts(facts, np.sort(sends["value"].hash().to_numpy()))


def _first_unhandled(rows: Rows, found: pl.DataFrame, rest: Rows, common: Common) -> list[Unhandled]:
    groups = groups_of(as_one_partition(rest.marks), common.settings)
    if not len(groups):
        return []
    placed = as_one_partition(pl.concat([frame.select("offset", "value") for frame in (rows.sends, found)]))
    reads, marks = as_one_partition(rows.reads), as_one_partition(rows.marks)
    unhandled = unhandled_records(groups, placed, reads, marks, common.context, common.settings)
    return [Unhandled(*row) for row in unhandled.group_by("group").agg(pl.col("offset").min()).iter_rows()]


def as_one_partition(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with the column `tp`, the number of a partition among many: here it is the only one."""
    return rows.with_columns(tp=pl.lit(0))


def _is_irregular(rows: Rows) -> bool:
    """Whether there are other than plain acknowledged sends of values and plain polls."""
    has_no_end = pl.col("completed").is_null()
    odd_sends = rows.sends.select((IS_ODD_SEND | has_no_end | ~pl.col("acknowledged")).any()).item()
    odd_reads = rows.reads.select((pl.col("txn") | has_no_end).any()).item()
    odd_marks = rows.marks.select(IS_ODD_MARK.any()).item()
    return bool(odd_sends or odd_reads or odd_marks)


class _Matched(NamedTuple):
    entry: Ints  # of each read: the row of the send at its offset; -1: none
    first_read: Ints  # of each send, ns; MAX_INT64: never
    agrees: bool  # the reads returned the values that were sent, and not before


def _match(sends: pl.DataFrame, reads: pl.DataFrame, first: int, end: int) -> _Matched:
    """Matches reads (in the order of time) with the sends at their offsets."""
    at = np.full(end - first, -1, np.int64)
    at[sends["offset"].to_numpy() - first] = np.arange(len(sends))
    entry = at[reads["offset"].to_numpy() - first]
    is_sent = entry >= 0
    rows = np.flatnonzero(is_sent)[::-1]
    first_read = np.full(len(sends), MAX_INT64)
    first_read[entry[rows]] = reads["completed"].fill_null(MIN_INT64).to_numpy()[rows]  # the earliest is written last
    polled = reads["value"] if is_sent.all() else reads["value"].filter(pl.Series(is_sent))
    is_same = polled.eq_missing(sends["value"].gather(entry[is_sent]))
    return _Matched(entry, first_read, bool(is_same.all()) and bool((first_read >= sends["invoked"].to_numpy()).all()))


_NONE_FOUND = pl.DataFrame(schema=dict.fromkeys(("offset", "invoked", "first_read"), pl.Int64) | {"value": pl.String})


def _match_indeterminate(reads: pl.DataFrame, sends: pl.DataFrame) -> pl.DataFrame | None:
    """The indeterminate sends with values that were read here: offset, value, invoked, first_read (ns).

    None: a read returned a value that no such send wrote, or at a second offset, or several values at one.
    """
    if not len(reads):
        return _NONE_FOUND
    polled = reads.group_by("value").agg(
        pl.col("offset").min(), last=pl.col("offset").max(), first_read=pl.col("completed").min()
    )
    written = sends.filter(pl.col("outcome") != "fail").select("value", "invoked").unique("value")
    found = polled.join(written, on="value")
    is_plain = (pl.col("offset") == pl.col("last")) & (pl.col("first_read") >= pl.col("invoked"))
    has_one_each = len(found) == len(polled) == polled["offset"].n_unique()
    if not has_one_each or not found.select(is_plain.all()).item():
        return None
    return found.select("offset", "invoked", "first_read", "value")


class _Dated(NamedTuple):
    offsets: Ints
    times: Ints  # ns


def _known_and_later(
    sends: pl.DataFrame, first_read: Ints, found: pl.DataFrame, ends: pl.DataFrame
) -> tuple[_Dated, _Dated]:
    """The records and when they became known; and the operations that must be beyond all records known before them."""
    acknowledged = sends["completed"].fill_null(MAX_INT64).to_numpy()
    completed = ends["completed"].fill_null(MAX_INT64)
    known = _Dated(
        np.concatenate([sends["offset"], found["offset"], ends["offset"] - 1]),
        np.concatenate([np.minimum(acknowledged, first_read), found["first_read"], completed]),
    )
    offsets, times = (np.concatenate([frame[name] for frame in (sends, found, ends)]) for name in ("offset", "invoked"))
    return known, _Dated(offsets, times)


def _grows_with_time(known: _Dated, later: _Dated) -> bool:
    """Whether no operation was invoked after a record at or beyond its offset was known."""
    order = np.argsort(known.offsets, kind="stable")
    since = suffix_minima(known.times[order])
    first = np.searchsorted(known.offsets[order], later.offsets, "left")
    return not (since[first] < later.times).any()


def _keys(frame: pl.DataFrame, rows: Ints, columns: tuple[str, str, str]) -> list[OrderKey]:
    return [OrderKey(*row) for row in frame.select(columns)[rows].iter_rows()]


def _by_process(frame: pl.DataFrame) -> tuple[Ints, Ints]:
    """The rows in the order of their processes, else as they are; and the number of each one's process."""
    codes = frame["process"].cast(pl.Categorical).to_physical().to_numpy()
    few = codes.astype(np.uint16) if codes.max() < 1 << 16 else codes  # which are sorted in linear time
    order = np.argsort(few, kind="stable")
    return order, codes[order].astype(np.int64)


def _sent_by(sends: pl.DataFrame) -> tuple[list[SentBy], bool]:
    """The first and last send of each process, and whether its offsets grow in the order of its invocations."""
    if not len(sends):
        return [], True
    order, codes = _by_process(sends)
    invoked, place, index = (sends[name].to_numpy()[order] for name in INVOKED)
    same, time, line = (np.diff(column) for column in (codes, invoked, place))
    grows = (time > 0) | (time == 0) & ((line > 0) | (line == 0) & (np.diff(index) > 0))
    is_in_order = bool(grows[same == 0].all())
    if not is_in_order:
        order = sends.with_row_index("row").sort("process", *INVOKED)["row"].to_numpy().astype(np.int64)
        codes = sends["process"].gather(order).rle_id().to_numpy().astype(np.int64)
    begins = np.flatnonzero(np.append(True, np.diff(codes) != 0))
    ends = np.append(begins[1:], len(order)) - 1
    names = sends["process"].gather(order[begins]).to_list()
    keys = (_keys(sends, order[rows], INVOKED) for rows in (begins, ends))
    return [SentBy(*sent) for sent in zip(names, *keys, strict=True)], is_in_order


def _runs_of(reads: pl.DataFrame) -> list[RunOfReads] | None:
    """The runs of reads of each process; None: too many, or reads of the same process at the same place."""
    if not len(reads):
        return []
    order, codes = _by_process(reads)
    offsets = reads["offset"].to_numpy()[order]
    begins = np.flatnonzero(np.append(True, (np.diff(codes) != 0) | (np.diff(offsets) != 1)))
    if len(begins) > MAX_RUNS:
        return None
    ends = np.append(begins[1:], len(order)) - 1
    names = reads["process"].gather(order[begins]).to_list()
    keys = (_keys(reads, order[rows], ORDER) for rows in (begins, ends))
    positions = (offsets[begins].tolist(), (offsets[ends] + 1).tolist())
    return [RunOfReads(*run) for run in zip(names, *keys, *positions, strict=True)]


def are_final(reads: pl.DataFrame, healed_at: int, settings: Settings) -> Mask:
    """Whether each read is one of the final reads: by a final process after the last fault ended (`healed_at`, ns)."""
    is_final = is_final_read(settings.final_readers(), healed_at)
    return reads.select(is_final.fill_null(False)).to_series().to_numpy()


def _extent(values: pl.Series, lowest: int = MIN_INT64) -> Extent | None:
    """The least and the greatest value, without those below `lowest`."""
    values = values.filter(values >= lowest)
    return Extent(least(values, 0), greatest(values, 0)) if len(values) else None


def _read_until(reads: pl.DataFrame) -> ReadUntil | None:
    """How far these reads came; None without reads."""
    offsets, times = _extent(reads["offset"]), _extent(reads["completed"].drop_nulls())
    return None if offsets is None or times is None else ReadUntil(offsets.high, times.low, times.high)


def _latencies(sends: pl.DataFrame, reads: pl.DataFrame) -> list[int]:
    samples = [frame.select("invoked", "completed").gather_every(len(frame) // SAMPLE + 1) for frame in (sends, reads)]
    return pl.concat(samples).select(pl.col("completed") - pl.col("invoked")).to_series().drop_nulls().to_list()


def plain_figures_of(rows: Rows, first_read: Ints) -> dict[str, Any] | None:
    """The span of the observations, and the figures of all partitions that add up (figures/merge.py)."""
    span = span_of(rows.sends, rows.reads, rows.marks)
    if span is None:
        return None
    bins = bins_over(*span)
    never = first_read == MAX_INT64
    acknowledged = rows.sends.select(
        first_read=pl.Series(first_read).set(pl.Series(never), None),
        acked=pl.coalesce("completed", "invoked"),
        lost=pl.lit(False),
        legal=pl.lit(False),
    )
    series = over_time(rows, acknowledged, bins)
    return {"bins": bins.to_json(), "span": [*span], "series": series, "latency": latency(rows, bins)}
