"""Times of a run as times of day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def clock(started_at: str, ns: int) -> str:
    """The time of day in UTC, to the millisecond; empty if the start of the run is not recorded."""
    try:
        start = datetime.fromisoformat(started_at)
        moment = start.replace(tzinfo=start.tzinfo or UTC).astimezone(UTC) + timedelta(microseconds=ns / 1000)
    except (ValueError, OverflowError):
        return ""
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
