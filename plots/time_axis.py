"""Times of a run on axes, in seconds and as times of day in UTC, and its faults as bands through the panels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import duration, plural
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def has_clients(figures: dict[str, Any]) -> bool:
    """Whether client operations date the run; without them times count from 1970."""
    return bool(figures["span"][1] > figures["span"][0])


def time_text(figures: dict[str, Any], ns: int) -> str:
    """A time in seconds since the start of the run, or without clients in UTC."""
    return (not has_clients(figures) and clock(figures["started_at"], ns)) or f"{ns / 1e9:.1f} s"


MAX_DECIMALS = 9  # times are whole nanoseconds
SINCE_START = "seconds since the start of the run"


def since_text(figures: dict[str, Any], low: int) -> str:
    """What an axis of seconds counts from: the start of the run, or without clients the first event, at `low`."""
    if has_clients(figures):
        return SINCE_START
    return f"seconds since {clock(figures['started_at'], low) or 'the first event'}"


def time_axis(axis: Axes, figures: dict[str, Any]) -> None:
    """Sets limits and ticks of an axis that shows the whole run in bins."""
    width = duration(style.bin_seconds(figures) * 1e9)
    seconds_axis(axis, figures["span"], figures["started_at"], f"{SINCE_START}, in bins of {width}")


def seconds_axis(
    axis: Axes,
    span: Sequence[int],
    started_at: str | None,
    label: str = SINCE_START,
    zero: int = 0,
    margin: float = 0.01,
) -> None:
    """Sets the limits of an axis, with ticks at round seconds since `zero` (ns) and the time of day below each.

    `span` is the first and the last time (ns), `margin` the part of it that is shown beside it.
    """
    from matplotlib.ticker import MaxNLocator

    start, end = ((time - zero) / 1e9 for time in span)
    beside = max(end - start, 1e-9) * margin
    axis.set_xlim(start - beside, end + beside)
    low, high = axis.get_xlim()
    found = MaxNLocator(10, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    ticks = [float(tick) for tick in found if low <= tick <= high]
    times = [zero + round(tick * 1e9) for tick in ticks]
    name_ticks(axis, ticks, seconds_texts(times, zero), [moment(started_at, time) for time in times], label)


def seconds_texts(times: Sequence[int], zero: int = 0, min_decimals: int = 0) -> list[str]:
    """Times (ns, ascending) in seconds since `zero`, with as many decimals as needed to distinguish them.

    Each text has at least `min_decimals`, and is exact to a twentieth of the smallest gap, or to its last decimal.
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
        clocks = [_time_of_day(time, known) for time in known]
        days = " to ".join(dict.fromkeys(f"{time:%Y-%m-%d}" for time in (known[0], known[-1])))
        if len(clocks) > 1 and len({*clocks}) == 1:  # all in one second
            label += f"; UTC: {days} {clocks[0]}"
        else:
            texts = [f"{text}\n{clock}" for text, clock in zip(texts, clocks, strict=True)]
            label += f"; below: UTC, {days}"
    axis.set_xticks(list(places), list(texts))
    axis.set_xlabel(label)


def _time_of_day(time: datetime, all_times: Sequence[datetime]) -> str:
    """The time of day to the second, as the line above is exact; with the date if it is not that of the first."""
    text = f"{time:%H:%M:%S}"
    return text if time.date() == all_times[0].date() else f"{time:%m-%d} {text}"


MAX_LANES = 6
LANE = 0.22  # inches
Place = Callable[[int], float]  # maps a time (ns) to a position on the axis
CHARACTER_WIDTH = 0.0085  # as a part of the width of the axis


class Band(NamedTuple):
    """A fault on the axis: its row in the strip, its begin and end, and whether its name is left of it."""

    row: int
    left: float
    right: float
    name: str
    is_late: bool


def seconds(time: int) -> float:
    """A time in ns as seconds."""
    return time / 1e9


def bands_of(figures: dict[str, Any], low: int, high: int, place: Place = seconds) -> list[Band]:
    """The faults between the times low and high, each in the first row with room for it and its name."""
    width = max(place(high) - place(low), 1e-9)
    free: list[float] = []
    bands = []
    for fault in figures["faults"]:
        until = high if fault["to"] is None else fault["to"]
        if until < low or fault["from"] > high:
            continue
        left, right = place(max(fault["from"], low)), place(min(until, high))
        name = style.fault_name(fault) + (" (never ended)" if fault["to"] is None else "")
        needed = width * CHARACTER_WIDTH * (len(name) + 2)
        is_late = left + needed > place(high) and left - needed >= place(low)
        begins = left - needed if is_late else left
        row = next((number for number, since in enumerate(free) if since <= begins), len(free))
        if row == len(free):
            free.append(0)
        free[row] = max(right, begins + needed)
        bands.append(Band(row, left, right, name, is_late))
    return bands


def lanes(bands: list[Band]) -> int:
    """The number of rows of the strip."""
    return min(max((band.row for band in bands), default=-1) + 1, MAX_LANES)


def sheet_below(title: str, bands: list[Band], rows: Sequence[float], inches: float) -> tuple[Figure, list[Axes]]:
    """A sheet of panels, `rows` in inches, below the strip of the bands; `inches` is its height without the strip."""
    strip_height = LANE * lanes(bands)
    figure, (strip, *panels) = style.sheet(title, [strip_height + 0.02, *rows], inches + strip_height)
    draw_bands(strip, panels, bands)
    return figure, panels


def draw_bands(strip: Axes, panels: Sequence[Axes], bands: list[Band]) -> None:
    """Draws the bands: names in the strip, shading in the panels."""
    strip.set_ylim(-max(lanes(bands), 1) + 0.4, 0.6)
    strip.spines[["left", "bottom"]].set_visible(False)
    strip.xaxis.set_visible(False)
    strip.tick_params(length=0, labelcolor=style.FAINT)
    strip.set_yticks([0] if bands else [], ["faults"] if bands else [])
    for row, left, right, name, is_late in bands:
        is_moment = right <= left
        for panel in panels:
            if is_moment:
                panel.axvline(left, color=style.QUIET, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
            else:
                panel.axvspan(left, right, color=style.QUIET, alpha=0.16, linewidth=0, zorder=0)
        if row >= MAX_LANES:
            continue
        if not is_moment:
            style.bar(strip, -row, left, right, 0.78, facecolor=style.QUIET, alpha=0.55)
        strip.plot([left, left], [-row - 0.39, -row + 0.39], color=style.FAINT, linewidth=1.5)
        style.note(strip, name, (left, -row), (-4 if is_late else 4, 0), ha="right" if is_late else "left")
    hidden = sum(band.row >= MAX_LANES for band in bands)
    if hidden:
        text = f"{plural(hidden, 'more fault')} shaded without a name"
        strip.text(0, 1.0, text, transform=strip.transAxes, fontsize=8.5, color=style.FAINT, va="bottom")
