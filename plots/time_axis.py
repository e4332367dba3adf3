"""Times of a run: as times of day in UTC, and on axes in seconds since its start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from . import style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


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


MAX_DECIMALS = 9  # times are whole nanoseconds
SINCE_START = "seconds since the start of the run"


def time_axis(axis: Axes, figures: dict[str, Any]) -> None:
    """Sets limits and ticks of an axis that shows the whole run in bins."""
    start, end = (time / 1e9 for time in figures["span"])
    margin = max(end - start, 1e-9) * 0.01
    axis.set_xlim(start - margin, end + margin)
    width = style.duration(style.bin_seconds(figures) * 1e9)
    seconds_axis(axis, figures["started_at"], f"{SINCE_START}, in bins of {width}")


def seconds_axis(axis: Axes, started_at: str | None, label: str = SINCE_START, zero: int = 0) -> None:
    """Sets ticks at round seconds since `zero` (ns), with the time of day below each. The limits must be set."""
    from matplotlib.ticker import MaxNLocator

    low, high = axis.get_xlim()
    found = MaxNLocator(10, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    ticks = [float(tick) for tick in found if low <= tick <= high]
    times = [zero + round(tick * 1e9) for tick in ticks]
    name_ticks(axis, ticks, seconds_texts(times, zero), [moment(started_at, time) for time in times], label)


def seconds_texts(times: Sequence[int], zero: int = 0, min_decimals: int = 0) -> list[str]:
    """Times (ns, ascending) in seconds since `zero`, with as many decimals as needed to distinguish them.

    Round times are exact; other times have at least `min_decimals`.
    """
    gap = min((after - before for before, after in pairwise(times)), default=1)
    allowed = max(gap / 20, 10 ** (9 - min_decimals) if min_decimals else 0)
    texts: list[str] = []
    for decimals in range(min_decimals, MAX_DECIMALS + 1):
        texts = [f"{(time - zero) / 1e9:.{decimals}f}" for time in times]
        errors = [abs(float(text) * 1e9 + zero - time) for text, time in zip(texts, times, strict=True)]
        if max(errors, default=0) <= allowed and len(set(texts)) == len(texts):
            break
    return texts


def name_ticks(
    axis: Axes, places: Sequence[float], texts: Sequence[str], moments: Sequence[datetime | None], label: str
) -> None:
    """Labels positions on the axis, with the time of day in UTC below each if the start of the run is recorded."""
    known = [time for time in moments if time is not None]
    if known and len(known) == len(places):
        texts = [f"{text}\n{_time_of_day(time, known)}" for text, time in zip(texts, known, strict=True)]
        days = [f"{time:%Y-%m-%d}" for time in (known[0], known[-1])]
        label += f"; below: UTC, {' to '.join(dict.fromkeys(days))}"
    axis.set_xticks(list(places), list(texts))
    axis.set_xlabel(label)


def _time_of_day(time: datetime, all_times: Sequence[datetime]) -> str:
    """The time of day to the second, as the line above is exact; with the date if it is not that of the first."""
    text = f"{time:%H:%M:%S}"
    return text if time.date() == all_times[0].date() else f"{time:%m-%d} {text}"
