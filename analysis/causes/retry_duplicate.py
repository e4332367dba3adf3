"""retry-duplicate: a producer without idempotence retried after a lost acknowledgement and wrote the record twice.

Needs: the producer is known to be without idempotence (its configuration, acks 0 or 1, or batches without an id),
and the log or the history shows the record at both offsets. If the evidence shows an election between the copies, it
explains why the first acknowledgement was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...histories.bundle import idempotence
from ..replicas.replica_logs import where
from ..timelines.facts import Fact, ordered
from ..timelines.timeline import Timeline
from .attempts import Attempt, needs

NAME = "retry-duplicate"
CITATION = "KIP-98 (idempotent producer), KIP-679 (idempotence by default); retries, delivery.timeout.ms"
REMEDY = "enable.idempotence=true, which needs acks=all."


@dataclass(frozen=True)
class Repeated:
    """A value at several offsets of one partition."""

    topic: str
    partition: int
    value: str
    offsets: tuple[int, ...]
    process: str | None = None
    invoked: int | None = None  # ns, of its send
    place: int | None = None
    acks: str | None = None  # of its send


def explain_duplicate(
    timeline: Timeline,
    repeated: Repeated,
    producer: Mapping[str, Any] | None,
    records: Sequence[Mapping[str, Any]],
) -> Attempt:
    """Whether a retry wrote the second copy; `producer`: the process in run.json.

    `records`: the brokers' records at its offsets (`records_at`).
    """
    held = _held_records(timeline, repeated, records)
    copies = [row for row in held if row["value"] == repeated.value]
    replaced = [row["offset"] for row in held if row["value"] != repeated.value]
    if replaced:
        # The first copy was truncated before the second was written, so this is no duplicate of a retry.
        places = ", ".join(map(str, replaced))
        return needs(f"what truncated the copy at offset {places}, where another record is now")
    about = producer or {}
    configured, acks = about.get("enable.idempotence"), repeated.acks or str(about.get("acks", "all"))
    idempotent = idempotence(about, acks)
    if idempotent or any(row["producer_id"] is not None for row in copies):
        return needs("how an idempotent producer wrote a record twice")
    if idempotent is None and len(copies) < 2:
        return needs("whether the producer was idempotent (run.json, or the batches' producer ids)")
    facts = []
    if repeated.invoked is not None:
        text = f"{repeated.process or 'a producer'} sent {repeated.value!r}"
        facts.append(Fact(text, "sent", repeated.invoked, place=repeated.place))
    if idempotent is False:
        text = f"acks={acks} disables idempotence" if configured is None else "enable.idempotence=false"
        facts.append(Fact(f"{text} for {repeated.process}", "configured", source="run.json"))
    for row in copies:
        epoch = f" in epoch {row['leader_epoch']}" if row["leader_epoch"] is not None else ""
        at_end = row["snapshot"] == timeline.replica_logs.last
        copy = "a copy is" if at_end else f"a copy was {where(row['snapshot'])}"
        text = f"{copy} at offset {row['offset']}{epoch}, in a batch without a producer id"
        facts.append(Fact(text, "kept", None, row["file"], None, row["byte"], offset=row["offset"]))
    facts += _elections_between(timeline, copies)
    return Attempt(True, ordered(facts), ["enable.idempotence=true (the default of Kafka's own client since 3.0)"])


def records_at(timeline: Timeline, offsets: Iterable[int]) -> dict[int, list[dict[str, Any]]]:
    """The brokers' records of each offset, without control records; of many duplicates at once."""
    wanted = pl.Series(list(offsets), dtype=pl.Int64).implode()
    there = timeline.replica_logs.records.filter(pl.col("offset").is_in(wanted) & pl.col("control").is_null())
    found: dict[int, list[dict[str, Any]]] = {}
    for row in there.iter_rows(named=True):
        found.setdefault(row["offset"], []).append(row)
    return found


def _held_records(
    timeline: Timeline, repeated: Repeated, records: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The records at the offsets of the copies at the end, from the leader's log if it is known.

    A log that held all copies at once is preferred even if it was truncated later: there the second copy was written
    while the first one was in the log.
    """
    replica_logs = timeline.replica_logs
    held = [row for row in records if row["snapshot"] == replica_logs.last]
    of_leader = [row for row in held if row["broker"] == replica_logs.leader]
    held = of_leader or held
    if any(row["value"] != repeated.value for row in held):
        own = [row for row in records if row["value"] == repeated.value]
        copies: dict[tuple[str, str], set[int]] = {}
        for row in own:
            copies.setdefault((row["snapshot"], row["broker"]), set()).add(row["offset"])
        whole = min((log for log, offsets in copies.items() if offsets == set(repeated.offsets)), default=None)
        held = [row for row in own if (row["snapshot"], row["broker"]) == whole] or held
    by_offset: dict[int, Mapping[str, Any]] = {}
    for row in held:
        by_offset.setdefault(row["offset"], row)
    return [by_offset[offset] for offset in sorted(by_offset)]


def _elections_between(timeline: Timeline, copies: Sequence[Mapping[str, Any]]) -> list[Fact]:
    """The elections between the epochs of the copies."""
    epochs = [row["leader_epoch"] for row in copies if row["leader_epoch"] is not None]
    if len(epochs) < 2 or epochs[0] == epochs[-1]:
        return []
    return [term.facts[0] for term in timeline.terms.values() if epochs[0] < term.epoch <= epochs[-1] and term.facts]
