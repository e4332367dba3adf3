"""poll-skip and nonmonotonic-poll: a consumer continues at its position, and skips no record.

A consumer's next record must be at its position: one past its last record, or the offset that a seek or an assignment
set. A consumer without a position (after a revocation, or an assignment without offset) may read any record.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ...histories.references import JEPSEN
from ...histories.tables import MAX_INT64, Finding
from ..extremes import least
from ..partitions.absences import existing, legal_ends
from ..partitions.indeterminate_polls import indeterminate_polls, may_lack_operations
from ..partitions.marks import IS_MOVE, IS_REVOCATION_OF_ALL, POSITION
from ..partitions.partition import Offsets, Partition, once
from ..partitions.truncated_sends import removed_records
from ..wording import plural
from .gone_sends import cut_off_records, last_truncated_offset, truncated_offsets
from .jepsen_steps import GOES_BACK, SKIPS, findings_of, steps_between, steps_within
from .rule import Result, Row, Rule, Unknown, finding, unless_left_out, where


@once
def _between_polls(p: Partition) -> pl.DataFrame:
    empty = p.marks.filter(kind="empty")
    return steps_between(p, p.reads, empty, counts=pl.col("outcome") == "ok", of_polls=True)


@once
def _within_polls(p: Partition) -> pl.DataFrame:
    return steps_within(p, p.reads.filter(~pl.col("exempt")))


def _severity_in_jepsen(p: Partition) -> str:
    """A group may move partitions between consumers at any time, so Jepsen permits breaches if clients subscribe."""
    return "permitted" if "subscribe" in p.context["kind"] else "violation"


@Rule(
    "poll-skip",
    group="consumers",
    summary="A consumer skipped records",
    example="p:a@0 p:b@1 p:e@2 c:<a@0 c:<e@2 d:<a@0,b@1,e@2",
    source=JEPSEN,
    needs=("reads",),
    assumes=("process clock",),
    follows="offset",
    values_are_records=True,
).judged_by
def poll_skip(p: Partition) -> Iterator[Result]:
    """Records that a consumer skipped between two polls; unknown if one of its polls has no known outcome.

    Breach: A consumer's next record is after its position, and records exist between: acknowledged or read by other
    consumers, visible at its isolation level, and not legally absent.
    Not a breach: The offsets are those of markers, of aborted transactions, of records that a truncation removed, or of
    records that may have been compacted or deleted by then. Permitted: the consumer's group was rebalanced in between.
    Unknown when: A poll of the same consumer without a known outcome may have returned the records. Lines of a poll may
    be missing: the history has completions without an invocation, or two of its lines could not be read. The two polls
    were open at once.
    In Jepsen histories: A poll begins more than one value after the last value of the process's latest ok poll.
    Permitted in a history with subscriptions. Unknown if a line was left out.
    """
    yield from _skips(p, is_within_poll=False)


poll_skip.judged_in_jepsen_by(
    unless_left_out(lambda p: findings_of(p, "polled", _between_polls(p).filter(SKIPS), _severity_in_jepsen(p)))
)


@Rule(
    "int-poll-skip",
    group="consumers",
    summary="One poll skipped records",
    example="p:a@0 p:b@1 p:e@2 c:<a@0,e@2 d:<a@0,b@1,e@2",
    source=JEPSEN,
    needs=("reads",),
    follows="offset",
).judged_by
def int_poll_skip(p: Partition) -> Iterator[Result]:
    """Records that one poll skipped.

    Breach: The same as poll-skip, between adjacent records of one operation.
    Not a breach: The same as poll-skip.
    In Jepsen histories: The same, unless the assignment changed during the poll.
    """
    yield from _skips(p, is_within_poll=True)


int_poll_skip.judged_in_jepsen_by(lambda p: findings_of(p, "polled", _within_polls(p).filter(SKIPS)))


@Rule(
    "nonmonotonic-poll",
    group="consumers",
    summary="A consumer went back",
    example="p:a@0 p:b@1 c:<a@0,b@1 c:<a@0",
    source=JEPSEN,
    needs=("reads",),
    assumes=("process clock",),
    follows="offset",
    explained_as="replaced",
).judged_by
def nonmonotonic_poll(p: Partition) -> Iterator[Result]:
    """Polls that return a record before their consumer's position.

    Breach: A consumer's next record is before its position. The position is one past its last record, or what a seek or
    an assignment set. A 4.x client that silently jumps back after a truncation commits this breach, which follows from
    the loss.
    Not a breach: A revocation, or an assignment without offsets, clears the position. Permitted: the consumer's group
    was rebalanced in between.
    Unknown when: Lines of a seek or an assignment may be missing: the history has completions without an invocation, or
    two of its lines could not be read. The two polls were open at once, as if several consumers had one name.
    In Jepsen histories: A poll begins before the last value of the process's latest ok poll, or repeats it. An
    assignment or subscription without the key clears the position, and so does one with :seek-to-beginning?. Permitted
    in a history with subscriptions. Unknown if a line was left out.
    """
    yield from _steps_back(p, is_within_poll=False)


nonmonotonic_poll.judged_in_jepsen_by(
    unless_left_out(lambda p: findings_of(p, "polled", _between_polls(p).filter(GOES_BACK), _severity_in_jepsen(p)))
)


@Rule(
    "int-nonmonotonic-poll",
    group="consumers",
    summary="One poll returned records in the wrong order",
    example="p:a@0 p:b@1 c:<b@1,a@0",
    source=JEPSEN,
    needs=("reads",),
).judged_by
def int_nonmonotonic_poll(p: Partition) -> Iterator[Result]:
    """Polls that return a record at or before the one that precedes it.

    Breach: The same as nonmonotonic-poll, between adjacent records of one operation. A repeated record counts.
    Not a breach: The same as nonmonotonic-poll.
    In Jepsen histories: The same, unless the assignment changed during the poll.
    """
    yield from _steps_back(p, is_within_poll=True)


int_nonmonotonic_poll.judged_in_jepsen_by(lambda p: findings_of(p, "polled", _within_polls(p).filter(GOES_BACK)))


def _skips(p: Partition, is_within_poll: bool) -> Iterator[Result]:
    if not len(jumps(p)):
        return
    ahead = jumps(p).filter(pl.col("offset") > pl.col("expected"), inside=is_within_poll)
    for row in ahead.iter_rows(named=True):
        reads_uncommitted = p.settings.reads_uncommitted(row["process"])
        passed = existing(p, reads_uncommitted).between(row["expected"], row["offset"], row["completed"])
        skipped = _present_at(p, passed, row["completed"], _known_since(p, row), reads_uncommitted)
        if not len(skipped):
            continue
        # Records that one poll skipped cannot have been returned by another one.
        if not is_within_poll and indeterminate_polls(p, (row["process"],)).cover(int(skipped[0]), int(skipped[-1])):
            yield Unknown(f"a poll of {p.name} by {row['process']} has no known outcome")
            continue
        if not is_within_poll and (doubt := _doubt(p, row)):
            yield doubt
            continue
        first, last = int(skipped[0]), int(skipped[-1])
        sentence = (
            f"{row['process']} {_came_from(row)} to {row['offset']} of {p.name} and skipped"
            f" {plural(len(skipped), 'record')} at {where(p, first, last)}"
        )
        yield _finding(p, row, sentence, (first, last), len(skipped), p.entries_between(first, last)["value"].to_list())


def _known_since(p: Partition, row: Row) -> int:
    """The time (ns) at which a polled record was acknowledged, or first read by any consumer."""
    record = p.entries_between(row["offset"], row["offset"]).filter(pl.col("value").eq_missing(row["value"]))
    acked = p.sends["completed"].gather(record.filter("sent_ok")["send"])
    return min(least(acked, int(row["completed"])), least(record["first_read"], int(row["completed"])))


def _present_at(p: Partition, offsets: Offsets, time: int, sent_by: int, reads_uncommitted: bool) -> Offsets:
    """Those offsets that have a record at `time` (ns): it was sent by `sent_by`, and neither cut off nor deleted.

    A record that was sent after a higher one was known is of a later log, which another leader wrote. A record
    without a recorded send may have been written after a truncation, unless someone had read it by then.
    """
    if not len(offsets):
        return offsets
    entries = p.entries_between(int(offsets[0]), int(offsets[-1]))
    is_visible = pl.lit(True) if reads_uncommitted else p.committed
    is_maybe_later = pl.col("send").is_null() & (pl.col("offset") <= last_truncated_offset(p))
    invoked = pl.lit(p.sends["invoked"].gather(entries["send"])).fill_null(0)
    entries = entries.with_columns(
        is_sent=pl.when(is_maybe_later).then(pl.col("first_read") <= time).otherwise(invoked <= sent_by)
    )
    if entries["offset"].is_duplicated().any():  # one may have had a legal end, and another not
        entries = entries.filter(pl.Series(legal_ends(p, entries, reads_uncommitted) > time))
    deleted = removed_records(p).filter(pl.col("since") <= time)
    for absent in (deleted, cut_off_records(p)):
        entries = entries.join(absent, on=["offset", "value"], how="anti")
    present = np.unique(entries.filter(is_visible & pl.col("is_sent"))["offset"].to_numpy())
    return np.setdiff1d(np.intersect1d(present, offsets), truncated_offsets(p, present), assume_unique=True)


def _steps_back(p: Partition, is_within_poll: bool) -> Iterator[Result]:
    if not len(jumps(p)):
        return
    behind = jumps(p).filter(pl.col("offset") < pl.col("expected"), inside=is_within_poll)
    for row in behind.iter_rows(named=True):
        if not is_within_poll and (doubt := _doubt(p, row)):
            yield doubt
            continue
        sentence = f"{row['process']} {_came_from(row)} back to {row['offset']} of {p.name}"
        if row["offset"] == row["previous"]:
            sentence = f"{row['process']} read offset {row['offset']} of {p.name} again"
        values = [value for value in (row["previous_value"], row["value"]) if value is not None]
        yield _finding(p, row, sentence, (row["offset"], row["expected"] - 1), 1, values)


def _doubt(p: Partition, row: Row) -> Unknown | None:
    """Why a poll may not have followed the one before it, or something came between them; None if neither is so."""
    if may_lack_operations(p):
        return Unknown(f"lines that may be of {row['process']} are missing or could not be read")
    if row["previous_completed"] is not None and row["invoked"] < row["previous_completed"]:
        return Unknown(f"{row['process']} had two polls of {p.name} open at once")
    return None


def _came_from(row: Row) -> str:
    if row["previous"] is None:
        return f"was set to {row['expected']} and went"
    return f"went from {row['previous']}"


def _finding(p: Partition, row: Row, sentence: str, offsets: tuple[int, int], count: int, values: list[str]) -> Finding:
    permitted = bool(row["rebalanced"])
    return finding(
        p,
        sentence + (", after its group was rebalanced" if permitted else ""),
        offsets,
        [
            (f"{row['process']} is at position {row['expected']}", row["previous_at"]),
            (f"{row['process']} reads offset {row['offset']}", row["at"]),
        ],
        count=count,
        values=values,
        processes=[row["process"]],
        severity="permitted" if permitted else "violation",
    )


@once
def jumps(p: Partition) -> pl.DataFrame:
    """Polled records that are not at their consumer's position, in the order of time.

    Columns: process, offset, value, at, expected (the position before), previous (offset of the record that
    led there, null after a seek), previous_value, previous_at, inside (same operation), rebalanced, invoked, and
    previous_completed (both ns). A frame without rows may have no columns.
    """
    reads = p.reads.with_row_index("row").filter(pl.col("offset").is_not_null())
    if not len(reads):
        return pl.DataFrame()
    moves = moves_of(p).filter(pl.col("process").is_in(reads["process"].unique().implode()))
    rows, before = _suspect_rows(reads, moves)
    if not len(rows):
        return pl.DataFrame()
    sequence = pl.concat(
        [
            reads[np.union1d(rows, before)].select(
                "process", "completed", "at", "index", "row", "offset", position=pl.col("offset") + 1
            ),
            moves,
        ],
        how="diagonal",
    ).sort("completed", "at", "index", nulls_last=True, maintain_order=True)
    jumped = _mismatches(sequence).filter(pl.col("row").is_in(reads["row"].gather(rows).implode()))
    value = p.reads["value"]
    previous = jumped["previous_row"]
    return jumped.with_columns(
        value=value.gather(jumped["row"]),
        invoked=p.reads["invoked"].gather(jumped["row"]),
        previous_value=value.gather(previous),
        previous_completed=p.reads["completed"].gather(previous),
    )


def _suspect_rows(reads: pl.DataFrame, moves: pl.DataFrame) -> tuple[Offsets, Offsets]:
    """The few rows that do not follow their consumer's previous row or are next to a move, and the rows before them."""
    names = reads["process"].unique().sort()
    codes = reads["process"].cast(pl.Enum(names)).to_physical().to_numpy()
    order = np.argsort(codes, kind="stable")
    process, offset = codes[order], reads["offset"].to_numpy()[order]
    time = reads["completed"].fill_null(MAX_INT64).to_numpy()[order]
    found = [np.flatnonzero((np.diff(offset) != 1) & (process[1:] == process[:-1])) + 1]
    code_of = {name: code for code, name in enumerate(names)}
    for (name,), own in moves.partition_by("process", as_dict=True).items():
        start, end = np.searchsorted(process, [code_of[name], code_of[name] + 1], "left")
        moved = own["completed"].fill_null(MAX_INT64).to_numpy()
        first = start + np.searchsorted(time[start:end], moved, "left")
        last = start + np.searchsorted(time[start:end], moved, "right")
        found += [np.arange(low, min(high + 1, end)) for low, high in zip(first, last, strict=True)]
    rows = np.unique(np.concatenate(found))
    return order[rows], order[np.maximum(rows - 1, 0)]


def _mismatches(events: pl.DataFrame) -> pl.DataFrame:
    """The records that are not at the position that their consumer's previous event left."""

    def previous(name: str) -> pl.Expr:
        return pl.col(name).shift(1).over("process")

    return (
        events.with_columns(
            expected=previous("position"),
            previous=previous("offset"),
            previous_row=previous("row"),
            previous_at=previous("at"),
            rebalanced=previous("group").fill_null(False),
        )
        .filter(pl.col("row").is_not_null() & (pl.col("offset") != pl.col("expected")).fill_null(False))
        .with_columns(inside=pl.col("previous_row").is_not_null() & (pl.col("previous_at") == pl.col("at")))
    )


@once
def moves_of(p: Partition) -> pl.DataFrame:
    """The operations that set or clear a consumer's position: assignments, seeks, revocations and crashes.

    Columns: process, completed, at, index, group, position (null: not known from here on). A condensed partition also
    has the positions after the reads that it lacks.
    """
    named = p.marks.filter(IS_MOVE).select("process", "completed", "at", "index", "group", position=POSITION)
    # An assignment by the group may be incremental, so one of other partitions clears nothing. An assignment by the
    # application, and a revocation that names no partition, clear every position.
    is_clearing = (pl.col("kind") == "crash") | ((pl.col("kind") == "assign") & ~pl.col("group")) | IS_REVOCATION_OF_ALL
    general = p.context.filter((pl.col("outcome") != "fail") & is_clearing).join(
        named.select("process", "at"), on=["process", "at"], how="anti", maintain_order="left"
    )
    clearing = general.select("process", "completed", "at", "group", index=pl.lit(0, dtype=pl.Int32))
    positions = p.positions.with_columns(group=pl.lit(False))
    return pl.concat([named, clearing, positions], how="diagonal")
