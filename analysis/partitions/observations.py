"""What was observed of one topic-partition: frames, settings, and what follows from them alone.

What takes more thought is a function of these observations, computed once each (`once`): log_start.py, final_reads.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from ...histories.tables import CONTEXT, MARKS, MIN_INT64, READS, SENDS, Schema
from ..replicas.replica_logs import ReplicaLogs
from ..replicas.resolved_outcomes import ABSENCES, legal_absences
from ..timelines.timeline import Timeline
from .tombstones import named
from .topic_generations import TopicGeneration

if TYPE_CHECKING:
    from ...histories.bundle import Settings

Found = TypeVar("Found")
Of = TypeVar("Of", bound="Observations")


class Observations:
    """The observations of one topic-partition."""

    def __init__(
        self,
        topic: str,
        partition: int,
        settings: Settings,
        sends: pl.DataFrame | None = None,
        reads: pl.DataFrame | None = None,
        marks: pl.DataFrame | None = None,
        context: pl.DataFrame | None = None,
        unplaced: pl.DataFrame | None = None,
        confirmed: pl.Series | None = None,
        replica_logs: ReplicaLogs | None = None,
        timeline: Timeline | None = None,
        settled: int = 0,
        generation: TopicGeneration | None = None,
    ) -> None:
        self.topic, self.partition, self.settings = topic, partition, settings
        # Operations stand in the order of time, then of their lines, whatever the order of files and of tasks.
        self.sends, self.reads = _in_order(sends, SENDS), _in_order(reads, READS)
        self.tombstones = self.sends["value"].clear()
        if settings.dialect != "jepsen":
            self.sends, self.reads, self.tombstones = named(self.sends, self.reads)
        self.marks = _in_order(marks, MARKS)
        self.context = context if context is not None else pl.DataFrame(schema=CONTEXT)
        # Sends to the topic whose partition nobody learned: any of its partitions may hold their records.
        self.unplaced = _in_order(unplaced, SENDS)
        # Undecided operations that must have happened, since another operation saw what they wrote (Jepsen).
        self.confirmed = confirmed if confirmed is not None else pl.Series("at", [], dtype=pl.Int64)
        self.replica_logs = replica_logs  # what brokers kept of it
        self.timeline = timeline  # dated facts about it, for causes
        self.settled = settled  # sends whose truth the brokers' logs told
        self.generation = generation  # of its topic, where that was deleted; else None
        self.memo: dict[Callable[..., Any], Any] = {}  # by function: what one rule computed and another needs (once)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def label(self) -> str:
        """The name, with the number of the topic's generation where the run has several: orders-0#1."""
        several = self.generation is not None and self.generation.of > 1
        return f"{self.name}#{self.generation.number}" if several and self.generation else self.name

    @property
    def is_named_only(self) -> bool:
        """Whether only lines of brokers' logs name it: nobody recorded operations on it, and nothing of it was kept."""
        return self.replica_logs is None and not any(len(frame) for frame in (self.sends, self.reads, self.marks))

    @cached_property
    def acknowledged(self) -> pl.DataFrame:
        """Acknowledged sends with a value, in the order of invocation. Tombstones are named by their offset."""
        mine = self.sends.filter(pl.col("acknowledged") & pl.col("value").is_not_null())
        return mine.sort("invoked", "invoked_at", "index")

    @cached_property
    def repeated_values(self) -> int:
        """How many sends repeat a value of an earlier send, so that the value identifies neither."""
        values = self.sends["value"].drop_nulls()
        return len(values) - values.n_unique()

    @cached_property
    def legally_absent(self) -> pl.DataFrame:
        """Ranges of offsets that the leader's log lacks for a legal reason; none without evidence."""
        return legal_absences(self.replica_logs) if self.replica_logs is not None else pl.DataFrame(schema=ABSENCES)

    @cached_property
    def last_heal(self) -> int:
        """ns of the last fault or heal; before all times without one, as some clocks begin below 0."""
        faults = self.context.filter(pl.col("kind").is_in(["fault", "heal"]))
        last = faults.select(pl.max_horizontal(pl.col("invoked").max(), pl.col("completed").max())).item()
        return last if isinstance(last, int) else MIN_INT64

    @cached_property
    def end_offsets(self) -> pl.DataFrame:
        """Answered end_offsets of this partition, in the order of their invocation."""
        return self.marks.filter(
            (pl.col("kind") == "end_offsets") & (pl.col("outcome") == "ok") & pl.col("offset").is_not_null()
        ).sort("invoked", "at")

    @cached_property
    def transactional(self) -> bool:
        """Whether a transaction may have written here: elsewhere isolation levels make no difference."""
        return bool(self.sends["txn"].any() or self.unplaced["txn"].any())

    def isolation(self, process: str) -> str | None:
        """read_committed or read_uncommitted; None where nobody told."""
        told = self.settings.processes.get(process, {}).get("isolation.level")
        return str(told) if told in ("read_committed", "read_uncommitted") else None

    @cached_property
    def log_ends(self) -> pl.DataFrame:
        """Those of end_offsets that tell where the log ends.

        A read_committed client is told the last stable offset, which an open transaction holds back.
        """
        return self._answered_ends("read_uncommitted") if self.transactional else self.end_offsets

    @cached_property
    def unsure_ends(self) -> pl.DataFrame:
        """Those that may tell the last stable offset, as nobody told who asked for what."""
        return self._answered_ends(None) if self.transactional else self.end_offsets.clear()

    def _answered_ends(self, level: str | None) -> pl.DataFrame:
        who = [name for name in self.end_offsets["process"].unique() if self.isolation(name) == level]
        return self.end_offsets.filter(pl.col("process").is_in(who))

    def assigned_by(self, processes: list[str]) -> pl.DataFrame:
        return self.marks.filter(
            pl.col("process").is_in(processes)
            & pl.col("kind").is_in(["assign", "seek"])
            & pl.col("offset").is_not_null()
            & (pl.col("outcome") == "ok")
        )


def once(find: Callable[[Of], Found]) -> Callable[[Of], Found]:
    """A function of observations that is computed once for each partition."""

    @wraps(find)
    def found(p: Of) -> Found:
        if find not in p.memo:
            p.memo[find] = find(p)
        result: Found = p.memo[find]
        return result

    return found


def _in_order(frame: pl.DataFrame | None, schema: Schema) -> pl.DataFrame:
    """Without the columns that say which partition it is: all rows agree in them."""
    if frame is None or not len(frame):
        return pl.DataFrame(schema={name: kind for name, kind in schema.items() if name not in ("topic", "partition")})
    if frame["at"].is_sorted() and frame["completed"].is_sorted(nulls_last=True):
        return frame
    return frame.sort("completed", "at", "index", nulls_last=True, maintain_order=True)
