"""A scale of offsets: linear, or with shortened stretches where that makes the important ranges wider."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIN_SHARE = 0.12  # of the width for the important ranges; below it other stretches are shortened
PLAIN_SHARE = 0.3  # of the width for shortened stretches
MAX_TICKS = 14


class Scale(NamedTuple):
    """Maps offsets `stops` to positions `places` (0..1), linear in between; `cuts` are positions of shortenings."""

    stops: tuple[int, ...]
    places: tuple[float, ...]
    cuts: tuple[float, ...]

    def place(self, offset: int) -> float:
        """The position of an offset."""
        index = min(max(bisect_right(self.stops, offset) - 1, 0), len(self.stops) - 2)
        low, high = self.stops[index], self.stops[index + 1]
        share = (offset - low) / (high - low)
        return self.places[index] + share * (self.places[index + 1] - self.places[index])

    def ticks(self) -> list[int]:
        """Offsets for tick labels: ends of stretches, or round offsets; none too close to another."""
        if len(self.stops) == 2:
            first, last = self.stops[0], self.stops[1]
            step = max(_round_step((last - first) / 8), 1)
            inner = range(-(-first // step) * step, last + 1, step)
            wanted = [first, *inner]
        else:
            wanted = list(self.stops)
        chosen: list[int] = []
        for offset in wanted:
            near = 0.012 + 0.008 * len(str(offset))
            if all(abs(self.place(offset) - self.place(other)) > near for other in chosen):
                chosen.append(offset)
        return chosen[:MAX_TICKS]


def _round_step(size: float) -> int:
    step = 1
    while step * 10 <= size:
        step *= 10
    return next(step * times for times in (1, 2, 5, 10) if step * times >= size or times == 10)


def scale_of(low: int, high: int, ranges: list[tuple[int, int]]) -> Scale:
    """The scale of offsets low..high (inclusive) with the important ranges (first, last)."""
    end = high + 1
    stretches = _stretches(low, end, ranges)
    wide = sum(stretch.size for stretch in stretches if stretch.is_important)
    if not wide or wide / (end - low) >= MIN_SHARE:
        return Scale((low, end), (0.0, 1.0), ())
    plain = [stretch for stretch in stretches if not stretch.is_important]
    each = PLAIN_SHARE / max(len(plain), 1)
    stops, places, cuts = [low], [0.0], []
    for stretch in stretches:
        width = (1 - PLAIN_SHARE) * stretch.size / wide if stretch.is_important else each
        if not stretch.is_important and each < stretch.size / (end - low):
            cuts.append(places[-1] + width / 2)
        stops.append(stretch.end)
        places.append(places[-1] + width)
    total = places[-1]
    return Scale(tuple(stops), tuple(place / total for place in places), tuple(cut / total for cut in cuts))


def offset_axis(axis: Axes, scale: Scale) -> None:
    """Sets the limits, ticks and name of an axis of offsets."""
    axis.set_xlim(-0.005, 1.005)
    ticks = scale.ticks()
    axis.set_xticks([scale.place(tick) for tick in ticks], [str(tick) for tick in ticks])
    axis.set_xlabel("offset" + (" (shortened at ≈)" if scale.cuts else ""))


def mark_cuts(axis: Axes, scale: Scale) -> None:
    """Draws a gap with ≈ at each shortened stretch."""
    for cut in scale.cuts:
        axis.axvline(cut, color=style.PAPER, linewidth=5, zorder=6)
        below = axis.get_xaxis_transform()
        axis.text(cut, 0, "≈", transform=below, ha="center", va="center", fontsize=12, clip_on=False, zorder=9)


class _Stretch(NamedTuple):
    """Adjacent offsets."""

    first: int
    end: int  # exclusive
    is_important: bool

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.first


def _stretches(low: int, end: int, ranges: list[tuple[int, int]]) -> list[_Stretch]:
    """The offsets low..end (exclusive) as stretches, with overlaps joined."""
    joined: list[list[int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], last + 1)
        else:
            joined.append([first, last + 1])
    stretches: list[_Stretch] = []
    at = low
    for since, until in joined:
        if since > at:
            stretches.append(_Stretch(at, since, is_important=False))
        stretches.append(_Stretch(since, until, is_important=True))
        at = until
    if at < end:
        stretches.append(_Stretch(at, end, is_important=False))
    return stretches
