"""The brokers' evidence of one partition: its logs, the outcomes that they resolve, and the timeline for causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import polars as pl

from ...histories.evidence.clock import Clock, Fault, clock_offsets
from ...histories.evidence.tables import FINAL, LOG_EVENTS, METADATA, empty
from ...histories.observations import json_object
from ...histories.settings import Settings
from ...histories.tables import OUTCOME
from ...models.internal_topics import METADATA_TOPIC
from ..replicas.leaders import assigned_replicas, last_leader
from ..replicas.replica_logs import ReplicaLogs, replica_logs_of
from ..replicas.resolved_outcomes import resolve_outcomes
from ..replicas.tiered import is_tiered
from ..timelines.building import build_timeline
from ..timelines.facts import MS
from ..timelines.timeline import Builder, Timeline
from .clock_bounds import ahead_of_elections, clocks_by_elections, clocks_by_records
from .clock_steps import without_steps
from .common import Common
from .metadata_clock import metadata_clock

Frames = Mapping[str, pl.DataFrame]

COLLECTED = ("batches", "records", "segments", "epochs", "damage")
# A partition with only these tables occurs in a log line, but no log of it was collected.
MENTIONED = ("metadata", "log_events")


def collected_logs(
    topic: str, partition: int, frames: Frames, settings: Settings, shared: Frames | None = None
) -> ReplicaLogs | None:
    """The collected logs of a partition; None: there are none. `shared` are the tables of no partition."""
    if not any(len(frames.get(table, ())) for table in COLLECTED):
        return None
    config = settings.topic(topic)
    dated = snapshot_times(settings)
    names = {name for frame in frames.values() if "snapshot" in frame.columns for name in frame["snapshot"].unique()}
    undated = sorted(names - set(dated) - {FINAL})
    order = (*undated, *sorted(dated, key=lambda name: dated[name]), FINAL)
    metadata = _metadata_of_this_log(_table_or_empty(frames, "metadata"), frames)
    log_events = _table_or_empty(frames, "log_events")
    of_no_partition = _table_or_empty(shared or {}, "metadata")
    policy = config.get("cleanup.policy")
    assignment = config.get("replica.assignment")
    return replica_logs_of(
        topic,
        partition,
        frames,
        snapshots=order,
        times=dated,
        leader=last_leader(metadata, log_events),
        replicas=assigned_replicas(metadata, assignment if isinstance(assignment, list) else None, partition),
        is_compacted=None if policy is None else "compact" in str(policy),
        at_rest=not settings.is_undated,
        is_tiered=is_tiered(config, topic, of_no_partition, log_events),
        removed_in=frozenset(of_no_partition.filter(kind="remove-topic", topic=topic)["snapshot"]),
    )


def _metadata_of_this_log(metadata: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """The metadata; empty if batches have a later leader epoch: then it is older, or of another cluster."""
    batches = frames.get("batches")
    if batches is None or not len(batches) or not len(metadata):
        return metadata
    written = batches.filter(pl.col("crc_ok").fill_null(True))["leader_epoch"].max()
    recorded = metadata["leader_epoch"].max()
    is_stale = isinstance(written, int) and isinstance(recorded, int) and written > recorded
    return metadata.clear() if is_stale else metadata


def snapshot_times(settings: Settings) -> dict[str, int]:
    """The times (ns) of the dated snapshots, by name."""
    snapshots = settings.config.get("snapshots")
    return {
        name: snapshot["time"]
        for name, snapshot in (snapshots.items() if isinstance(snapshots, dict) else ())
        if isinstance(snapshot, dict) and isinstance(snapshot.get("time"), int)
    }


def _table_or_empty(frames: Frames, name: str) -> pl.DataFrame:
    schema = {"metadata": METADATA, "log_events": LOG_EVENTS}[name]
    return frames[name] if name in frames else empty(schema, True)


def resolved_sends(
    sends: pl.DataFrame, logs: ReplicaLogs, unplaced: pl.DataFrame, confirmed: Sequence[int]
) -> tuple[pl.DataFrame, int]:
    """SENDS with outcomes and offsets resolved by the leader's log, and the number of resolved sends.

    An indeterminate send in the log took effect, unless its transaction was certainly aborted: then it failed at an
    unknown time. One that is not in the log may have been there before, so it stays indeterminate. Missing offsets of
    acknowledged sends are filled in. A value that was sent several times, also by the `unplaced` sends to the topic
    without a partition, resolves none of them. `confirmed` as in resolve_outcomes.
    """
    is_open = (pl.col("outcome") == "info") | ((pl.col("outcome") == "ok") & pl.col("offset").is_null())
    is_single = ~pl.col("value").is_duplicated() & ~pl.col("value").is_in(unplaced["value"].implode())
    open_sends = sends.with_row_index("row").filter(is_open & pl.col("value").is_not_null() & is_single)
    if not len(open_sends):
        return sends, 0
    placed = open_sends.select("value", place=pl.col("row").cast(pl.Int64))
    resolved = resolve_outcomes(logs, placed, confirmed)
    in_log = resolved.filter(pl.col("is_in_log").fill_null(False) | pl.col("is_aborted")).select(
        pl.col("place").cast(pl.UInt32).alias("row"), pl.col("offset").alias("offset_in_log"), "is_aborted"
    )
    joined = sends.with_row_index("row").join(in_log, on="row", how="left", maintain_order="left")
    # An acknowledged record that was aborted later is lost: its client knows that the transaction was committed.
    is_aborted = pl.col("is_aborted").fill_null(False) & (pl.col("outcome") == "info")
    is_in_log = pl.col("is_aborted").eq(False).fill_null(False)
    sends_resolved = joined.with_columns(
        offset=pl.when(is_in_log | is_aborted).then(pl.coalesce("offset", "offset_in_log")).otherwise("offset"),
        outcome=pl.when(is_aborted)
        .then(pl.lit("fail").cast(OUTCOME))
        .when(is_in_log)
        .then(pl.lit("ok").cast(OUTCOME))
        .otherwise("outcome"),
        completed=pl.when(is_aborted).then(None).otherwise("completed"),
    )
    resolved_count = joined.select((is_in_log | is_aborted).sum()).item()
    return sends_resolved.drop("row", "offset_in_log", "is_aborted"), int(resolved_count)


def timeline_of(logs: ReplicaLogs, frames: Frames, common: Common) -> Timeline:
    """The dated facts about a partition: from the metadata, the brokers' logs, the files and the history's faults."""
    settings, is_here = common.settings, pl.col("topic").is_null() | (pl.col("topic") == logs.topic)
    metadata, log_events = (
        pl.concat([_table_or_empty(frames, name), _table_or_empty(common.shared, name).filter(is_here)])
        for name in MENTIONED
    )
    clocks = _clocks_beside(logs, frames, common, metadata, log_events)
    config, system = dict(settings.topic(logs.topic)), settings.config.get("system")
    builder = Builder(logs, clocks, faults_of(common.context), config=config, started=started_ms(settings))
    version = str(system["version"]) if isinstance(system, dict) and "version" in system else None
    return build_timeline(builder, metadata, log_events, version)


def _clocks_beside(
    logs: ReplicaLogs, frames: Frames, common: Common, metadata: pl.DataFrame, log_events: pl.DataFrame
) -> Mapping[str, Clock]:
    """The clocks of the brokers, corrected by what is known about a partition; that of the metadata log if it is ahead.

    `metadata` and `log_events` have the rows of the partition and those of all partitions.
    """
    started, sends = started_ms(common.settings), frames["sends"]
    elections, own_events = _table_or_empty(frames, "metadata"), _table_or_empty(frames, "log_events")
    clocks = clocks_by_records(clocks_of(common), logs, own_events, sends, started)
    clocks = without_steps(clocks, log_events, elections)
    ahead = ahead_of_elections(own_events, elections)
    of_metadata = metadata_clock(clocks, ahead, metadata, sends, faults_of(common.context), started)
    if not of_metadata.offset:
        return clocks_by_elections(clocks, ahead)
    on_time = elections.with_columns(pl.col("time") - of_metadata.offset)
    return {**clocks_by_elections(clocks, ahead_of_elections(own_events, on_time)), METADATA_TOPIC: of_metadata}


def clocks_of(common: Common) -> Mapping[str, Clock]:
    """The offset of each broker's clock from the history's clock."""
    log_events = _table_or_empty(common.shared, "log_events")
    return clock_offsets(log_events, faults_of(common.context), started_ms(common.settings))


def started_ms(settings: Settings) -> int | None:
    """The run's start, ms since the epoch."""
    try:
        return int(datetime.fromisoformat(str(settings.config.get("started_at"))).timestamp() * 1000)
    except ValueError:
        return None


def longest_copies(
    rows: pl.DataFrame, owner: str, item: Sequence[str], decided: str, length: Sequence[str]
) -> pl.DataFrame:
    """The rows of coordinators' topics at the end of the run, of each `owner` from the copy of greatest `length`.

    Of equal ones an undamaged copy is taken. An owner is left out if copies differ in what was `decided` of an `item`,
    as after an unclean election.
    """
    rows = rows.filter(snapshot=FINAL)
    if not len(rows):
        return rows
    differ = rows.drop_nulls(decided).group_by(owner, *item).agg(pl.col(decided).n_unique()).filter(pl.col(decided) > 1)
    copies = rows.group_by(owner, "broker").agg(pl.col(*length).max(), pl.col("intact").all())
    longest = copies.sort(*length, "intact", "broker", descending=[True] * (len(length) + 1) + [False])
    best = longest.unique(owner, keep="first", maintain_order=True)
    agreed = rows.join(differ, on=owner, how="anti", maintain_order="left")
    return agreed.join(best, on=[owner, "broker"], how="semi", maintain_order="left")


def on_clock_of_history(ms: pl.Expr, settings: Settings) -> pl.Expr:
    """Times in ms since the epoch as ns since the start of the run; null if run.json has no started_at."""
    started = started_ms(settings)
    return pl.lit(None, pl.Int64) if started is None else (ms - started) * MS


def faults_of(context: pl.DataFrame) -> list[Fault]:
    """The faults and heals of a history, in the order of their completion."""
    faults = []
    for row in context.filter(pl.col("kind").is_in(["fault", "heal"])).sort("completed", "at").iter_rows(named=True):
        detail = json_object(row["detail"])
        nodes = detail.get("nodes")
        names = tuple(str(node) for node in nodes) if isinstance(nodes, list) else ()
        done = row["completed"] if row["completed"] is not None else row["invoked"]
        when = (row["invoked"], done, row["at"])
        faults.append(Fault(row["kind"], str(detail.get("kind", "")), names, *when, detail, row["outcome"]))
    return faults
