"""Committed records that still stand in the log, but whose COMMIT marker was lost, so that they were aborted later.

What put an end to such records is what put an end to their marker: an unclean election or a cut log takes it as it
takes any record, and the transaction coordinator, which aborts what it finds open, does the rest (KIP-98,
WriteTxnMarkers). The causes are asked of the marker's offset. It is that of an earlier copy of a log that holds the
records and the marker, or else at or above the offset at which a later epoch began behind the records: the log is whole
below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ..replicas.replica_logs import with_aborted
from ..timelines.facts import Fact, ordered
from ..timelines.timeline import Timeline
from ..wording import span
from .attempts import Explanation
from .losses import Lost, acknowledgement


@dataclass(frozen=True)
class LostMarker:
    """The COMMIT marker of records that stand and are aborted."""

    lost: Lost  # its offset, in place of the records
    facts: list[Fact]  # where it was, if a copy holds it, and the ABORT marker that came later


def lost_marker(timeline: Timeline, lost: Lost) -> LostMarker | None:
    """The lost marker of records; None where any of them is not in the log, or not aborted there."""
    logs = timeline.replica_logs
    here = logs.records.filter(pl.col("snapshot") == logs.last)
    held = here["broker"].unique().sort().to_list()
    broker = logs.leader if logs.leader in held else next(iter(held), None)
    if broker is None or not lost.values:
        return None
    log = with_aborted(here.filter(pl.col("broker") == broker).sort("offset"))
    standing = log.filter(pl.col("offset").is_between(lost.first, lost.last) & pl.col("value").is_in(list(lost.values)))
    if standing.height != lost.count or not standing["aborted"].fill_null(False).all():
        return None
    producers = standing["producer_id"].unique()
    if len(producers) != 1:
        return None
    aborts = (pl.col("producer_id") == producers[0]) & (pl.col("control") == "abort") & (pl.col("offset") > lost.last)
    abort = log.filter(aborts).row(0, named=True)
    commit = _commit(timeline, lost, producers[0])
    offset = commit["offset"] if commit else _cut_behind(timeline, standing, abort)
    if offset is None:
        return None
    marker = replace(lost, first=offset, last=offset, count=1, values=(), replaced=None, replaced_place=None)
    facts = [] if commit is None else [_commit_fact(timeline, commit)]
    return LostMarker(marker, [*facts, _abort_fact(timeline, lost, abort)])


def with_marker(explanation: Explanation, marker: LostMarker, lost: Lost) -> Explanation:
    """What put an end to a marker, as the explanation of the records that it had committed."""
    if explanation.cause == "unknown":
        where = f"the COMMIT marker of {span(lost.first, lost.last)} of {lost.name}, which still stand in the log"
        missing = [f"what put an end to {where} but were aborted later", *explanation.missing]
        return replace(explanation, missing=missing, readings=[])
    rest = [fact for fact in explanation.chain if fact.kind != "acknowledged"]
    # The ABORT marker has no time of its own: it is what all of it came to.
    chain = [*ordered([*acknowledgement(lost), *marker.facts[:-1], *rest]), marker.facts[-1]]
    return replace(explanation, chain=chain)


def _commit(timeline: Timeline, lost: Lost, producer: int) -> dict[str, Any] | None:
    """The COMMIT marker behind the records in a log of any snapshot that holds them."""
    records = timeline.replica_logs.records
    held = records.filter((pl.col("offset") == lost.first) & (pl.col("value") == lost.values[0]))
    behind = records.filter((pl.col("producer_id") == producer) & (pl.col("offset") > lost.last))
    markers = behind.filter(pl.col("control").is_not_null()).join(held, on=["snapshot", "broker"], how="semi")
    first = markers.sort("offset").unique(["snapshot", "broker"], keep="first", maintain_order=True)
    commits = first.filter(pl.col("control") == "commit").sort("snapshot", "broker")
    return commits.row(0, named=True) if commits.height else None


def _cut_behind(timeline: Timeline, standing: pl.DataFrame, abort: dict[str, Any]) -> int | None:
    """Where an epoch began behind the records and before they were aborted."""
    wrote, aborted, last = standing["leader_epoch"].max(), abort["leader_epoch"], standing["offset"].max()
    if not isinstance(wrote, int) or not isinstance(last, int) or aborted is None:
        return None
    later = [term for term in timeline.terms.values() if wrote < term.epoch <= aborted and term.start is not None]
    starts = [term.start for term in later if term.start is not None and last < term.start <= abort["offset"]]
    return min(starts, default=None)


def _commit_fact(timeline: Timeline, commit: dict[str, Any]) -> Fact:
    name, broker, snapshot = timeline.replica_logs.name, commit["broker"], commit["snapshot"]
    says = (
        f"in snapshot {snapshot} broker {broker}'s log of {name} held their COMMIT marker at offset {commit['offset']}"
    )
    source = (timeline.replica_logs.times.get(snapshot), commit["file"], None, commit["byte"])
    return Fact(says, "marker", *source, partition=name, broker=broker, offset=commit["offset"], snapshot=snapshot)


def _abort_fact(timeline: Timeline, lost: Lost, abort: dict[str, Any]) -> Fact:
    name = timeline.replica_logs.name
    says = f"{span(lost.first, lost.last)} of {name} still stand in the log, but without their COMMIT marker they were"
    says += f" aborted: an ABORT marker of producer {abort['producer_id']} stands at offset {abort['offset']}"
    says += "" if abort["leader_epoch"] is None else f", written in epoch {abort['leader_epoch']}"
    return Fact(says, "marker", None, abort["file"], None, abort["byte"], partition=name, offset=abort["offset"])
