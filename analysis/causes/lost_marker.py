"""Explains records of a transaction that are still in the log, but without the marker that the coordinator wrote.

An unclean election or a truncation loses a marker like any record. Then the transaction stays open, the coordinator
aborts it (KIP-98, WriteTxnMarkers), or the producer's next marker ends it. So the causes of losses explain the loss of
the marker's offset. An earlier copy of a log that has the records and the marker shows this offset. Without such a copy
it is the first offset after the records at which a later epoch began: the log is complete below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl

from ..partitions.coordinators import source_of
from ..replicas.replica_logs import with_aborted
from ..timelines.facts import Fact, fact_of, ordered
from ..timelines.timeline import Timeline
from ..wording import span
from .cases import ACKNOWLEDGEMENTS, Explanation, Lost, acknowledgement_facts
from .transaction_part import TransactionPart


@dataclass(frozen=True)
class LostMarker:
    """The lost marker of records that are in the log."""

    lost: Lost  # the marker as a lost range
    facts: list[Fact]  # of the records, of the marker if a copy has it, and of the outcome of the records
    unexplained: str  # the missing evidence if no cause of the marker's loss is known


def lost_marker(timeline: Timeline, lost: Lost) -> LostMarker | str | None:
    """The lost COMMIT marker of records that are aborted in the log; None if they are not.

    If no offset of the marker is known: the evidence that is missing to explain the abort.
    """
    aborted = _aborted_records(timeline, lost)
    if aborted is None:
        return None
    records, abort = aborted
    commit = _copy_of_marker(timeline, records, "commit")
    offset = _offset_of_marker(timeline, records, commit, abort["offset"], abort["leader_epoch"])
    name = f"{span(lost.first, lost.last)} of {lost.name}"
    if offset is None:
        ended = f"the ABORT marker at offset {abort['offset']} ended {name}"
        return f"why {ended}, though the client recorded the transaction as committed"
    marker = replace(lost, first=offset, last=offset, count=1, values=(), replaced=None, replaced_place=None)
    copied = [] if commit is None else [_marker_fact(timeline, commit)]
    facts = [*acknowledgement_facts(lost), *copied, _abort_fact(timeline, lost, abort)]
    unexplained = f"why the COMMIT marker of {name} was lost: the records are still in the log, but were aborted later"
    return LostMarker(marker, facts, unexplained)


def _aborted_records(timeline: Timeline, lost: Lost) -> tuple[_Records, dict[str, Any]] | None:
    """Records that are in the last log, and the ABORT marker that ended them; None if any is missing or not aborted."""
    logs = timeline.replica_logs
    held = logs.last_records["broker"].unique().sort().to_list()
    broker = logs.leader if logs.leader in held else next(iter(held), None)
    if broker is None or not lost.values or not logs.last_records["transactional"].any():
        return None
    log = with_aborted(logs.last_records.filter(broker=broker).sort("offset"))
    present = log.filter(pl.col("offset").is_between(lost.first, lost.last) & pl.col("value").is_in(list(lost.values)))
    if present.height != lost.count or not present["aborted"].fill_null(False).all():
        return None
    producers = present["producer_id"].unique()
    if len(producers) != 1:
        return None
    aborts = (pl.col("producer_id") == producers[0]) & (pl.col("control") == "abort") & (pl.col("offset") > lost.last)
    abort = log.filter(aborts).row(0, named=True)
    return _Records(lost.first, lost.last, lost.values[0], producers[0], present["leader_epoch"].max()), abort


def lost_marker_of_part(timeline: Timeline, part: TransactionPart) -> LostMarker | None:
    """The lost marker that carried out a decision; None if the last log has it, or nothing shows that it was written.

    The coordinator notes that a transaction is complete when the leaders have written its markers, with acks=all.
    """
    decision, ending = part.decision, part.ending_marker
    if part.own_marker is not None or decision is None or decision["completed"] is None:
        return None
    records = _Records(part.first, part.last, part.values[0], part.producer, part.record["leader_epoch"])
    copy = _copy_of_marker(timeline, records, decision["outcome"])
    ended = (None, None) if ending is None else (ending["marker"], ending["marker_leader_epoch"])
    offset = _offset_of_marker(timeline, records, copy, *ended)
    if offset is None:
        return None
    acks = frozenset(("all",))
    written = decision["completed_ns"]
    marker = Lost(part.topic, part.partition, offset, offset, 1, acks, first_acked=written, last_acked=written)
    if ending is None:
        outcome = part.records_fact(f", and no marker ended {part.them}")
    else:
        text = f", which ended {span(part.first, part.last)}, as the transaction's own was gone"
        outcome = part.marker_fact(ending, text)
    text = f"the coordinator noted that the markers of {part.subject} were written"
    complete = Fact(text, "complete", written, **source_of(decision, "completed"), partition=part.name)
    copied = [] if copy is None else [_marker_fact(timeline, copy)]
    unexplained = f"why {part.name} lost the marker of {part.subject}"
    unexplained += " after the coordinator had noted that it was written"
    return LostMarker(marker, [*part.decision_facts(), complete, *copied, outcome], unexplained)


def explanation_of_records(explanation: Explanation, marker: LostMarker) -> Explanation:
    """The explanation of a marker's loss as that of its records: with their facts instead of its acknowledgement."""
    if not explanation.is_known:
        return replace(explanation, missing=(marker.unexplained, *explanation.missing), readings=())
    rest = [fact for fact in explanation.chain if fact.kind not in ACKNOWLEDGEMENTS]
    *before, outcome = marker.facts  # the outcome comes last, also without a time
    return replace(explanation, chain=(*ordered([*before, *rest]), outcome))


class _Records(NamedTuple):
    """Records of one transaction in the last log."""

    first: int
    last: int
    value: str  # of the first
    producer: int
    epoch: Any  # leader epoch of the last; None: not known


def _copy_of_marker(timeline: Timeline, txn: _Records, outcome: str) -> dict[str, Any] | None:
    """The marker after the records, in a log of any snapshot that holds them."""
    records = timeline.replica_logs.records
    logs = records.filter(offset=txn.first, value=txn.value)
    is_marker = pl.col("control").is_not_null() & (pl.col("offset") > txn.last)
    markers = records.filter(is_marker, producer_id=txn.producer).join(logs, on=["snapshot", "broker"], how="semi")
    first = markers.sort("offset").unique(["snapshot", "broker"], keep="first", maintain_order=True)
    found = first.filter(control=outcome).sort("snapshot", "broker")
    return found.row(0, named=True) if found.height else None


def _offset_of_marker(
    timeline: Timeline, txn: _Records, copy: Mapping[str, Any] | None, max_offset: int | None, max_epoch: int | None
) -> int | None:
    """The offset of the lost marker in its copy, or else the first after the records at which a later epoch began.

    `max_offset` and `max_epoch` are those of the marker that ended the records, if any. None if no offset is known.
    """
    if copy is not None:
        return int(copy["offset"])
    if txn.epoch is None or (max_offset is not None and max_epoch is None):
        return None
    later = [term for term in timeline.terms_after(txn.epoch) if max_epoch is None or term.epoch <= max_epoch]
    starts = [term.start for term in later if term.start is not None and term.start > txn.last]
    return min((start for start in starts if max_offset is None or start <= max_offset), default=None)


def _marker_fact(timeline: Timeline, marker: dict[str, Any]) -> Fact:
    name, broker, snapshot = timeline.replica_logs.name, marker["broker"], marker["snapshot"]
    text = f"in snapshot {snapshot} broker {broker}'s log of {name} held the records' {marker['control'].upper()}"
    text += f" marker at offset {marker['offset']}"
    return fact_of(timeline.replica_logs, text, "marker", marker, offset=marker["offset"], snapshot=snapshot)


def _abort_fact(timeline: Timeline, lost: Lost, abort: dict[str, Any]) -> Fact:
    name = timeline.replica_logs.name
    are = "is" if lost.first == lost.last else "are"
    text = f"{span(lost.first, lost.last)} of {name} {are} still in the log, but aborted, as the COMMIT marker is gone:"
    text += f" an ABORT marker of producer {abort['producer_id']} is at offset {abort['offset']}"
    text += "" if abort["leader_epoch"] is None else f", written in epoch {abort['leader_epoch']}"
    return Fact(text, "marker", source=abort["file"], byte=abort["byte"], partition=name, offset=abort["offset"])
