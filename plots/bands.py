"""Faults as bands: a strip that names each, and shading through the panels below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..analysis.wording import plural
from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LANES = 6
LANE = 0.22  # inches
_CHARACTER = 0.0085  # of the width of the axis


class Place(Protocol):
    """Maps a time (ns) to a position on the axis."""

    def __call__(self, time: int) -> float: ...


class Band(NamedTuple):
    """A fault on the axis: its row in the strip, its begin and end."""

    row: int
    left: float
    right: float
    name: str


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
        row = next((number for number, since in enumerate(free) if since <= left), len(free))
        if row == len(free):
            free.append(0)
        free[row] = max(right, left + width * _CHARACTER * (len(name) + 2))
        bands.append(Band(row, left, right, name))
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
    for row, left, right, name in bands:
        moment = right <= left
        for panel in panels:
            if moment:
                panel.axvline(left, color=style.QUIET, linewidth=1, linestyle=(0, (2, 2)), zorder=0)
            else:
                panel.axvspan(left, right, color=style.QUIET, alpha=0.16, linewidth=0, zorder=0)
        if row >= MAX_LANES:
            continue
        if not moment:
            style.bar(strip, -row, left, right, 0.78, facecolor=style.QUIET, alpha=0.55)
        strip.plot([left, left], [-row - 0.39, -row + 0.39], color=style.FAINT, linewidth=1.5)
        style.note(strip, name, (left, -row), (4, 0))
    hidden = sum(band.row >= MAX_LANES for band in bands)
    if hidden:
        text = f"{plural(hidden, 'more fault')} shaded without a name"
        strip.text(0, 1.0, text, transform=strip.transAxes, fontsize=8.5, color=style.FAINT, va="bottom")
