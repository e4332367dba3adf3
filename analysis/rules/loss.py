"""lost-write and unseen: acknowledged values stay in the log, and consumers read them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ...histories.references import SEMANTICS
from ...histories.tables import MAX_INT64, Finding
from ..partitions.absences import lasting_offsets, maybe_compacted, superseded_values
from ..partitions.adjacent_runs import NO_OFFSETS, adjacent_runs, lost_runs
from ..partitions.final_reads import FinalReads
from ..partitions.indeterminate_polls import indeterminate_polls, may_lack_operations, within_polls
from ..partitions.jepsen_log import committed_sends, jepsen_index, jepsen_log, values_read
from ..partitions.later_epochs import is_written_once, may_have_returned, overwritten
from ..partitions.open_transactions import values_in_leaders_log
from ..partitions.partition import Partition, once
from ..partitions.ranges import ranges_in
from ..partitions.truncated_sends import truncated_sends
from ..partitions.unknown_acks import may_have_no_acks
from ..replicas.resolved_outcomes import COMPACTED
from ..wording import short, some, some_values
from .replica_absent import acknowledged_absent
from .rule import Result, Row, Rule, distinct, finding, seconds, unless_left_out, where
from .send_evidence import passed_over, proof_of_loss, unknown_ends, unknown_sends


@Rule(
    "lost-write",
    group="loss",
    summary="An acknowledged value is gone",
    example="p:a@0 p:b@1 c:<a@0,b@1 nemesis:kill p:x@1 end=2 final:<a@0,x@1",
    source=SEMANTICS,
    needs=("acknowledged",),
    needs_final=True,
    assumes=("values", "order", "partitions"),
    explained_as="loss",
).judged_by
def lost_write(p: Partition) -> Iterator[Result]:
    """One finding for each run of adjacent lost sends with the same acks.

    Breach: A send with acks=1 or acks=all was acknowledged, no legal reason explains its absence, and one of these
    proves it:
    - Its offset holds another value later, or in the final reads.
    - A later end offset is at or below its offset, and no end offset or send since goes beyond it.
    - The final reads pass its offset without it.
    - The final reads reach the end without it, after a consumer had read it.
    - No final read returned it, and acknowledged-absent finds it missing from the brokers' last logs.
    - In a run without final reads: no consumer read it, though one consumer read before and after it and no other
      value at its offset, and the leader's log lacks it.
    A consumer that read the value before it vanished does not excuse the loss. A tombstone is identified by its offset.
    Not a breach: One of these explains it:
    - Retention, delete-records, or compaction by key removed the record. Compaction removes no tombstone while an
      earlier record of its key is there.
    - A deletion removed it before a truncation: the log start is known to have passed the offset after the last read
      and the acknowledgement (by a broker's line: after the send), and before another send or the lower end. Or
      compaction did: a copy of a log from before that lacks it, and a later record of its key had been sent.
    - acks=0 acknowledges nothing.
    - Without final reads: the leader's log at the end holds the value, at whatever offset.
    - One consumer that skips a value is a poll-skip.
    Under acks=1 a loss can follow from the configuration, but it stays a violation unless --allow lost-write:acks=1
    accepts it.
    Unknown when: The run has no final reads, or one of these may explain the absence:
    - Its producer may have had acks=0: neither run.json nor the send sets acks, and no acknowledgement to this producer
      has an offset, while those to others have one.
    - A poll without a known outcome may have read the value. So may a missing poll, if the history has completions
      without an invocation, or if two of its lines could not be read.
    - An open transaction may hide it from read_committed final reads, unless the brokers' last logs lack it.
    - A deletion that is not certain may have removed it: its outcome is unknown, it goes beyond the log's end, later
      reads contradict it, or it overlaps the first sign of a truncation.
    - Retention may have removed it: all records below are older than retention.ms, or the log is limited in size.
    - The log start passed it while it was younger than retention.ms in run.json, and no request, other setting or line
      of a broker explains that.
    - A tombstone is missing, or a record with a later one of its key, and run.json does not set cleanup.policy.
    - On a compacted topic another record of its key may be the later one. So may a record that the history lacks, if
      both lines of an operation may be missing.
    - A compacted log was truncated. Compaction may have removed it before, if a later record of its key had been sent,
      unless a log of its leader has it, or lines and checkpoints of the cleaners show that none had taken up both. Or
      it did so after the log came back, unless the offset's leader epoch in the last leader's log is later.
    - On a compacted topic an earlier attempt to send the record may have written it below, at an offset without a known
      record, where compaction removed it: the producer is not known to be idempotent, and its key has other records.
    In Jepsen histories: No ok operation read the value, its writer must have committed, and a later value was read.
    Unknown if a line was left out.
    """
    outcomes = outcomes_of_sends(p)
    yield from unknown_sends(p, outcomes)
    if len(p.unsure_ends):
        yield from unknown_ends(p, outcomes.filter(~pl.col("lost") & ~pl.col("in_final")))
    if not outcomes["lost"].any():
        return
    placed = outcomes.filter(pl.col("offset").is_not_null())
    together = [*lost_runs(placed.filter("lost"), placed.filter(~pl.col("lost")), "value")]
    for number, event in enumerate(together, 1):
        # Severity and --allow depend on acks, so a finding has one.
        for run in adjacent_runs(event, NO_OFFSETS, "acks"):
            yield _lost_write_finding(p, run, number)
    # The brokers' last logs lack them, wherever they were.
    unplaced = outcomes.filter(pl.col("lost"), pl.col("offset").is_null()).sort("at", "value")
    for run in unplaced.partition_by("acks", maintain_order=True):
        yield _lost_write_finding(p, run, len(together) + 1)


@lost_write.judged_in_jepsen_by
@unless_left_out
def lost_write_in_jepsen(p: Partition) -> Iterator[Result]:
    """Values that no ok operation read, although their writer must have committed and a later value was read."""
    read, index = values_read(p), jepsen_index(p)
    last_read = index.join(read, on="value", how="semi")["first"].max()
    written = committed_sends(p).unique("value", keep="first", maintain_order=True)
    lost = (
        index.filter(pl.col("last") <= pl.lit(last_read, pl.Int64))
        .join(read, on="value", how="anti")
        .join(written, on="value")
        .join(jepsen_log(p).select("value", held="offset"), on="value", how="left")
        .unique("value", keep="last")
    )
    for row in lost.iter_rows(named=True):
        outcome = "acknowledged" if row["outcome"] == "ok" else "indeterminate, but other values of it were read"
        sentence = (
            f"{short(row['value'])} was sent by process {row['process']} ({outcome} at {seconds(row['completed'])}) and"
            f" is at offset {row['held']} of key {p.topic}, but no poll returned it, although later values were read"
        )
        yield _of_one_send(p, row, row["held"], sentence)


def _of_one_send(p: Partition, row: Row, offset: int | None, sentence: str) -> Finding:
    proof = (f"process {row['process']} sends {short(row['value'])}", row["at"])
    return finding(p, sentence, (offset, offset), [proof], values=[row["value"]], processes=[row["process"]])


@Rule(
    "unseen",
    group="loss",
    summary="An acknowledged value was never read",
    example="p:a@0 p:b@? end=1 final:<a@0",
    source=SEMANTICS,
    needs=("acknowledged",),
    needs_final=True,
    assumes=("values", "order", "partitions"),
    follows="offset",
    values_are_records=True,
).judged_by
def unseen(p: Partition) -> Iterator[Result]:
    """One finding for each run of adjacent sends that no read returned, and one for those without an offset.

    Breach: The final reads reach the log's end, yet no read returned an acknowledged value, no legal reason explains
    it, and nothing proves that it is gone. Its record was at the end of the log, or its offset is not known.
    Not a breach: Retention, delete-records or compaction removed the record. A value that is proven gone is a
    lost-write.
    Unknown when: The run has no final reads, or they end before the log does. An open transaction may hide the value
    from read_committed final reads, or one of the other reasons of lost-write applies.
    In Jepsen histories: An ok operation sent the value, and no ok poll returned it. Unknown if a line was left out.
    """
    if p.final is None:
        return
    outcomes = outcomes_of_sends(p)
    yield from unknown_sends(p, outcomes)
    if not p.final.complete:
        return
    unread = outcomes.filter(pl.col("first_read").is_null())
    missing = unread.filter(~pl.col("lost"), ~pl.col("legal"), ~pl.col("doubtful"))
    if not len(missing):
        return
    placed = missing.filter(pl.col("offset").is_not_null()).sort("offset", "value")
    others = np.setdiff1d(lasting_offsets(p), placed["offset"].to_numpy())
    unplaced = missing.filter(pl.col("offset").is_null())
    for run in [*adjacent_runs(placed, others), *([unplaced] if len(unplaced) else [])]:
        yield _unseen(p, run)


@unseen.judged_in_jepsen_by
@unless_left_out
def unseen_in_jepsen(p: Partition) -> Iterator[Result]:
    """Values that an ok operation sent and no ok operation polled."""
    sent = p.sends.filter(outcome="ok").unique("value", keep="first", maintain_order=True)
    for row in sent.join(values_read(p), on="value", how="anti").iter_rows(named=True):
        sentence = (
            f"{short(row['value'])} was acknowledged to process {row['process']} at {seconds(row['completed'])} in key"
            f" {p.topic}, but no poll returned it"
        )
        yield _of_one_send(p, row, row["offset"], sentence)


@once
def outcomes_of_sends(p: Partition) -> pl.DataFrame:
    """The outcome of each acknowledged value, one row each: `lost`, `legal`, `doubtful`, or none of them.

    The proofs that it is gone are `replaced` (by the value `other`), `displaced` (the final reads returned another
    value at its offset, perhaps an earlier one, of a log that came back), `shrunk` (a later end offset, `later_end`, is
    at or below its offset), `absent` (from the final reads), `passed` (one consumer read before and after it) and
    `not_in_logs` (the brokers' last logs lack it, too).
    It is `truncated` if it was replaced, displaced or shrunk, perhaps after it had been deleted (REMOVED).
    A doubtful one may be gone legally or not: `not_permitted` (it is below the log start, and no setting or request
    explains that), `maybe_deleted`, `maybe_compacted`, `maybe_returned` (truncated, and perhaps deleted before, or in
    the log again and compacted), `hidden` (a poll without a known outcome may have returned it),
    `hidden_by_open_txn`, or `unsure_acks` (nothing may have been acknowledged). Columns of reads: first_read,
    first_reader, first_read_at, last_read, in_final.
    """
    sends, final = _with_reasons(p), p.final
    proofs = "absent", "not_permitted", "not_in_logs", pl.col("passed") & pl.lit(final is None)
    missed = pl.any_horizontal(*proofs) & ~pl.col("legal")
    maybe_legal = pl.any_horizontal("maybe_deleted", "maybe_removed", "hidden", "maybe_compacted")
    # The logs show which records compaction can have removed, and what an unrecorded poll cannot change.
    is_below = (pl.col("offset") < _start_until_copy(p)).fill_null(False) & _may_be_deleted_since(p)
    if sends["not_in_logs"].any():
        is_below &= ~pl.lit(overwritten(p, sends))
    not_in_logs = pl.col("not_in_logs") & ~is_below & ~pl.col("maybe_removed")
    returned = pl.col("maybe_returned")
    surely_truncated = pl.col("truncated") & ~pl.col("removed") & ~returned
    lost = (surely_truncated | not_in_logs | (missed & ~maybe_legal)) & ~pl.col("in_final")
    if final is None:
        # A producer that wrote it again gave it another offset. Final reads would show that.
        suspects = sends.filter(lost | returned)["value"]
        is_there = pl.col("value").is_in(values_in_leaders_log(p, suspects)["value"].implode())
        lost, returned = lost & ~is_there, returned & ~is_there
    unread = pl.col("first_read").is_null() & ~pl.col("legal")
    unsure_acks = (lost | unread & pl.lit(final is not None)) & pl.col("unsure_acks")
    too_late = unread & (_is_too_late(final) if final else pl.lit(False))
    in_open_txn = pl.col("hidden_by_open_txn") & ~pl.col("in_final") & ~pl.col("legal")
    doubtful = ((missed | unread) & maybe_legal) | too_late | in_open_txn | returned | unsure_acks
    return sends.with_columns(lost=lost & ~pl.col("unsure_acks")).with_columns(doubtful=doubtful & ~pl.col("lost"))


def _start_until_copy(p: Partition) -> int:
    """The offset below which records may have been deleted before the brokers' last logs were copied."""
    start, logs = p.log_start, p.replica_logs
    copied = None if logs is None else logs.copied_at
    moved = [one.offset for one in start.evidence if copied is None or one.since < copied]
    # A deletion removed nothing from a log that still begins below.
    of_leader = None if logs is None else logs.leader_start
    return min(max(moved, default=0), MAX_INT64 if of_leader is None else of_leader)


def _may_be_deleted_since(p: Partition) -> pl.Expr:
    """Whether the log start may have moved since a send: where the final reads begin the log may start, for whatever
    reason.
    """
    return p.log_start.may_follow | (pl.col("offset") < (p.final.start if p.final else 0)).fill_null(False)


def _with_reasons(p: Partition) -> pl.DataFrame:
    """The sends with each proof that they are gone, and each reason for which that may be legal (outcomes_of_sends)."""
    sends, final, start = truncated_sends(p), p.final, p.log_start
    sends = sends.with_columns(
        absent=~pl.col("in_final") & (_is_covered(final) if final else pl.lit(False)),
        replaced=pl.col("other").is_not_null(),
        displaced=_is_displaced(p),
        shrunk=pl.col("later_end").is_not_null(),
        passed=passed_over(p, sends),
        legal=_legally_gone(p, sends) | sends["removed"],
        not_permitted=~pl.col("in_final") & start.is_not_permitted,
        maybe_deleted=(pl.col("offset") < start.possible).fill_null(start.possible > 0) & _may_be_deleted_since(p),
        hidden=_is_hidden(p, sends),
        hidden_by_open_txn=_is_hidden_by_open_txn(final),
        maybe_compacted=pl.col("value").is_in(maybe_compacted(p)["value"].implode()),
        unsure_acks=pl.col("process").is_in(may_have_no_acks(p)),
    )
    truncated = pl.any_horizontal("replaced", "displaced", "shrunk") & ~pl.col("in_final")
    # The last log has another value at the offset of a displaced record, so no compaction of it removed that record.
    compacted = pl.lit(may_have_returned(p, sends)) & ~pl.col("displaced")
    returned = truncated & ~pl.col("removed") & (pl.col("maybe_removed") | compacted)
    return sends.with_columns(not_in_logs=_is_not_in_logs(p, sends), truncated=truncated, maybe_returned=returned)


def _is_displaced(p: Partition) -> pl.Expr:
    """Whether the final reads returned another value at its offset, after its acknowledgement."""
    if p.final is None:
        return pl.lit(False)
    returned = pl.col("offset").is_in(p.entries.filter("in_final")["offset"].implode()).fill_null(False)
    return returned & ~pl.col("in_final") & (pl.col("completed") < p.final.until) & is_written_once(p)


def _is_covered(final: FinalReads) -> pl.Expr:
    """Whether the final reads had to return it: they pass its offset, or reach the end after a consumer read it."""
    before = pl.max_horizontal("completed", "last_read") < final.until
    tail = pl.col("first_read").is_not_null() & before & final.complete & (pl.col("offset") < final.hides)
    return ((pl.col("offset") >= final.start) & ((pl.col("offset") < final.end) | tail)).fill_null(False)


def _is_too_late(final: FinalReads) -> pl.Expr:
    """Whether it may be later than the final reads: they had ended, or stop at an end that was requested earlier."""
    early = pl.lit(False) if final.requested is None else pl.col("completed") >= final.requested
    beyond = (pl.col("offset") >= final.end).fill_null(True)
    return (pl.col("completed") >= final.until) | (beyond & early)


def _is_hidden(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """Whether a poll without a known outcome may have returned it; with final reads, a poll of the final reader."""
    readers = p.final.processes if p.final else tuple(p.reads["process"].unique())
    polled, offsets = indeterminate_polls(p, readers), sends["offset"].fill_null(-1).to_numpy()
    if not len(polled.first) and not may_lack_operations(p):
        return pl.repeat(False, len(sends), eager=True)
    others = ~within_polls(p, readers).hold(offsets) if may_lack_operations(p) else False
    return sends["offset"].is_null() | pl.Series(polled.hold(offsets) | others)


def _is_hidden_by_open_txn(final: FinalReads | None) -> pl.Expr:
    """Whether an open transaction may hide it from the final reads. Without a known offset: if no read returned it."""
    if final is None or final.hides == MAX_INT64:
        return pl.lit(False)
    return (pl.col("offset") >= final.hides).fill_null(pl.col("first_read").is_null())


def _is_not_in_logs(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """Whether no final read returned it, and acknowledged-absent finds that the brokers' last logs lack it."""
    missing = ~sends["in_final"]
    absent = acknowledged_absent.judges["native"](p).findings if missing.any() else ()
    return missing & sends["value"].is_in([value for finding in absent for value in finding.values])


def _legally_gone(p: Partition, sends: pl.DataFrame) -> pl.Series:
    offset = sends["offset"].fill_null(MAX_INT64)
    gone = (offset < p.log_start.legal) | (sends["offset"].is_null() & p.log_start.is_all_gone)
    if len(p.legally_absent):
        cleaned = ranges_in(p.legally_absent.filter(reason=COMPACTED))
        gone |= pl.Series(cleaned.hold(offset.to_numpy()))
    return gone | sends["value"].is_in(superseded_values(p)["value"].implode()) if len(superseded_values(p)) else gone


# Messages.


def _lost_write_finding(p: Partition, run: pl.DataFrame, event: int) -> Finding:
    """The finding of a run of adjacent lost sends; the records of one `event` were lost together."""
    first, last, one = run.row(0, named=True), run.row(-1, named=True), len(run) == 1
    value, at = short(first["value"]), first["offset"]
    acks = " with acks=1, which waits for no follower" if first["acks"] == "1" else ""
    if one:
        acknowledged = f"{value} was acknowledged at {_place(p, run)} by {first['process']}"
        lost = f"{acknowledged} at {seconds(first['completed'])}{acks}"
    else:
        lost = f"{len(run):,} writes acknowledged at {_place(p, run)} ({some_values(run['value'].to_list())}){acks}"
        lost += ", are gone" if acks else " are gone"
    evidence = [
        (f"{first['process']} sends {value}", first["invoked_at"]),
        (f"{value} acknowledged{'' if at is None else f' at offset {at}'}", first["at"]),
        (f"{value} read by {first['first_reader']}", first["first_read_at"]),
        (f"offset {at} holds {short(first['other'])} instead", first["other_at"]),
        (f"a later end offset is {first['later_end']}", first["later_end_at"]),
    ]
    if not one:
        end = "" if last["offset"] is None else f" at offset {last['offset']}"
        evidence.append((f"{short(last['value'])} acknowledged{end}", last["at"]))
    return finding(
        p,
        f"{lost}; {_read_before(p, run)}; {proof_of_loss(p, run)}",
        (at, last["offset"]),
        evidence,
        count=len(run),
        values=run["value"],
        processes=run["process"],
        acks=first["acks"],
        event=event,
    )


def _place(p: Partition, run: pl.DataFrame) -> str:
    return where(p, run["offset"][0], run["offset"][-1])


def _read_before(p: Partition, run: pl.DataFrame) -> str:
    if not len(p.reads):
        return "no reads are recorded"
    read = run.filter(pl.col("first_read").is_not_null())
    if not len(read):
        return f"no recorded consumer read {'it' if len(run) == 1 else 'them'}"
    if len(run) == 1:
        return f"{read['first_reader'][0]} read it at {seconds(read['first_read'][0])} before it vanished"
    number = "all" if len(read) == len(run) else f"{len(read):,}"
    return f"{some(distinct(read['first_reader']))} had read {number} of them before they vanished"


def _unseen(p: Partition, run: pl.DataFrame) -> Finding:
    first = run.row(0, named=True)
    if len(run) == 1:
        sentence = (
            f"{short(first['value'])} was acknowledged at {_place(p, run)} by {first['process']} at"
            f" {seconds(first['completed'])}, but no read returned it; nothing proves that it is gone"
        )
    else:
        sentence = (
            f"no read returned {len(run):,} acknowledged writes at {_place(p, run)}"
            f" ({some_values(run['value'].to_list())}) of {some(distinct(run['process']))};"
            " nothing proves that they are gone"
        )
    return finding(
        p,
        sentence,
        (first["offset"], run["offset"][-1]),
        [
            (f"{first['process']} sends {short(first['value'])}", first["invoked_at"]),
            (f"{short(first['value'])} acknowledged", first["at"]),
        ],
        count=len(run),
        values=run["value"],
        processes=run["process"],
    )
