"""Times of a run as times of day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def moment(started_at: str | None, ns: int) -> datetime | None:
    """The time in UTC; None if the start of the run is not recorded."""
    try:
        start = datetime.fromisoformat(started_at or "")
        return start.replace(tzinfo=start.tzinfo or UTC).astimezone(UTC) + timedelta(microseconds=ns / 1000)
    except (ValueError, OverflowError):
        return None


def clock(started_at: str | None, ns: int) -> str:
    """The time in UTC, to the millisecond; empty if the start of the run is not recorded."""
    time = moment(started_at, ns)
    return "" if time is None else f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d}Z"
