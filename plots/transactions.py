"""The transactions of a partition in time, and the last stable offset that they hold back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..analysis.wording import duration
from . import style
from .time_axis import CHARACTER_WIDTH, bands_of, draw_bands, lanes, seconds, seconds_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Transactions"
CAPTION = (
    "One bar per transaction in the leader's log, from the timestamp of its first record on: pale until its"
    " coordinator decided (full from the start if it had decided before), full until its marker (▲ COMMIT, ✕ ABORT) was"
    " written. Green: committed; grey: aborted; red: no marker, so it is open at the end. The rules of findings are"
    " beside their transactions. Below: the log end, and the last stable offset, where read_committed"
    " consumers stop. What is between them waits for the oldest open transaction."
)
MAX_PARTITIONS = 3
MAX_ROWS = 12
MIN_HELD_NS = 1_000_000_000
_COLOURS = {"commit": style.GREEN, "abort": style.FAINT, None: style.RED}
_PAPER: dict[str, Any] = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.5}
_UNDECIDED = 0.35  # opacity until the coordinator prepares the end

Record = dict[str, Any]


def subjects(figures: Record) -> list[Record]:
    """The partitions with a finding about a transaction, then those where one is open, or was for a second."""
    worst = []
    for part in (part for part in figures["partitions"] if part.get("transactions")):
        is_named, longest = bool(_named_transactions(part["transactions"]["shown"])), _longest(part)
        if is_named or longest >= MIN_HELD_NS:
            worst.append((not is_named, -longest, part["name"]))
    return [{"partition": name} for *_, name in sorted(worst)[:MAX_PARTITIONS]]


def _named_transactions(shown: list[Record]) -> list[Record]:
    """The transactions that a finding is about."""
    return [one for one in shown if one.get("findings")]


def _longest(part: Record) -> int:
    """The longest duration (ns) of a transaction. An open one lasts until the last record, at least MIN_HELD_NS."""
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
        shown = sorted(found["shown"], key=_importance)
        rows = sorted(shown[:MAX_ROWS], key=lambda one: (one["began"], one["first"]))
        low, high = figures["span"]
        last = found["ends"][-1][0]
        if all(one["ended"] is not None for one in found["shown"]):
            high = min(high, max(last + (last - low) // 5, low + MIN_HELD_NS))  # nothing is written after that
        bands = bands_of(figures, low, high)
        heights = [0.3 * max(lanes(bands), 0.2), 0.24 * len(rows) + 0.4, 2.2]
        figure, axes = style.sheet(_title(name, found), heights, 1.6 + sum(heights))
        draw_bands(axes[0], axes[1:], bands)
        left_out = found["left_out"] + len(shown) - len(rows)
        _bars(axes[1], rows, low, high, left_out)
        _ends(axes[2], found["ends"], high)
        seconds_axis(axes[-1], (low, high), figures["started_at"], margin=0)
    return figure


def _importance(one: Record) -> tuple[bool, bool, int]:
    """A sort key: transactions that a finding is about, then open ones, then the longest."""
    return not one.get("findings"), one["ended"] is not None, one["began"] - (one["ended"] or 0)


def _title(name: str, found: Record) -> str:
    is_open = sum(one["ended"] is None for one in found["shown"])
    held = max((one["ended"] - one["began"] for one in found["shown"] if one["ended"] is not None), default=0)
    if named := _named_transactions(found["shown"]):
        rules = ", ".join(sorted({rule for one in named for rule in one["findings"]}))
        first = f"{style.printable(named[0]['name'], 16)} @{named[0]['first']}"
        return f"{name}: {rules} of {first if len(named) == 1 else f'{len(named)} transactions'}"
    if is_open:
        return f"{name}: {is_open} transaction{'s' if is_open > 1 else ''} without a marker"
    return f"{name}: all transactions ended, the longest after {duration(held)}"


def _bars(axis: Axes, rows: list[Record], low: int, high: int, left_out: int) -> None:
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
        if one.get("findings"):
            _name_findings(axis, row, ", ".join(one["findings"]), (low, one["began"], end, high))
    axis.set_yticks(range(len(rows)), [f"{style.printable(one['name'], 16)} @{one['first']}" for one in rows])
    axis.tick_params(axis="y", length=0, labelsize=8)
    axis.set_ylim(len(rows) - 0.4, -0.6)
    more = f" (the longest {len(rows)} of {len(rows) + left_out})" if left_out else ""
    axis.set_title(f"transactions{more}")
    outcomes = [("commit", "▲ committed"), ("abort", "✕ aborted"), (None, "open")]
    drawn = {one["outcome"] for one in rows}
    handles = [Patch(facecolor=style.FAINT, alpha=_UNDECIDED, label="pale: undecided")]
    handles += [Patch(facecolor=_COLOURS[outcome], label=label) for outcome, label in outcomes if outcome in drawn]
    style.legend(axis, handles=handles, ncols=4)


def _name_findings(axis: Axes, row: int, text: str, times: tuple[int, int, int, int]) -> None:
    """Writes the rules on the side of a bar that has more room, or within a bar that leaves none."""
    low, began, end, high = map(seconds, times)
    look: dict[str, Any] = {"color": style.RED, "fontweight": "bold", "zorder": 6}
    room = max(began - low, high - end)
    if room < CHARACTER_WIDTH * len(text) * (high - low):
        style.note(axis, text, ((began + end) / 2, row), (0, 0), ha="center", **look, bbox=_PAPER)
    elif began - low == room:
        style.note(axis, text, (began, row), (-6, 0), ha="right", **look)
    else:
        style.note(axis, text, (end, row), (8, 0), ha="left", **look)


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
