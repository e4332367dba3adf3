"""The panel of the log end offsets of a partition's replicas over time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from . import style
from .leadership import down_times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEEN: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 6}
CUT: dict[str, Any] = {"linestyle": "", "marker": "X", "markersize": 11}
FINAL: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 6, "markerfacecolor": style.PAPER}
LOST: dict[str, Any] = {"color": style.RED, "linewidth": 6, "alpha": 0.55, "solid_capstyle": "round", "zorder": 1.5}
CLEAR: dict[str, Any] = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.8}  # lines may cross
CUT_TEXT: dict[str, Any] = {"ha": "center", "va": "top", "fontweight": "bold", "zorder": 5, "bbox": CLEAR}
TICK = 0.09  # of the width: the distance of tick labels
NEAR = (0.1, 0.12)  # of the width and the height: labels of marks that are closer than this would collide
MAX_NAMES = 9

Record = dict[str, Any]


def final_ends(evidence: Record) -> dict[str, int]:
    """The log end offset of each broker when the files were collected at the end of the run."""
    return {broker["broker"]: broker["end"] for log in evidence["logs"] if not log["name"] for broker in log["brokers"]}


class LostRecords(NamedTuple):
    """Offsets of lost records, with the times (ns) of their first and last acknowledgement."""

    first: int
    last: int
    since: int
    until: int


def lost_records(figures: Record, part: Record) -> list[LostRecords]:
    """The ranges of lost records of a partition, as far as their acknowledgements have times."""
    ranges = part["offsets"]["findings"] if part["offsets"] else []
    dated = [(first, last, figures["times"].get(name)) for first, last, rule, _, name in ranges if rule == "lost-write"]
    known = [(first, last, times) for first, last, times in dated if times and times["acked_from"] is not None]
    return [LostRecords(first, last, times["acked_from"], times["acked_to"]) for first, last, times in known]


def draw_log_ends(
    axis: Axes,
    evidence: Record,
    ends: list[list[Any]],
    lost: list[LostRecords],
    brokers: list[str],
    place: Any,
    after: float | None,
) -> None:
    """Draws the log end offsets; `after` is the place beyond the times for those at the end of the run."""
    final, cuts = final_ends(evidence), []
    for one in lost:
        axis.plot([place(one.since), place(one.until)], [one.first, one.last], **LOST)
    if lost:
        axis.plot([], [], **LOST, label="acknowledged, then lost")
    for number, broker in enumerate(brokers):
        points = path_of(evidence, broker, ends)
        line = [(place(time), end) for time, end, _ in points]
        line += [(after, final[broker])] if after is not None and broker in final else []
        if not line:
            continue
        look: dict[str, Any] = {"color": style.SERIES[number % len(style.SERIES)]}
        axis.plot(*zip(*line, strict=True), **look, linewidth=1.4, linestyle="--")
        for kind, mark in (("seen", SEEN), ("cut", CUT)):
            marked = [(place(time), end) for time, end, what in points if what == kind]
            axis.plot([x for x, _ in marked], [end for _, end in marked], **look, **mark)
        cuts += [Cut(place(one.time), one.end, before.end) for before, one in pairwise(points) if one.kind == "cut"]
        if after is not None and broker in final:
            axis.plot([after], [final[broker]], **look, **FINAL)
        axis.plot([], [], "o-", color=look["color"], label=f"broker {style.printable(broker, 12)}")
    axis.set_title("log end offset")
    axis.set_ylabel("offset")
    axis.grid(axis="y")
    offsets = [*(end[2] for end in ends), *final.values(), *(offset for one in lost for offset in one[:2])]
    low, high = min(offsets), max(offsets)
    margin = max((high - low) * 0.2, 1)
    axis.set_ylim(max(low - margin, -margin / 2), high + margin)
    axis.locator_params("y", integer=True, nbins=6)
    if after is not None:
        low, until = axis.get_xlim()
        axis.axvline(until, color=style.FAINT, linewidth=0.8, linestyle=":")
        axis.set_xlim(low, after + (after - until) / 2)
        ticks = zip(axis.get_xticks(), axis.get_xticklabels(), strict=True)
        names = {x: text.get_text() for x, text in ticks if after - x > TICK * (until - low)}
        axis.set_xticks([*names, after], [*names.values(), "end of\nthe run"])
    if cuts:
        axis.plot([], [], color=style.FAINT, **CUT, label="truncated")
        _name_cuts(axis, cuts)
    style.legend(axis, ncols=MAX_NAMES, handlelength=1.8)


class Cut(NamedTuple):
    """A truncation."""

    x: float
    end: int
    before: int  # the end before it


class _NamedCut(NamedTuple):
    """A truncation with its offsets written beside it."""

    x: float
    end: int
    is_above: bool  # the text is above the mark


def _name_cuts(axis: Axes, cuts: list[Cut]) -> None:
    """Writes the ends below each truncation, or above it where another label is near, and equal ones once."""
    width, height = (high - low for low, high in (axis.get_xlim(), axis.get_ylim()))
    named: list[_NamedCut] = []
    for x, end, before in sorted(cuts):
        near = [one for one in named if x - one.x < NEAR[0] * width and abs(end - one.end) < NEAR[1] * height]
        is_above = any(not one.is_above for one in near) or end - axis.get_ylim()[0] < NEAR[1] * height
        if any(one.end == end or one.is_above == is_above for one in near):
            continue  # its height shows the offset
        look = {**CUT_TEXT, "va": "bottom"} if is_above else CUT_TEXT
        style.note(axis, f"{before} → {end}", (x, end), (0, 9 if is_above else -9), **look)
        named.append(_NamedCut(x, end, is_above))


class EndPoint(NamedTuple):
    """A log end offset of a broker.

    "reached": the checkpointed high watermark of a broker that is down proves that its log once extended so far.
    """

    time: int  # ns
    end: int
    kind: str  # seen, cut (truncated), reached


def path_of(evidence: Record, broker: str, ends: list[list[Any]]) -> list[EndPoint]:
    """The log end offsets of a broker over time."""
    own = [(time, end, kind) for time, name, end, kind in ends if name == broker]
    down = down_times(evidence, broker, own[0][0], own[-1][0] + 1) if own else []
    marks = {time: mark for time, mark, kind in own if kind == "high-watermark"}
    points: list[EndPoint] = []
    for time, end, kind in own:
        if kind == "high-watermark":
            continue
        before = points[-1].end if points else 0
        mark = marks.get(time, 0) if any(since <= time <= until for since, until in down) else 0
        if mark > max(before, end):
            points.append(EndPoint(time, mark, "reached"))
        points.append(EndPoint(time, end, "cut" if end < max(before, mark) else "seen"))
    return points
