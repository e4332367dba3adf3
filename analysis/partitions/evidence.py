"""What brokers kept, joined to a partition of the history: the logs, what they settle, and the timeline of causes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson
import polars as pl

from ...histories.bundle import Settings
from ...histories.evidence.clock import Clock, Fault, clock_offsets
from ...histories.evidence.tables import FINAL, LOG_EVENTS, METADATA, empty
from ...histories.tables import OUTCOME
from ..replicas.leaders import assigned_replicas, last_leader
from ..replicas.replica_logs import ReplicaLogs, replica_logs_of
from ..replicas.resolved_outcomes import settle
from ..timelines.timeline import Timeline, build_timeline

Frames = Mapping[str, pl.DataFrame]

# A partition of which only these are known was named by a log line, but nothing of it was kept.
HELD = ("batches", "records", "segments", "epochs", "damage")
TOLD = ("metadata", "log_events")


def kept_of(topic: str, partition: int, frames: Frames, settings: Settings) -> ReplicaLogs | None:
    """The brokers' logs of a partition, or None where nobody kept any."""
    if not any(len(frames.get(table, ())) for table in HELD):
        return None
    config = settings.topic(topic)
    dated = snapshot_times(settings)
    named = {name for frame in frames.values() if "snapshot" in frame.columns for name in frame["snapshot"].unique()}
    undated = sorted(named - set(dated) - {FINAL})
    order = (*undated, *sorted(dated, key=lambda name: dated[name]), FINAL)
    metadata, log_events = _of_this_log(_table(frames, "metadata"), frames), _table(frames, "log_events")
    policy = config.get("cleanup.policy")
    assignment = config.get("replica.assignment")
    return replica_logs_of(
        topic,
        partition,
        frames,
        order,
        dated,
        last_leader(metadata, log_events),
        assigned_replicas(metadata, assignment if isinstance(assignment, list) else None, partition),
        None if policy is None else "compact" in str(policy),
        not settings.undated,
    )


def _of_this_log(metadata: pl.DataFrame, frames: Frames) -> pl.DataFrame:
    """Nothing, where batches have a later leader epoch: such metadata is of an earlier time, or of another cluster."""
    batches = frames.get("batches")
    if batches is None or not len(batches) or not len(metadata):
        return metadata
    written = batches.filter(pl.col("crc_ok").fill_null(True))["leader_epoch"].max()
    told = metadata["leader_epoch"].max()
    return metadata.clear() if isinstance(written, int) and isinstance(told, int) and written > told else metadata


def is_told_of(frames: Frames) -> bool:
    """Whether brokers' logs or the cluster's metadata speak of a partition."""
    return any(len(frames.get(table, ())) for table in TOLD)


def snapshot_times(settings: Settings) -> dict[str, int]:
    """Names of dated snapshots, and their times in ns."""
    told = settings.config.get("snapshots")
    found = told.items() if isinstance(told, dict) else ()
    return {
        name: about["time"] for name, about in found if isinstance(about, dict) and isinstance(about.get("time"), int)
    }


def _table(frames: Frames, name: str) -> pl.DataFrame:
    schema = {"metadata": METADATA, "log_events": LOG_EVENTS}[name]
    return frames[name] if name in frames else empty(schema, True)


def resolved_sends(sends: pl.DataFrame, logs: ReplicaLogs) -> tuple[pl.DataFrame, int]:
    """SENDS with the truth that the leader's log tells of them, and of how many it told.

    A send of unknown outcome that stands in the log happened, though nobody acknowledged it; one that does not
    stand there may have stood there once, so it stays unknown. Offsets that no acknowledgement told are filled in.
    """
    asked = (pl.col("outcome") == "info") | ((pl.col("outcome") == "ok") & pl.col("offset").is_null())
    open_sends = sends.with_row_index("row").filter(asked & pl.col("value").is_not_null())
    if not len(open_sends):
        return sends, 0
    truth = settle(logs, open_sends.select("value", pl.col("row").cast(pl.Int64).alias("place")))
    stands = truth.filter(pl.col("stands").fill_null(False)).select(
        pl.col("place").cast(pl.UInt32).alias("row"), pl.col("offset").alias("held")
    )
    joined = sends.with_row_index("row").join(stands, on="row", how="left", maintain_order="left")
    found = pl.col("held").is_not_null()
    told = joined.with_columns(
        pl.coalesce("offset", "held").alias("offset"),
        pl.when(found).then(pl.lit("ok").cast(OUTCOME)).otherwise("outcome").alias("outcome"),
    )
    return told.drop("row", "held"), len(stands)


def timeline_of(
    logs: ReplicaLogs, frames: Frames, shared: Frames, context: pl.DataFrame, settings: Settings
) -> Timeline:
    """The dated facts about a partition, of the metadata, the brokers' logs, the files and the history's faults."""
    faults = _faults(context)
    started = started_ms(settings)
    here = _table(shared, "metadata").filter(pl.col("topic").is_null() | (pl.col("topic") == logs.topic))
    everywhere = _table(shared, "log_events").filter(pl.col("topic").is_null())
    system = settings.config.get("system")
    return build_timeline(
        logs,
        pl.concat([_table(frames, "metadata"), here]),
        pl.concat([_table(frames, "log_events"), everywhere]),
        faults,
        settings.topic(logs.topic),
        clocks_of(shared, context, settings),
        started,
        str(system["version"]) if isinstance(system, dict) and "version" in system else None,
    )


def clocks_of(shared: Frames, context: pl.DataFrame, settings: Settings) -> dict[str, Clock]:
    """How each broker's clock stands against the history's."""
    return clock_offsets(_table(shared, "log_events"), _faults(context), started_ms(settings))


def started_ms(settings: Settings) -> int | None:
    """The run's start, ms since the epoch."""
    try:
        return int(datetime.fromisoformat(str(settings.config.get("started_at"))).timestamp() * 1000)
    except ValueError:
        return None


def _faults(context: pl.DataFrame) -> list[Fault]:
    faults = []
    for row in context.filter(pl.col("kind").is_in(["fault", "heal"])).sort("completed", "at").iter_rows(named=True):
        about: dict[str, Any] = {}
        try:
            told = orjson.loads(row["detail"] or "{}")
            about = told if isinstance(told, dict) else {}
        except orjson.JSONDecodeError:
            pass
        nodes = about.get("nodes")
        names = tuple(str(node) for node in nodes) if isinstance(nodes, list) else ()
        done = row["completed"] if row["completed"] is not None else row["invoked"]
        faults.append(
            Fault(
                row["kind"], str(about.get("kind", "")), names, row["invoked"], done, row["at"], about, row["outcome"]
            )
        )
    return faults
