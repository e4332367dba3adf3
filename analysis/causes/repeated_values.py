"""Values at several offsets of one partition, for the causes of duplicates: their sends and copies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ..replicas.replica_logs import TopicPartition, in_snapshot
from ..timelines.facts import Fact
from ..timelines.timeline import Timeline
from ..wording import quoted
from .cases import Lost, Record


def missing_for_idempotent(copies: Sequence[Record]) -> str:
    """The missing evidence of how an idempotent producer wrote these copies."""
    if len(copies) < 2:
        return (
            "a log with all copies, such as one from before its truncation (their producer epochs and sequence numbers)"
        )
    return "how an idempotent producer wrote a record twice"


@dataclass(frozen=True)
class Repeated(TopicPartition):
    """A value at several offsets of one partition, with its producer."""

    value: str
    offsets: tuple[int, ...]
    process: str | None = None
    invoked: int | None = None  # ns, of its send
    place: int | None = None
    acks: str | None = None  # of its send
    producer: Mapping[str, Any] = field(default_factory=dict)  # the process in run.json
    read: Mapping[int, int | None] = field(default_factory=dict)  # by offset: the first read (ns)
    # By offset: the first acknowledgement of another record there after that read (ns), and the place of its line.
    replaced: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def lost(self, offsets: Sequence[int]) -> Lost:
        """The copies at these offsets as a lost range."""
        acks = frozenset({self.acks} if self.acks else ())
        read = [time for offset in offsets if (time := self.read.get(offset)) is not None]
        written = min(read, default=self.invoked)
        place = (self.topic, self.partition, min(offsets), max(offsets), len(offsets))
        time, line = self.replaced.get(min(offsets), (None, None))
        return Lost(*place, acks, (self.value,), written=written, replaced=time, replaced_place=line)


def sent_facts(repeated: Repeated) -> list[Fact]:
    """The fact that the value was sent, if its send is recorded."""
    if repeated.invoked is None:
        return []
    text = f"{repeated.process or 'a producer'} sent {quoted(repeated.value)}"
    return [Fact(text, "sent", repeated.invoked, place=repeated.place)]


def copy_fact(timeline: Timeline, row: Record, batch: str) -> Fact:
    """The fact that a broker's log has, or had, the copy `row`. `batch` describes its batch: `of producer id 7`."""
    epoch = f" in epoch {row['leader_epoch']}" if row["leader_epoch"] is not None else ""
    at_end = row["snapshot"] == timeline.replica_logs.last
    copy = "a copy is" if at_end else f"a copy was {in_snapshot(row['snapshot'])}"
    text = f"{copy} at offset {row['offset']}{epoch}, in a batch {batch}"
    return Fact(text, "kept", source=row["file"], byte=row["byte"], offset=row["offset"])


def records_at(timeline: Timeline, offsets: Iterable[int]) -> dict[int, list[dict[str, Any]]]:
    """The brokers' records, without control records, by offset."""
    wanted = pl.Series(list(offsets), dtype=pl.Int64).implode()
    there = timeline.replica_logs.records.filter(pl.col("offset").is_in(wanted) & pl.col("control").is_null())
    found: dict[int, list[dict[str, Any]]] = {}
    for row in there.iter_rows(named=True):
        found.setdefault(row["offset"], []).append(row)
    return found


def held_records(timeline: Timeline, repeated: Repeated, records: Sequence[Record]) -> list[Record]:
    """One record at each offset of the copies, by offset: that of the leader's log at the end, if it is known.

    If another record has one of these offsets there, an earlier log with all copies is preferred: it shows that the
    second copy was written while the log had the first.
    """
    replica_logs = timeline.replica_logs
    at_end = [row for row in records if row["snapshot"] == replica_logs.last]
    held = [row for row in at_end if row["broker"] == replica_logs.leader] or at_end
    if any(row["value"] != repeated.value for row in held):
        copies: dict[tuple[str, str], dict[int, Record]] = {}  # by log and offset
        for row in records:
            if row["value"] == repeated.value:
                copies.setdefault((row["snapshot"], row["broker"]), {}).setdefault(row["offset"], row)
        with_all = [log for log, copy in copies.items() if copy.keys() == set(repeated.offsets)]
        held = [*copies[min(with_all)].values()] if with_all else held
    first = {row["offset"]: row for row in reversed(held)}
    return [first[offset] for offset in sorted(first)]
