"""Committed records that are still in the log without their COMMIT marker, so that they were aborted later.

The cause of such a loss is the cause of the marker's loss. An unclean election or a cut log loses a marker like any
record; then the transaction coordinator aborts the open transaction (KIP-98, WriteTxnMarkers). So the causes explain
the marker's offset: that of an earlier copy of a log with the records and the marker, or else the offset after the
records at which a later epoch began, as the log is complete below it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ..replicas.replica_logs import with_aborted
from ..timelines.facts import Fact, fact_of, ordered
from ..timelines.timeline import Timeline
from ..wording import span
from .cases import ACKNOWLEDGEMENTS, Explanation, Lost, acknowledgement


@dataclass(frozen=True)
class LostMarker:
    """The lost COMMIT marker of records that are in the log and aborted."""

    lost: Lost  # the marker's offset instead of the records'
    facts: list[Fact]  # the marker, if a copy has it, and the later ABORT marker


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
    commit = _commit(timeline, lost, producers[0])
    offset = commit["offset"] if commit else _next_epoch_start(timeline, present, abort)
    if offset is None:
        return None
    marker = replace(lost, first=offset, last=offset, count=1, values=(), replaced=None, replaced_place=None)
    facts = [] if commit is None else [_commit_fact(timeline, commit)]
    return LostMarker(marker, [*facts, _abort_fact(timeline, lost, abort)])


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


def _commit(timeline: Timeline, lost: Lost, producer: int) -> dict[str, Any] | None:
    """The COMMIT marker after the records, in a log of any snapshot that holds them."""
    records = timeline.replica_logs.records
    held = records.filter(offset=lost.first, value=lost.values[0])
    later = records.filter(pl.col("offset") > lost.last, producer_id=producer)
    markers = later.filter(pl.col("control").is_not_null()).join(held, on=["snapshot", "broker"], how="semi")
    first = markers.sort("offset").unique(["snapshot", "broker"], keep="first", maintain_order=True)
    commits = first.filter(control="commit").sort("snapshot", "broker")
    return commits.row(0, named=True) if commits.height else None


def _next_epoch_start(timeline: Timeline, present: pl.DataFrame, abort: dict[str, Any]) -> int | None:
    """The first offset after the records, and before their ABORT marker, at which an epoch began."""
    wrote, aborted, last = present["leader_epoch"].max(), abort["leader_epoch"], present["offset"].max()
    if not isinstance(wrote, int) or not isinstance(last, int) or aborted is None:
        return None
    later = [term for term in timeline.terms.values() if wrote < term.epoch <= aborted and term.start is not None]
    starts = [term.start for term in later if term.start is not None and last < term.start <= abort["offset"]]
    return min(starts, default=None)


def _commit_fact(timeline: Timeline, commit: dict[str, Any]) -> Fact:
    name, broker, snapshot = timeline.replica_logs.name, commit["broker"], commit["snapshot"]
    text = f"in snapshot {snapshot} broker {broker}'s log of {name} held the records' COMMIT marker"
    text += f" at offset {commit['offset']}"
    return fact_of(timeline.replica_logs, text, "marker", commit, offset=commit["offset"], snapshot=snapshot)


def _abort_fact(timeline: Timeline, lost: Lost, abort: dict[str, Any]) -> Fact:
    name = timeline.replica_logs.name
    are = "is" if lost.first == lost.last else "are"
    text = f"{span(lost.first, lost.last)} of {name} {are} still in the log, but aborted, as the COMMIT marker is gone:"
    text += f" an ABORT marker of producer {abort['producer_id']} is at offset {abort['offset']}"
    text += "" if abort["leader_epoch"] is None else f", written in epoch {abort['leader_epoch']}"
    return Fact(text, "marker", source=abort["file"], byte=abort["byte"], partition=name, offset=abort["offset"])
