"""One topic-partition as the rules see it: its observations, and what several rules need to know of them.

A rule is a pure function of a Partition. Nothing here knows of Spark, of files, or of other partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from ...histories.tables import BEYOND_ALL, CONTEXT, MARKS, READS, SENDS, Schema
from ..replicas.kept import Kept
from ..replicas.settled import ABORTED, ABSENCES, BELOW_START, legal_absences
from ..timelines.timeline import Timeline
from .entries import Ints, index_entries
from .log_start import LogStart, log_start
from .open_transactions import hidden_from
from .tombstones import named

if TYPE_CHECKING:
    from ...histories.bundle import Settings

Offsets = npt.NDArray[np.int64]
Found = TypeVar("Found")
BEFORE_ALL = -BEYOND_ALL  # ns


class FinalReads(NamedTuple):
    """The passes over the whole partition after the last fault: who made them, and the offsets they cover."""

    processes: tuple[str, ...]
    start: int
    end: int  # exclusive
    since: int  # ns: the passes began
    until: int  # ns: their last poll
    complete: bool  # they went from the log start to the end that was asked for
    hides: int  # the first offset that an open transaction may have hidden from them


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
        self.kept: Kept | None = None  # what brokers kept of it
        self.timeline: Timeline | None = None  # dated facts about it, for causes
        self.settled = 0  # sends whose truth the brokers' logs told
        self.unjudged: dict[str, list[str]] = {}  # by rule: what could not be judged, in words
        self.untold: set[tuple[str, str]] = set()  # rule, and the setting without which it cannot judge something
        self.memo: dict[Callable[..., Any], Any] = {}  # by function: what one rule computed and another needs (once)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def doubt(self, rule: str, says: str) -> None:
        """The rule cannot judge something here, for a reason in words."""
        if says not in self.unjudged.setdefault(rule, []):
            self.unjudged[rule].append(says)

    def rests_on_level(self, rule: str, processes: Iterable[str]) -> None:
        """The rule cannot judge something here, as nobody told the isolation level of these processes."""
        self.untold |= {(rule, f"isolation.level of {name}") for name in processes if self.isolation(name) is None}

    @property
    def is_named_only(self) -> bool:
        """Whether only lines of brokers' logs name it: nobody recorded operations on it, and nothing of it was kept."""
        return self.kept is None and not any(len(frame) for frame in (self.sends, self.reads, self.marks))

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
        """Ranges of offsets that the leader's log lacks for a legal reason (settled.py); none without evidence."""
        return legal_absences(self.kept) if self.kept is not None else pl.DataFrame(schema=ABSENCES)

    @cached_property
    def last_heal(self) -> int:
        """ns of the last fault or heal; before all times without one, as some clocks begin below 0."""
        faults = self.context.filter(pl.col("kind").is_in(["fault", "heal"]))
        return _ns(faults.select(pl.max_horizontal(pl.col("invoked").max(), pl.col("completed").max())).item())

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
        return self._ends_told("read_uncommitted") if self.transactional else self.end_offsets

    @cached_property
    def unsure_ends(self) -> pl.DataFrame:
        """Those that may tell the last stable offset, as nobody told who asked for what."""
        return self._ends_told(None) if self.transactional else self.end_offsets.clear()

    def _ends_told(self, level: str | None) -> pl.DataFrame:
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
    def asked_end(self) -> int | None:
        """The end offset asked after the last fault healed, if anyone asked; else, of these, a last stable offset."""
        for ends in (self.log_ends, self.end_offsets):
            late = ends.filter(pl.col("invoked") >= self.last_heal)
            if len(late):
                return int(late["offset"][-1])
        return None

    @cached_property
    def final(self) -> FinalReads | None:
        """The final reads (format.md): those of role final, or a consumer's uninterrupted pass; else None."""
        if not self.settings.final:
            return None
        named = tuple(self.settings.final_processes())
        if named:
            return self._pass_of(named)
        whole = (self._pass_of((process,)) for process in self.reads["process"].unique(maintain_order=True))
        return next((done for done in whole if done and self._is_uninterrupted(done)), None)

    def _pass_of(self, processes: tuple[str, ...]) -> FinalReads | None:
        """What these processes read after the last heal, or None if they did not come by this partition."""
        mine = self.reads.filter(pl.col("process").is_in(processes) & (pl.col("completed") >= self.last_heal))
        assigned = self.assigned_by(list(processes))
        if not len(mine) and not len(assigned):
            return None
        # Only an assignment says that the reads began behind the log start: the first record may be the lost one.
        begin = assigned["offset"].min()
        begins = self.log_start.certain
        start = max(begins, begin if isinstance(begin, int) else begins)
        top = mine["offset"].max()
        end = int(top) + 1 if isinstance(top, int) else start
        begun = assigned["completed"].max() if len(assigned) else mine["completed"].min()
        asked = self.asked_end if self.asked_end is not None else end
        # Markers and aborted records may follow the last record that a consumer sees; acknowledged ones may not.
        until = mine["completed"].max() if len(mine) else begun
        hides = hidden_from(self, processes, end, _ns(until))
        asked = max(end, min(asked, hides))
        offset = pl.col("offset")
        outside = (offset >= end) & (offset < asked) | (offset >= begins) & (offset < start)
        missed = self.sends.filter(pl.col("acknowledged") & outside)
        if len(missed):
            # Where the log was written anew, a marker may stand where an acknowledged record stood.
            legal = [pl.col("offset").is_between(a, b) for a, b, _ in self.legally_absent.iter_rows()]
            missed = missed.filter(~pl.any_horizontal(pl.lit(False), *legal))
        complete = not len(missed)
        return FinalReads(processes, start, asked if complete else end, _ns(begun), _ns(until), complete, hides)

    def _is_uninterrupted(self, done: FinalReads) -> bool:
        """From the log start to an end offset asked after the last heal, without seek, assignment or jump."""
        whose = pl.col("process").is_in(done.processes)
        mine = self.reads.filter(whose & (pl.col("completed") >= self.last_heal))
        if not len(mine) or self.asked_end is None:
            return False
        moves = pl.concat(
            [
                self.marks.filter(whose & pl.col("kind").is_in(["seek", "assign", "revoke"])).select("completed"),
                self.context.filter(whose & (pl.col("kind") == "crash")).select("completed"),
            ]
        )
        begun = _ns(mine["completed"].min())
        forward = bool((mine["offset"].diff().drop_nulls() > 0).all())
        first = int(mine["offset"][0] or 0)
        # An assignment from which it had read before the last heal is not where this pass began.
        earlier = _ns(self.reads.filter(whose & (pl.col("completed") < self.last_heal))["completed"].max())
        assigned = self.assigned_by(list(done.processes)).filter(pl.col("completed").is_between(earlier, begun))
        start = _ns(assigned["offset"][-1]) if len(assigned) else first
        still = not len(moves.filter(pl.col("completed") > begun))
        return done.complete and done.end >= self.asked_end and forward and still and start <= self.log_start.certain

    @cached_property
    def committed(self) -> pl.Expr:
        """Of entries: is it a record for a read_committed consumer, as it was acknowledged or such a one polled it?"""
        read = pl.col("read") & ~pl.col("aborted")
        if self.transactional and any(self.isolation(name) is None for name in self.reads["process"].unique()):
            # Who saw a record of an open transaction may read uncommitted ones: it need not be there for others.
            unsure = self.sends.filter(pl.col("txn") & ~pl.col("acknowledged"))["value"].drop_nulls().unique()
            read = read & ~pl.col("value").is_in(unsure.implode())
        return pl.col("sent_ok") | read

    @cached_property
    def existing(self) -> Offsets:
        """Offsets that hold a record for a read_committed consumer, sorted: acknowledged or polled ones.

        Legally absent ones are left out, and so are aborted ones: there is nothing to skip.
        """
        kept = self.entries.filter(self.committed)
        return self._without_absent(kept, self.legally_absent)

    @cached_property
    def existing_uncommitted(self) -> Offsets:
        """The same for a read_uncommitted consumer, which sees records of aborted transactions too."""
        return self._without_absent(self.entries, self.legally_absent.filter(pl.col("reason") != ABORTED))

    def _without_absent(self, entries: pl.DataFrame, ranges: pl.DataFrame) -> Offsets:
        kept = entries.filter(pl.col("offset") >= self.log_start.possible)
        for absent in (self.superseded, self.fading):
            if len(absent):
                kept = kept.filter(~pl.col("value").is_in(absent.implode()))
        offsets = np.unique(kept["offset"].to_numpy())
        opened, closed = np.zeros(len(offsets) + 1, np.int64), np.zeros(len(offsets) + 1, np.int64)
        np.add.at(opened, np.searchsorted(offsets, ranges["first_offset"], "left"), 1)
        np.add.at(closed, np.searchsorted(offsets, ranges["last_offset"], "right"), 1)
        return np.asarray(offsets[np.cumsum(opened - closed)[:-1] == 0])

    @cached_property
    def superseded(self) -> pl.Series:
        """Values that compaction may remove, tombstones among them; none where the topic is not compacted."""
        if not self.settings.compacted(self.topic):
            return self.tombstones.clear()
        return pl.concat([self.replaced_by_key, self.tombstones]).unique()

    @cached_property
    def fading(self) -> pl.Series:
        """Tombstones that compaction may have removed, as who wrote them expects it, though nobody told the policy."""
        told = "cleanup.policy" in self.settings.topic(self.topic)
        return self.tombstones.clear() if told else self.tombstones

    @cached_property
    def replaced_by_key(self) -> pl.Series:
        """Values whose key a later record has, or a tombstone."""
        written = self.sends.filter(pl.col("key").is_not_null() & (pl.col("outcome") != "fail"))
        read_at = self.entries.select("value", pl.col("offset").alias("read_offset")).unique("value")
        placed = written.join(read_at, on="value", how="left").with_columns(
            pl.coalesce("offset", "read_offset").alias("offset")
        )
        # A record whose offset nobody learned may be the newer one, so it excuses all others of its key.
        newest = placed.group_by("key").agg(
            pl.col("offset").max().alias("newest"),
            pl.col("offset").null_count().alias("unplaced"),
            (pl.len() > 1).alias("others"),
        )
        judged = placed.join(newest, on="key")
        gone = (pl.col("offset") < pl.col("newest")) | (pl.col("unplaced") > pl.col("offset").is_null().cast(pl.UInt32))
        return judged.filter(gone.fill_null(pl.col("others")) & pl.col("value").is_not_null())["value"].unique()


def once(find: Callable[[Partition], Found]) -> Callable[[Partition], Found]:
    """A function of a Partition that is computed once for each."""

    @wraps(find)
    def found(p: Partition) -> Found:
        if find not in p.memo:
            p.memo[find] = find(p)
        kept: Found = p.memo[find]
        return kept

    return found


def _ns(value: object) -> int:
    return value if isinstance(value, int) else BEFORE_ALL


def _in_order(frame: pl.DataFrame | None, schema: Schema) -> pl.DataFrame:
    """Without the columns that say which partition it is: all rows agree in them."""
    if frame is None or not len(frame):
        return pl.DataFrame(schema={name: kind for name, kind in schema.items() if name not in ("topic", "partition")})
    if frame["at"].is_sorted() and frame["completed"].is_sorted(nulls_last=True):
        return frame
    return frame.sort("completed", "at", "index", nulls_last=True, maintain_order=True)
