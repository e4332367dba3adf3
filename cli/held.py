"""What brokers hold, in words, as `explain` and `diff` tell it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

NO_LOG = "No broker's log with records was kept."


def extent(broker: dict[str, Any]) -> str:
    """How far a broker's log goes, of a snapshot of `differences`."""
    return f"broker {broker['broker']} has offsets {broker['start']} to {broker['end'] - 1}"


def spans_of(snapshot: dict[str, Any]) -> str:
    """Where its replicas differ, or nothing."""
    return ", ".join(f"{one['first']} to {one['last']}" for one in snapshot["divergences"])


def content_of(held: dict[str, Any]) -> str:
    """Key and value of a record that a broker holds."""
    if held["control"]:
        return f"<{held['control']} marker>"
    value = "tombstone" if held["value"] is None else str(held["value"])
    return value if held["key"] is None else f"{held['key']}={value}"


def moment(ms: int | None) -> str:
    """A record's timestamp (ms since the epoch) as the time of day, UTC."""
    if ms is None or not 0 <= ms < 253402300800000:
        return "" if ms is None else str(ms)
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S.%f}"[:-3]
