"""lost-write and unseen: acknowledged values that are gone, or that nobody ever saw."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, Finding
from ..partitions.absences import lasting, maybe_compacted, superseded
from ..partitions.adjacent_runs import adjacent_runs, beside
from ..partitions.final_reads import FinalReads
from ..partitions.indeterminate_polls import indeterminate_polls
from ..partitions.open_transactions import count_in_logs, describe_open_transaction
from ..partitions.partition import Offsets, Partition, once
from ..partitions.ranges import ranges_in
from ..partitions.rewrites import events, generations
from ..replicas.resolved_outcomes import COMPACTED
from ..wording import plural, some
from . import jepsen
from .judgement import MissingSetting, Result, Unknown, missing_isolation_levels
from .rule import Rule
from .send_evidence import passed_over, sends_with_reads, with_later_end, with_other_value
from .wording import distinct, proof, seconds, where


@Rule(
    "lost-write",
    summary="An acknowledged value is gone",
    breach=(
        "A send with acks=1 or acks=all was acknowledged, no legal reason explains its absence, and one of "
        "these proves it: (1) its offset later holds another value; (2) a later end offset is at or below "
        "its offset; (3) the final reads pass its offset without it; (4) the final reads reach the end "
        "without it, after a consumer had read it. In a run without final reads: no consumer read it, "
        "though one consumer read before and behind it. A consumer that read the value before it vanished "
        "does not excuse the loss. A tombstone is identified by its offset."
    ),
    not_a_breach=(
        "Retention, delete-records, or compaction by key removed the record. acks=0 acknowledges nothing. "
        "One consumer that passes over a value is a poll-skip. Under acks=1 the configuration permits the "
        "loss, but it stays a violation unless --allow lost-write:acks=1 accepts it."
    ),
    unknown_when=(
        "The run has no final reads. A poll without a known outcome may have read the value. An open "
        "transaction may hide it from read_committed final reads. A deletion that is not certain may have "
        "removed it: its outcome is unknown, it goes beyond the log's end, or later reads contradict it. "
        "Retention may have removed it: all records below are older than retention.ms, or the log is "
        "limited in size. A tombstone is missing and run.json does not set cleanup.policy. On a compacted "
        "topic another record of the same key may be the later one. None of these explains an offset that "
        "holds another value, or an end that went back."
    ),
    in_jepsen="No ok operation read the value, its writer must have committed, and a later value was read.",
    example="p:a@0 p:b@1 c:<a@0,b@1 nemesis:kill p:x@1 end=2 final:<a@0,x@1",
    needs=("acknowledged",),
    jepsen=jepsen.lost_writes,
    needs_final=True,
    assumes=("values", "order", "partitions"),
).judged_by
def lost_write(p: Partition) -> Iterator[Result]:
    """Acknowledged, proven gone, and not for a legal reason."""
    yield from _unknowns(p, "lost-write")
    placed = outcomes_of_sends(p).filter(pl.col("offset").is_not_null())
    lost = placed.filter(pl.col("lost"))
    if not len(lost):
        return
    kept = placed.filter(~pl.col("lost")).select("offset", pl.col("invoked").alias("since"))
    number = 0
    for event in events(lost, "value"):
        between = beside(kept, event.select("offset", pl.col("completed").alias("until")))
        for together in adjacent_runs(event, between):
            number += 1
            # Severity and --allow go by acks, so a finding has one.
            for run in adjacent_runs(together, between, "acks"):
                yield _lost(p, run, number)


def vanished(p: Partition, offsets: Offsets) -> Offsets:
    """Those of the offsets whose records are gone since the log was written anew: who reads on skips nothing there."""
    gone = _gone(p)
    anew = gone.filter(pl.col("replaced") | pl.col("shrunk"))["offset"].min()
    later = offsets[offsets >= anew] if isinstance(anew, int) else offsets[:0]
    if not len(later):
        return later
    held = p.entries_between(int(later[0]), int(later[-1])).filter(pl.col("in_final") | pl.col("sent_ok"))
    stands = held.join(gone, on=["offset", "value"], how="anti")
    return np.setdiff1d(later, stands["offset"].to_numpy())


@once
def _gone(p: Partition) -> pl.DataFrame:
    """The outcomes_of_sends of what is lost: mostly few."""
    return outcomes_of_sends(p).filter(pl.col("lost"))


def _lost(p: Partition, run: pl.DataFrame, event: int) -> Finding:
    first, last = run.row(0, named=True), run.row(-1, named=True)
    read = run.filter(pl.col("first_read").is_not_null())
    acks = first["acks"]
    place = where(p, first["offset"], last["offset"])
    if len(run) == 1:
        start = f"{first['value']} was acknowledged at {place} by {first['process']} at {seconds(first['completed'])}"
    else:
        start = f"{len(run):,} writes acknowledged at {place} ({some(run['value'].to_list())})"
    start += " with acks=1, which permits its loss" if acks == "1" and len(run) == 1 else ""
    start += " with acks=1, which permits their loss," if acks == "1" and len(run) > 1 else ""
    if not len(read):
        seen = f"no recorded consumer read {'it' if len(run) == 1 else 'them'}"
    elif len(run) == 1:
        seen = f"{first['first_reader']} read it at {seconds(first['first_read'])} before it vanished"
    else:
        readers = some(distinct(read["first_reader"]))
        seen = f"{len(read):,} of them had been read by {readers} before they vanished"
    if len(run) > 1:
        start += " are gone"
    return Finding(
        rule="lost-write",
        acks=acks,
        event=event,
        sentence=f"{start}; {seen}; {_why_gone(p, run)}",
        **_of_run(p, run),
        evidence=proof(
            (f"{first['process']} sends {first['value']}", first["invoked_at"]),
            (f"{first['value']} acknowledged at offset {first['offset']}", first["at"]),
            (f"{first['value']} read by {first['first_reader']}", first["first_read_at"]),
            (f"offset {first['offset']} holds {first['other']} instead", first["other_at"]),
            (f"an end offset of {first['later_end']} is answered later", first["later_end_at"]),
            *(((f"{last['value']} acknowledged at offset {last['offset']}", last["at"]),) if len(run) > 1 else ()),
        ),
    )


def _of_run(p: Partition, run: pl.DataFrame) -> dict[str, Any]:
    """What a finding says of the sends of a run: where they stand, how many, which, and whose."""
    return {
        "topic": p.topic,
        "partition": p.partition,
        "first_offset": run["offset"][0],
        "last_offset": run["offset"][-1],
        "count": len(run),
        "values": run["value"].to_list(),
        "processes": distinct(run["process"]),
    }


def _why_gone(p: Partition, run: pl.DataFrame) -> str:
    replaced = int(run["replaced"].sum())
    if replaced:
        holds = "its offset now holds" if len(run) == 1 else f"{replaced:,} of their offsets now hold"
        return f"{holds} {run['other'].drop_nulls()[0]}" + ("" if replaced == 1 else " and others")
    if run["shrunk"].any():
        return f"the log's end was later answered as {run['later_end'].drop_nulls()[0]}"
    if run["absent"].any() and p.final:
        reached = f"the final reads, which came to offset {p.final.end}, do not hold "
        return reached + ("it" if len(run) == 1 else "them")
    return "a later record was read"


@Rule(
    "unseen",
    summary="An acknowledged value was never read",
    breach=(
        "The final reads reach the log's end, yet no read returned an acknowledged value, no legal reason "
        "explains it, and nothing proves that it is gone. Its record was at the end of the log, or its "
        "offset is not known."
    ),
    not_a_breach=(
        "Retention, delete-records or compaction removed the record. A value that is proven gone is a lost-write."
    ),
    unknown_when=(
        "The run has no final reads, or they end before the log does. An open transaction may hide the "
        "value from read_committed final reads, or one of the other reasons of lost-write applies."
    ),
    in_jepsen="An ok operation sent the value, and no ok poll returned it.",
    example="p:a@0 p:b@? end=1 final:<a@0",
    needs=("acknowledged",),
    jepsen=jepsen.unseen,
    needs_final=True,
    assumes=("values", "order", "partitions"),
    follows="offset",
    of_records=True,
).judged_by
def unseen(p: Partition) -> Iterator[Result]:
    """Acknowledged, never read by anyone though final reads came to the end, not legally absent, not proven gone."""
    if p.final is None:
        return
    yield from _unknowns(p, "unseen")
    if not p.final.complete:
        return
    missing = outcomes_of_sends(p).filter(
        ~pl.col("lost") & ~pl.col("legal") & ~pl.col("doubtful") & pl.col("first_read").is_null()
    )
    if not len(missing):
        return
    placed = missing.filter(pl.col("offset").is_not_null()).sort("offset", "value")
    others = np.setdiff1d(lasting(p), placed["offset"].to_numpy())
    unplaced = missing.filter(pl.col("offset").is_null())
    for run in [*adjacent_runs(placed, others), *([unplaced] if len(unplaced) else [])]:
        first, last = run.row(0, named=True), run.row(-1, named=True)
        place = where(p, first["offset"], last["offset"])
        yield Finding(
            rule="unseen",
            sentence=f"{first['value']} was acknowledged at {place} by {first['process']} at"
            f" {seconds(first['completed'])}, but never appeared in any read; nothing proves that it is gone"
            if len(run) == 1
            else f"{len(run):,} acknowledged writes at {place} ({some(run['value'].to_list())}) of"
            f" {some(distinct(run['process']))} never appeared in any read; nothing proves that they are gone",
            **_of_run(p, run),
            evidence=proof(
                (f"{first['process']} sends {first['value']}", first["invoked_at"]),
                (f"{first['value']} acknowledged", first["at"]),
            ),
        )


def _unknowns(p: Partition, rule: str) -> Iterator[Unknown | MissingSetting]:
    """Records that may be lost or not, and why."""
    doubtful = outcomes_of_sends(p).filter("doubtful")
    if p.final and doubtful["hidden_by_open_txn"].any():
        yield from missing_isolation_levels(p, p.final.processes)
    if rule == "lost-write":
        yield from _unknown_ends(p)
    if len(doubtful):
        one = len(doubtful) == 1
        yield Unknown(
            f"{plural(len(doubtful), 'acknowledged record')} of {p.name} ({some(doubtful['value'].to_list())})"
            f" {'was' if one else 'were'} not read in the end, and whether {'it is' if one else 'they are'} lost is not"
            f" known: {_why_doubtful(p, doubtful)}",
        )


def _unknown_ends(p: Partition) -> list[MissingSetting]:
    """The isolation levels of clients whose end offsets prove losses, unless they are last stable offsets."""
    ends = p.unsure_ends
    if not len(ends):
        return []
    shrunk = with_later_end(ends, outcomes_of_sends(p).filter(~pl.col("lost") & ~pl.col("in_final")))
    return missing_isolation_levels(p, ends["process"].unique()) if shrunk["later_end"].count() else []


def _why_doubtful(p: Partition, doubtful: pl.DataFrame) -> str:
    if doubtful["hidden"].any():
        return "a poll that may have read " + ("it" if len(doubtful) == 1 else "them") + " has no known outcome"
    if doubtful["maybe_deleted"].any():
        return "retention or delete-records may have taken " + ("it" if len(doubtful) == 1 else "them")
    if doubtful["maybe_compacted"].any() and "cleanup.policy" not in p.settings.topic(p.topic):
        return f"compaction removes tombstones, and run.json does not tell cleanup.policy of {p.topic}"
    if doubtful["maybe_compacted"].any():
        own = "it, if another record of its key is" if len(doubtful) == 1 else "them, if others of their keys are"
        return f"compaction may have removed {own} in the log and later, which nobody knows"
    if doubtful["hidden_by_open_txn"].any():
        return _hidden_by_whom(p, doubtful)
    return "acknowledged no earlier than the last of the final reads"


def _hidden_by_whom(p: Partition, doubtful: pl.DataFrame) -> str:
    since = p.final.hides if p.final else MAX_INT64
    says = describe_open_transaction(p, since) + " may hide " + ("it" if len(doubtful) == 1 else "them")
    held = count_in_logs(p, doubtful)
    if not held:
        return says + " from the final reads"
    return (
        f"{says} from the final reads; the leader's log holds {'all' if held == len(doubtful) else f'{held:,}'} of them"
    )


@once
def outcomes_of_sends(p: Partition) -> pl.DataFrame:
    """What became of each acknowledged value: one row each.

    Columns beside those of the send: first_read, first_reader, first_read_at, in_final, other, other_at,
    replaced, later_end, later_end_at, shrunk, absent, passed, legal, lost; and doubtful, where nobody knows whether it
    is gone, as it is removable (by retention or a deletion), hidden (by a poll of unknown outcome), veiled (by
    an open transaction) or fading (a tombstone, where nobody told whether the topic is compacted).
    """
    fate = generations(sends_with_reads(p), "at")
    fate = with_later_end(p.log_ends, with_other_value(p, fate))
    final = p.final
    covered = _covered(final) if final else pl.lit(False)
    start = p.log_start
    moved = pl.lit(True) if start.moved is None else pl.col("invoked") <= start.moved
    unplaced = pl.col("offset").is_null() & (start.possible > 0) & moved
    fate = fate.with_columns(
        (~pl.col("in_final") & covered).alias("absent"),
        pl.col("other").is_not_null().alias("replaced"),
        pl.col("later_end").is_not_null().alias("shrunk"),
        passed_over(p, fate).alias("passed"),
        _legally_gone(p, fate).alias("legal"),
        (pl.col("offset") < start.possible).fill_null(unplaced).alias("maybe_deleted"),
        _hidden(p, fate).alias("hidden"),
        _hidden_by_open_txn(final).alias("hidden_by_open_txn"),
        pl.col("value").is_in(maybe_compacted(p)["value"].implode()).alias("maybe_compacted"),
    )
    # No deletion and no compaction gives an offset to another record, or moves the log's end back.
    cut = pl.col("replaced") | pl.col("shrunk")
    missed = (pl.col("absent") | (pl.col("passed") & pl.lit(final is None))) & ~pl.col("legal")
    perhaps = pl.col("maybe_deleted") | pl.col("hidden") | pl.col("maybe_compacted")
    lost = (cut | (missed & ~perhaps)) & ~pl.col("in_final")
    unread = pl.col("first_read").is_null() & ~pl.col("legal")
    late = _late(final) if final else pl.lit(False)
    hidden_by_open_txn = pl.col("hidden_by_open_txn") & ~pl.col("in_final") & ~pl.col("legal")
    doubtful = (missed | unread) & perhaps | (unread & late) | hidden_by_open_txn
    return fate.with_columns(lost.alias("lost")).with_columns((doubtful & ~pl.col("lost")).alias("doubtful"))


def _late(final: FinalReads) -> pl.Expr:
    """Whether the final reads may have come too early: they ended, or went no further than an end asked before."""
    early = pl.lit(False) if final.asked is None else pl.col("completed") >= final.asked
    beyond = (pl.col("offset") >= final.end).fill_null(True)
    return (pl.col("completed") >= final.until) | beyond & early


def _hidden(p: Partition, fate: pl.DataFrame) -> pl.Series:
    """Whether a poll may have read it, of which nobody knows how it ended; in a final run, one of the final reader."""
    polled = indeterminate_polls(p, p.final.processes if p.final else p.reads["process"].unique())
    unplaced = fate["offset"].is_null().to_numpy() & bool(len(polled.first))
    return pl.Series(polled.hold(fate["offset"].fill_null(-1).to_numpy()) | unplaced)


def _covered(final: FinalReads) -> pl.Expr:
    """Whether the final reads had to hold it: they pass its offset, or came to the end after somebody had read it."""
    before = pl.max_horizontal("completed", "last_read") < final.until
    tail = pl.col("first_read").is_not_null() & before & final.complete & (pl.col("offset") < final.hides)
    return ((pl.col("offset") >= final.start) & ((pl.col("offset") < final.end) | tail)).fill_null(False)


def _hidden_by_open_txn(final: FinalReads | None) -> pl.Expr:
    """Whether an open transaction may hide it from the final reads; one that nobody knows the offset of, if unread."""
    if final is None or final.hides == MAX_INT64:
        return pl.lit(False)
    return (pl.col("offset") >= final.hides).fill_null(pl.col("first_read").is_null())


def _legally_gone(p: Partition, fate: pl.DataFrame) -> pl.Series:
    cleaned = ranges_in(p.legally_absent.filter(pl.col("reason") == COMPACTED))
    offset = fate["offset"].fill_null(MAX_INT64)
    taken = fate["value"].is_in(superseded(p)["value"].implode())
    return (offset < p.log_start.certain) | pl.Series(cleaned.hold(offset.to_numpy())) | taken
