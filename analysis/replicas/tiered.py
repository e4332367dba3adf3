"""Tiered storage (KIP-405): segments that brokers deleted from their disks remain in remote storage.

Remote storage is not collected. So the first segment of a log no longer shows where the log starts: its
log-start-offset-checkpoint does, which Kafka writes for every tiered log (LogManager.checkpointLogStartOffsetsInDir).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from .missing_logs import BASE_IN_NAME, COPY

SETTING = "remote.storage.enable"  # of a topic
LOCAL_LOG_START = "local-log-start"  # a kind of LOG_EVENTS, which only tiered logs have


def is_tiered(config: Mapping[str, object], topic: str, metadata: pl.DataFrame, log_events: pl.DataFrame) -> bool:
    """Whether a topic is tiered: by its settings, by those in the metadata log, or by lines of the brokers' logs.

    A topic cannot leave tiered storage and keep its remote segments, so any of them is enough.
    """
    is_set = metadata.filter(pl.col("value").str.to_lowercase() == "true", kind="config", topic=topic, key=SETTING)
    by_settings = str(config.get(SETTING, "")).lower() == "true"
    return by_settings or is_set.height > 0 or log_events.filter(kind=LOCAL_LOG_START).height > 0


def without_remote_segments(damage: pl.DataFrame, batches: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """The damage of a tiered log without the segments that are missing below the first one of their copy."""
    files = pl.concat([batches.select(*COPY, base=BASE_IN_NAME), segments.select(*COPY, base=BASE_IN_NAME)])
    first = files.group_by(COPY).agg(first=pl.col("base").min())
    judged = damage.join(first, on=COPY, how="left", maintain_order="left")
    is_remote = (pl.col("kind") == "missing") & (pl.col("first") > BASE_IN_NAME)
    return judged.filter(~is_remote.fill_null(False)).drop("first")
