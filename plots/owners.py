"""The owner of each partition in a consumer group over time: gaps without an owner, and two owners at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import duration
from . import style
from .time_axis import bands_of, draw_bands, lanes, seconds, seconds_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Owners"
CAPTION = (
    "One row per partition, one colour per member of the group; the number is the member's generation (KIP-848: its"
    " epoch). Hatched: no member owns the partition. Red frame: two members own it at once, by their own records; one"
    " of them may not have noticed that the group went on without it. Ticks below a row: commits; a red × is one that"
    " was refused. ✖ at the end of a bar: the member crashed."
)
MAX_GROUPS = 2
MAX_MEMBERS = 12  # in the legend
HEIGHT = 0.64
UNOWNED: dict[str, Any] = {"facecolor": style.PAPER, "edgecolor": style.FAINT, "hatch": "////", "linewidth": 0}
BOTH: dict[str, Any] = {"facecolor": "none", "edgecolor": style.RED, "linewidth": 2}
CRASHED: dict[str, Any] = {"marker": "X", "color": style.RED, "markeredgecolor": style.PAPER, "markersize": 9}

Record = dict[str, Any]


class Hold(NamedTuple):
    """The time (ns) in which a member owns a partition."""

    owner: str
    generation: int | None
    since: int
    until: int
    crashed: bool


class Row(NamedTuple):
    """A partition with its owners and commits in one group."""

    name: str
    holds: list[Hold]
    commits: list[list[Any]]
    epochs: bool


def subjects(figures: Record) -> list[Record]:
    """The groups with several members: those in which two owned a partition at once first, then the longest gaps."""
    found = {group: _rows(figures, group) for group in _groups(figures)}
    shared = [group for group, rows in found.items() if len({hold.owner for row in rows for hold in row.holds}) > 1]

    def badness(group: str) -> tuple[int, int]:
        rows = found[group]
        return -_longest(_overlaps, rows)[0], -_longest(_gaps, rows)[0]

    return [{"group": group} for group in sorted(shared, key=badness)[:MAX_GROUPS]]


def draw(figures: Record, group: str = "") -> Figure:
    """Draws the owners of a group's partitions; without a name those of the first group."""
    group = group or next(iter(_groups(figures)), "")
    rows = _rows(figures, group)
    with style.look():
        if not rows:
            return style.empty_sheet("Owners", "No assignment of a partition to a member of a group is recorded.")
        low, high = _span(figures, rows)
        bands = bands_of(figures, low, high)
        heights = [0.3 * max(lanes(bands), 0.2), 0.46 * len(rows) + 0.35]
        figure, (strip, axis) = style.sheet(_title(group, rows), heights, 1.5 + sum(heights))
        draw_bands(strip, [axis], bands)
        _draw_rows(axis, rows, low, high)
        margin = (seconds(high) - seconds(low)) * 0.01
        axis.set_xlim(seconds(low) - margin, seconds(high) + margin)
        seconds_axis(axis, figures["started_at"])
    return figure


def _groups(figures: Record) -> list[str]:
    return sorted({one["group"] for part in figures["partitions"] for one in part.get("owners") or ()})


def _rows(figures: Record, group: str) -> list[Row]:
    """The partitions of a group, in the order of their names."""
    known = [(part, one) for part in figures["partitions"] for one in part.get("owners") or () if one["group"] == group]
    known.sort(key=lambda pair: (pair[0]["topic"], pair[0]["partition"]))
    end = max((time for _, one in known for hold in one["holds"] for time in hold[2:4] if time is not None), default=0)
    end = max(end, figures["span"][1])
    return [
        Row(
            part["name"],
            [
                Hold(name, gen, since, end if until is None else until, died)
                for name, gen, since, until, died in one["holds"]
            ],
            one["commits"],
            one["epochs"],
        )
        for part, one in known
    ]


def _span(figures: Record, rows: list[Row]) -> tuple[int, int]:
    """From the first owner to the last, with some time before and after."""
    low = min(hold.since for row in rows for hold in row.holds)
    high = max(hold.until for row in rows for hold in row.holds)
    margin = max((high - low) // 30, 1)
    return max(min(figures["span"][0], low), low - margin), min(max(figures["span"][1], high), high + margin)


def _gaps(row: Row, rows: list[Row]) -> Iterator[tuple[int, int]]:
    """The times without an owner, between the first owner and the end of the group's last one."""
    end = max(hold.until for each in rows for hold in each.holds)
    owned = row.holds[0].since if row.holds else end
    for hold in [*row.holds, Hold("", None, end, end, False)]:
        if hold.since > owned:
            yield owned, hold.since
        owned = max(owned, hold.until)


def _overlaps(row: Row, rows: list[Row]) -> Iterator[tuple[int, int]]:  # noqa: ARG001
    """The times with two owners, by pairs."""
    for number, one in enumerate(row.holds):
        for other in row.holds[number + 1 :]:
            since, until = max(one.since, other.since), min(one.until, other.until)
            if since < until and one.owner != other.owner:
                yield since, until


def _longest(times: Any, rows: list[Row]) -> tuple[int, str]:
    """The longest of some times in any row, and the row's name."""
    found = [(until - since, row.name) for row in rows for since, until in times(row, rows)]
    return max(found, key=lambda pair: pair[0], default=(0, ""))


def _title(group: str, rows: list[Row]) -> str:
    name = style.printable(group, 24)
    both, shared = _longest(_overlaps, rows)
    gap, alone = _longest(_gaps, rows)
    if both:
        return f"Group {name}: two members owned {style.printable(shared, 32)} at once, for {duration(both)}"
    if gap:
        return f"Group {name}: {style.printable(alone, 32)} had no owner for {duration(gap)}"
    return f"Group {name}: each partition always had one owner"


def _draw_rows(axis: Axes, rows: list[Row], low: int, high: int) -> None:
    members = sorted({hold.owner for row in rows for hold in row.holds})
    colours = dict(zip(members, cycle(style.SERIES), strict=False))
    width = max(high - low, 1)
    for number, row in enumerate(rows):
        for since, until in _gaps(row, rows):
            style.bar(axis, number, seconds(since), seconds(until), HEIGHT, zorder=2, **UNOWNED)
        taken: list[Hold] = []
        for hold in row.holds:
            # A second owner gets the lower half, so that both can be seen.
            is_second = any(other.until > hold.since and other.owner != hold.owner for other in taken)
            height, place = (HEIGHT / 2, number + HEIGHT / 4) if is_second else (HEIGHT, number)
            colour = colours[hold.owner]
            style.bar(axis, place, seconds(hold.since), seconds(hold.until), height, facecolor=colour, zorder=3)
            axis.plot([seconds(hold.since)] * 2, [place - height / 2, place + height / 2], color=style.PAPER, zorder=4)
            _name(axis, place, hold, _word(row), style.text_colour(colour), width)
            if hold.crashed:
                axis.plot([seconds(hold.until)], [number], zorder=7, **CRASHED)
            taken.append(hold)
        for since, until in _overlaps(row, rows):
            style.bar(axis, number, seconds(since), seconds(until), HEIGHT + 0.06, zorder=6, **BOTH)
        _commits(axis, number, row.commits)
    axis.set_ylim(len(rows) - 0.45, -0.55)
    axis.set_yticks(range(len(rows)), [style.printable(row.name, 20) for row in rows])
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    is_known = any(hold.generation is not None for row in rows for hold in row.holds)
    axis.set_title("owner" + (f" and {_word(rows[0])}" if is_known else ""))
    _legend(axis, rows, {name: colours[name] for name in members[:MAX_MEMBERS]})


def _word(row: Row) -> str:
    return "epoch" if row.epochs else "generation"


def _name(axis: Axes, place: float, hold: Hold, word: str, ink: str, width: int) -> None:
    """Writes the longest text that fits: the owner with its generation, or the owner alone."""
    number = "" if hold.generation is None else f"{hold.generation}"
    owner = style.printable(hold.owner, 16)
    for text in (f"{owner}, {word} {number}", f"{owner}, {number}", owner) if number else (owner,):
        if (hold.until - hold.since) / width > 0.0105 * len(text):
            left = seconds(hold.since) + 0.004 * seconds(width)
            axis.text(left, place, text, va="center", fontsize=8.5, color=ink, zorder=8)
            return


def _commits(axis: Axes, number: int, commits: list[list[Any]]) -> None:
    low = number + HEIGHT / 2
    accepted = [seconds(time) for time, _, _, ok in commits if ok]
    # One line with gaps: a path for each tick would double the size of an SVG.
    xs = [x for time in accepted for x in (time, time, float("nan"))]
    axis.plot(xs, [low + 0.02, low + 0.12, low] * len(accepted), color=style.FAINT, linewidth=0.9, zorder=5)
    refused = [seconds(time) for time, _, _, ok in commits if not ok]
    axis.vlines(accepted, low + 0.02, low + 0.12, color=style.FAINT, linewidth=0.9, zorder=5)
    axis.plot(refused, [low + 0.07] * len(refused), linestyle="", marker="x", color=style.RED, markersize=6, zorder=7)


def _legend(axis: Axes, rows: list[Row], colours: dict[str, str]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=colour, label=style.printable(name, 16)) for name, colour in colours.items()]
    if any(True for row in rows for _ in _gaps(row, rows)):
        handles.append(Patch(**UNOWNED, label="no owner"))
    if any(True for row in rows for _ in _overlaps(row, rows)):
        handles.append(Patch(**BOTH, label="two owners"))
    style.legend(axis, handles=handles, ncols=min(len(handles), 7), columnspacing=1.2)
