"""Records of a transaction that are still in the log without the marker that their coordinator had decided.

The cause is that of the marker's loss. An unclean election or a cut log loses a marker like any record. Then the
transaction stays open, or the coordinator aborts it (KIP-98, WriteTxnMarkers), or the producer's next marker ends it.
So the causes explain the marker's offset: that of an earlier copy of a log with the records and the marker, or else the
offset after the records at which a later epoch began, as the log is complete below it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl

from ..replicas.replica_logs import with_aborted
from ..timelines.facts import Fact, fact_of, ordered
from ..timelines.timeline import Timeline
from ..wording import span
from .cases import ACKNOWLEDGEMENTS, Explanation, Lost, acknowledgement
from .transaction_part import TransactionPart


@dataclass(frozen=True)
class LostMarker:
    """The lost marker of records that are in the log."""

    lost: Lost  # the marker's offset instead of the records'
    facts: list[Fact]  # the marker, if a copy has it, and what became of the records


def lost_marker(timeline: Timeline, lost: Lost) -> LostMarker | None:
    """The lost marker of records; None if any of them is missing from the log, or not aborted there."""
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
    records = _Records(lost.first, lost.last, lost.values[0], producers[0], present["leader_epoch"].max())
    commit = _copy_of_marker(timeline, records, "commit")
    offset = (
        commit["offset"] if commit else _next_epoch_start(timeline, records, abort["offset"], abort["leader_epoch"])
    )
    if offset is None:
        return None
    marker = replace(lost, first=offset, last=offset, count=1, values=(), replaced=None, replaced_place=None)
    facts = [] if commit is None else [_copy_fact(timeline, commit)]
    return LostMarker(marker, [*facts, _abort_fact(timeline, lost, abort)])


def lost_marker_of(timeline: Timeline, part: TransactionPart) -> LostMarker | None:
    """The marker that carried out a decision, where it is known to have been written and the last log lacks it.

    The coordinator notes that a transaction is complete when the leaders have written its markers, with acks=all.
    """
    decision, ended = part.decision, part.ended
    if part.own is not None or decision is None or decision["completed"] is None:
        return None
    records = _Records(part.first, part.last, part.values[0], part.producer, part.record["leader_epoch"])
    copy = _copy_of_marker(timeline, records, decision["outcome"])
    until = (None, None) if ended is None else (ended["marker"], ended["marker_leader_epoch"])
    offset = copy["offset"] if copy else _next_epoch_start(timeline, records, *until)
    if offset is None:
        return None
    acks = frozenset(("all",))
    written = decision["completed_ns"]
    marker = Lost(part.topic, part.partition, offset, offset, 1, acks, first_acked=written, last_acked=written)
    became = part.written(", and no marker ended them")
    if ended is not None:
        became = part.marker(ended, f", which ended {span(part.first, part.last)}, as the transaction's own was gone")
    complete = Fact(
        f"the coordinator noted that the markers of {part.subject} were written",
        "complete",
        written,
        decision["file"],
        byte=decision["byte"],
        partition=part.name,
    )
    copied = [] if copy is None else [_copy_fact(timeline, copy)]
    return LostMarker(marker, [*part.decided(), complete, *copied, became])


def with_marker_of(explanation: Explanation, marker: LostMarker, part: TransactionPart) -> Explanation:
    """The explanation of a marker's loss, as the explanation of the part of the transaction that lacks it."""
    if explanation.cause == "unknown":
        text = (
            f"why the marker of {part.subject} was lost in {part.name} after the coordinator had noted that it is there"
        )
        return replace(explanation, missing=[text, *explanation.missing], readings=[])
    *before, became = marker.facts
    rest = [fact for fact in explanation.chain if fact.kind not in ACKNOWLEDGEMENTS]
    return replace(explanation, chain=[*ordered([*before, *rest]), became])


def with_marker(explanation: Explanation, marker: LostMarker, lost: Lost) -> Explanation:
    """The explanation of a marker's loss, as the explanation of the records that it had committed."""
    if explanation.cause == "unknown":
        records = f"{span(lost.first, lost.last)} of {lost.name}"
        text = f"why the COMMIT marker of {records} was lost: the records are still in the log, but were aborted later"
        missing = [text, *explanation.missing]
        return replace(explanation, missing=missing, readings=[])
    rest = [fact for fact in explanation.chain if fact.kind not in ACKNOWLEDGEMENTS]
    # The ABORT marker has no time of its own; it is the last step.
    chain = [*ordered([*acknowledgement(lost), *marker.facts[:-1], *rest]), marker.facts[-1]]
    return replace(explanation, chain=chain)


class _Records(NamedTuple):
    """Records of one transaction in the last log."""

    first: int
    last: int
    value: str  # of the first
    producer: int
    epoch: Any  # leader epoch of the last; None: not known


def _copy_of_marker(timeline: Timeline, of: _Records, outcome: str) -> dict[str, Any] | None:
    """The marker after the records, in a log of any snapshot that holds them."""
    records = timeline.replica_logs.records
    held = records.filter(offset=of.first, value=of.value)
    later = records.filter(pl.col("offset") > of.last, producer_id=of.producer)
    markers = later.filter(pl.col("control").is_not_null()).join(held, on=["snapshot", "broker"], how="semi")
    first = markers.sort("offset").unique(["snapshot", "broker"], keep="first", maintain_order=True)
    found = first.filter(control=outcome).sort("snapshot", "broker")
    return found.row(0, named=True) if found.height else None


def _next_epoch_start(timeline: Timeline, of: _Records, before: int | None, until: int | None) -> int | None:
    """The first offset after the records at which an epoch began, not beyond an offset (`before`) and an epoch.

    Where the marker at `before` has no epoch, none is known.
    """
    if of.epoch is None or (before is not None and until is None):
        return None
    later = [
        term for term in timeline.terms.values() if of.epoch < term.epoch and (until is None or term.epoch <= until)
    ]
    starts = [term.start for term in later if term.start is not None and of.last < term.start]
    return min((start for start in starts if before is None or start <= before), default=None)


def _copy_fact(timeline: Timeline, marker: dict[str, Any]) -> Fact:
    name, broker, snapshot = timeline.replica_logs.name, marker["broker"], marker["snapshot"]
    text = (
        f"in snapshot {snapshot} broker {broker}'s log of {name} held the records' {marker['control'].upper()} marker"
    )
    text += f" at offset {marker['offset']}"
    return fact_of(timeline.replica_logs, text, "marker", marker, offset=marker["offset"], snapshot=snapshot)


def _abort_fact(timeline: Timeline, lost: Lost, abort: dict[str, Any]) -> Fact:
    name = timeline.replica_logs.name
    are = "is" if lost.first == lost.last else "are"
    text = f"{span(lost.first, lost.last)} of {name} {are} still in the log, but aborted, as the COMMIT marker is gone:"
    text += f" an ABORT marker of producer {abort['producer_id']} is at offset {abort['offset']}"
    text += "" if abort["leader_epoch"] is None else f", written in epoch {abort['leader_epoch']}"
    return Fact(text, "marker", source=abort["file"], byte=abort["byte"], partition=name, offset=abort["offset"])
