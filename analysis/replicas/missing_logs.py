"""Copies of a log that were not collected, or not whole, as far as the collected files prove it.

A replica that is behind, a new one, and one that retention emptied have a log, too, and are not listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from ...histories.evidence.tables import FINAL

COPY = ("snapshot", "broker")  # columns that identify one copy of a log
BASE_IN_NAME = pl.col("file").str.extract(r"(\d{20})\.log$").cast(pl.Int64, strict=False)  # of a segment, else null
_SEGMENT, _FOLDER = r"\d{20}\.log(\.\w+)?$", r"-\d{1,9}$"
TRUNCATIONS = ("truncate", "truncate-fully")  # kinds of LOG_EVENTS


class MissingLog(NamedTuple):
    """Offsets of one copy of a log that are not known, and why."""

    snapshot: str
    broker: str
    first: int
    last: int | None  # None: the end of the log is not known
    is_whole: bool  # no record of the copy was read
    reason: str  # a clause about its log or its segment
    file: str | None  # the segment; None: the whole log
    is_hole: bool = False  # the offsets are between two segments

    @property
    def description(self) -> str:
        """Which log it is and why it is missing, as a clause."""
        log = f"the log of broker {self.broker}" if self.file is None else self.file
        when = "" if self.snapshot == FINAL or self.file is not None else f" in snapshot {self.snapshot}"
        return f"{log}{when} {self.reason}"

    def concerns(self, first: int, last: int) -> bool:
        """Whether one of its offsets is between these."""
        return self.first <= last and (self.last is None or first <= self.last)


@dataclass(frozen=True, eq=False)
class LogTables:
    """The tables of one topic-partition, of all brokers and snapshots (histories/evidence/tables.py)."""

    records: pl.DataFrame
    batches: pl.DataFrame
    epochs: pl.DataFrame
    checkpoints: pl.DataFrame
    damage: pl.DataFrame
    segments: pl.DataFrame  # empty ones: a log without records is evidence too
    identical: pl.DataFrame  # ranges of records that are the same in all replicas and not decoded
    log_events: pl.DataFrame  # events in the brokers' own logs


def held_copies(batches: pl.DataFrame, records: pl.DataFrame) -> set[tuple[str, str]]:
    """The copies (snapshot, broker) that have a record or a batch."""
    return {copy for frame in (batches, records) for copy in frame.select(COPY).unique().rows()}


def empty_copies(segments: pl.DataFrame, held: Collection[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, str]]:
    """The copies with segments, but without a record: their end, and their last segment."""
    empty: dict[tuple[str, str], tuple[int, str]] = {}
    for snapshot, broker, base, file in segments.select(*COPY, "base_offset", "file").rows():
        if (snapshot, broker) not in held:
            empty[snapshot, broker] = max(empty.get((snapshot, broker), (-1, "")), (base, file))
    return empty


def missing_logs(
    tables: LogTables,
    snapshots: Sequence[str],
    replicas: Sequence[str],
    may_have_gaps: bool,
    reported_empty: Collection[tuple[str, str]],
    is_optional: bool,
) -> tuple[MissingLog, ...]:
    """The copies that are missing, wholly or in part. `may_have_gaps`: compaction may have removed whole segments.
    `is_optional`: a copy without any file is not missing.

    `snapshots` are all of the run, undated ones first, then in order of time. `replicas` are the assigned brokers, ()
    if not recorded. `reported_empty` are copies that their brokers reported as empty.
    """
    held = held_copies(tables.batches, tables.records)
    empty = empty_copies(tables.segments, held)
    found = [*_unreadable(tables.damage, held, empty)]
    known = {one[:2] for one in found}
    found += _without_batches(tables.damage, {*held, *empty, *known})
    known = {one[:2] for one in found}
    known.update(reported_empty)
    found += [one for one in _emptied_logs(tables, snapshots, empty, may_have_gaps) if one[:2] not in known]
    if not may_have_gaps:
        found += _holes(tables)
    known = {*held, *empty, *(one[:2] for one in found)}
    if known and not is_optional:  # else no log of the partition is judged
        found += [one for one in _with_checkpoints_alone(tables.checkpoints, replicas) if one[:2] not in known]
    order = {name: number for number, name in enumerate(snapshots)}
    return tuple(sorted(found, key=lambda one: (order.get(one.snapshot, -1), one.broker, one.first)))


def _unreadable(
    damage: pl.DataFrame, held: set[tuple[str, str]], empty: Mapping[tuple[str, str], object]
) -> Iterator[MissingLog]:
    """The segments and folders that could not be opened, or that are missing from their folder."""
    is_log = pl.col("file").str.contains(_SEGMENT) | pl.col("file").str.contains(_FOLDER)
    rows = damage.filter(is_log, pl.col("kind").is_in(["unreadable", "missing"]))
    for row in rows.sort("file", "byte", nulls_last=True).iter_rows(named=True):
        copy = (row["snapshot"], row["broker"])
        is_whole = copy not in held
        has_others = copy in held or copy in empty
        file = row["file"] if has_others else None
        first = 0 if file is None or row["first_offset"] is None else row["first_offset"]
        reason = row["reason"]
        if row["kind"] == "unreadable":
            reason = f"cannot be read: {reason.removeprefix('cannot be read: ')}"
        yield MissingLog(*copy, first, row["last_offset"], is_whole, reason, file)


def _without_batches(damage: pl.DataFrame, others: Collection[tuple[str, str]]) -> Iterator[MissingLog]:
    """The copies, beside the `others`, with damaged segments and no batch. An interrupted first write is no damage."""
    is_damaged = pl.col("file").str.contains(_SEGMENT) & ~pl.col("kind").is_in(["torn-tail", "zeros"])
    damaged = damage.filter(is_damaged).sort("file").select(*COPY, "first_offset")
    for snapshot, broker, first in damaged.unique(COPY, keep="first", maintain_order=True).rows():
        if (snapshot, broker) not in others:
            yield MissingLog(snapshot, broker, first or 0, None, True, "has no batch that can be read", None)


def _emptied_logs(
    tables: LogTables,
    snapshots: Sequence[str],
    empty: Mapping[tuple[str, str], tuple[int, str]],
    may_have_gaps: bool,
) -> Iterator[MissingLog]:
    """Empty logs that had records, as their broker's checkpoints or its earlier copy show.

    Compaction may have removed all records below the checkpoint `cleaned`. If a truncation removed those above, the
    last segment is empty and begins below the end of the log.
    """
    ends = tables.batches.group_by(COPY).agg(pl.col("last_offset").max() + 1)
    ends_of = {(snapshot, broker): end for snapshot, broker, end in ends.rows()}
    for (snapshot, broker), (end, _) in empty.items():
        before = snapshots[: snapshots.index(snapshot)] if snapshot in snapshots else ()
        earlier = [name for name in before if ends_of.get((name, broker), 0) > end]
        is_truncated = tables.log_events.filter(pl.col("kind").is_in(TRUNCATIONS), broker=broker).height > 0
        cleaned = tables.checkpoints.filter(name="cleaned", snapshot=snapshot, broker=broker)["offset"]
        known_end = max([end, *cleaned]) if may_have_gaps else end
        proof = _checkpoint_beyond(tables, snapshot, broker, known_end)
        proof = proof or _epoch_with_records(tables, snapshot, broker, end)
        if not proof and earlier and not is_truncated:
            proof = f"it ended at {ends_of[earlier[-1], broker]} in snapshot {earlier[-1]}"
        if proof:
            yield MissingLog(snapshot, broker, end, None, True, f"is empty, though {proof}", None)


def _checkpoint_beyond(tables: LogTables, snapshot: str, broker: str, end: int) -> str:
    """A checkpoint of a copy that is beyond its end, as a clause; "" without one."""
    is_of_log = pl.col("name").is_in(["high-watermark", "recovery-point"])
    points = tables.checkpoints.filter(is_of_log, pl.col("offset") > end, snapshot=snapshot, broker=broker)
    for name, offset in points.select("name", "offset").rows():
        return f"its checkpointed {name.replace('-', ' ')} is {offset}"
    return ""


def _epoch_with_records(tables: LogTables, snapshot: str, broker: str, end: int) -> str:
    """An epoch of a copy that ends at 0, and of which another replica has records, as a clause; "" without one.

    A broker adds an epoch when it leads it, and then wrote these records, or with the first record of it. Behind a log
    start, retention leaves such an entry, too.
    """
    if end != 0:
        return ""
    own = tables.epochs.filter(snapshot=snapshot, broker=broker).select("leader_epoch")
    others = tables.batches.filter(pl.col("broker") != broker, snapshot=snapshot).select("leader_epoch", "broker")
    for epoch, other in own.join(others, on="leader_epoch").sort("leader_epoch", "broker").head(1).rows():
        return f"its leader-epoch-checkpoint has epoch {epoch}, of which broker {other} has records"
    return ""


def _holes(tables: LogTables) -> Iterator[MissingLog]:
    """The offsets between two segments of a copy that are in none, and in no damage."""
    ends = tables.batches.select(*COPY, "file", first="base_offset", last="last_offset")
    empty = tables.segments.select(*COPY, "file", first="base_offset", last=pl.col("base_offset") - 1)
    files = pl.concat([ends, empty]).group_by(*COPY, "file").agg(pl.col("first").min(), pl.col("last").max())
    before = (pl.col(name).shift().over(COPY, order_by="file").alias(f"{name}_before") for name in ("last", "file"))
    gaps = files.with_columns(before).filter(pl.col("first") > pl.col("last_before") + 1).sort(*COPY, "file")
    for row in gaps.iter_rows(named=True):
        first, last = row["last_before"] + 1, row["first"] - 1
        damage = tables.damage.filter(snapshot=row["snapshot"], broker=row["broker"])
        is_damaged = (pl.col("first_offset") <= last) & (pl.col("last_offset").fill_null(last) >= first)
        if not damage.filter(is_damaged).height:
            reason = f"and {row['file']} have no segment between them"
            yield MissingLog(row["snapshot"], row["broker"], first, last, False, reason, row["file_before"], True)


def _with_checkpoints_alone(checkpoints: pl.DataFrame, replicas: Sequence[str]) -> Iterator[MissingLog]:
    """Copies of which only a checkpoint of their log.dir was collected, which shows that they had records."""
    rows = checkpoints.filter(pl.col("offset") > 0).sort("offset", descending=True)
    for row in rows.unique(COPY, keep="first", maintain_order=True).iter_rows(named=True):
        if not replicas or row["broker"] in replicas:
            reason = f"was not collected, though its {row['name'].replace('-', ' ')} is {row['offset']}"
            yield MissingLog(row["snapshot"], row["broker"], 0, None, True, reason, None)
