"""Copied records over time, in runs of the same application under the same faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..models.exploration.processing_truth import Copied
from . import style

SECOND = 1_000_000  # microseconds


def draw(runs: Mapping[str, Sequence[Copied]], faults: Sequence[tuple[str, int, int]], path: Path) -> None:
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
        axes[-1].set_xlabel("seconds since the start of the run")
        style.save(figure, path)
