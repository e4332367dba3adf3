"""The transactions of a partition in time, and the last stable offset that they hold back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..analysis.wording import duration
from . import style
from .time_axis import bands_of, draw_bands, lanes, seconds, seconds_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Transactions"
CAPTION = (
    "One bar per transaction in the leader's log, from the timestamp of its first record on: pale until its"
    " coordinator decided, full until its marker (▲ COMMIT, ✕ ABORT) was written. Green: committed; grey: aborted; red:"
    " no marker, so it is open at the end. Below: the log end, and the last stable offset, where read_committed"
    " consumers stop. What is between them waits for the oldest open transaction."
)
MAX_PARTITIONS = 3
MAX_ROWS = 12
MIN_HELD_NS = 1_000_000_000
_COLOURS = {"commit": style.GREEN, "abort": style.FAINT, None: style.RED}
_UNDECIDED = 0.35  # opacity until the coordinator prepares the end

Record = dict[str, Any]


def subjects(figures: Record) -> list[Record]:
    """The partitions in which a transaction is open, or was for a second: the longest first."""
    held = [(_longest(part), part["name"]) for part in figures["partitions"] if part.get("transactions")]
    worst = sorted((one for one in held if one[0] >= MIN_HELD_NS), key=lambda one: (-one[0], one[1]))
    return [{"partition": name} for _, name in worst[:MAX_PARTITIONS]]


def _longest(part: Record) -> int:
    last = part["transactions"]["ends"][-1][0]
    return max(
        int(one["ended"] or max(last, one["began"] + MIN_HELD_NS)) - int(one["began"])
        for one in part["transactions"]["shown"]
    )


def draw(figures: Record, partition: str) -> Figure:
    """Draws the longest transactions of a partition, in the order in which they began."""
    part = next(part for part in figures["partitions"] if part["name"] == partition)
    name, found = style.printable(partition), part.get("transactions")
    with style.look():
        if not found:
            return style.empty_sheet(name, "No dated transaction of this partition is in the leader's log.")
        shown = sorted(found["shown"], key=lambda one: (one["ended"] is not None, one["began"] - (one["ended"] or 0)))
        rows = sorted(shown[:MAX_ROWS], key=lambda one: (one["began"], one["first"]))
        low, high = figures["span"]
        last = found["ends"][-1][0]
        high = min(high, max(last + (last - low) // 5, low + MIN_HELD_NS))  # nothing is written after that
        bands = bands_of(figures, low, high)
        heights = [0.3 * max(lanes(bands), 0.2), 0.24 * len(rows) + 0.4, 2.2]
        figure, axes = style.sheet(_title(name, found), heights, 1.6 + sum(heights))
        draw_bands(axes[0], axes[1:], bands)
        left_out = found["left_out"] + len(shown) - len(rows)
        _bars(axes[1], rows, high, left_out)
        _ends(axes[2], found["ends"], high)
        axes[-1].set_xlim(seconds(low), seconds(high))
        seconds_axis(axes[-1], figures["started_at"])
    return figure


def _title(name: str, found: Record) -> str:
    is_open = sum(one["ended"] is None for one in found["shown"])
    held = max((one["ended"] - one["began"] for one in found["shown"] if one["ended"] is not None), default=0)
    if is_open:
        return f"{name}: {is_open} transaction{'s' if is_open > 1 else ''} without a marker"
    return f"{name}: all transactions ended, the longest after {duration(held)}"


def _bars(axis: Axes, rows: list[Record], high: int, left_out: int) -> None:
    from matplotlib.patches import Patch

    for row, one in enumerate(rows):
        colour = _COLOURS.get(one["outcome"], style.FAINT)
        end = high if one["ended"] is None else one["ended"]
        decided = end if one["prepared"] is None else min(one["prepared"], end)
        axis.barh(
            row, seconds(decided) - seconds(one["began"]), 0.6, seconds(one["began"]), color=colour, alpha=_UNDECIDED
        )
        axis.barh(row, seconds(end) - seconds(decided), 0.6, seconds(decided), color=colour)
        if one["ended"] is not None:
            mark = "^" if one["outcome"] == "commit" else "x"
            axis.plot([seconds(end)], [row], marker=mark, color=style.INK, markersize=5, zorder=5)
    axis.set_yticks(range(len(rows)), [f"{style.printable(one['name'], 16)} @{one['first']}" for one in rows])
    axis.tick_params(axis="y", length=0, labelsize=8)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    more = f" (the longest {len(rows)} of {len(rows) + left_out})" if left_out else ""
    axis.set_title(f"transactions{more}")
    outcomes = [("commit", "▲ committed"), ("abort", "✕ aborted"), (None, "open")]
    handles = [
        Patch(facecolor=style.FAINT, alpha=_UNDECIDED, label="pale: undecided"),
        *(Patch(facecolor=_COLOURS[outcome], label=label) for outcome, label in outcomes),
    ]
    style.legend(axis, handles=handles, ncols=4)


def _ends(axis: Axes, ends: list[list[int]], high: int) -> None:
    points = [*ends, [max(high, ends[-1][0]), *ends[-1][1:]]]
    times = [seconds(time) for time, _, _ in points]
    log_end, stable = ([point[number] for point in points] for number in (1, 2))
    axis.fill_between(
        times, stable, log_end, step="post", color=style.ORANGE, alpha=0.3, linewidth=0, label="waits for a transaction"
    )
    axis.step(times, log_end, where="post", color=style.FAINT, linewidth=1.4, label="log end")
    axis.step(times, stable, where="post", color=style.BLUE, linewidth=1.8, label="last stable offset")
    axis.set_title("offsets")
    axis.set_ylabel("offset")
    axis.grid(axis="y")
    axis.locator_params("y", integer=True, nbins=6)
    style.legend(axis, ncols=3)
