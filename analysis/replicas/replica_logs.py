"""The collected logs of one topic-partition, as the rules on replicas take them.

These rules are pure functions of a `ReplicaLogs` (frames of histories/evidence/tables.py, of one topic-partition,
all replicas and snapshots) and of the sends in the history (SENT_RECORDS). They return findings, and reasons why
something could not be judged; bad evidence makes a rule `unknown`, never a breach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import polars as pl

from ...histories.evidence.tables import (
    BATCHES,
    CHECKPOINTS,
    DAMAGE,
    EPOCHS,
    FINAL,
    LOG_EVENTS,
    RECORDS,
    SEGMENTS,
    empty,
)
from ...histories.tables import Schema, collect, complete
from ...models.internal_topics import is_internal
from ..cached import cached_property
from ..extremes import greatest
from .header_damage import without_header_damage
from .identical_batches import IDENTICAL
from .missing_logs import BASE_IN_NAME, LogTables, MissingLog, missing_logs
from .tiered import without_remote_segments

# Sends, as the rules on replicas and the causes take them. The columns from acks on are null where unknown.
SENT_RECORDS: Schema = {
    "value": pl.String,  # null for a tombstone
    "tombstone": pl.String,  # its name
    "offset": pl.Int64,
    "acknowledged": pl.Boolean,
    "invoked": pl.Int64,  # ns
    "completed": pl.Int64,  # ns
    "txn": pl.Boolean,  # sent in a transaction: `completed` is the transaction's end
    "first_read": pl.Int64,  # ns of the first completed read
    "acked_from": pl.Int64,  # ns; between these times it was acknowledged, where that is not `completed`
    "acked_by": pl.Int64,
    "place": pl.Int64,
    "acks": pl.String,  # "all" or "1"
    "read": pl.Boolean,  # whether a consumer read it; null if no reads are recorded
    "held": pl.Boolean,  # whether a final read has it
    "removed": pl.Boolean,  # whether it was deleted before a truncation, surely
    "maybe_removed": pl.Boolean,  # or perhaps
    "unsure_acks": pl.Boolean,  # whether its producer may have had acks=0
    "overwritten": pl.Boolean,  # whether the leader's log proves it, of a topic that may be compacted
    "process": pl.String,
    "key": pl.String,
}

_TABLES: dict[str, Schema] = {
    "records": RECORDS,
    "batches": BATCHES,
    "epochs": EPOCHS,
    "checkpoints": CHECKPOINTS,
    "damage": DAMAGE,
    "segments": SEGMENTS,
    "identical": IDENTICAL,
    "log_events": LOG_EVENTS,
    "leftovers": RECORDS,
}


@dataclass(frozen=True, eq=False)
class TopicPartition:
    """Something about one topic-partition."""

    topic: str
    partition: int

    @property
    def name(self) -> str:
        """The topic-partition as Kafka writes it: `orders-0`."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class ReplicaLogs(LogTables, TopicPartition):
    """The logs, epoch files and checkpoints of one topic-partition, of all brokers and snapshots."""

    snapshots: tuple[str, ...] = (FINAL,)  # undated ones, then in order of time; "" is the end of the run
    times: Mapping[str, int] = field(default_factory=dict)  # of the snapshots, ns
    leftovers: pl.DataFrame = field(default_factory=partial(empty, RECORDS, True))  # of folders beside the logs
    leader: str | None = None  # the last one that the metadata or the brokers' logs record
    replicas: tuple[str, ...] = ()  # assigned brokers; () if not recorded
    former: frozenset[str] = frozenset()  # brokers that a reassignment has removed; their last logs are leftovers
    # Brokers that have it beside those that run.json assigns, if nothing newer is recorded.
    moved_to: frozenset[str] = frozenset()
    is_compacted: bool | None = None  # whether the topic's cleanup.policy compacts; None if unknown
    is_tiered: bool = False  # whether remote storage has what was deleted from the disks (KIP-405)
    at_rest: bool = True  # whether the brokers are known to have stopped writing before the last copy
    newer_than: int | None = None  # ns: the last copy is later; records that were acknowledged since may be missing
    reported_empty: frozenset[tuple[str, str]] = frozenset()  # snapshots and brokers (partitions/collected_copies.py)
    older_copies: tuple[MissingLog, ...] = ()  # the ends that followers' last logs lack (the same module)
    removed_in: frozenset[str] = frozenset()  # snapshots in which the metadata log has the topic's removal

    @property
    def held(self) -> int:
        """The number of records in all logs, decoded or not."""
        return len(self.records) + int(self.identical["records"].sum())

    @property
    def collected(self) -> int:
        """The number of collected copies, of all brokers and snapshots, empty and damaged ones included."""
        return pl.concat([table.select("snapshot", "broker") for table in (self.batches, self.segments)]).n_unique()

    @cached_property
    def last(self) -> str:
        """The latest snapshot with logs; the end of the run if there is none."""
        held = {name for table in (self.records, self.segments, self.identical) for name in table["snapshot"].unique()}
        held |= {one.snapshot for one in self.missing}
        return next((name for name in reversed(self.snapshots) if name in held), FINAL)

    @property
    def outlive_topic(self) -> bool:
        """Whether the topic had been deleted before the latest copy: a broker that missed that still has its log."""
        return self.last in self.removed_in

    @cached_property
    def missing(self) -> tuple[MissingLog, ...]:
        """The copies of the log that were not collected, or not whole, as far as collected files prove it."""
        is_cleaned = self.is_compacted is None and self.checkpoints.filter(name="cleaned").height > 0
        may_have_gaps = bool(self.is_compacted) or is_cleaned
        is_optional = is_internal(self.topic)  # a collection may have any part of an internal topic
        found = missing_logs(self, self.snapshots, self.replicas, may_have_gaps, self.reported_empty, is_optional)
        known = {one[:2] for one in found}
        return (*found, *(one for one in self.older_copies if one[:2] not in known))

    @cached_property
    def missing_brokers(self) -> frozenset[str]:
        """The brokers of which no record of the latest snapshot could be read, though their logs had some."""
        return frozenset(one.broker for one in self.missing if one.snapshot == self.last and one.is_whole)

    @property
    def missing_of_leader(self) -> tuple[MissingLog, ...]:
        """What is missing of the leader's last log."""
        return tuple(one for one in self.missing if (one.snapshot, one.broker) == (self.last, self.leader))

    @cached_property
    def last_records(self) -> pl.DataFrame:
        """The records of the latest snapshot."""
        return self.records.filter(snapshot=self.last)

    @property
    def is_of_leader(self) -> pl.Expr:
        """An expression on rows with snapshot and broker: whether they are of the leader's last log."""
        return is_of_copy(self.last, self.leader or "")

    @property
    def leader_records(self) -> pl.DataFrame:
        """The records of the leader's last log in order of offset, `with_aborted`."""
        return with_aborted(self.records.filter(self.is_of_leader).sort("offset"))

    @cached_property
    def last_stretches(self) -> pl.DataFrame:
        """One row for each record and each identical range of the latest snapshot.

        Columns broker, first_offset, last_offset, transactional, control (null in ranges) and producer_id.
        """
        columns = ("broker", "first_offset", "last_offset", "transactional", "control", "producer_id")
        of_records = self.last_records.with_columns(first_offset="offset", last_offset="offset")
        ranges = self.identical.filter(snapshot=self.last).with_columns(
            transactional=pl.col("producer_id").is_not_null(), control=pl.lit(None, pl.String)
        )
        return pl.concat([of_records.select(columns), ranges.select(columns)])

    @cached_property
    def leader_stretches(self) -> pl.DataFrame:
        """The `last_stretches` of the leader's log in order of offset, `with_aborted`."""
        return with_aborted(self.last_stretches.filter(broker=self.leader or "").sort("first_offset"))

    @property
    def is_leader_damaged(self) -> bool:
        """Whether the leader's last log has damage or lacks a segment, which may hide any record or marker."""
        return self.damage.filter(self.is_of_leader).height > 0 or bool(self.missing_of_leader)

    @property
    def leader_start(self) -> int | None:
        """The first offset that the leader's last log may have; None if it was not collected, or that is not known."""
        start: list[int | None] = self.extents.filter(self.is_of_leader)["start"].to_list()
        return start[0] if start else None

    @cached_property
    def last_extents(self) -> pl.DataFrame:
        """The row of `extents` of the leader's last log; of all logs of the latest snapshot if that is not there."""
        last = self.extents.filter(snapshot=self.last)
        of_leader = last.filter(self.is_of_leader)
        return of_leader if of_leader.height else last

    @cached_property
    def remote_below(self) -> int:
        """The offset below which remote storage alone may have records in the latest snapshot; 0 if it is not used.

        It is that of the leader's log, or the greatest of all logs if the leader's is not there.
        """
        return greatest(self.last_extents["start"], 0) if self.is_tiered else 0

    @property
    def last_is_dated(self) -> bool:
        """Whether the time of the latest copy is known. A snapshot needs a time; the end of the run does not."""
        return self.last == FINAL or self.last in self.times

    @property
    def copied_at(self) -> int | None:
        """The time (ns) of the latest copy; None: not known."""
        return self.times.get(self.last)

    @cached_property
    def extents(self) -> pl.DataFrame:
        """One row for each replica and snapshot: `start` (first offset that its log may have), `end` (log end offset),
        and its checkpoints `high_watermark`, `recovery_point`, `log_start` and `cleaned` (null if not recorded).

        Records below `deleted_below` were deleted. It is `start`, unless remote storage has what is below that.
        The log-start checkpoint is written seldom. If the first epoch in the leader-epoch-checkpoint has batches below
        its own start there, this is the log start (LeaderEpochFileCache.truncateFromStart).
        """
        # The name of the first segment is the log start; compaction may have removed the first batches.
        key, first = ("snapshot", "broker"), pl.col("base_offset")
        sound = self.batches.filter(pl.col("crc_ok").fill_null(True)).select(
            *key, start=BASE_IN_NAME.fill_null(first), end=pl.col("last_offset") + 1
        )
        at_hand = pl.concat([sound, self.segments.select(*key, start=first, end=first)])
        # A log also starts at a first segment in which no batch is sound.
        damaged = self.damage.select(*key, start=BASE_IN_NAME, end=pl.lit(None, pl.Int64)).drop_nulls("start")
        bounds = (
            pl.concat([damaged.join(at_hand, on=key, how="semi"), at_hand] if len(damaged) else [at_hand])
            .group_by(key, maintain_order=True)
            .agg(pl.col("start").min(), pl.col("end").max())
        )
        points = self.checkpoints.group_by(key).agg(
            pl.col("offset").filter(name=name).last().alias(name.replace("-", "_"))
            for name in ("high-watermark", "recovery-point", "log-start", "cleaned")
        )
        is_first = pl.col("start_offset") == pl.col("start_offset").min().over(key)
        entries = self.epochs.filter(is_first).select(*key, "leader_epoch", first_entry="start_offset")
        begun_before = self.batches.join(entries, on=(*key, "leader_epoch")).filter(first < pl.col("first_entry"))
        shortened = begun_before.group_by(key).agg(pl.col("first_entry").min())
        dated = bounds.join(points, on=key, how="left", maintain_order="left")
        dated = dated.join(shortened, on=key, how="left", maintain_order="left").with_columns(
            start=pl.max_horizontal("start", "log_start", "first_entry")
        )
        in_remote_storage_from = pl.min_horizontal("start", pl.col("log_start").fill_null(0))
        return dated.drop("first_entry").with_columns(
            deleted_below=in_remote_storage_from if self.is_tiered else "start"
        )

    @cached_property
    def diverging(self) -> pl.DataFrame:
        """One row for each snapshot and offset at which replicas differ, if it is not below the log start.

        Last logs of `former` replicas are left out.
        Its columns are snapshot, offset, position, brokers, sides and key. `sides` names for each of its `brokers` the
        first broker that has the same record. `position` counts the offsets of the snapshot that two replicas hold; a
        range that is identical in two counts once.
        """
        what = ["leader_epoch", "timestamp", "control"]
        # A dump has no digest of a record with headers or of a marker.
        what += ["key", "value"] if self.records["digest"].null_count() else ["digest"]
        # An implausible epoch, which the reader makes null, contradicts no other.
        at = ("snapshot", "offset")
        known = pl.col("leader_epoch").fill_null(pl.col("leader_epoch").max().over(at))
        of_replicas = self.records.filter(~(pl.col("broker").is_in(list(self.former)) & (pl.col("snapshot") == FINAL)))
        identified = of_replicas.lazy().with_columns(known).select(*at, "broker", identity=pl.struct(what).hash())
        held = identified.group_by(at).agg(held=pl.len(), differ=pl.col("identity").n_unique() > 1)
        twice = held.filter(pl.col("held") > 1).select(*at, "differ")
        ranges = self.identical.lazy().select("snapshot", offset="first_offset", differ=pl.lit(False)).unique()
        differing = (
            pl.concat([twice, ranges])
            .sort(*at, "differ", descending=[False, False, True])
            .with_columns(position=pl.int_range(pl.len()).over("snapshot"))
            .filter("differ")
        )
        differ = collect(differing, len(self.records))
        if not len(differ):
            brokers = {"brokers": pl.List(self.records.schema["broker"])}
            found = {"snapshot": pl.String, "offset": pl.Int64, "position": pl.Int64}
            return pl.DataFrame(schema={**found, **brokers, "sides": pl.String, "key": pl.String})
        starts = self.extents.filter(pl.col("start") <= pl.col("end")).select("snapshot", "broker", "start")
        sides = (
            identified.join(differ.lazy(), on=at)
            # A segment may have records below the log start.
            .join(starts.lazy(), on=("snapshot", "broker"), how="left")
            .filter(pl.col("offset") >= pl.col("start").fill_null(0))
            # A log with several records at one offset is damaged there, and cannot be compared.
            .filter(pl.col("identity").n_unique().over(*at, "broker") == 1)
            .sort(*at, "broker")
            .with_columns(like=pl.col("broker").first().over(*at, "identity"))
            .group_by(*at, "position", maintain_order=True)
            .agg(brokers="broker", sides=pl.col("like").str.join("|"), differ=pl.col("like").n_unique() > 1)
            .filter("differ")
            .drop("differ")
            .with_columns(key=pl.concat_str(pl.col("brokers").list.join(","), pl.lit("/"), "sides"))
        )
        return collect(sides, len(self.records))

    def precedes(self, earlier: str, later: str) -> bool:
        """Whether one snapshot is known to be the earlier. An undated one is only known to precede the end."""
        if FINAL in (earlier, later):
            return earlier != later == FINAL
        return earlier in self.times and later in self.times and self.times[earlier] < self.times[later]


def is_of_copy(snapshot: str, broker: str) -> pl.Expr:
    """An expression on rows with snapshot and broker: whether they are of one broker's log in a snapshot."""
    return (pl.col("snapshot") == snapshot) & (pl.col("broker") == broker)


def replica_logs_of(topic: str, partition: int, tables: Mapping[str, pl.DataFrame], **about: Any) -> ReplicaLogs:
    """A ReplicaLogs of frames by table name; missing tables are empty, and repeated records are dropped.

    `about` has the fields of ReplicaLogs that are no frames.
    """
    frames: dict[str, Any] = {
        name: tables.get(name, empty(schema, name != "identical")) for name, schema in _TABLES.items()
    }
    # A record in two files of one replica (a segment copied while it was renamed) is one record.
    same = ["snapshot", "broker", "offset", "leader_epoch", "digest"]
    # Values are only compared if a dump has no digest: comparing them copies them all.
    same += ["value"] if frames["records"]["digest"].null_count() else []
    frames["records"] = frames["records"].unique(same, keep="first", maintain_order=True)
    frames |= without_header_damage(frames, about.get("is_compacted"))
    if frames["damage"].height and about.get("is_tiered"):
        frames["damage"] = without_remote_segments(frames["damage"], frames["batches"], frames["segments"])
    if frames["damage"].height:
        frames["damage"] = _bound_damage(frames["damage"], frames["batches"])
    return ReplicaLogs(topic, partition, **frames, **about)


def _bound_damage(damage: pl.DataFrame, batches: pl.DataFrame) -> pl.DataFrame:
    """Damage with its unknown offsets bounded by the sound batches around it.

    The reader of a file saw only its own range; here the batches of other ranges and segments count too.
    """
    rows = []
    for row in damage.iter_rows(named=True):
        if row["first_offset"] is not None and row["byte"] is not None:
            own = batches.filter(is_of_copy(row["snapshot"], row["broker"]) & pl.col("crc_ok").fill_null(True))
            same = pl.col("file") == row["file"]
            later = own.filter((pl.col("file") > row["file"]) | (same & (pl.col("byte") > row["byte"])))
            earlier = own.filter((pl.col("file") < row["file"]) | (same & (pl.col("byte") < row["byte"])))
            if row["last_offset"] is None and later.height:
                row["last_offset"] = later["base_offset"].to_list()[0] - 1
            if earlier.height:
                before = earlier["last_offset"].to_list()[-1] + 1
                row["first_offset"] = max(row["first_offset"], before)
            if row["last_offset"] is not None:
                row["last_offset"] = max(row["last_offset"], row["first_offset"])
        rows.append(row)
    return pl.DataFrame(rows, schema=damage.schema)


def with_aborted(records: pl.DataFrame) -> pl.DataFrame:
    """The records (or stretches) of one replica with the column `aborted`; they must be in order of offset.

    It is true or false if a marker of the producer follows, null in an open transaction, false outside transactions.
    """
    outcome = pl.when(pl.col("transactional")).then(pl.col("control"))
    return records.with_columns(
        aborted=pl.when(~pl.col("transactional"))
        .then(False)
        .otherwise(outcome.fill_null(strategy="backward").over("broker", "producer_id") == "abort")
    )


def runs(frame: pl.DataFrame, dense: str, *same: str) -> Iterator[pl.DataFrame]:
    """The rows as runs: those with consecutive numbers in column `dense` and equal values in the columns `same`."""
    if not frame.height:
        return
    broken = (pl.col(dense).diff() != 1).fill_null(True)
    for name in same:
        broken = broken | (pl.col(name) != pl.col(name).shift()).fill_null(True)
    numbered = frame.sort(dense).with_columns(_run=broken.cum_sum())
    for run in numbered.partition_by("_run", maintain_order=True):
        yield run.drop("_run")


def in_snapshot(snapshot: str) -> str:
    """A snapshot as a clause: `at the end` or `in snapshot NAME`."""
    return "at the end" if snapshot == FINAL else f"in snapshot {snapshot}"


def complete_sends(sends: pl.DataFrame) -> pl.DataFrame:
    """The frame with all columns of SENT_RECORDS, null where they are not recorded."""
    return complete(sends, SENT_RECORDS).cast(SENT_RECORDS)  # type: ignore[arg-type]
