"""The observations of one topic-partition: frames, settings, and values that follow directly from them.

Values that need a longer computation are functions of these observations, each computed once (`once`): log_start.py,
final_reads.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import polars as pl

from ...histories.evidence.tables import ABORTED, GROUPS, METADATA, PRODUCERS, STATE_LOGS, TRANSACTIONS, empty
from ...histories.settings import Settings
from ...histories.tables import CONTEXT, MARKS, MIN_INT64, OBSERVED, READS, SENDS, no_rows, without_key
from ..cached import cached_property
from ..cached import once as once
from ..replicas.replica_logs import ReplicaLogs, TopicPartition
from ..replicas.resolved_outcomes import ABSENCES, legal_absences
from ..timelines.timeline import Timeline
from .marks import IS_LOG_END, IS_POSITION
from .topic_generations import TopicGeneration

POSITIONS = {name: READS[name] for name in ("process", "completed", "at", "index")} | {"position": pl.Int64}
TOMBSTONE = pl.format("tombstone@{}", "offset")


def name_tombstones(sends: pl.DataFrame, reads: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.Series]:
    """Sends and reads with a name for the value of each tombstone (tombstone@7, by its offset), and these names.

    After a truncation another tombstone may get the same offset: tombstone@7#2. A polled record without a value
    confirms the latest tombstone sent to that offset by then. At other offsets it proves nothing: the value may just
    not have been recorded.
    """
    has_no_value = pl.col("value").is_null() & pl.col("offset").is_not_null()
    if not sends["value"].null_count() or not len(sends.filter(has_no_value)):
        return sends, reads, pl.Series("value", [], dtype=pl.String)
    number = pl.col("offset").cum_count().over("offset", pl.col("value").is_null())
    name = pl.when(number > 1).then(pl.format("{}#{}", TOMBSTONE, number)).otherwise(TOMBSTONE)
    named = sends.with_columns(pl.when(has_no_value).then(name).otherwise("value").alias("value"))
    sent = named.filter(sends.select(has_no_value).to_series()).select("offset", "invoked", name="value")
    here = has_no_value & pl.col("offset").is_in(sent["offset"].unique().implode())
    confirmed = reads.with_columns(value=pl.when(here).then(TOMBSTONE).otherwise("value"))
    if sent["offset"].is_duplicated().any():
        confirmed = _with_latest(confirmed, sent.filter(pl.col("offset").is_duplicated()))
    return named, confirmed, sent["name"].unique()


def _with_latest(reads: pl.DataFrame, sent: pl.DataFrame) -> pl.DataFrame:
    """Reads with each tombstone named after the latest send (`sent`) to its offset by then."""
    rows = reads.with_row_index("row")
    repeated = rows.filter((pl.col("value") == TOMBSTONE) & pl.col("offset").is_in(sent["offset"].unique().implode()))
    latest = repeated.sort("completed").join_asof(
        sent.sort("invoked"), left_on="completed", right_on="invoked", by="offset", check_sortedness=False
    )
    joined = rows.join(latest.select("row", "name"), on="row", how="left", maintain_order="left")
    return joined.with_columns(value=pl.coalesce("name", "value")).select(reads.columns)


def with_null_tombstones(sends: pl.DataFrame, tombstones: pl.Series) -> pl.DataFrame:
    """Sends with null for the value of each tombstone, as in the brokers' logs, and its name in `tombstone`."""
    is_tombstone = pl.col("value").is_in(tombstones.implode())
    return sends.with_columns(value=pl.when(~is_tombstone).then("value"), tombstone=pl.when(is_tombstone).then("value"))


@dataclass(frozen=True, eq=False)
class Observations(TopicPartition):
    """The observations of one topic-partition, sorted by time, then by line: the order of files has no influence."""

    settings: Settings
    sends: pl.DataFrame = field(default_factory=lambda: no_rows(without_key(SENDS)))
    reads: pl.DataFrame = field(default_factory=lambda: no_rows(without_key(READS)))
    marks: pl.DataFrame = field(default_factory=lambda: no_rows(without_key(MARKS)))
    context: pl.DataFrame = field(default_factory=lambda: no_rows(CONTEXT))
    # Sends to the topic without a recorded partition: any of its partitions may hold their records.
    unplaced: pl.DataFrame = field(default_factory=lambda: no_rows(without_key(SENDS)))
    # The `at` of indeterminate operations that took effect: another operation read what they wrote (Jepsen).
    confirmed: pl.Series = field(default_factory=lambda: pl.Series("at", [], dtype=pl.Int64))
    replica_logs: ReplicaLogs | None = None  # the collected logs of the brokers
    groups: pl.DataFrame = field(default_factory=lambda: empty(GROUPS, True))  # from __consumer_offsets
    aborted: pl.DataFrame = field(default_factory=lambda: empty(ABORTED, True))  # from the brokers' .txnindex
    producers: pl.DataFrame = field(default_factory=lambda: empty(PRODUCERS, True))  # from their producer snapshots
    coordinated: pl.DataFrame = field(default_factory=lambda: empty(TRANSACTIONS, True))  # from __transaction_state
    state_logs: pl.DataFrame = field(default_factory=lambda: empty(STATE_LOGS, True))  # copies of __transaction_state
    state_metadata: pl.DataFrame = field(default_factory=lambda: empty(METADATA, True))  # METADATA of that topic
    # The positions of consumers after reads that were left out of a condensed partition (screening/condense.py).
    positions: pl.DataFrame = field(default_factory=lambda: no_rows(POSITIONS))
    timeline: Timeline | None = None  # its dated facts, for causes
    resolved_count: int = 0  # sends with an outcome or offset from the leader's log
    generation: TopicGeneration | None = None  # of its topic; None: the topic was never deleted
    # The names of tombstones (name_tombstones). `replace` keeps them, as their sends have these names already.
    tombstones: pl.Series = field(default_factory=lambda: pl.Series("value", [], pl.String))
    memo: dict[Any, Any] = field(init=False, default_factory=dict)  # results by function and arguments (once)

    def __post_init__(self) -> None:
        here: dict[str, Any] = {name: _sorted_by_time(getattr(self, name)) for name in (*OBSERVED, "unplaced")}
        if self.settings.dialect != "jepsen":
            here["sends"], here["reads"], named = name_tombstones(here["sends"], here["reads"])
            here["tombstones"] = pl.concat([self.tombstones, named])
        vars(self).update(here)

    @property
    def label(self) -> str:
        """The name, with the number of the topic's generation where the run has several: orders-0#1."""
        return f"{self.name}#{self.generation.number}" if self.generation and self.generation.count > 1 else self.name

    @property
    def is_condensed(self) -> bool:
        """Whether plain rows were left out, and `positions` replaces them (screening/condense.py)."""
        return len(self.positions) > 0

    @property
    def is_named_only(self) -> bool:
        """Whether it only occurs in lines of brokers' logs: it has no recorded operations and no collected log."""
        return self.replica_logs is None and not any(len(frame) for frame in (self.sends, self.reads, self.marks))

    @property
    def is_unobserved(self) -> bool:
        """Whether no rule has anything to judge: it is only named, and all its tables are empty."""
        of_run = ("context", "state_logs", "state_metadata")
        own = (getattr(self, each.name) for each in fields(self) if each.name not in of_run)
        return self.is_named_only and not any(isinstance(value, pl.DataFrame) and len(value) for value in own)

    @cached_property
    def acknowledged(self) -> pl.DataFrame:
        """Acknowledged sends with a value, or the name of a tombstone, in the order of invocation."""
        sends = self.sends.filter(pl.col("acknowledged") & pl.col("value").is_not_null())
        return sends.sort("invoked", "invoked_at", "index")

    @cached_property
    def possible_sends(self) -> pl.DataFrame:
        """All sends that may have written here, also those without a recorded partition."""
        return pl.concat([self.sends, self.unplaced]) if len(self.unplaced) else self.sends

    @cached_property
    def repeated_values(self) -> int:
        """The number of sends with the value of an earlier send: a repeated value identifies no send."""
        values = self.sends["value"].drop_nulls()
        return len(values) - values.n_unique()

    @cached_property
    def legally_absent(self) -> pl.DataFrame:
        """Ranges of offsets that are legally absent from the leader's log; empty without evidence."""
        return legal_absences(self.replica_logs) if self.replica_logs is not None else no_rows(ABSENCES)

    @cached_property
    def last_heal(self) -> int:
        """Time (ns) of the last fault or heal."""
        return last_heal(self.context)

    @cached_property
    def end_offsets(self) -> pl.DataFrame:
        """Completed end_offsets requests for this partition, sorted by invocation."""
        return self.marks.filter(IS_LOG_END).sort("invoked", "at")

    @cached_property
    def has_transactions(self) -> bool:
        """Whether a transaction may have written here. If not, isolation levels make no difference."""
        return bool(self.sends["txn"].any() or self.unplaced["txn"].any())

    @cached_property
    def log_ends(self) -> pl.DataFrame:
        """The `end_offsets` that returned the high watermark.

        A read_committed client gets the last stable offset, which an open transaction holds back.
        """
        return self._ends_at_level("read_uncommitted") if self.has_transactions else self.end_offsets

    @cached_property
    def unsure_ends(self) -> pl.DataFrame:
        """The `end_offsets` that may be last stable offsets: the client's isolation level is not recorded."""
        return self._ends_at_level(None) if self.has_transactions else self.end_offsets.clear()

    def _ends_at_level(self, level: str | None) -> pl.DataFrame:
        processes = [name for name in self.end_offsets["process"].unique() if self.settings.isolation(name) == level]
        return self.end_offsets.filter(pl.col("process").is_in(processes))

    def assigned_by(self, processes: list[str]) -> pl.DataFrame:
        """The completed assignments and seeks of these processes to an offset."""
        return self.marks.filter(pl.col("process").is_in(processes) & IS_POSITION)


def last_heal(context: pl.DataFrame) -> int:
    """Time (ns) of the last fault or heal; without one MIN_INT64, as some clocks begin below 0."""
    faults = context.filter(pl.col("kind").is_in(["fault", "heal"]))
    last = faults.select(pl.max_horizontal(pl.col("invoked").max(), pl.col("completed").max())).item()
    return last if isinstance(last, int) else MIN_INT64


def _sorted_by_time(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows sorted by time, then by line."""
    if not len(frame) or (frame["at"].is_sorted() and frame["completed"].is_sorted(nulls_last=True)):
        return frame
    return frame.sort("completed", "at", "index", nulls_last=True, maintain_order=True)
