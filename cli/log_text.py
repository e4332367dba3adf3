"""Texts about the logs of brokers, for `explain` and `diff`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

NO_LOG = "No broker log with records was collected."


def describe_extent(broker: dict[str, Any]) -> str:
    """The offsets that a broker's log has in a snapshot of `differences`."""
    return f"broker {broker['broker']} has offsets {broker['start']} to {broker['end'] - 1}"


def differing_spans(snapshot: dict[str, Any]) -> str:
    """The offsets at which the replicas of a snapshot differ; empty where they agree."""
    return ", ".join(f"{one['first']} to {one['last']}" for one in snapshot["divergences"])


def record_text(record: dict[str, Any]) -> str:
    """Key and value of a record in a broker's log."""
    if record["control"]:
        return f"<{record['control']} marker>"
    value = "tombstone" if record["value"] is None else str(record["value"])
    return value if record["key"] is None else f"{record['key']}={value}"


def time_of_day(ms: int | None) -> str:
    """A record's timestamp (ms since the epoch) as the time of day in UTC."""
    if ms is None or not 0 <= ms < 253402300800000:
        return "" if ms is None else str(ms)
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S.%f}"[:-3]
