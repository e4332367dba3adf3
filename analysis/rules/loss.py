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
from .wording import distinct, proof, seconds, where


def lost_writes(p: Partition) -> Iterator[Finding]:
    """Acknowledged, proven gone, and not for a legal reason."""
    _report_unknowns(p, "lost-write")
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


def unseen(p: Partition) -> Iterator[Finding]:
    """Acknowledged, never read by anyone though final reads came to the end, not legally absent, not proven gone."""
    if p.final is None:
        return
    _report_unknowns(p, "unseen")
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


def _report_unknowns(p: Partition, rule: str) -> None:
    """Says of which records nobody knows whether they are gone."""
    doubtful = outcomes_of_sends(p).filter("doubtful")
    if p.final and doubtful["hidden_by_open_txn"].any():
        p.depends_on_isolation_level(rule, p.final.processes)
    _rest_on_ends(p, rule)
    if len(doubtful):
        p.add_unknown(
            rule,
            f"{plural(len(doubtful), 'acknowledged record')} of {p.name} ({some(doubtful['value'].to_list())})"
            f" {'was' if len(doubtful) == 1 else 'were'} not read in the end, and whether"
            f" {'it is' if len(doubtful) == 1 else 'they are'} lost is not known: {_why_doubtful(p, doubtful)}",
        )


def _rest_on_ends(p: Partition, rule: str) -> None:
    """Names who was told an end that proves losses only if it was not the last stable offset."""
    told = p.unsure_ends
    if len(told) and rule == "lost-write":
        shrunk = _with_later_end(told, outcomes_of_sends(p).filter(~pl.col("lost") & ~pl.col("in_final")))
        if shrunk["later_end"].count():
            p.depends_on_isolation_level(rule, told["process"].unique())


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
    fate = generations(_read_by(p), "at")
    fate = _with_later_end(p.log_ends, _with_other(p, fate))
    final = p.final
    covered = _covered(final) if final else pl.lit(False)
    start = p.log_start
    moved = pl.lit(True) if start.moved is None else pl.col("invoked") <= start.moved
    unplaced = pl.col("offset").is_null() & (start.possible > 0) & moved
    fate = fate.with_columns(
        (~pl.col("in_final") & covered).alias("absent"),
        pl.col("other").is_not_null().alias("replaced"),
        pl.col("later_end").is_not_null().alias("shrunk"),
        _passed_over(p, fate).alias("passed"),
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


def _read_by(p: Partition) -> pl.DataFrame:
    """Acknowledged sends beside what is known of reads of their values; `offset` is where the value stands."""
    rows = p.sends["acknowledged"].to_numpy() & p.sends["value"].is_not_null().to_numpy()
    if p.repeated_values:
        rows &= p.sends["value"].is_first_distinct().to_numpy()
    entry = pl.Series(p.entry_of_send[rows])
    known = entry.set(entry < 0, None)
    seen = p.entries.select(pl.col(_SEEN).gather(known)) if len(p.entries) else _nothing_seen(len(entry))
    fate = p.sends.filter(pl.Series(rows)).hstack(seen).with_columns(pl.col("in_final").fill_null(False))
    if not len(p.elsewhere):
        return fate
    # The same value polled at another offset, or at the only one known.
    by_value = p.elsewhere.sort("first_read", "first_read_at").group_by("value", maintain_order=True)
    other = by_value.agg(
        pl.col("offset").first(),
        pl.col("first_read", "first_reader", "first_read_at").first(),
        pl.col("last_read").max(),
        pl.col("in_final").any(),
    )
    joined = fate.join(other, on="value", how="left", maintain_order="left", suffix="_other")
    earlier = pl.col("first_read_other") < pl.col("first_read").fill_null(MAX_INT64)
    return joined.with_columns(
        pl.coalesce("offset", "offset_other").alias("offset"),
        *(
            pl.when(earlier).then(f"{name}_other").otherwise(name).alias(name)
            for name in ("first_reader", "first_read_at", "first_read")
        ),
        pl.max_horizontal("last_read", "last_read_other").alias("last_read"),
        (pl.col("in_final") | pl.col("in_final_other").fill_null(False)).alias("in_final"),
    ).select(fate.columns)


_SEEN = ["first_read", "first_reader", "first_read_at", "last_read", "in_final"]


def _nothing_seen(count: int) -> pl.DataFrame:
    kinds = (pl.Int64, pl.String, pl.Int64, pl.Int64, pl.Boolean)
    return pl.DataFrame({name: pl.Series([None] * count, dtype=kind) for name, kind in zip(_SEEN, kinds, strict=True)})


def _with_other(p: Partition, fate: pl.DataFrame) -> pl.DataFrame:
    """Another value that the offset held later: known later than this one was."""
    crowded = p.entries.filter(pl.col("offset").is_duplicated()).select("offset", "value")
    nothing = fate.with_columns(
        pl.lit(None, dtype=pl.String).alias("other"), pl.lit(None, dtype=pl.Int64).alias("other_at")
    )
    if not len(crowded):
        return nothing
    reads = p.entries.filter(pl.col("times") > 0).select("offset", "value", "first_read", "first_read_at")
    acks = p.sends.filter(pl.col("outcome") == "ok").select(
        "offset", "value", pl.col("completed").alias("acked"), pl.col("at").alias("acked_at")
    )
    known = (
        crowded.join(reads, on=["offset", "value"], how="left")
        .join(acks.unique(["offset", "value"]), on=["offset", "value"], how="left")
        .select(
            "offset",
            pl.col("value").alias("other"),
            pl.min_horizontal("first_read", "acked").alias("other_since"),
            pl.when(pl.col("acked").is_null() | (pl.col("first_read") < pl.col("acked")))
            .then("first_read_at")
            .otherwise("acked_at")
            .alias("other_at"),
        )
        .drop_nulls("other_since")
    )
    pairs = fate.select("offset", "value", pl.min_horizontal("completed", "first_read").alias("since")).join(
        known, on="offset"
    )
    later = pairs.filter((pl.col("other") != pl.col("value")) & (pl.col("other_since") > pl.col("since")))
    latest = later.sort("other_since", "other_at").group_by("value", maintain_order=True).last()
    return fate.join(latest.select("value", "other", "other_at"), on="value", how="left", maintain_order="left")


def _with_later_end(ends: pl.DataFrame, fate: pl.DataFrame) -> pl.DataFrame:
    """The least end offset asked after the acknowledgement, and after every read, that is at or below the offset."""
    known = pl.max_horizontal("completed", "last_read")
    if not len(ends):
        return fate.with_columns(
            pl.lit(None, dtype=pl.Int64).alias("later_end"),
            pl.lit(None, dtype=pl.Int64).alias("later_end_at"),
        )
    # From the last answer backwards, the least end that any later answer gave.
    asked, told, places = (ends[name].to_numpy() for name in ("invoked", "offset", "at"))
    least = np.minimum.accumulate(told[::-1])[::-1]
    when = fate.select(known).to_series().fill_null(MAX_INT64).to_numpy()
    index = np.searchsorted(asked, when, "right")
    offset = fate["offset"].fill_null(-1).to_numpy()
    bounded = np.append(least, MAX_INT64)[index]
    shrunk = (bounded <= offset) & (offset >= 0)
    latest = np.zeros(len(fate), np.int64)  # place of the last answer that gave this end
    by_end = np.argsort(told, kind="stable")
    latest[shrunk] = places[by_end[np.searchsorted(told[by_end], bounded[shrunk], "right") - 1]]
    return fate.with_columns(
        pl.when(pl.Series(shrunk)).then(pl.Series(bounded)).alias("later_end"),
        pl.when(pl.Series(shrunk)).then(pl.Series(latest)).alias("later_end_at"),
    )


def _passed_over(p: Partition, fate: pl.DataFrame) -> pl.Series:
    """Never read by anyone, though one consumer read records before and behind it (Jepsen's lost-write)."""
    spans = p.reads.group_by("process").agg(pl.col("offset").min().alias("low"), pl.col("offset").max().alias("high"))
    if not len(spans):
        return pl.Series(np.zeros(len(fate), bool))
    offset = fate["offset"].fill_null(-1).to_numpy()
    within = np.zeros(len(fate), bool)
    for low, high in spans.select("low", "high").drop_nulls().iter_rows():  # polls may tell no offsets
        within |= (offset > low) & (offset < high)
    return pl.Series(within & fate["first_read"].is_null().to_numpy())
