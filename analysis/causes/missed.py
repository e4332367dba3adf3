"""Missed records, which consumer-side causes explain: adjacent records that no member of a group handled.

Group events are a frame of one topic-partition with the columns of GROUP_EVENTS. f is assign (by the group), assign-own
(by the application, without an offset), seek (also an assignment by the application to an offset), poll, handle,
commit or crash. first_offset and last_offset are of the records of a poll or handle; an assign, seek or commit has
its offset in first_offset, null where the group has no committed offset.
A commit of unknown outcome is commit-info. A crash has no partition and belongs to all of its process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from ..replicas.replica_logs import TopicPartition
from ..timelines.facts import Fact
from ..wording import plural, span
from .attempts import Explanation

GROUP_EVENTS = {
    "time": pl.Int64,
    "place": pl.Int64,
    "process": pl.String,
    "f": pl.String,
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,
}
Processes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Missed(TopicPartition):
    """Adjacent records that no member of a group handled."""

    group: str
    first: int
    last: int
    count: int
    earlier: Mapping[str, Any] | None = None  # a poll of another record at `first`: time, place, process, value
    stored: Mapping[str, Any] | None = None  # the group's last record in __consumer_offsets: dated, offset, file, byte
    truncation: Explanation | None = None  # why that other record was truncated, if a cause is proved
    deleted_since: Callable[[int], int | None] = lambda _: None  # the earliest time (ns) at which an offset was deleted

    @property
    def records_text(self) -> str:
        """The offsets and the number of the records, for a sentence."""
        return f"{span(self.first, self.last)} ({plural(self.count, 'record')})"

    def fact(self, event: Mapping[str, Any], kind: str, text: str) -> Fact:
        """A fact from an event of the group."""
        offset = event["first_offset"]
        return Fact(text, kind, event["time"], place=event["place"], partition=self.name, offset=offset)


def touching(events: pl.DataFrame, f: str, missed: Missed) -> pl.DataFrame:
    """The polls or handles (`f`) with a record within the missed range."""
    within = (pl.col("first_offset") <= missed.last) & (pl.col("last_offset") >= missed.first)
    return events.filter(within, f=f)
