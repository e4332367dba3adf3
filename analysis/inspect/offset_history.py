"""The history of one offset: sends, reads, what each replica holds, leaders, and why the record is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ...histories.tables import Evidence, Finding, Locate
from ..causes import explain_absence
from ..causes.cases import Explanation, Lost
from ..causes.retention import CITATION, deletions_of
from ..finding_order import worst_first
from ..incidents.incident import Explained
from ..partitions.common import faults_of
from ..partitions.log_start import log_start
from ..partitions.partition import Partition
from ..replicas.replica_logs import in_snapshot, is_of_copy
from ..timelines.facts import Fact, listed
from ..wording import quoted
from .differences import cell
from .events import commits_past, transaction_at

MAX_SHOWN = 20  # senders, readers, findings; further ones are counted
DELETED = "deleting a topic deletes its logs, and a topic created again has another id; KIP-516"
UNDECODED = "a record of a batch that is identical on all replicas (not decoded, as the log is large)"

Record = dict[str, Any]


@dataclass(frozen=True)
class OffsetHistory:
    """All that is known about an offset."""

    partition: str  # its label
    offset: int
    sent: list[Fact]
    sent_left_out: int
    read: list[Fact]
    read_left_out: int
    passed: list[Fact]  # by groups' commits
    transaction: list[Fact]
    found: list[Fact]  # the findings
    found_left_out: int
    held: list[Record]  # a row for each snapshot and broker
    led: dict[int, str]  # who led the epochs of the records
    causes: list[Explained]  # that cover the offset
    absence: Explanation | None  # why the record was legally deleted; None: not proved

    def record(self) -> Record:
        """The history as docs/verdict.md describes it."""
        names = ("sent", "read", "passed", "transaction", "found", "causes")
        lists = {name: [one.record() for one in getattr(self, name)] for name in names}
        led = [{"epoch": epoch, "says": sentence} for epoch, sentence in self.led.items()]
        return {**vars(self), **lists, "led": led, "absence": self.absence and self.absence.record()}


def offset_history(
    p: Partition, offset: int, locate: Locate, findings: Sequence[Finding] = (), causes: Sequence[Explained] = ()
) -> OffsetHistory | None:
    """The history of an offset, with its findings and causes; None if nothing is known about it."""
    sent = p.sends.filter(offset=offset).sort("invoked", "at")
    read = p.reads.filter(offset=offset, outcome="ok").sort("completed", "at")
    held = _replica_rows(p, offset)
    holders = [row for row in held if row["holds"] or row["why_not"] == UNDECODED]
    is_held_at_last = any(row["last"] for row in holders)
    legal = _topic_deletion(p, sent, read) or (None if is_held_at_last else _absence(p, offset, sent))
    found = worst_first(one for one in findings if one.covers(offset))
    ids = {one.id for one in found}
    covering = [cause for cause in causes if covers(cause, p.name, offset, ids)]
    if not (len(sent) or len(read) or holders or found or covering or legal):
        return None
    epochs = {row["holds"]["epoch"] for row in held if row["holds"]} - {None} | _epochs_of_acknowledgements(p, sent)
    return OffsetHistory(
        partition=p.label,
        offset=offset,
        sent=[_send_fact(row).located(locate) for row in sent.head(MAX_SHOWN).iter_rows(named=True)],
        sent_left_out=max(len(sent) - MAX_SHOWN, 0),
        read=[
            Fact(f"{process} read {quoted(value)}", time=time, place=place).located(locate)
            for process, value, time, place in read.select("process", "value", "completed", "at").head(MAX_SHOWN).rows()
        ],
        read_left_out=max(len(read) - MAX_SHOWN, 0),
        passed=commits_past(p, offset)[:MAX_SHOWN],
        transaction=[fact.located(locate) for fact in transaction_at(p, offset)],
        found=[fact_of_finding(one) for one in found[:MAX_SHOWN]],
        found_left_out=max(len(found) - MAX_SHOWN, 0),
        held=held,
        led={epoch: _leader_text(p, epoch) for epoch in sorted(epochs)},
        causes=covering,
        absence=legal and legal.located(locate),
    )


def _send_fact(row: Record) -> Fact:
    outcome = str(row["outcome"])
    key = f" with key {quoted(row['key'])}" if row["key"] is not None else ""
    sentence = f"{row['process']} sent {quoted(row['value'])}{key} at {row['invoked'] / 1e9:.3f} s"
    if row["acknowledged"]:
        sentence += f", acknowledged under acks={row['acks']} at {row['completed'] / 1e9:.3f} s"
    elif outcome == "ok":
        sentence += ", never acknowledged, but found in the leader's log"
    else:
        sentence += {"fail": ", which failed", "info": ", without a recorded outcome"}[outcome]
    return Fact(sentence, time=row["completed"] or row["invoked"], place=row["at"])


def _replica_rows(p: Partition, offset: int) -> list[Record]:
    """A row for each snapshot and broker: the record at the offset, or why there is none."""
    if p.replica_logs is None:
        return []
    rows: list[Record] = []
    at = p.replica_logs.records.filter(offset=offset)
    for name in p.replica_logs.snapshots:
        for extent in p.replica_logs.extents.filter(snapshot=name).sort("broker").iter_rows(named=True):
            own = at.filter(is_of_copy(name, extent["broker"]))
            found = own.row(0, named=True) if own.height else None
            rows.append(
                {
                    "snapshot": name,
                    "where": in_snapshot(name),
                    "last": name == p.replica_logs.last,
                    "broker": extent["broker"],
                    "holds": cell(found),
                    "why_not": None if found else _why_not(p, name, extent, offset),
                    "file": found and found["file"],
                    "byte": found and found["byte"],
                }
            )
    return rows


def _why_not(p: Partition, snapshot: str, extent: Record, offset: int) -> str:
    assert p.replica_logs is not None
    if extent["start"] is not None and offset < extent["start"]:
        is_remote = offset >= extent["deleted_below"]
        return "in remote storage alone" if is_remote else f"nothing: its log starts at {extent['start']}"
    if extent["end"] is not None and offset >= extent["end"]:
        return f"nothing: its log ends at {extent['end']}"
    is_there = (pl.col("first_offset") <= offset) & (pl.col("last_offset").fill_null(offset) >= offset)
    here = is_of_copy(snapshot, extent["broker"]) & is_there
    if p.replica_logs.identical.filter(here).height:
        return UNDECODED
    damage = p.replica_logs.damage.filter(here)
    return f"nothing: damaged: {damage['reason'][0]}" if damage.height else "nothing (a gap)"


def _epochs_of_acknowledgements(p: Partition, sent: pl.DataFrame) -> set[int]:
    """The latest epochs that had begun when sends were acknowledged, as far as elections are dated."""
    began = [(term.time, term.epoch) for term in (p.timeline.terms.values() if p.timeline else ()) if term.time]
    times = sent.filter("acknowledged")["completed"]
    return {max(epochs) for time in times if (epochs := [epoch for at, epoch in began if at <= time])}


def _leader_text(p: Partition, epoch: int) -> str:
    term = p.timeline.terms.get(epoch) if p.timeline else None
    if term is None or term.leader is None:
        return f"the leader of epoch {epoch} is not known"
    begins = f" from offset {term.start} on" if term.start is not None else ""
    how = term.how_elected
    isr = f", ISR {listed(term.isr)}" if term.isr else ""
    return f"epoch {epoch} was led by broker {term.leader}{begins}{isr}{f' ({how})' if how else ''}"


def fact_of_finding(finding: Finding) -> Fact:
    """A finding as a fact, with the source of its first evidence."""
    rule = finding.rule if finding.severity == "violation" else f"{finding.rule} ({finding.severity})"
    seen = finding.evidence[0] if finding.evidence else Evidence("")
    return Fact(f"{rule}: {finding.sentence}", "", None, seen.source, seen.line, seen.byte)


def covers(cause: Explained, partition: str, offset: int, found: set[str]) -> bool:
    """Whether a cause explains a loss or a truncation at the offset, or one of the findings (ids) that cover it."""
    offsets = cause.offsets
    is_there = offsets is not None and offsets.name == partition and offsets.contains(offset)
    return is_there or not found.isdisjoint(cause.findings)


def _topic_deletion(p: Partition, sent: pl.DataFrame, read: pl.DataFrame) -> Explanation | None:
    """The topic's deletion as the cause; None if there was none, or the history has no record at the offset."""
    if not (p.generation and p.generation.deleted and (len(sent) or len(read))):
        return None
    changes = p.timeline.topic_changes if p.timeline else []
    facts = [fact for fact in changes if fact.kind == "topic-deleted"]
    return Explanation("topic-deletion", tuple(facts), citation=DELETED)


def _absence(p: Partition, offset: int, sent: pl.DataFrame) -> Explanation | None:
    """The legal reason for the gap at the offset, or None."""
    if p.timeline is None:
        return _requested_deletion(p, offset)
    lost = Lost(p.topic, p.partition, offset, offset, 1, values=tuple(sent["value"].drop_nulls().to_list()))
    known = sent.filter("acknowledged").sort("completed").head(1)
    for row in known.iter_rows(named=True):
        lost = replace(lost, acks=frozenset([row["acks"]]), first_acked=row["completed"], place=row["at"])
    found = explain_absence(p.timeline, lost)
    return found if found.is_known else None


def _requested_deletion(p: Partition, offset: int) -> Explanation | None:
    """The recorded requests that deleted the offset, in a run without brokers' files; None if there were none."""
    deletions = deletions_of(faults_of(p.context), p.topic, p.partition, offset)
    if not deletions or offset >= log_start(p).certain:
        return None
    return Explanation("retention", tuple(deletions), citation=CITATION)
