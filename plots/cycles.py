"""Cycles of transactions: the time of each transaction, and the reason why it must come before the next."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from . import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Cycle of transactions"
CAPTION = (
    "The shortest cycle of a component of transactions. A bar lasts from a transaction's invocation to its"
    " completion; it is pale if one of them is not recorded. An arrow leads from a transaction to one that must come"
    " after it. Blue: the second read a value of the first. Orange: the second wrote at the next offset, or"
    " replaced what the first wrote. Red: it replaced what the first read. Grey: order of a process, or in time. The"
    " arrows form a cycle, so no order of the transactions fits."
)
MAX_ROWS = 8
_COLOURS = {"wr": style.BLUE, "ww": style.ORANGE, "rw": style.RED}
_WRAP = 52  # characters

Record = dict[str, Any]


def subjects(figures: Record) -> list[Record]:
    """Each cycle that the record has: the worst of the run."""
    return [{"finding": cycle["id"]} for cycle in figures["cycles"]]


def draw(figures: Record, finding: str) -> Figure:
    """Draws the cycle of a finding, by its id."""
    cycle = next(cycle for cycle in figures["cycles"] if cycle["id"] == finding)
    with style.look():
        count = len(cycle["operations"])
        permitted = " (permitted)" if cycle["severity"] == "permitted" else ""
        title = f"{cycle['rule']}{permitted}: {count} transactions in a cycle"
        if count > MAX_ROWS:
            return style.empty_sheet(title, f"A cycle of more than {MAX_ROWS} transactions is not drawn.")
        figure, (axis,) = style.sheet(title, [1], 1.5 + 0.85 * count)
        _bars(axis, cycle)
        for number, step in enumerate(cycle["steps"]):
            _arrow(axis, number, step, count)
        _times(axis, cycle)
    return figure


def _known_times(cycle: Record) -> list[int]:
    return [time for one in cycle["operations"] for time in (one["start"], one["end"]) if time is not None]


def _bars(axis: Axes, cycle: Record) -> None:
    known = _known_times(cycle)
    low, high = min(known, default=0), max(known, default=1)
    width = max(high - low, 1)
    for row, one in enumerate(cycle["operations"]):
        start = 0.0 if one["start"] is None else (one["start"] - low) / width
        end = 1.0 if one["end"] is None else (one["end"] - low) / width
        is_known = one["start"] is not None and one["end"] is not None
        axis.barh(row, max(end - start, 0.01), 0.42, start, color=style.SKY, alpha=0.7 if is_known else 0.3)
        name = f"T{row + 1} ({style.printable(one['process'], 20)})"
        axis.text(-0.02, row, name, ha="right", va="center", fontweight="bold")
    axis.set_ylim(len(cycle["operations"]) - 0.4, -0.6)
    axis.set_xlim(-0.22, 2.1)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)


def _arrow(axis: Axes, number: int, step: Record, count: int) -> None:
    """An arrow beside the bars, from the source's row to the target's: each in a column of its own."""
    column = 1.08 + 0.12 * number / max(count - 1, 1)
    colour = _COLOURS.get(step["kind"], style.FAINT)
    shift = 0.12 if step["target"] > number else -0.12
    axis.annotate(
        "",
        (column, step["target"] - shift),
        (column, number + shift),
        arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0},
    )
    text = textwrap.fill(style.printable(step["text"], 200), _WRAP)
    axis.text(1.28, number, text, va="center", color=style.INK, fontsize=9)
    axis.plot([column, 1.26], [number + shift, number], color=colour, linewidth=0.8)


def _times(axis: Axes, cycle: Record) -> None:
    known = _known_times(cycle)
    if not cycle["has_times"] or not known:
        axis.set_xticks([])
        axis.set_xlabel("in the order of the history's lines", loc="left")
        return
    axis.set_xticks([0, 1], [f"{min(known) / 1e9:.3f} s", f"{max(known) / 1e9:.3f} s"])
