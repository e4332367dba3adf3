"""Figures that compare simulated runs: the load that dead brokers leave, and records copied under the same faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..models.exploration.processing_truth import Copied
from . import style
from .time_axis import SINCE_START


def draw_load_spread(loads: Mapping[str, Mapping[int, int]], dead: int, path: Path) -> None:
    """Write the figure. loads: by assignment, the number of partitions that each surviving broker leads."""
    survivors = list(next(iter(loads.values())))
    mean = sum(next(iter(loads.values())).values()) / len(survivors)
    with style.look():
        title = f"Broker {dead} died: partitions that the others lead, by the assignment of their replicas"
        figure, axes = style.sheet(title, [1.0] * len(loads), 1.1 + 1.2 * len(loads))
        for axis, (name, led) in zip(axes, loads.items(), strict=True):
            heights = [led[broker] for broker in survivors]
            colours = [style.ORANGE if height > mean else style.BLUE for height in heights]
            bars = axis.barh([f"broker {broker}" for broker in survivors], heights, color=colours, height=0.7)
            axis.bar_label(bars, padding=3)
            axis.axvline(mean, color=style.FAINT, linewidth=0.8, linestyle=":")
            axis.invert_yaxis()
            axis.set_title(name)
            axis.set_xlim(0, 1.1 * max(max(one.values()) for one in loads.values()))
        axes[-1].set_xlabel("partitions led (dotted: the mean)")
        style.save(figure, path)


SECOND = 1_000_000  # microseconds


def draw_copies(runs: Mapping[str, Sequence[Copied]], faults: Sequence[tuple[str, int, int]], path: Path) -> None:
    """Write the figure: a panel for each run. faults: their kinds, beginnings and ends in microseconds."""
    with style.look():
        title = "Committed copies of each record, under the same faults"
        figure, axes = style.sheet(title, [2.2] * len(runs), 1.4 + 2.5 * len(runs))
        for axis, (name, copies) in zip(axes, runs.items(), strict=True):
            for kind, since, until in faults:
                axis.axvspan(since / SECOND, until / SECOND, color=style.FAINT, alpha=0.15, linewidth=0)
                axis.text(since / SECOND, 1.0, kind, fontsize=8, va="top", transform=axis.get_xaxis_transform())
            for is_repeated, colour, label in ((False, style.BLUE, "copied"), (True, style.RED, "copied again")):
                own = [one for one in copies if one.is_repeated == is_repeated]
                count = sum(one.high - one.low + 1 for one in own)
                times = [one.time / SECOND for one in own]
                low, high = [one.low - 0.4 for one in own], [one.high + 0.4 for one in own]
                axis.vlines(times, low, high, color=colour, linewidth=2.2, label=f"{label}: {count}")
            axis.set_title(name)
            axis.set_ylabel("offset")
            style.legend(axis, ncols=2)
        axes[-1].set_xlabel(SINCE_START)
        style.save(figure, path)
