"""The owner of each partition in a consumer group over time: gaps without an owner, and two owners at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, cycle
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import duration
from . import style
from .time_axis import bands_of, draw_bands, lanes, seconds, seconds_axis

if TYPE_CHECKING:
    from matplotlib.artist import Artist
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
REFUSED: dict[str, Any] = {"marker": "x", "color": style.RED, "markersize": 6}
COMMITTED: dict[str, Any] = {"marker": "|", "color": style.FAINT, "markersize": 8}

Record = dict[str, Any]


class Ownership(NamedTuple):
    """A member owns a partition from `since` until `until` (ns)."""

    owner: str
    generation: int | None
    since: int
    until: int
    has_crashed: bool


class Row(NamedTuple):
    """A partition with its owners and commits in one group."""

    name: str
    owned: list[Ownership]
    commits: list[list[Any]]  # time (ns), owner, offset, whether it was accepted
    has_epochs: bool  # the group has epochs (KIP-848) instead of generations


class Interval(NamedTuple):
    """A time (ns) in a row, given by its number: without an owner, or with two."""

    row: int
    since: int
    until: int

    @property
    def length(self) -> int:
        """In nanoseconds."""
        return self.until - self.since


def subjects(figures: Record) -> list[Record]:
    """The groups with several members: those in which two owned a partition at once first, then the longest gaps."""
    found = {group: _rows(figures, group) for group in _groups(figures)}
    shared = [group for group, rows in found.items() if len({each.owner for row in rows for each in row.owned}) > 1]

    def badness(group: str) -> tuple[int, int]:
        return -_longest(_overlaps(found[group])).length, -_longest(_gaps(found[group])).length

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
        seconds_axis(axis, (low, high), figures["started_at"])
    return figure


def _groups(figures: Record) -> list[str]:
    return sorted({one["group"] for part in figures["partitions"] for one in part.get("owners") or ()})


def _rows(figures: Record, group: str) -> list[Row]:
    """The partitions of a group, in the order of their names."""
    owned = [
        (part, one)
        for part in sorted(figures["partitions"], key=lambda part: (part["topic"], part["partition"]))
        for one in part.get("owners") or ()
        if one["group"] == group
    ]
    times = [time for _, one in owned for _, _, since, until, _ in one["holds"] for time in (since, until or since)]
    end = max([figures["span"][1], *times])
    return [
        Row(
            part["name"],
            [
                Ownership(owner, generation, since, end if until is None else until, has_crashed)
                for owner, generation, since, until, has_crashed in one["holds"]
            ],
            one["commits"],
            one["epochs"],
        )
        for part, one in owned
    ]


def _span(figures: Record, rows: list[Row]) -> tuple[int, int]:
    """From the first owner to the last, with some time before and after."""
    low = min(each.since for row in rows for each in row.owned)
    high = max(each.until for row in rows for each in row.owned)
    margin = max((high - low) // 30, 1)
    return max(min(figures["span"][0], low), low - margin), min(max(figures["span"][1], high), high + margin)


def _gaps(rows: list[Row]) -> Iterator[Interval]:
    """The times without an owner, between a partition's first owner and the end of the group's last one."""
    end = max(each.until for row in rows for each in row.owned)
    for number, row in enumerate(rows):
        owned = row.owned[0].since if row.owned else end
        for each in row.owned:
            if each.since > owned:
                yield Interval(number, owned, each.since)
            owned = max(owned, each.until)
        if end > owned:
            yield Interval(number, owned, end)


def _overlaps(rows: list[Row]) -> Iterator[Interval]:
    """The times with two owners, one for each pair of owners."""
    for number, row in enumerate(rows):
        for one, other in combinations(row.owned, 2):
            since, until = max(one.since, other.since), min(one.until, other.until)
            if since < until and one.owner != other.owner:
                yield Interval(number, since, until)


def _longest(intervals: Iterable[Interval]) -> Interval:
    """The longest interval, the first of several; one of length 0 if there is none."""
    return max(intervals, key=lambda interval: interval.length, default=Interval(0, 0, 0))


def _title(group: str, rows: list[Row]) -> str:
    name = style.printable(group, 24)
    shared, unowned = _longest(_overlaps(rows)), _longest(_gaps(rows))
    if shared.length:
        partition = style.printable(rows[shared.row].name, 32)
        return f"Group {name}: two members owned {partition} at once, for {duration(shared.length)}"
    if unowned.length:
        return (
            f"Group {name}: {style.printable(rows[unowned.row].name, 32)} had no owner for {duration(unowned.length)}"
        )
    return f"Group {name}: each partition always had one owner"


def _draw_rows(axis: Axes, rows: list[Row], low: int, high: int) -> None:
    members = sorted({each.owner for row in rows for each in row.owned})
    colours = dict(zip(members, cycle(style.SERIES), strict=False))
    width = max(high - low, 1)
    gaps, overlaps = list(_gaps(rows)), list(_overlaps(rows))
    for gap in gaps:
        style.bar(axis, gap.row, seconds(gap.since), seconds(gap.until), HEIGHT, zorder=2, **UNOWNED)
    for both in overlaps:
        style.bar(axis, both.row, seconds(both.since), seconds(both.until), HEIGHT + 0.06, zorder=6, **BOTH)
    for number, row in enumerate(rows):
        taken: list[Ownership] = []
        for each in row.owned:
            # A second owner gets the lower half, so that both can be seen.
            is_second = any(other.until > each.since and other.owner != each.owner for other in taken)
            height, place = (HEIGHT / 2, number + HEIGHT / 4) if is_second else (HEIGHT, number)
            colour = colours[each.owner]
            style.bar(axis, place, seconds(each.since), seconds(each.until), height, facecolor=colour, zorder=3)
            axis.plot([seconds(each.since)] * 2, [place - height / 2, place + height / 2], color=style.PAPER, zorder=4)
            _draw_owner(axis, place, each, _generation_word(row), style.text_colour(colour), width)
            if each.has_crashed:
                axis.plot([seconds(each.until)], [number], zorder=7, **CRASHED)
            taken.append(each)
        _draw_commits(axis, number, row.commits)
    axis.set_ylim(len(rows) - 0.45, -0.55)
    style.name_rows(axis, range(len(rows)), [style.printable(row.name, 20) for row in rows])
    is_known = any(each.generation is not None for row in rows for each in row.owned)
    axis.set_title("owner" + (f" and {_generation_word(rows[0])}" if is_known else ""))
    _legend(axis, {name: colours[name] for name in members[:MAX_MEMBERS]}, _marks(rows, bool(gaps), bool(overlaps)))


def _generation_word(row: Row) -> str:
    return "epoch" if row.has_epochs else "generation"


def _draw_owner(axis: Axes, place: float, owned: Ownership, word: str, ink: str, width: int) -> None:
    """Writes the longest text that fits: the owner with its generation, or the owner alone."""
    number = "" if owned.generation is None else f"{owned.generation}"
    owner = style.printable(owned.owner, 16)
    for text in (f"{owner}, {word} {number}", f"{owner}, {number}", owner) if number else (owner,):
        if (owned.until - owned.since) / width > 0.0105 * len(text):
            left = seconds(owned.since) + 0.004 * seconds(width)
            axis.text(left, place, text, va="center", fontsize=8.5, color=ink, zorder=8)
            return


def _draw_commits(axis: Axes, number: int, commits: list[list[Any]]) -> None:
    low = number + HEIGHT / 2
    accepted = [seconds(time) for time, _, _, ok in commits if ok]
    # One line with gaps: a path for each tick would double the size of an SVG.
    xs = [x for time in accepted for x in (time, time, float("nan"))]
    axis.plot(xs, [low + 0.02, low + 0.12, low] * len(accepted), color=style.FAINT, linewidth=0.9, zorder=5)
    refused = [seconds(time) for time, _, _, ok in commits if not ok]
    axis.plot(refused, [low + 0.07] * len(refused), linestyle="", zorder=7, **REFUSED)


def _marks(rows: list[Row], has_gaps: bool, has_overlaps: bool) -> list[Artist]:
    """The legend's entries for what the figure shows beside the members."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    accepted = {ok for row in rows for *_, ok in row.commits}
    tick, cross = (Line2D([], [], linestyle="", **look) for look in (COMMITTED, REFUSED))
    known: list[tuple[bool, Artist, str]] = [
        (has_gaps, Patch(**UNOWNED), "no owner"),
        (has_overlaps, Patch(**BOTH), "two owners"),
        (True in accepted, tick, "commit"),
        (False in accepted, cross, "refused commit"),
        (
            any(each.has_crashed for row in rows for each in row.owned),
            Line2D([], [], linestyle="", **CRASHED),
            "crash",
        ),
    ]
    for _, mark, label in known:
        mark.set_label(label)
    return [mark for is_shown, mark, _ in known if is_shown]


def _legend(axis: Axes, colours: dict[str, str], marks: list[Artist]) -> None:
    from matplotlib.patches import Patch

    members = [Patch(facecolor=colour, label=style.printable(name, 16)) for name, colour in colours.items()]
    handles = [*members, *marks]
    style.legend(axis, handles=handles, ncols=min(len(handles), 8), columnspacing=1.2)
