"""The story of one offset: who sent what there, who read it, what each replica holds, who led, why it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from ...histories.tables import Evidence, Finding
from ..causes import explain_absence
from ..causes.attempts import Explanation
from ..causes.explaining import record_of
from ..causes.losses import Lost
from ..finding_order import worst_first
from ..partitions.partition import Partition
from ..replicas.replica_logs import extents, where
from .differences import cell

MOST = 20  # senders, readers: more are counted
DELETED = "a topic's logs go with it, and a topic created again has another id; KIP-516"
UNDECODED = "a record of a batch that all replicas hold alike (of large logs these are not decoded)"

Record = dict[str, Any]


def offset_story(p: Partition, offset: int, findings: Sequence[Finding], causes: list[Record]) -> Record | None:
    """A record: sent, read, found (facts with places), held (one row a snapshot and broker), led (the terms whose epoch
    the records carry), causes (that cover the offset), absence (legal, or None). None where nothing is known of the
    offset.
    """
    sent = p.sends.filter(pl.col("offset") == offset).sort("invoked", "at")
    read = p.reads.filter((pl.col("offset") == offset) & (pl.col("outcome") == "ok")).sort("completed", "at")
    held = _held(p, offset)
    here = any(row["holds"] or row["why_not"] == UNDECODED for row in held if row["last"])
    legal = _deleted(p, sent, read) if p.generation and p.generation.deleted else None
    legal = legal if here or legal else _absence(p, offset, sent)
    found = worst_first(one for one in findings if within(offset, one))
    ids = {one.id for one in found}
    covering = [cause for cause in causes if covers(cause, p.name, offset, ids)]
    stands = any(row["holds"] or row["why_not"] == UNDECODED for row in held)
    if not (len(sent) or len(read) or stands or found or covering or legal):
        return None
    epochs = {row["holds"]["epoch"] for row in held if row["holds"] and row["holds"]["epoch"] is not None}
    epochs |= _acknowledged_in(p, sent)
    return {
        "partition": p.label,
        "offset": offset,
        "sent": [_sent(row) for row in sent.head(MOST).iter_rows(named=True)],
        "sent_left_out": max(len(sent) - MOST, 0),
        "read": [_read(row) for row in read.head(MOST).iter_rows(named=True)],
        "read_left_out": max(len(read) - MOST, 0),
        "found": [found_record(one) for one in found[:MOST]],
        "found_left_out": max(len(found) - MOST, 0),
        "held": held,
        "led": [_led(p, epoch) for epoch in sorted(epochs)],
        "causes": covering,
        "absence": legal,
    }


def _sent(row: Record) -> Record:
    outcome = str(row["outcome"])
    key = f" with key {row['key']!r}" if row["key"] is not None else ""
    says = f"{row['process']} sent {row['value']!r}{key} at {row['invoked'] / 1e9:.3f} s"
    if row["acknowledged"]:
        says += f", acknowledged under acks={row['acks']} at {row['completed'] / 1e9:.3f} s"
    elif outcome == "ok":
        says += ", never acknowledged, but it stands in the leader's log"
    else:
        says += {"fail": ", which failed", "info": ", and never learned what became of it"}[outcome]
    return {"says": says, "time": row["completed"] or row["invoked"], **_nowhere(row["at"])}


def _read(row: Record) -> Record:
    says = f"{row['process']} read {row['value']!r}"
    return {"says": says, "time": row["completed"], **_nowhere(row["at"])}


def _nowhere(place: int) -> Record:
    return {"source": None, "line": None, "byte": None, "place": place}


def _held(p: Partition, offset: int) -> list[Record]:
    """What each broker holds at the offset in each snapshot, and why it holds nothing."""
    if p.replica_logs is None:
        return []
    rows: list[Record] = []
    bounds = extents(p.replica_logs)
    at = p.replica_logs.records.filter(pl.col("offset") == offset)
    for name in p.replica_logs.snapshots:
        for bound in bounds.filter(pl.col("snapshot") == name).sort("broker").iter_rows(named=True):
            mine = at.filter((pl.col("snapshot") == name) & (pl.col("broker") == bound["broker"]))
            found = mine.row(0, named=True) if mine.height else None
            rows.append(
                {
                    "snapshot": name,
                    "where": where(name),
                    "last": name == p.replica_logs.last,
                    "broker": bound["broker"],
                    "holds": cell(found),
                    "why_not": None if found else _why_not(p, name, bound, offset),
                    "file": found and found["file"],
                    "byte": found and found["byte"],
                }
            )
    return rows


def _why_not(p: Partition, snapshot: str, bound: Record, offset: int) -> str:
    assert p.replica_logs is not None
    if bound["start"] is not None and offset < bound["start"]:
        return f"nothing: its log starts at {bound['start']}"
    if bound["end"] is not None and offset >= bound["end"]:
        return f"nothing: its log ends at {bound['end']}"
    own = (pl.col("snapshot") == snapshot) & (pl.col("broker") == bound["broker"])
    sealed = own & (pl.col("first_offset") <= offset) & (pl.col("last_offset") >= offset)
    if p.replica_logs.sealed.filter(sealed).height:
        return UNDECODED
    hurt = p.replica_logs.damage.filter(
        own & (pl.col("first_offset") <= offset) & (pl.col("last_offset").fill_null(offset) >= offset)
    )
    return f"nothing: damaged: {hurt['reason'][0]}" if hurt.height else "nothing (a gap)"


def _acknowledged_in(p: Partition, sent: pl.DataFrame) -> set[int]:
    """The latest epochs that had begun when sends were acknowledged, as far as elections are dated."""
    began = [(term.time, term.epoch) for term in (p.timeline.terms.values() if p.timeline else ()) if term.time]
    times = sent.filter("acknowledged")["completed"]
    return {max(epochs) for time in times if (epochs := [epoch for at, epoch in began if at <= time])}


def _led(p: Partition, epoch: int) -> Record:
    term = p.timeline.terms.get(epoch) if p.timeline else None
    if term is None or term.leader is None:
        return {"epoch": epoch, "says": f"who led epoch {epoch} is not known"}
    begins = f" from offset {term.start} on" if term.start is not None else ""
    how = term.how_elected
    isr = f", ISR [{', '.join(sorted(term.isr))}]" if term.isr else ""
    return {
        "epoch": epoch,
        "says": f"epoch {epoch} was led by broker {term.leader}{begins}{isr}{f' ({how})' if how else ''}",
    }


def within(offset: int, one: Finding) -> bool:
    first, last = one.first_offset, one.last_offset
    return first is not None and first <= offset <= (first if last is None else last)


def found_record(one: Finding) -> Record:
    """What a rule found as a fact, with the place that is the first to show it, where that is yet to be located."""
    said = one.rule if one.severity == "violation" else f"{one.rule} ({one.severity})"
    seen = one.evidence[0] if one.evidence else Evidence("")
    where_seen: Record = {"source": seen.source, "line": seen.line, "byte": seen.byte}
    if seen.place is not None:
        where_seen["place"] = seen.place
    return {"says": f"{said}: {one.sentence}", "time": None, **where_seen}


def covers(cause: Record, partition: str, offset: int, found: set[str]) -> bool:
    """Whether it explains what became of the offset: a loss there, or one of the findings (ids) that cover it."""
    lost = cause.get("lost")
    if lost and f"{lost['topic']}-{lost['partition']}" == partition and lost["first"] <= offset <= lost["last"]:
        return True
    return not found.isdisjoint(cause["findings"])


def _deleted(p: Partition, sent: pl.DataFrame, read: pl.DataFrame) -> Record | None:
    """That the topic was deleted, with what tells of it; None where nothing ever stood at the offset."""
    if not (len(sent) or len(read)):
        return None
    changes = p.timeline.topic_changes if p.timeline else []
    facts = [fact for fact in changes if fact.kind == "topic-deleted"]
    return record_of(Explanation("topic-deletion", facts, citation=DELETED))


def _absence(p: Partition, offset: int, sent: pl.DataFrame) -> Record | None:
    """The legal reason for which nothing stands at the offset."""
    if p.timeline is None:
        return None
    lost = Lost(p.topic, p.partition, offset, offset, 1, values=tuple(sent["value"].drop_nulls().to_list()))
    known = sent.filter("acknowledged").sort("completed").head(1)
    for row in known.iter_rows(named=True):
        lost = replace(lost, acks=frozenset([row["acks"]]), first_acked=row["completed"], place=row["at"])
    found = explain_absence(p.timeline, lost)
    return None if found.cause == "unknown" else record_of(found)
