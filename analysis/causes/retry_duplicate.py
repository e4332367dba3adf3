"""retry-duplicate: a producer without idempotence retried after a lost acknowledgement, and the record stands twice.

Needs: the producer is known to be without idempotence (its configuration, acks 0 or 1, or batches without an id),
and the log, or the history, shows the record at both offsets. An election between the copies is why the first
acknowledgement was lost, where the evidence has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...histories.bundle import idempotence
from ..replicas.replica_logs import where
from ..timelines.facts import Fact, ordered
from ..timelines.timeline import Timeline
from .attempts import Explanation

NAME = "retry-duplicate"
CITATION = "KIP-98 (idempotent producer), KIP-679 (idempotence by default); retries, delivery.timeout.ms"
REMEDY = "enable.idempotence=true, which needs acks=all."


@dataclass(frozen=True)
class Repeated:
    """A value that stands at several offsets of one partition."""

    topic: str
    partition: int
    value: str
    offsets: tuple[int, ...]
    process: str | None = None
    invoked: int | None = None  # ns, of its send
    place: int | None = None
    acks: str | None = None  # of its send


def explain_repeated(timeline: Timeline, repeated: Repeated, producer: Mapping[str, Any] | None) -> Explanation:
    """The cause of a duplicate; `producer` is the process in run.json."""
    standing = _standing(timeline, repeated)
    copies = standing.filter(pl.col("value") == repeated.value)
    replaced = standing.filter(pl.col("value").is_null() | (pl.col("value") != repeated.value))["offset"].to_list()
    if replaced:
        # The first copy was cut off before the second was written: no retry doubled them.
        places = ", ".join(map(str, replaced))
        return Explanation(
            "unknown", missing=[f"what cut off the copy at offset {places}, where another record stands"]
        )
    about = producer or {}
    configured, acks = about.get("enable.idempotence"), repeated.acks or str(about.get("acks", "all"))
    idempotent = idempotence(about, acks)
    if idempotent or copies["producer_id"].drop_nulls().len():
        return Explanation("unknown", missing=["how an idempotent producer's record came to stand twice"])
    if idempotent is None and copies.height < 2:
        return Explanation(
            "unknown",
            missing=["whether the producer was idempotent (run.json, or the batches' producer ids)"],
        )
    facts = []
    if repeated.invoked is not None:
        says = f"{repeated.process or 'a producer'} sent {repeated.value!r}"
        facts.append(Fact(says, "sent", repeated.invoked, place=repeated.place))
    if idempotent is False:
        says = f"acks={acks} turns idempotence off" if configured is None else "enable.idempotence is false"
        facts.append(Fact(f"{says} for {repeated.process}", "configured", source="run.json"))
    for row in copies.iter_rows(named=True):
        epoch = f" in epoch {row['leader_epoch']}" if row["leader_epoch"] is not None else ""
        stood = "stands" if row["snapshot"] == timeline.replica_logs.last else f"stood {where(row['snapshot'])}"
        says = f"it {stood} at offset {row['offset']}{epoch}, in a batch without a producer id"
        facts.append(Fact(says, "kept", None, row["file"], None, row["byte"], offset=row["offset"]))
    facts += _between(timeline, copies)
    return Explanation(
        NAME,
        ordered(facts),
        ["enable.idempotence=true (the default of Kafka's own client since 3.0)"],
        CITATION,
    )


def _standing(timeline: Timeline, repeated: Repeated) -> pl.DataFrame:
    """What the logs hold at the offsets of the copies at the end: the leader's log, where it is known. A log that holds
    all copies at once, though it was truncated later, is better: the second was written while the first stood.
    """
    replica_logs = timeline.replica_logs
    there = replica_logs.records.filter(pl.col("offset").is_in(list(repeated.offsets)) & pl.col("control").is_null())
    held = there.filter(pl.col("snapshot") == replica_logs.last)
    if replica_logs.leader is not None and (held["broker"] == replica_logs.leader).any():
        held = held.filter(pl.col("broker") == replica_logs.leader)
    if held["value"].ne_missing(repeated.value).any():
        own = there.filter(pl.col("value") == repeated.value)
        logs = own.group_by("snapshot", "broker").agg(pl.col("offset").n_unique().alias("copies"))
        whole = logs.filter(pl.col("copies") == len(set(repeated.offsets))).sort("snapshot", "broker").head(1)
        held = own.join(whole, on=["snapshot", "broker"], how="semi") if whole.height else held
    return held.unique("offset", keep="first", maintain_order=True).sort("offset")


def _between(timeline: Timeline, copies: pl.DataFrame) -> list[Fact]:
    """The elections between the epochs of the copies."""
    epochs = copies["leader_epoch"].drop_nulls().to_list()
    if len(epochs) < 2 or epochs[0] == epochs[-1]:
        return []
    return [term.facts[0] for term in timeline.terms.values() if epochs[0] < term.epoch <= epochs[-1] and term.facts]
