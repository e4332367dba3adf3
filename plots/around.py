"""The operations around one finding, by client and time."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from ..analysis.wording import plural, span
from . import style
from .time_axis import SINCE_START, bands_of, moment, name_ticks, seconds_texts, sheet_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Operations"
CAPTION = (
    "One lane per client; each bar lasts from an operation's invocation to its completion. Bold: operations that"
    " prove the finding, or on its first and last offset if brokers' files prove it, and crashes of clients; the others"
    " are their neighbours. Red: the operation wrote or read a lost record. Time without operations is shortened: read"
    " the times on the axis, not the distances."
)
COLOURS = {  # by kind of operation
    "send": style.BLUE,
    "poll": style.GREEN,
    "end_offsets": style.PURPLE,
    "commit": style.ORANGE,
    "crash": style.INK,
}
MAX_OPERATIONS = 24


def subjects(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """The worst breaches, else the worst permitted finding; at most one per partition and rule.

    A consequence of a loss would show the same operations as the loss, so only `logjudge plot` draws it.
    """
    breaches = [window for window in figures["windows"] if window["severity"] == "violation" and not window["follows"]]
    chosen: dict[tuple[str, str], str] = {}
    for window in breaches or figures["windows"][:1]:
        chosen.setdefault((window["partition"], window["rule"]), window["id"])
    return [{"finding": name} for name in list(chosen.values())[:4]]


def draw(figures: dict[str, Any], finding: str) -> Figure:
    """Draws the operations around the finding with this id."""
    window = next(window for window in figures["windows"] if window["id"] == finding)
    shown, left = choose_operations(window)
    title = style.printable(_headline(window), 108)
    with style.look():
        rows = _rows(shown)
        scale = _time_scale(shown, figures)
        faults = bands_of(figures, scale.moments[0], scale.moments[-1], scale.of)
        height = 0.3 * max(len(rows), 1)
        figure, (axis,) = sheet_below(title, faults, [height], 1.6 + height)
        for row, operation in rows:
            _bar(axis, -row, operation, scale)
        _lanes(axis, rows)
        _ticks(axis, scale, shown, figures["started_at"])
        _legend(axis, shown)
        if left:
            text = f"{plural(left, 'more operation')} not shown"
            axis.set_title(text, fontsize=9, fontweight="normal", color=style.FAINT)
    return figure


def choose_operations(window: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """The operations to draw in order of time, preferring those that prove the finding; and how many are left out."""
    operations = window["operations"]
    ranked = sorted(range(len(operations)), key=lambda number: (not operations[number]["proof"], number))
    drawn = [operations[number] for number in sorted(ranked[:MAX_OPERATIONS])]
    return drawn, window["left_out"] + len(operations) - len(drawn)


def _headline(window: dict[str, Any]) -> str:
    first, last = window["first_offset"], window["last_offset"]
    where = "" if first is None else f", {span(first, first if last is None else last)}"
    around = "around it" if last in (None, first) else "at its first and last offset"
    return f"{window['rule']} in {window['partition']}{where}: the operations {around}"


def _rows(shown: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """A row per operation, grouped by process; processes in the order of their first operation."""
    processes = list(dict.fromkeys(operation["process"] for operation in shown))
    grouped = [operation for name in processes for operation in shown if operation["process"] == name]
    return list(enumerate(grouped))


class TimeScale:
    """Maps times (ns) to positions on the axis (0..1): the order is kept, long pauses are shortened."""

    def __init__(self, moments: list[int]) -> None:
        self.moments = sorted(set(moments)) or [0]
        gaps = [after - before for before, after in pairwise(self.moments)]
        short = sorted(gaps)[len(gaps) // 2] if gaps else 1
        widths = [1.0 + min(gap / max(short, 1), 6.0) ** 0.5 for gap in gaps]
        total = sum(widths) or 1.0
        self.at = list(accumulate((width / total for width in widths), initial=0.0))

    def of(self, time: int) -> float:
        """Interpolates linearly between the known moments; times outside map to the edge."""
        import numpy as np

        return float(np.interp(time, self.moments, self.at, left=-0.02, right=self.at[-1] + 0.02))


def _time_scale(shown: list[dict[str, Any]], figures: dict[str, Any]) -> TimeScale:
    moments = [operation["invoked"] for operation in shown]
    moments += [operation["completed"] for operation in shown if operation["completed"] is not None]
    low, high = min(moments, default=0), max(moments, default=0)
    within = [time for band in figures["faults"] for time in (band["from"], band["to"]) if time and low <= time <= high]
    return TimeScale(moments + within[:12])


def _bar(axis: Axes, y: float, operation: dict[str, Any], scale: TimeScale) -> None:
    colour = style.RED if operation["lost"] else COLOURS.get(operation["kind"], style.FAINT)
    left = scale.of(operation["invoked"])
    is_open = operation["completed"] is None
    right = 1.02 if is_open else scale.of(operation["completed"])
    is_proof, is_ok = operation["proof"], operation["outcome"] == "ok"
    style.bar(
        axis, y, left, max(right, left + 0.006), 0.62 if is_proof else 0.36, facecolor=colour if is_ok else style.PAPER,
        edgecolor=colour, linewidth=1.2, hatch=None if is_ok else "////", alpha=1.0 if is_proof else 0.65,
    )  # fmt: skip
    ending = "" if is_ok else " (no response)" if is_open else f" ({operation['outcome']})"
    verb = {"send": "sends ", "poll": "reads "}.get(operation["kind"], "")
    text = style.printable(verb + operation["text"] + ending, 64)
    # Beside the bar if there is room, else on it.
    width = len(text) * (0.0092 if is_proof else 0.0082)
    after, before = right + width < 1.02, left - width > -0.02
    where, shift, side = left, 8, "left"
    if after:
        where, shift, side = right, 5, "left"
    elif before:
        where, shift, side = left, -5, "right"
    look = {"fontweight": "bold", "color": style.INK} if is_proof else {"fontweight": "normal", "color": style.FAINT}
    style.note(axis, text, (where, y), (shift, 0), ha=side, **look)


def _lanes(axis: Axes, rows: list[tuple[int, dict[str, Any]]]) -> None:
    """Names each process once and separates the lanes."""
    firsts: dict[str, int] = {}
    lasts: dict[str, int] = {}
    for row, operation in rows:
        firsts.setdefault(operation["process"], row)
        lasts[operation["process"]] = row
    axis.set_yticks(
        [-(firsts[name] + lasts[name]) / 2 for name in firsts], [style.printable(name, 18) for name in firsts]
    )
    axis.tick_params(axis="y", length=0)
    for name in list(firsts)[1:]:
        axis.axhline(-firsts[name] + 0.5, color=style.RULE, linewidth=1)
    axis.set_ylim(-len(rows) + 0.4, 0.6)
    axis.set_xlim(-0.03, 1.03)


def _ticks(axis: Axes, scale: TimeScale, shown: list[dict[str, Any]], started_at: str | None) -> None:
    """Ticks at the operations that prove the finding, then at other times, as many as fit."""
    wanted = [operation["invoked"] for operation in shown if operation["proof"]] + scale.moments
    chosen_at: list[int] = []
    for time in wanted:
        if all(abs(scale.of(time) - scale.of(other)) > 0.095 for other in chosen_at):
            chosen_at.append(time)
    chosen_at.sort()
    texts = seconds_texts(chosen_at, min_decimals=3)
    days = [moment(started_at, time) for time in chosen_at]
    name_ticks(axis, [scale.of(time) for time in chosen_at], texts, days, f"{SINCE_START} (not to scale)")


def _legend(axis: Axes, shown: list[dict[str, Any]]) -> None:
    from matplotlib.patches import Patch

    seen = {operation["kind"] for operation in shown if not operation["lost"]}
    handles = [
        Patch(facecolor=colour, label=kind.replace("_", " ")) for kind, colour in COLOURS.items() if kind in seen
    ]
    if seen - COLOURS.keys():
        handles.append(Patch(facecolor=style.FAINT, label="other"))
    if any(operation["lost"] for operation in shown):
        handles.insert(0, Patch(facecolor=style.RED, label="wrote or read a lost record"))
    if any(operation["outcome"] != "ok" for operation in shown):
        handles.append(Patch(facecolor=style.PAPER, edgecolor=style.FAINT, hatch="////", label="not ok"))
    style.legend(axis, handles=handles, ncols=len(handles), columnspacing=1.2)
