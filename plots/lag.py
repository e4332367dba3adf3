"""Realtime lag: how long the oldest acknowledged record had been waiting for each consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..analysis.wording import duration
from . import style
from .time_axis import bands_of, sheet_below, time_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL = "Consumer lag"
CAPTION = (
    "One line per consumer: the age of the oldest acknowledged record that it has neither read nor skipped, the"
    " maximum over its partitions. The plot unread shows numbers of records instead of ages. 0: the consumer is up"
    " to date. Rising line: it receives nothing; if the line rises to the right edge, the consumer never caught up."
    " No line: it had no partition. Lost records are not counted."
)
MAX_LINES = 6
_LINES = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE, style.SKY, style.RED)
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), "-.", (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)))


def subjects(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """One figure for all partitions."""
    return [{}] if lines(figures) else []


def lines(figures: dict[str, Any], partition: str | None = None) -> dict[str, list[int | None]]:
    """The worst lag over a consumer's partitions in ns, by consumer and bin; None without a position."""
    by_consumer: dict[str, list[list[int | None]]] = {}
    for part in figures["partitions"]:
        if partition in (None, part["name"]):
            for line in part["lags"]:
                by_consumer.setdefault(line["process"], []).append(line["behind"])
    return {
        name: [max((lag for lag in lags if lag is not None), default=None) for lags in zip(*behind, strict=True)]
        for name, behind in by_consumer.items()
    }


def draw(figures: dict[str, Any], partition: str | None = None) -> Figure:
    """Draws the lag of consumers on all partitions, or on one."""
    from matplotlib.ticker import MaxNLocator

    found = lines(figures, partition)
    worst = sorted(found, key=lambda name: (-max((lag or 0 for lag in found[name]), default=0), name))
    where = f"{style.printable(partition)}: " if partition else ""
    with style.look():
        if not found:
            return style.empty_sheet(f"{where}consumer lag", "No consumer's position is recorded.")
        peak = max(lag or 0 for lag in found[worst[0]])
        behind = f"{style.printable(worst[0], 24)} was up to {duration(peak)} behind"
        title = where + (behind if peak else "no consumer was behind at the end of any interval")
        figure, (axis,) = sheet_below(title, bands_of(figures, *figures["span"]), [2.0], 3.2)
        ends = style.edges(figures)[1:]
        for number, name in enumerate(worst[:MAX_LINES]):
            values = [float("nan") if lag is None else lag / 1e9 for lag in found[name]]
            label = style.printable(name, 24)
            axis.plot(ends, values, color=_LINES[number], linestyle=_DASHES[number], label=label)
        left = len(worst) - MAX_LINES
        subset = f", the {MAX_LINES} worst of {len(worst)} consumers" if left > 0 else ""
        axis.set_title(f"age of the oldest record not yet read{subset}")
        axis.set_ylim(0, max(peak / 1e9 * 1.05, 1e-6))
        axis.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
        axis.yaxis.set_major_formatter(lambda value, _: "0" if not value else duration(value * 1e9))
        axis.grid(axis="y")
        style.legend(axis, ncols=6, handlelength=2.2)
        time_axis(axis, figures)
    return figure
