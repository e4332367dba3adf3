"""The events of a partition in order of time: elections, ISR, truncations, deaths, faults, snapshots.

The same facts as in the chains of causes (timelines/timeline.py), all of them, each once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from ...histories.evidence.clock import Fault
from ...histories.tables import MAX_INT64
from ..partitions.coordinators import (
    coordinated_transactions,
    group_evidence,
    matched_transactions,
    source_of,
    transactions_in_log,
)
from ..partitions.partition import Partition, once
from ..replicas.replica_logs import ReplicaLogs
from ..timelines.facts import Fact
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from ..wording import brokers, plural, some

Row = dict[str, Any]
MAX_PARTITIONS = 8  # named
MAX_READERS = 8
TRANSACTION = "transaction"  # kind of the facts
METADATA_LOG = "__cluster_metadata-0/"  # in the path of a source


class Event(NamedTuple):
    """A fact as a line of `timeline`."""

    kind: str
    fact: Fact
    how_elected: str = ""  # of an election


def facts_of_groups(p: Partition) -> Iterator[Fact]:
    """Assignments, removed offsets, commits that go back, and the last commit of each group."""
    for (group,), rows in group_evidence(p).group_by("group", maintain_order=True):
        for row in rows.filter(kind="assigned").rows(named=True):
            to = f"to {_member(p, row)}"
            yield _fact(p, row, f"generation {row['generation']} of group {group} assigned {p.name} {to}")
        for row in rows.filter(pl.col("kind").is_in(["owned", "released"])).rows(named=True):
            epoch = "" if row["generation"] is None else f" in member epoch {row['generation']}"  # of KIP-848
            did = "owned" if row["kind"] == "owned" else "no longer owned"
            yield _fact(p, row, f"{_member(p, row)} of group {row['group']} {did} {p.name}{epoch}")
        for row in rows.filter(kind="removed").rows(named=True):
            yield _fact(p, row, f"the committed offset of group {group} in {p.name} was removed")
        commits = rows.filter(kind="committed").with_columns(previous=pl.col("offset").shift())
        for row in commits.filter(pl.col("offset") < pl.col("previous")).rows(named=True):
            yield _fact(p, row, f"group {group} committed {p.name}@{row['offset']} after @{row['previous']}")
        for row in commits.tail(1).rows(named=True):
            count = plural(len(commits), "commit")
            yield _fact(p, row, f"group {group} committed {p.name}@{row['offset']}, the last of {count}")


def commits_past(p: Partition, offset: int) -> list[Fact]:
    """The first commit of each group that is beyond the offset."""
    beyond = group_evidence(p).filter(pl.col("offset") > offset, kind="committed")
    return [
        _fact(p, row, f"group {row['group']} passed it with the commit of {p.name}@{row['offset']}")
        for row in beyond.unique("group", keep="first", maintain_order=True).rows(named=True)
    ]


def _member(p: Partition, row: Row) -> str:
    """The process of the history with this member id, or else the client id; then the member id."""
    found = (frame.filter(member=row["member"])["process"].head(1) for frame in (p.marks, p.context))
    process = next((name for names in found for name in names), row["client"])
    return f"{process} ({row['member']}" + (f", instance {row['instance']})" if row["instance"] else ")")


def _fact(p: Partition, row: Row, sentence: str) -> Fact:
    source = (row["dated"], row["file"], None, row["byte"])
    return Fact(sentence, "group", *source, partition=p.name, offset=row["offset"])


def facts_of_transactions(p: Partition) -> Iterator[Fact]:
    """The facts of all transactions that are open or have no end in the log. Of the others a count for each
    transactional id."""
    known = coordinated_transactions(p).drop_nulls("outcome")
    for (name,), ended in known.group_by("transactional_id", maintain_order=True):
        counts = ended["outcome"].value_counts().sort("outcome", descending=True).rows()
        many = " and ".join(f"{count:,} {outcome}" for outcome, count in counts)
        sentence = f"transactional.id {name} ended the last of {plural(len(ended), 'transaction')} in {p.name}: {many}"
        yield _of_coordinator(p, ended.row(-1, named=True), sentence, "prepared")
    for row in transactions_in_log(p).filter(pl.col("outcome").is_null()).iter_rows(named=True):
        yield from _facts_of(p, row)


def transaction_at(p: Partition, offset: int) -> list[Fact]:
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


def _facts_of(p: Partition, row: Row) -> Iterator[Fact]:
    """The facts of a transaction (a row of IN_LOG): begin, writes, decision, marker, end, readers."""
    known = _coordinated_transactions(p).get((row["producer_id"], row["number"]))
    if known is not None:
        places = some(known["partitions"], MAX_PARTITIONS)
        ids = f"producer id {known['producer_id']}, timeout {known['timeout_ms'] / 1000:g} s"
        began = f"transactional.id {known['transactional_id']} ({ids}) began a transaction with {places}"
        yield _of_coordinator(p, known, began, "began")
        if known["added_ns"] != known["began_ns"]:
            yield _of_coordinator(p, known, f"it added {p.name}", "added")
    if row["first_offset"] is not None:
        last = row["last_offset"]
        span = f"@{row['first_offset']}" + ("" if last == row["first_offset"] else f" to @{last}")
        count = plural(row["records"], "record")
        wrote = f"producer {row['producer_id']} wrote {count} with epoch {row['epoch']} at {p.name}{span}"
        yield _in_log(p, wrote, row["first_offset"], row["file"], row["byte"])
    if known is not None and known["outcome"] is not None:
        yield _of_coordinator(p, known, f"the coordinator decided to {known['outcome']} it", "prepared")
    if row["marker"] is None:
        yield _in_log(p, f"the log of {p.name} has no marker of it", None, row["file"], row["byte"])
    else:
        marker = f"its {row['outcome'].upper()} marker is at {p.name}@{row['marker']}"
        yield _in_log(p, marker, row["marker"], row["marker_file"], row["marker_byte"])
    if known is not None and known["completed_ns"] is not None:
        yield _of_coordinator(p, known, "the coordinator completed it", "completed")
    yield from _readers(p, row)


def _readers(p: Partition, row: Row) -> Iterator[Fact]:
    """The first read of its records by each consumer."""
    if row["first_offset"] is None or p.replica_logs is None:
        return
    within = pl.col("offset").is_between(row["first_offset"], row["last_offset"])
    own = p.replica_logs.records.filter(p.replica_logs.is_of_leader, within, producer_id=row["producer_id"])
    key, ok = ["offset", "value"], p.reads.filter(outcome="ok")
    read = ok.join(own.select(key), on=key, how="semi", maintain_order="left").sort("completed", "at")
    first = read.unique("process", keep="first", maintain_order=True).head(MAX_READERS)
    for process, offset, time, place in first.select("process", "offset", "completed", "at").iter_rows():
        text = f"{process} read {p.name}@{offset}"
        yield Fact(text, TRANSACTION, time, place=place, partition=p.name, offset=offset)


@once
def _coordinated_transactions(p: Partition) -> dict[tuple[int, int], Row]:
    """The coordinator's transaction of each in the log, by producer id and number, where both end alike."""
    rows = matched_transactions(transactions_in_log(p), coordinated_transactions(p)).rows(named=True)
    return {(row["producer_id"], row["number"]): row for row in rows}


def _of_coordinator(p: Partition, row: Row, sentence: str, when: str) -> Fact:
    return Fact(sentence, TRANSACTION, row[f"{when}_ns"], **source_of(row, when), partition=p.name)


def _in_log(p: Partition, sentence: str, offset: int | None, file: str | None, byte: int | None) -> Fact:
    """A fact of the log, without a date: the log has at most the times of producers and leaders."""
    return Fact(sentence, TRANSACTION, source=file, byte=byte, partition=p.name, offset=offset)


def events_of_partition(p: Partition) -> list[Fact]:
    """The events of a partition as facts.

    Kinds, coarser than those of facts elsewhere: topic (deleted or created), election, leader, isr, truncation, noop,
    log, died, started, unfenced, controller, fault, reassignment, retention, compaction, group, transaction, snapshot.
    Undated events come last.
    """
    if p.timeline is None:
        return []
    events: dict[Fact, Fact] = {}
    of_groups = [Event("group", fact) for fact in facts_of_groups(p)]
    of_transactions = [Event("transaction", fact) for fact in facts_of_transactions(p)]
    of_snapshots = [] if p.replica_logs is None else _snapshots(p.replica_logs)
    for kind, fact, how_elected in [*_facts(p.timeline), *of_groups, *of_transactions, *of_snapshots]:
        merged = p.timeline.merged.get(fact, fact)
        sentence = f"{merged.sentence} [{how_elected}]" if how_elected else merged.sentence
        events.setdefault(merged, replace(merged, kind=kind, sentence=sentence))
    # Python's sort is stable: facts of one millisecond keep the order of their kinds above, where no file has another.
    return [events[fact] for fact in sorted(events, key=lambda fact: _order(events[fact].kind, fact))]


def _order(kind: str, fact: Fact) -> tuple[int, int, tuple[str, int]]:
    """Time; then faults, the controller's records as its log has them, and what brokers did with them."""
    time = MAX_INT64 if fact.time is None else fact.time
    if kind in ("topic", "fault"):
        return time, 0, ("", 0)
    places = [(one.source, one.byte) for one in (fact, *fact.also) if METADATA_LOG in (one.source or "")]
    files = ((source.rpartition("/")[2], byte) for source, byte in places if source and byte is not None)
    at = min(files, default=None)
    return (time, 2, ("", 0)) if at is None else (time, 1, at)


def _facts(timeline: Timeline) -> Iterator[Event]:
    yield from (Event("topic", fact) for fact in timeline.topic_changes)
    yield from (Event("topic", setting.fact) for setting in timeline.changed_settings)
    # Kills and restarts are left out here, as each broker's death or start is an event.
    for fault, fact in zip(timeline.faults, timeline.fault_facts, strict=True):
        if (fault.kind not in ("kill", "restart") or not fault.nodes) and _concerns(fault, timeline):
            yield Event("fault", fact)
    yield from (Event(event.kind, event.fact) for event in timeline.events)
    yield from (Event("controller", fact) for fact in timeline.controllers)
    for term in timeline.terms.values():
        yield from _of_term(term)
    yield from (Event("isr", fact) for fact in (*timeline.isr_reports, *timeline.overruled))
    for end in timeline.ends:
        if end.kind not in ("snapshot", "high-watermark"):
            yield Event("log" if end.kind == "loaded" else "noop" if end.is_noop else "truncation", end.fact)
    yield from (Event("truncation", fact) for fact in timeline.refused_fetches)
    yield from (Event("reassignment", move.fact) for move in timeline.moves)
    yield from (Event("retention", fact) for fact in timeline.log_starts)
    yield from (Event("fault", fact) for fact in timeline.disk_errors)
    yield from (Event("compaction", fact) for fact in timeline.cleanings)


def _concerns(fault: Fault, timeline: Timeline) -> bool:
    """Whether a fault concerns this partition, or all of them."""
    here = {"topic": timeline.replica_logs.topic, "partition": timeline.replica_logs.partition}
    return all(fault.details.get(name) in (None, value) for name, value in here.items())


def _of_term(term: Term) -> list[Event]:
    """The facts of a term, the first with whether its election was clean."""
    facts = dict.fromkeys([*term.facts, *term.start_facts])
    dated = sorted(facts, key=lambda fact: MAX_INT64 if fact.time is None else fact.time)
    if not dated:
        return []
    return [Event("election", dated[0], term.how_elected), *(Event("leader", fact) for fact in dated[1:])]


def _snapshots(logs: ReplicaLogs) -> Iterator[Event]:
    for name in filter(None, logs.snapshots):
        holders = sorted(logs.batches.filter(snapshot=name)["broker"].unique())
        if holders:
            sentence = f"snapshot {name} of the logs of {brokers(holders)}"
            yield Event("snapshot", Fact(sentence, "snapshot", logs.times.get(name), snapshot=name))
