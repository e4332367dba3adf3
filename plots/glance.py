"""The run at a glance: outcomes and latency of sends, and faults, over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import duration, plural
from . import style
from .time_axis import bands_of, seconds_axis, sheet_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Run at a glance"
CAPTION = (
    "Above: sends by outcome, counted when they completed. Red: acknowledged, then lost; compare their time with the"
    " faults (grey). Below: how long acknowledged sends took, on a logarithmic scale."
)
MIN_DECADES = 2.5  # for ticks at powers of ten only
PER_OCTAVE = 4  # buckets of the latency, as in the figure data


def subjects(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """One figure per run."""
    return [{}] if sum(map(sum, figures["series"].values())) else []


def draw(figures: dict[str, Any]) -> Figure:
    """Draws the sends of the run over time."""
    with style.look():
        figure, (rate, took) = sheet_below(_title(figures), bands_of(figures, *figures["span"]), [2.1, 1.5], 5.0)
        _outcomes(rate, figures)
        _latency(took, figures)
        seconds_axis(took, figures["span"], figures["started_at"])  # the panels may have bins of different widths
    return figure


def _title(figures: dict[str, Any]) -> str:
    """The outcome of the run: acknowledged writes, and how many were lost."""
    impact = figures["impact"]
    writes = plural(impact["acknowledged"], "acknowledged write")
    if impact["lost"]:
        read = f", {impact['lost_read']:,} of them after being read" if impact["lost_read"] else ""
        read = ", all of them after being read" if impact["lost_read"] == impact["lost"] else read
        lost = f"{impact['lost']:,} of {writes} lost{read}"
        return lost if impact.get("lost_complete", True) else f"at least {lost}"
    findings = [row for part in figures["partitions"] if part.get("offsets") for row in part["offsets"]["findings"]]
    is_missed = any([rule, severity] == ["consumer-loss", "violation"] for _, _, rule, severity, *_ in findings)
    return f"{writes}, none lost, but some never handled by their group" if is_missed else f"{writes}, no loss found"


class Layer(NamedTuple):
    """The sends with one outcome, as a layer of stacked bars."""

    label: str
    colour: str
    heights: list[float]  # of the bars (see `_bars`)


def layers(figures: dict[str, Any]) -> list[Layer]:
    """The stacked layers from below."""
    series, bars = figures["series"], _bars(figures)
    survived = [ok - lost for ok, lost in zip(series["ok"], series["lost"], strict=True)]
    stack = [
        ("acknowledged, lost later", style.RED, series["lost"]),
        ("acknowledged", style.BLUE, survived),
        ("outcome unknown", style.ORANGE, series["info"]),
        ("failed", style.PURPLE, series["fail"]),
    ]
    return [
        Layer(f"{label}: {sum(counts):,}", colour, bars.heights(counts))
        for label, colour, counts in stack
        if sum(counts)
    ]


MIN_SPAN_NS = 10 * 10**9  # a shorter run has counts instead of rates: 3 sends within 33 ms are not 90 per second
MIN_BAR_SECONDS = 1


class _Bars(NamedTuple):
    """The bars of the upper panel: each adds up `bins` bins, and its counts are divided by `seconds`."""

    title: str
    bins: int
    seconds: float

    def heights(self, counts: list[int]) -> list[float]:
        """The height of each bar."""
        starts = range(0, len(counts), self.bins)
        return [sum(counts[start : start + self.bins]) / self.seconds for start in starts]


def _bars(figures: dict[str, Any]) -> _Bars:
    """Bars of at least a second with sends per second; in a short run a bar for each bin with its sends."""
    first, last = figures["span"]
    if last - first < MIN_SPAN_NS:
        return _Bars(f"sends in each bin of {_width(figures)}", 1, 1)
    width = style.bin_seconds(figures)
    bins = 1 << max(math.ceil(math.log2(MIN_BAR_SECONDS / width)), 0)
    return _Bars(f"sends per second, in bins of {_width(figures, bins)}", bins, bins * width)


def _width(figures: dict[str, Any], bins: int = 1) -> str:
    """The duration of so many bins."""
    return duration(bins * style.bin_seconds(figures) * 1e9)


def _outcomes(axis: Axes, figures: dict[str, Any]) -> None:
    bars, fine = _bars(figures), style.edges(figures)
    edges = [*fine[: -1 : bars.bins], fine[-1]]
    base = [0.0] * (len(edges) - 1)
    for label, colour, rates in layers(figures):
        top = [low + rate for low, rate in zip(base, rates, strict=True)]
        style.steps(axis, top, edges, baseline=base, fill=True, color=colour, linewidth=0, label=label)
        base = top
    axis.set_title(bars.title)
    axis.set_ylim(0, max(max(base, default=0), 1) * 1.05)
    axis.locator_params(axis="y", integer=True)
    axis.grid(axis="y")
    if axis.get_legend_handles_labels()[0]:
        style.legend(axis, ncols=4)
    elif sum(figures["series"]["read"]):
        axis.text(0.5, 0.5, "the history has no sends", transform=axis.transAxes, ha="center", color=style.FAINT)


def quantiles(figures: dict[str, Any]) -> dict[str, list[float | None]]:
    """Median, 99th percentile and maximum of the latency in ms, by bin; a value is its bucket's middle."""
    count = figures["bins"]["count"]
    cells: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for number, bucket, many in zip(*figures["latency"], strict=True):
        cells[number].append((bucket, many))
    shares = {"median": 0.5, "99th percentile": 0.99, "longest": 1.0}
    return {name: [_quantile(cell, share) for cell in cells] for name, share in shares.items()}


def _quantile(cell: list[tuple[int, int]], share: float) -> float | None:
    needed, seen = share * sum(many for _, many in cell), 0
    for bucket, many in sorted(cell):
        seen += many
        if seen >= needed:
            return float(2.0 ** ((bucket + 0.5) / PER_OCTAVE)) / 1e6
    return None


def _latency(axis: Axes, figures: dict[str, Any]) -> None:
    edges = style.edges(figures)
    axis.set_title(f"latency of acknowledged sends (log scale), in bins of {_width(figures)}")
    found = quantiles(figures)
    known = [value for values in found.values() for value in values if value]
    if not known:
        text = "no acknowledged send with a known latency"
        axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", color=style.FAINT)
        axis.set_yticks([])
        return
    # The wide line stays visible under a narrow one.
    looks = {"longest": ("#c9ccd0", 4.5), "99th percentile": (style.SKY, 1.8), "median": (style.BLUE, 1.8)}
    for name, (colour, width) in looks.items():
        values = [float("nan") if value is None else value for value in found[name]]
        style.steps(axis, values, edges, baseline=None, color=colour, linewidth=width, label=name)
    axis.set_yscale("log")
    axis.set_ylim(min(known) / 1.5, max(known) * 1.5)
    axis.minorticks_off()
    ticks = latency_ticks(min(known) / 1.5, max(known) * 1.5)
    axis.set_yticks(ticks, [duration(tick * 1e6) for tick in ticks])
    axis.grid(axis="y")
    style.legend(axis, ncols=3)


def latency_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two latencies (ms); also 2 and 5 times these if there are too few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps: tuple[int, ...] = (1,) if math.log10(high / low) > MIN_DECADES else (1, 2, 5)
    return [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
