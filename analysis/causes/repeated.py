"""A value at several offsets of one partition, which the causes of duplicates explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..replicas.replica_logs import where
from ..timelines.facts import Fact
from ..timelines.timeline import Timeline


@dataclass(frozen=True)
class Repeated:
    """A value at several offsets of one partition, with its producer."""

    topic: str
    partition: int
    value: str
    offsets: tuple[int, ...]
    process: str | None = None
    invoked: int | None = None  # ns, of its send
    place: int | None = None
    acks: str | None = None  # of its send
    producer: Mapping[str, Any] = field(default_factory=dict)  # the process in run.json
    read: Mapping[int, int | None] = field(default_factory=dict)  # ns of the first read, by offset


def sent(repeated: Repeated) -> list[Fact]:
    """The fact that the value was sent, if its send is recorded."""
    if repeated.invoked is None:
        return []
    text = f"{repeated.process or 'a producer'} sent {repeated.value!r}"
    return [Fact(text, "sent", repeated.invoked, place=repeated.place)]


def copy_fact(timeline: Timeline, row: Mapping[str, Any], batch: str) -> Fact:
    """The fact that a broker's log has, or had, a copy. `row` is its record; `batch` describes its batch."""
    epoch = f" in epoch {row['leader_epoch']}" if row["leader_epoch"] is not None else ""
    at_end = row["snapshot"] == timeline.replica_logs.last
    copy = "a copy is" if at_end else f"a copy was {where(row['snapshot'])}"
    text = f"{copy} at offset {row['offset']}{epoch}, in a batch {batch}"
    return Fact(text, "kept", None, row["file"], None, row["byte"], offset=row["offset"])
