"""One topic-partition as the rules see it: its observations, and what several rules need to know of them.

A rule is a pure function of a Partition. Nothing here knows of Spark, of files, or of other partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from ...histories.tables import CONTEXT, MARKS, MIN_INT64, READS, SENDS, Schema
from ..replicas.replica_logs import ReplicaLogs
from ..replicas.resolved_outcomes import ABSENCES, BELOW_START, legal_absences
from ..timelines.timeline import Timeline
from .entries import Ints, index_entries
from .final_reads import FinalReads, final_reads
from .log_start import LogStart, log_start
from .tombstones import named
from .topic_generations import TopicGeneration

if TYPE_CHECKING:
    from ...histories.bundle import Settings

Offsets = npt.NDArray[np.int64]
Found = TypeVar("Found")


class Partition:
    """The observations of one topic-partition, and lazily what follows from them."""

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
        self.otherwise: list[Partition] = []  # what it is if deletions of unknown outcome happened
        self.ambiguous: list[tuple[str, str]] = []  # what rules need, and why it may be another generation's
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
    def _index(self) -> tuple[pl.DataFrame, Ints, Ints]:
        dirty = [name for name in self.settings.processes if self.settings.reads_uncommitted(name)]
        final = list(self.final.processes) if self.final else []
        return index_entries(self.sends, self.reads, final, dirty, self.last_heal)

    @cached_property
    def entries(self) -> pl.DataFrame:
        """Each (offset, value) that the log is known to have held, by offset; for the columns see entries.py.

        To them come first_reader and first_read_at (place).
        """
        entries = self._index[0]
        return entries.with_columns(
            self.reads["process"].gather(entries["first"]).alias("first_reader"),
            self.reads["at"].gather(entries["first"]).alias("first_read_at"),
        )

    def entries_between(self, first: int, last: int) -> pl.DataFrame:
        """The entries at offsets first to last, without a look at all others."""
        low, high = np.searchsorted(self._entry_offsets, [first, last + 1], "left")
        return self.entries[int(low) : int(high)]

    @cached_property
    def _entry_offsets(self) -> Offsets:
        return self.entries["offset"].to_numpy()

    @property
    def entry_of_send(self) -> Ints:
        """The row in `entries` of each send; -1 where offset or value is not known."""
        return self._index[1]

    @property
    def entry_of_read(self) -> Ints:
        """The row in `entries` of each read; -1 where offset or value is not known."""
        return self._index[2]

    @cached_property
    def elsewhere(self) -> pl.DataFrame:
        """Entries that were polled where no send is known to have written: mostly none."""
        return self.entries.filter(pl.col("send").is_null())

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

    @cached_property
    def log_start(self) -> LogStart:
        """Where the log starts, for certain and possibly (log_start.py)."""
        below = self.legally_absent.filter(pl.col("reason") == BELOW_START)["last_offset"].max()
        return log_start(self, below + 1 if isinstance(below, int) else None)

    def assigned_by(self, processes: list[str]) -> pl.DataFrame:
        return self.marks.filter(
            pl.col("process").is_in(processes)
            & pl.col("kind").is_in(["assign", "seek"])
            & pl.col("offset").is_not_null()
            & (pl.col("outcome") == "ok")
        )

    @cached_property
    def final(self) -> FinalReads | None:
        """The final reads of it, if anybody did them (final_reads.py)."""
        return final_reads(self)

    @cached_property
    def committed(self) -> pl.Expr:
        """Of entries: is it a record for a read_committed consumer, as it was acknowledged or such a one polled it?"""
        read = pl.col("read") & ~pl.col("aborted")
        if self.transactional and any(self.isolation(name) is None for name in self.reads["process"].unique()):
            # Who saw a record of an open transaction may read uncommitted ones: it need not be there for others.
            unsure = self.sends.filter(pl.col("txn") & ~pl.col("acknowledged"))["value"].drop_nulls().unique()
            read = read & ~pl.col("value").is_in(unsure.implode())
        return pl.col("sent_ok") | read


def once(find: Callable[[Partition], Found]) -> Callable[[Partition], Found]:
    """A function of a Partition that is computed once for each."""

    @wraps(find)
    def found(p: Partition) -> Found:
        if find not in p.memo:
            p.memo[find] = find(p)
        kept: Found = p.memo[find]
        return kept

    return found


def _in_order(frame: pl.DataFrame | None, schema: Schema) -> pl.DataFrame:
    """Without the columns that say which partition it is: all rows agree in them."""
    if frame is None or not len(frame):
        return pl.DataFrame(schema={name: kind for name, kind in schema.items() if name not in ("topic", "partition")})
    if frame["at"].is_sorted() and frame["completed"].is_sorted(nulls_last=True):
        return frame
    return frame.sort("completed", "at", "index", nulls_last=True, maintain_order=True)
