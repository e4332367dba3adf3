"""aborted-read, phantom-read and precommitted-read: consumers see what was written, and not before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ...histories.references import JEPSEN, kip
from ...histories.tables import Finding
from ..partitions.absences import lasting_offsets
from ..partitions.adjacent_runs import NO_OFFSETS, adjacent_runs
from ..partitions.foreign_clock import foreign_clock
from ..partitions.partition import Offsets, Partition, once
from ..wording import numbered, plural, short, some, some_values
from .rule import (
    MissingSetting,
    Result,
    Row,
    Rule,
    Unknown,
    distinct,
    finding,
    missing_isolation_levels,
    seconds,
    unless_left_out,
    where,
)
from .send_evidence import missing_sends


@Rule(
    "aborted-read",
    group="transactions",
    summary="A consumer read a value that was never committed (G1a)",
    example="{c.isolation.level=read_committed} p:(a@0)! c:<a@0",
    source=kip(98),
    needs=("reads",),
    assumes=("values", "outcomes"),
    explained_as="ending",
).judged_by
def aborted_read(p: Partition) -> Iterator[Result]:
    """G1a: polled, though the send certainly failed or its transaction aborted.

    Breach: A consumer polled a value of a send that certainly failed, or of a transaction that aborted.
    Not a breach: A send that timed out has not certainly failed. Permitted: read_uncommitted consumers may see records
    of aborted transactions. All of these in a partition are one finding.
    Unknown when: The record's transaction aborted and run.json does not set isolation.level of the consumer.
    In Jepsen histories: An ok operation read a value that a failed operation sent.
    """
    read = _reads_of(p, pl.col("all_failed"))
    if not len(read):
        return
    # read_uncommitted may show aborted transactions, but nothing may show a send that never happened.
    excused = pl.col("process").is_in(p.uncommitted_readers) & pl.col("maybe_in_txn")
    read, unknowns = _split_by_isolation(p, read, pl.col("maybe_in_txn"))
    yield from unknowns
    for run in _runs(read.filter(~excused), lasting_offsets(p)):
        yield _aborted_finding(p, run, "violation", _outcome(run, run["in_txn"][0]))
    # One setting permits all of these, so they are one finding, whatever is between them.
    for run in _runs(read.filter(excused), NO_OFFSETS):
        outcome = f"{_outcome(run, True)}; isolation.level=read_uncommitted permits it"
        yield _aborted_finding(p, run, "permitted", outcome)


@aborted_read.judged_in_jepsen_by
def aborted_read_in_jepsen(p: Partition) -> Iterator[Result]:
    """G1a: values that a failed operation sent and an ok operation read, with all their readers."""
    failed = p.sends.filter(outcome="fail").unique("value", keep="first")
    written = failed.select("value", writer="process", written_at="at")
    read = p.reads.filter(outcome="ok").join(written, on="value").sort("at")
    for rows in read.partition_by("value", maintain_order=True):
        row, readers = rows.row(0, named=True), distinct(rows["process"])
        each = rows.unique("at", keep="first", maintain_order=True).head(8).select("process", "at").rows()
        writer, value = f"process {row['writer']}", short(row["value"])
        evidence = [(f"{writer} fails to write {value}", row["written_at"])]
        evidence += [(f"process {name} reads {value}", at) for name, at in each]
        yield _in_jepsen(p, row, readers, f", but {writer} failed to write it", evidence)


def _in_jepsen(p: Partition, row: Row, readers: list[str], reason: str, evidence: list[tuple[str, int]]) -> Finding:
    """The finding of a value that processes of a Jepsen history read; `reason` ends its sentence."""
    read = f"{numbered(readers)} read {short(row['value'])} at offset {row['offset']} of key {p.topic}"
    at = (row["offset"], row["offset"])
    return finding(p, read + reason, at, evidence, values=[row["value"]], processes=readers)


def _outcome(run: pl.DataFrame, in_txn: bool) -> str:
    """What became of the sends of the values that were read, as a clause behind `the`."""
    number = run.select("sender", "sent_at").n_unique()
    name, verb = ("transaction", "aborted") if in_txn else ("send", "failed")
    return f"{name} {verb}" if number == 1 else f"{number} {name}s {verb}"


def _aborted_finding(p: Partition, run: pl.DataFrame, severity: str, outcome: str) -> Finding:
    first = run.row(0, named=True)
    sentence = f"{_readers_text(p, run)}, but the {outcome}"
    failed = (f"{first['sender']} fails to write {short(first['value'])}", first["sent_at"])
    return _finding(p, run, severity, sentence, failed)


@Rule(
    "phantom-read",
    group="consumers",
    summary="A consumer read a value that was never sent",
    example="p:a@0 c:<a@0,b@1",
    source=JEPSEN,
    needs=("reads", "sends"),
    assumes=("values", "clock", "order"),
    explained_as="misread",
).judged_by
def phantom_read(p: Partition) -> Iterator[Result]:
    """Polled without a recorded send, or before the send.

    Breach: A consumer polled a value that no recorded send to the partition explains, or polled it before its send was
    invoked.
    Not a breach: The invocation of the send is not recorded, so a read may come first. No send to the topic is
    recorded.
    Unknown when: Sends may be missing from the history: some lines could not be read, run.json names a producer without
    any recorded event, or a transaction without an outcome has no recorded steps. run.json states that the recorder
    did not finish, or the history has no event of the final reader of run.json, and the read came after the last
    recorded event of a producer. A process recorded its times in another unit or by another clock: then records are
    read at their offsets before they are sent.
    In Jepsen histories: An operation of any outcome polled a value that none sent, though others sent to the key.
    Unknown if a line was left out. Jepsen's checker ends with an exception.
    """
    has_generations = p.generation is not None and p.generation.count > 1  # then sends may be those of another one
    if not len(p.possible_sends) and (has_generations or p.topic not in p.context.filter(kind="sends to")["process"]):
        return
    unsent = _reads_of(p, pl.col("sender").is_null())
    missing, is_doubtful = missing_sends(p) if len(unsent) else ("", pl.lit(False))
    doubtful = unsent.filter(is_doubtful)
    if len(doubtful):
        values = some_values(distinct(doubtful["value"]))
        yield Unknown(f"no send is recorded of {values}, which {p.name} returned to consumers; but {missing}")
        unsent = unsent.filter(~is_doubtful)
    for run in _runs(unsent):
        them = "it" if len(run) == 1 else "them"
        yield _finding(p, run, "violation", f"{_readers_text(p, run)}, but no recorded send to {p.name} wrote {them}")
    early = _reads_of(p, (pl.col("first_read") < pl.col("sent")) & ~pl.col("in_txn"))
    early = early.filter(pl.col("completed") < pl.col("sent"))
    if len(early) and (clock := foreign_clock(p)):
        yield Unknown(clock)
        return
    for run in _runs(early):
        first = run.row(0, named=True)
        yield _finding(
            p,
            run,
            "violation",
            f"{_readers_text(p, run)} at {seconds(first['completed'])}, before {first['sender']} sent it at"
            f" {seconds(first['sent'])}, if their clocks agree",
            (f"{first['sender']} sends {short(first['value'])}", first["sent_at"]),
        )


@phantom_read.judged_in_jepsen_by
@unless_left_out
def phantom_read_in_jepsen(p: Partition) -> Iterator[Result]:
    """Values that an operation of any outcome polled, and that no operation sent, whether it completed or not."""
    sent = pl.concat([p.sends["value"], p.marks.filter(kind="open send")["value"]])
    unsent = p.reads.filter(~pl.col("value").is_in(sent.implode())) if len(sent) else p.reads.clear()
    if len(unsent) and len(p.context.filter(kind="txn without steps")):
        yield Unknown("an operation has no recorded steps, so its sends are not known")
        return
    for rows in unsent.partition_by("value", maintain_order=True):
        row = rows.row(0, named=True)
        evidence = [(f"process {row['process']} reads {short(row['value'])}", row["at"])]
        yield _in_jepsen(p, row, distinct(rows["process"]), ", but no operation sent it", evidence)


@Rule(
    "precommitted-read",
    group="transactions",
    summary="A value was read before its transaction could commit",
    example="{p.isolation.level=read_committed} p:(a@0,<a@0)",
    source=JEPSEN,
    needs=("transactions",),
    assumes=("values", "clock", "order"),
).judged_by
def precommitted_read(p: Partition) -> Iterator[Result]:
    """Polled before the transaction of the value began, or by the transaction that wrote it.

    Breach: A read_committed consumer polled a value before the transaction that writes it was invoked, or a transaction
    polled a value that it writes itself.
    Not a breach: A read between the invocation of a commit and its ok proves nothing, because the ok arrives after the
    marker. A read_uncommitted consumer may see the records of open transactions.
    Unknown when: A transaction polled its own value and run.json does not set isolation.level of the consumer. A
    process recorded its times in another unit or by another clock.
    In Jepsen histories: An operation of any outcome polled a value that it sends itself.
    """
    read = _reads_of(p, pl.col("in_txn")).filter(~pl.col("process").is_in(p.uncommitted_readers))
    if not len(read):
        return
    own = (pl.col("process") == pl.col("sender")) & (pl.col("at") == pl.col("sent_at"))
    early = (pl.col("completed") < pl.col("sent")).fill_null(False)
    if read.select((early & ~own).any()).item() and (clock := foreign_clock(p)):
        yield Unknown(clock)
        read = read.filter(~early | own)
    suspect, unknowns = _split_by_isolation(p, read.filter(early | own), ~early)
    yield from unknowns
    for run in _runs(suspect):
        first = run.row(0, named=True)
        how = (
            "inside the transaction that writes it"
            if first["at"] == first["sent_at"]
            else f"at {seconds(first['completed'])}, before its transaction began at {seconds(first['sent'])}"
        )
        written = (f"{first['sender']} writes {short(first['value'])}", first["sent_at"])
        yield _finding(p, run, "violation", f"{_readers_text(p, run)} {how}", written)


@precommitted_read.judged_in_jepsen_by
def precommitted_read_in_jepsen(p: Partition) -> Iterator[Result]:
    """Operations of any outcome that polled a value that they send themselves."""
    own = p.reads.join(p.sends, on=["at", "value"], how="semi", maintain_order="left")
    for row in own.unique("at", keep="first", maintain_order=True).iter_rows(named=True):
        evidence = [("the transaction", row["at"])]
        yield _in_jepsen(p, row, [row["process"]], " in the transaction that writes it", evidence)


def _split_by_isolation(
    p: Partition, read: pl.DataFrame, permitted: pl.Expr
) -> tuple[pl.DataFrame, list[MissingSetting]]:
    """The reads that can be judged, and the isolation levels that are missing to judge the others.

    `permitted` is what read_uncommitted permits.
    """
    without_level = [name for name in read["process"].unique() if p.settings.isolation(name) is None]
    undecided = pl.col("process").is_in(without_level) & permitted.fill_null(False)
    missing = missing_isolation_levels(p, read.filter(undecided)["process"].unique())
    return read.filter(~undecided), missing


def _reads_of(p: Partition, suspect: pl.Expr) -> pl.DataFrame:
    """Polled records of entries with a suspect origin, each with that origin."""
    origins = _origins(p)
    flagged = origins.select(suspect.fill_null(False)).to_series().to_numpy()
    if not flagged.any():
        return p.reads.clear().hstack(origins.clear())
    entry = p.entry_of_read
    rows = np.flatnonzero((entry >= 0) & flagged[entry])
    return p.reads[rows].hstack(origins[entry[rows]])


@once
def _origins(p: Partition) -> pl.DataFrame:
    """The send of each entry's value, row by row of `entries`.

    Columns: first_read, sender, sent_at, sent (its invocation in ns; null: not recorded), all_failed, in_txn, and
    maybe_in_txn: whether one of several sends that may have written it was in a transaction.
    """
    send = p.entries["send"]
    invoked = pl.when(~pl.col("synthetic")).then("invoked")
    sent = p.sends.select(
        sender="process",
        sent_at="at",
        # Any send of the value may have written the record.
        sent=invoked.min().over("value") if p.repeated_values else invoked,
        all_failed=pl.col("outcome") == "fail",
        in_txn="txn",
        maybe_in_txn="txn",
    )
    here = sent.select(pl.all().gather(send)).with_columns(
        p.entries["aborted"].alias("all_failed"), p.entries["first_read"]
    )
    if not send.null_count():
        return here
    # No send is known to have written here. The value's send may have failed, or its offset is not known.
    unmatched = p.entries.with_row_index("entry").filter(send.is_null()).select("entry", "value", "first_read")
    every = p.possible_sends.join(unmatched, on="value", how="semi")
    by_value = every.group_by("value", maintain_order=True).agg(
        sender=pl.col("process").first(),
        sent_at=pl.col("at").first(),
        sent=invoked.min(),
        all_failed=(pl.col("outcome") == "fail").all(),
        in_txn=pl.col("txn").all(),
        maybe_in_txn=pl.col("txn").any(),
    )
    found = unmatched.join(by_value, on="value", how="left").select("entry", *here.columns)
    both = pl.concat([here.with_row_index("entry").filter(send.is_not_null()), found])
    return both.sort("entry").drop("entry")


def _runs(read: pl.DataFrame, between: Offsets | None = None) -> Iterator[pl.DataFrame]:
    """One row a value and offset; those with nothing `between` (else: with no other offset between) together."""
    if not len(read):
        return
    rows = (
        read.sort("completed", "at")
        .group_by("offset", "value", maintain_order=True)
        .agg(pl.col("process").unique(maintain_order=True).alias("readers"), pl.all().exclude("process").first())
    )
    ordered = rows.sort("offset", "value")
    offsets = ordered["offset"].to_numpy()
    # Any offset in between separates runs: its record was read rightly.
    holes = offsets[:-1][np.diff(offsets) > 1] + 1 if len(offsets) > 1 else NO_OFFSETS
    yield from adjacent_runs(ordered, holes if between is None else between)


def _finding(p: Partition, run: pl.DataFrame, severity: str, sentence: str, *more: tuple[str, int | None]) -> Finding:
    first = run.row(0, named=True)
    return finding(
        p,
        sentence,
        (first["offset"], run["offset"][-1]),
        [*more, (f"{first['readers'][0]} reads {short(first['value'])}", first["at"])],
        count=len(run),
        values=run["value"],
        processes=run["readers"].explode(),
        severity=severity,
    )


def _readers_text(p: Partition, run: pl.DataFrame) -> str:
    """Who read which values where, in words."""
    values, at = run["value"].to_list(), where(p, run["offset"][0], run["offset"][-1])
    what = short(values[0]) if len(values) == 1 else f"{plural(len(values), 'value')} ({some_values(values)})"
    return f"{some(distinct(run['readers'].explode()))} read {what} at {at}"
