"""Leader and ISR of a partition over time, and the log end offset of each replica where it is recorded."""

from __future__ import annotations

from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import plural
from . import style
from .time_axis import SINCE_START, bands_of, clock, draw_bands, lanes, seconds_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Leaders and ISR"
CAPTION = (
    "One lane per broker. Full colour: the leader, with its leader epoch. Pale blue: a follower in the last known"
    " ISR; hatched: in that ISR though down or fenced. Thin line: running, not in the ISR. Red edge: two brokers led"
    " the same epoch. Vertical line: an election, red if unclean. Below: the recorded log end offsets of each broker"
    " (●); × marks a truncation. The dashed lines only connect the marks."
)
MAX_PARTITIONS = 3
MAX_BROKERS = 9
IN_SYNC = "#cfe0ee"
ABSENT: dict[str, Any] = {"facecolor": style.PAPER, "edgecolor": "#b9cfe2", "hatch": "////"}
MOVING: dict[str, Any] = {"facecolor": "none", "linewidth": 1.6, "linestyle": "--"}
ADDING: dict[str, Any] = {"edgecolor": style.GREEN}
REMOVING: dict[str, Any] = {"edgecolor": style.RED}
# The marks differ in height, so that a broker that stops and returns at once shows both.
DIED: dict[str, Any] = {"marker": "X", "color": style.RED, "height": 0.18}
BACK: dict[str, Any] = {"marker": "o", "color": style.INK, "height": -0.18}
SEEN: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 6}
CUT: dict[str, Any] = {"linestyle": "", "marker": "X", "markersize": 11}
CLEAR: dict[str, Any] = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.6, "alpha": 0.8}  # lines may cross
CUT_TEXT: dict[str, Any] = {"ha": "center", "va": "top", "fontweight": "bold", "zorder": 5, "bbox": CLEAR}
NEAR = 1_000_000_000  # ns: sources may date one event differently

Record = dict[str, Any]


class _Window(NamedTuple):
    """The drawn span of time (ns), and the time at which the axis begins."""

    low: int
    high: int
    zero: int

    def place(self, time: int) -> float:
        """The place of a time on the axis, in seconds."""
        return (time - self.zero) / 1e9


def subjects(figures: Record) -> list[Record]:
    """Partitions with a loss, or with violations and changes of leader or ISR; otherwise those with most changes."""
    evidence = [part for part in figures["partitions"] if part.get("replicas") and _dated(part["replicas"])]
    moved = [part for part in evidence if len(part["replicas"]["terms"]) > 1 or len(part["replicas"]["isr"]) > 1]
    troubled = [part for part in evidence if part["lost"] or (part["violations"] and part in moved)]
    moved.sort(key=lambda part: -len(part["replicas"]["terms"]) - len(part["replicas"]["isr"]))
    return [{"partition": part["name"]} for part in (troubled or moved)[:MAX_PARTITIONS]]


def draw(figures: Record, partition: str) -> Figure:
    """Draws the leaders, the ISR and the log ends of a partition."""
    part = next(part for part in figures["partitions"] if part["name"] == partition)
    evidence = part.get("replicas")
    name = style.printable(partition)
    with style.look():
        if not evidence or not _dated(evidence):
            return style.empty_sheet(name, "No dated leader of this partition is recorded in the brokers' files.")
        low, high = span_of(figures, evidence)
        # Without clients the axis begins with the first event.
        window = _Window(low, high, 0 if _has_span(figures) else low)
        place = window.place
        brokers = _brokers(evidence)
        ends = [end for end in evidence["ends"] if low <= end[0] <= high]
        bands = bands_of(figures, low, high, place)
        rows = [0.3 * max(lanes(bands), 0.2), 0.55 * len(brokers) + 0.3, *([2.2] if ends else [])]
        figure, axes = style.sheet(_title(name, part, evidence), rows, 1.6 + sum(rows))
        draw_bands(axes[0], axes[1:], bands)
        _lanes(axes[1], evidence, brokers, window)
        if ends:
            _ends(axes[2], evidence, ends, brokers, place)
        margin = (place(high) - place(low)) * 0.01
        axes[-1].set_xlim(place(low) - margin, place(high) + margin)
        seconds_axis(axes[-1], figures["started_at"], _since(figures, low), window.zero)
    return figure


def _dated(evidence: Record) -> bool:
    return any(term["time"] is not None for term in evidence["terms"])


def span_of(figures: Record, evidence: Record) -> tuple[int, int]:
    """The time from the first to the last event, with a fifth of it before and after: most of a run is quiet."""
    names = ("isr", "lives", "cuts") if _has_span(figures) else ("isr", "lives", "ends", "cuts")
    times = [row[0] for name in names for row in evidence[name]]
    times += [term["time"] for term in evidence["terms"] if term["time"] is not None]
    if not _has_span(figures):
        return min(times), max(max(times), min(times) + NEAR)
    start, end = figures["span"]
    times += [time for band in figures["faults"] for time in (band["from"], band["to"]) if time is not None]
    # Events at the start are left out: the lanes show the initial state anyway.
    times = [time for time in times if start + NEAR < time <= end] or [start, end]
    margin = max((max(times) - min(times)) // 5, 2 * NEAR)
    return max(start, min(times) - margin), min(end, max(times) + margin)


def _has_span(figures: Record) -> bool:
    """Whether client operations date the run; without them times count from 1970."""
    return bool(figures["span"][1] > figures["span"][0])


def _since(figures: Record, low: int) -> str:
    if _has_span(figures):
        return SINCE_START
    return f"seconds since {clock(figures['started_at'], low) or 'the first event'}"


def _brokers(evidence: Record) -> list[str]:
    named = {term["leader"] for term in evidence["terms"]} | {name for _, isr in evidence["isr"] for name in isr}
    return sorted(named | set(evidence["brokers"]), key=_in_order)[:MAX_BROKERS]


def _in_order(broker: str) -> tuple[int, str]:
    """A sort key: ids are usually numbers, but a damaged file may contain any text."""
    return len(broker), broker


def _title(name: str, part: Record, evidence: Record) -> str:
    unclean = [term for term in evidence["terms"] if term["unclean"]]
    contested = next((term for term in evidence["terms"] if term["rivals"]), None)
    causes = sorted({cause for *_, cause in part["causes"] if cause != "unknown"})
    lost = f"{name}: {plural(part['lost'], 'acknowledged record')} lost" if part["lost"] else name
    if contested is not None:
        both = sorted([contested["leader"], *(rival for rival, _ in contested["rivals"])], key=_in_order)
        leaders = " and ".join(style.printable(broker, 12) for broker in both[:3])
        return f"{lost}: brokers {leaders} each led epoch {contested['epoch']}"
    if unclean:
        elected = ", ".join(f"{style.printable(term['leader'], 12)} in epoch {term['epoch']}" for term in unclean[:3])
        return f"{lost}: unclean election of broker {elected}"
    if causes:
        return f"{lost}: {', '.join(causes)}"
    changes = max(len(evidence["terms"]) - 1, 0)
    smaller = [isr for (_, was), (_, isr) in pairwise(evidence["isr"]) if isr and set(isr) < set(was)]
    if smaller and not changes:
        least = ", ".join(style.printable(broker, 12) for broker in min(smaller, key=len))
        return f"{lost}: the ISR shrank {plural(len(smaller), 'time')}, to [{least}]; with one leader throughout"
    known = all(term["unclean"] is not None or not term["epoch"] for term in evidence["terms"])
    clean = ", none unclean" if known else ", not known whether clean"
    return f"{lost}: {plural(changes, 'change')} of leader or epoch{clean if changes else ''}"


def _lanes(axis: Axes, evidence: Record, brokers: list[str], window: _Window) -> None:
    low, high, place = window.low, window.high, window.place
    rows = {broker: -number for number, broker in enumerate(brokers)}
    down = {broker: _down(evidence, broker, low, high) for broker in brokers}
    for broker, row in rows.items():
        axis.plot(
            [place(low), place(high)], [row, row], color=style.QUIET, linewidth=1.6, zorder=1, solid_capstyle="butt"
        )
        for since, until in down[broker]:
            axis.plot([place(since), place(until)], [row, row], color=style.PAPER, linewidth=4, zorder=2)
    for since, until, isr in _spells(evidence["isr"], low, high):
        for broker in isr:
            if broker in rows:
                style.bar(axis, rows[broker], place(since), place(until), 0.62, facecolor=IN_SYNC, zorder=3)
                for start, end in down[broker]:
                    left, right = max(start, since), min(end, until)
                    if left < right:
                        style.bar(axis, rows[broker], place(left), place(right), 0.62, zorder=3.5, **ABSENT)
    _leaders(axis, evidence["terms"], rows, down, window)
    _moves(axis, evidence.get("moves", []), rows, window)
    for time, broker, kind in _lives(evidence):
        if broker in rows and low <= time <= high:
            mark = {**(DIED if kind == "died" else BACK)}
            height = rows[broker] + mark.pop("height")
            axis.plot([place(time)], [height], markersize=7.5, markeredgecolor=style.PAPER, zorder=7, **mark)
    axis.set_ylim(-len(brokers) + 0.4, 0.95)
    axis.set_yticks(list(rows.values()), [f"broker {style.printable(broker, 12)}" for broker in rows])
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.set_title("leader and ISR")
    _legend(axis, bool(evidence.get("moves")))


def _moves(axis: Axes, moves: list[list[Any]], rows: dict[str, int], window: _Window) -> None:
    """Frames the brokers to which a reassignment moves the partition, and those from which it does."""
    for number, (time, adding, removing) in enumerate(moves):
        since, until = max(time, window.low), moves[number + 1][0] if number + 1 < len(moves) else window.high
        for brokers, look in ((adding, ADDING), (removing, REMOVING)):
            for row in (rows[broker] for broker in brokers if broker in rows and since < until):
                style.bar(axis, row, window.place(since), window.place(until), 0.78, zorder=8, **MOVING, **look)


def _legend(axis: Axes, moving: bool) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    died, back = ({name: look for name, look in mark.items() if name != "height"} for mark in (DIED, BACK))
    handles = [
        Patch(facecolor=style.FAINT, label="leads (its colour)"),
        Patch(facecolor=IN_SYNC, label="in the ISR"),
        Patch(**ABSENT, label="in the ISR, but down"),
        Line2D([], [], linestyle="", **died, label="down or fenced"),
        Line2D([], [], linestyle="", **back, label="back"),
    ]
    if moving:
        handles += [Patch(**MOVING, **ADDING, label="being added"), Patch(**MOVING, **REMOVING, label="being removed")]
    style.legend(axis, handles=handles, ncols=5, columnspacing=1.2)


def _leaders(axis: Axes, terms: list[Record], rows: dict[str, int], down: dict[str, Any], window: _Window) -> None:
    """Draws the terms of leadership, and the elections."""
    terms = [term for term in terms if term["time"] is not None and term["time"] <= window.high]
    colours = dict(zip(rows, cycle(style.SERIES), strict=False))
    for number, term in enumerate(terms):
        ends = [term["ended"], terms[number + 1]["time"] if number + 1 < len(terms) else None, window.high]
        until = min(end for end in ends if end is not None)
        edge = {"edgecolor": style.RED, "linewidth": 2} if term["rivals"] else {}
        for broker, since in [(term["leader"], term["time"]), *term["rivals"]]:
            led = _alive(down.get(broker, []), max(since, window.low), until)
            if broker in rows and led is not None:
                look = {"facecolor": colours[broker], **edge}
                _bar(axis, rows[broker], led, term["epoch"], window, look)
        if term["epoch"] > 0 and window.low <= term["time"]:
            _election(axis, term, window.place(term["time"]))


def _alive(down: list[tuple[int, int]], since: int, until: int) -> tuple[int, int] | None:
    """The part of a term in which its leader was up: a broker that is down does not lead, even if it is recorded."""
    for died, back in down:
        if died <= since < back:
            since = back
        elif since < died:
            until = min(until, died)
    return (since, until) if since < until else None


def _bar(axis: Axes, row: int, led: tuple[int, int], epoch: int, window: _Window, look: dict[str, Any]) -> None:
    """Draws a term of leadership with its epoch, in the longest text that fits."""
    left, right = map(window.place, led)
    style.bar(axis, row, left, right, 0.62, zorder=4, **look)
    whole = window.place(window.high) - window.place(window.low)
    for text in (f"leads, epoch {epoch}", f"epoch {epoch}", str(epoch)):
        if (right - left) / whole > 0.0105 * len(text):
            ink = style.text_colour(look["facecolor"])
            axis.text(left + 0.004 * whole, row, text, va="center", fontsize=8.5, color=ink, zorder=8)
            break


def _election(axis: Axes, term: Record, x: float) -> None:
    if not term["unclean"]:
        axis.axvline(x, color=style.FAINT, linewidth=1, zorder=6)
        return
    axis.axvline(x, color=style.RED, linewidth=2, zorder=6)
    begins = f", from offset {term['start']}" if term["start"] is not None else ""
    style.note(axis, f"unclean election{begins}", (x, 0.62), (4, 0), color=style.RED, zorder=9)


def _spells(isr: list[list[Any]], low: int, high: int) -> list[tuple[int, int, list[str]]]:
    spells = []
    for number, (time, brokers) in enumerate(isr):
        until = isr[number + 1][0] if number + 1 < len(isr) else high
        if until > low and time < high:
            spells.append((max(time, low), min(until, high), brokers))
    return spells


def _lives(evidence: Record) -> list[tuple[int, str, str]]:
    """Failures and returns of brokers, each once: of several sources the first."""
    down: dict[str, bool] = {}
    changes = []
    for time, broker, kind in evidence["lives"]:
        if down.get(broker, False) != (kind == "died"):
            changes.append((time, broker, kind))
        down[broker] = kind == "died"
    return changes


def _down(evidence: Record, broker: str, low: int, high: int) -> list[tuple[int, int]]:
    """The times at which a broker was down. Rejoining an ISR ends one: a paused broker returns without a start."""
    lives = [(time, kind) for time, name, kind in _lives(evidence) if name == broker]
    lives += [
        (now, "joined") for (_, was), (now, isr) in pairwise(evidence["isr"]) if broker in isr and broker not in was
    ]
    spells, since = [], None
    for time, kind in sorted(lives):
        if kind == "died":
            since = time
        elif since is not None:
            spells.append((max(since, low), min(time, high)))
            since = None
    spells += [(max(since, low), high)] if since is not None else []
    return [(since, until) for since, until in spells if since < until]


def _ends(axis: Axes, evidence: Record, ends: list[list[Any]], brokers: list[str], place: Any) -> None:
    for number, broker in enumerate(brokers):
        points = path_of(evidence, broker, ends)
        if not points:
            continue
        look: dict[str, Any] = {"color": style.SERIES[number % len(style.SERIES)]}
        times, offsets, _ = zip(*points, strict=True)
        axis.plot([*map(place, times)], offsets, **look, linewidth=1.4, linestyle="--")
        for kind, mark in (("seen", SEEN), ("cut", CUT)):
            marked = [(place(time), end) for time, end, what in points if what == kind]
            axis.plot([x for x, _ in marked], [end for _, end in marked], **look, **mark)
        axis.plot([], [], "o-", color=look["color"], label=f"broker {style.printable(broker, 12)}")
        for time, end, what in points:
            if what == "cut":
                style.note(axis, f"truncated to {end}", (place(time), end), (0, -9), **CUT_TEXT)
    axis.set_title("log end offset")
    axis.set_ylabel("offset")
    axis.grid(axis="y")
    low, high = min(end[2] for end in ends), max(end[2] for end in ends)
    margin = max((high - low) * 0.2, 1)
    axis.set_ylim(max(low - margin, -margin / 2), high + margin)
    axis.locator_params("y", integer=True, nbins=6)
    style.legend(axis, ncols=MAX_BROKERS, handlelength=1.8)


def path_of(evidence: Record, broker: str, ends: list[list[Any]]) -> list[tuple[int, int, str]]:
    """The log end offsets of a broker over time: time, offset, and "seen", "cut" (truncated) or "reached".

    "reached": the checkpointed high watermark of a broker that is down proves that its log once extended so far.
    """
    own = [(time, end, kind) for time, name, end, kind in ends if name == broker]
    down = _down(evidence, broker, *(own[0][0], own[-1][0] + 1)) if own else []
    marks = {time: mark for time, mark, kind in own if kind == "high-watermark"}
    points: list[tuple[int, int, str]] = []
    for time, end, kind in own:
        if kind == "high-watermark":
            continue
        before = points[-1][1] if points else 0
        mark = marks.get(time, 0) if any(since <= time <= until for since, until in down) else 0
        if mark > max(before, end):
            points.append((time, mark, "reached"))
        points.append((time, end, "cut" if end < max(before, mark) else "seen"))
    return points
