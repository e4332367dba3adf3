"""The brokers' evidence of one partition: its logs, the outcomes that they resolve, and the timeline for causes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.settings import Settings
from ...histories.tables import OUTCOME
from ..replicas.leaders import assigned_replicas, last_leader, replicas_after_moves
from ..replicas.replica_logs import ReplicaLogs, replica_logs_of
from ..replicas.resolved_outcomes import resolve_outcomes
from ..replicas.tiered import is_tiered
from ..timelines.building import build_timeline
from ..timelines.facts import MS
from ..timelines.timeline import Builder, Timeline
from .broker_clocks import broker_clocks
from .common import Common, Frames, evidence_in

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
    dated = settings.snapshot_times
    names = {name for frame in frames.values() if "snapshot" in frame.columns for name in frame["snapshot"].unique()}
    undated = sorted(names - set(dated) - {FINAL})
    order = (*undated, *sorted(dated, key=lambda name: dated[name]), FINAL)
    metadata = _metadata_of_this_log(evidence_in(frames, "metadata"), frames)
    log_events = evidence_in(frames, "log_events")
    of_no_partition = evidence_in(shared or {}, "metadata")
    policy = config.get("cleanup.policy")
    assignment = config.get("replica.assignment")
    configured = assignment if isinstance(assignment, list) else None
    recorded = assigned_replicas(metadata, log_events, None, partition)
    replicas = recorded or assigned_replicas(metadata, log_events, configured, partition)
    if replicas and not recorded:
        replicas = (recorded := replicas_after_moves(replicas, log_events)) or replicas
    leader = last_leader(metadata, log_events)
    holders = frozenset(frames["batches"]["broker"] if "batches" in frames else ())
    return replica_logs_of(
        topic,
        partition,
        frames,
        snapshots=order,
        times=dated,
        leader=leader,
        replicas=replicas,
        former=holders - {*recorded} if recorded else frozenset(),
        moved_to=frozenset() if recorded or not replicas else (holders | {leader or replicas[0]}) - {*replicas},
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
        pl.concat([evidence_in(frames, name), evidence_in(common.shared, name).filter(is_here)]) for name in MENTIONED
    )
    clocks = broker_clocks(logs, frames, common, metadata, log_events)
    config, system = dict(settings.topic(logs.topic)), settings.config.get("system")
    unrecorded = () if common.context.height else settings.producers()  # a history has the acks of its sends
    acks = frozenset(map(settings.acks, unrecorded))
    builder = Builder(logs, clocks, common.faults, config=config, acks=acks, started=settings.started_ms)
    version = str(system["version"]) if isinstance(system, dict) and "version" in system else None
    return build_timeline(builder, metadata, log_events, version)


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
    started = settings.started_ms
    return pl.lit(None, pl.Int64) if started is None else (ms - started) * MS
