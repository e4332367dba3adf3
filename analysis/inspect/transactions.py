"""The facts of a transaction in one partition, from the leader's log and `__transaction_state`, for `timeline` and
`explain`."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..partitions.coordinators import coordinated_transactions, one_by_one, transactions_in_log
from ..partitions.partition import Partition, once
from ..timelines.facts import Fact
from ..wording import plural, some

Row = dict[str, Any]
MAX_PARTITIONS = 8  # named
MAX_READERS = 8
TRANSACTION = "transaction"  # kind of the facts


def facts_of_transactions(p: Partition) -> list[Fact]:
    """The facts of all transactions that are open or have no end in the log. Of the others a count for each
    transactional id."""
    facts: list[Fact] = []
    known = coordinated_transactions(p)
    for (name,), rows in known.group_by("transactional_id", maintain_order=True):
        ended = rows.drop_nulls("outcome")
        if len(ended):
            counts = ended["outcome"].value_counts().sort("outcome", descending=True).rows()
            many = " and ".join(f"{count:,} {outcome}" for outcome, count in counts)
            last = ended.row(-1, named=True)
            sentence = f"transactional.id {name} ended the last of {plural(len(ended), 'transaction')} in {p.name}"
            facts.append(_of_coordinator(p, last, f"{sentence}: {many}", "prepared"))
    for row in transactions_in_log(p).filter(pl.col("outcome").is_null()).iter_rows(named=True):
        facts += _facts_of(p, row)
    return facts


def facts_of_offset(p: Partition, offset: int) -> list[Fact]:
    """The facts of the transaction with its record or marker at an offset; empty if there is none."""
    first, last = pl.coalesce("first_offset", "marker"), pl.coalesce("marker", "last_offset")
    here = pl.lit(offset).is_between(first, last) & pl.col("producer_id").is_in(_producers_at(p, offset))
    found = transactions_in_log(p).filter(here)
    return [fact for row in found.head(1).iter_rows(named=True) for fact in _facts_of(p, row)]


def _producers_at(p: Partition, offset: int) -> list[int]:
    logs = p.replica_logs
    if logs is None:
        return []
    here = logs.is_of_leader & pl.col("transactional") & (pl.col("offset") == offset)
    return logs.records.filter(here)["producer_id"].drop_nulls().to_list()


def _facts_of(p: Partition, row: Row) -> list[Fact]:
    """The facts of a transaction (a row of IN_LOG): begin, writes, decision, marker, end, readers."""
    known = _coordinated(p).get((row["producer_id"], row["number"]))
    facts: list[Fact] = []
    if known is not None:
        places = some(known["partitions"], MAX_PARTITIONS)
        ids = f"producer id {known['producer_id']}, timeout {known['timeout_ms'] / 1000:g} s"
        began = f"transactional.id {known['transactional_id']} ({ids}) began a transaction with {places}"
        facts.append(_of_coordinator(p, known, began, "began"))
        if known["added_ns"] != known["began_ns"]:
            facts.append(_of_coordinator(p, known, f"it added {p.name}", "added"))
    if row["first_offset"] is not None:
        last = row["last_offset"]
        span = f"@{row['first_offset']}" + ("" if last == row["first_offset"] else f" to @{last}")
        count = plural(row["records"], "record")
        wrote = f"producer {row['producer_id']} wrote {count} with epoch {row['epoch']} at {p.name}{span}"
        facts.append(_in_log(p, wrote, row["first_offset"], row["file"], row["byte"]))
    if known is not None and known["outcome"] is not None:
        decided = f"the coordinator decided to {known['outcome']} it"
        facts.append(_of_coordinator(p, known, decided, "prepared"))
    if row["marker"] is None:
        facts.append(_in_log(p, f"the log of {p.name} has no marker of it", None, row["file"], row["byte"]))
    else:
        marker = f"its {row['outcome'].upper()} marker is at {p.name}@{row['marker']}"
        facts.append(_in_log(p, marker, row["marker"], row["marker_file"], row["marker_byte"]))
    if known is not None and known["completed_ns"] is not None:
        facts.append(_of_coordinator(p, known, "the coordinator completed it", "completed"))
    return [*facts, *_readers(p, row)]


def _readers(p: Partition, row: Row) -> list[Fact]:
    """The first read of its records by each consumer."""
    if row["first_offset"] is None or p.replica_logs is None:
        return []
    within = pl.col("offset").is_between(row["first_offset"], row["last_offset"])
    own = p.replica_logs.records.filter(p.replica_logs.is_of_leader, within, producer_id=row["producer_id"])
    own = own.select("offset", "value")
    ok = p.reads.filter(outcome="ok")
    read = ok.join(own, on=["offset", "value"], how="semi", maintain_order="left").sort("completed", "at")
    first = read.unique("process", keep="first", maintain_order=True).head(MAX_READERS)
    facts = []
    for process, offset, time, place in first.select("process", "offset", "completed", "at").iter_rows():
        text = f"{process} read {p.name}@{offset}"
        facts.append(Fact(text, TRANSACTION, time, place=place, partition=p.name, offset=offset))
    return facts


@once
def _coordinated(p: Partition) -> dict[tuple[int, int], Row]:
    """The coordinator's transaction of each in the log, by producer id and number, where both end alike."""
    rows = one_by_one(transactions_in_log(p), coordinated_transactions(p)).rows(named=True)
    return {(row["producer_id"], row["number"]): row for row in rows}


def _of_coordinator(p: Partition, row: Row, sentence: str, when: str) -> Fact:
    return Fact(sentence, TRANSACTION, row[f"{when}_ns"], source=row["file"], byte=row["byte"], partition=p.name)


def _in_log(p: Partition, sentence: str, offset: int | None, file: str | None, byte: int | None) -> Fact:
    """A fact of the log, without a date: the log has at most the times of producers and leaders."""
    return Fact(sentence, TRANSACTION, source=file, byte=byte, partition=p.name, offset=offset)
