"""Leader and ISR of a partition over time, and the log end offset of each replica where it is recorded."""

from __future__ import annotations

from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import plural
from . import style
from .leadership import Led, TimeSpan, broker_changes, down_times, leaders_between, without_leader
from .log_ends import LostRecords, draw_log_ends, final_ends, lost_records
from .time_axis import bands_of, draw_bands, has_clients, lanes, seconds_axis, since_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Leaders and ISR"
CAPTION = (
    "One lane per broker. Full colour: the leader, with its leader epoch. Pale blue: a follower in the last known"
    " ISR; hatched: in that ISR though down or fenced. Thin line: running, not in the ISR; no line: down or fenced."
    " Red edge: two brokers led the same epoch. Vertical line: an election, red if unclean. A panel of log end offsets"
    " follows where any are recorded: ● of each broker, ○ of its files at the end of the run, ✖ a truncation"
    " (9 → 4: the log ended at 9, then at 4). Dashed lines only connect these marks. Red: records that were"
    " acknowledged at that time and lost later."
)
MAX_PARTITIONS = 3
MAX_BROKERS = 9
IN_SYNC = "#cfe0ee"
ABSENT: dict[str, Any] = {"facecolor": style.PAPER, "edgecolor": "#b9cfe2", "hatch": "////"}
LEADERLESS: dict[str, Any] = {"facecolor": style.RED, "alpha": 0.7}
MOVING: dict[str, Any] = {"facecolor": "none", "linewidth": 1.6, "linestyle": "--"}
ADDING: dict[str, Any] = {"edgecolor": style.GREEN}
REMOVING: dict[str, Any] = {"edgecolor": style.RED}
# ● and ✖ are marks of the panel of log end offsets.
DIED: dict[str, Any] = {"marker": "v", "color": style.RED}
BACK: dict[str, Any] = {"marker": "^", "color": style.INK}
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


class _Lanes(NamedTuple):
    """An axis with one row per broker."""

    axis: Axes
    rows: dict[str, int]
    window: _Window

    def bar(self, broker: str, since: int, until: int, height: float, zorder: float, **look: Any) -> None:
        """Draws a bar in the broker's row, if it has one."""
        if broker in self.rows and since < until:
            left, right = self.window.place(since), self.window.place(until)
            style.bar(self.axis, self.rows[broker], left, right, height, zorder=zorder, **look)


def subjects(figures: Record) -> list[Record]:
    """Partitions with a loss, or with violations and changes of leader or ISR; otherwise those with most changes."""
    evidence = [part for part in figures["partitions"] if part.get("replicas") and _has_dated_terms(part["replicas"])]
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
        if not evidence or not _has_dated_terms(evidence):
            return style.empty_sheet(name, "No dated leader of this partition is recorded in the brokers' files.")
        lost = lost_records(figures, part)
        low, high = span_of(figures, evidence, lost)
        # Without clients the axis begins with the first event.
        window = _Window(low, high, 0 if has_clients(figures) else low)
        place = window.place
        brokers = _brokers(evidence)
        ends = [end for end in evidence["ends"] if low <= end[0] <= high]
        bands = bands_of(figures, low, high, place)
        rows = [0.3 * max(lanes(bands), 0.2), 0.55 * len(brokers) + 0.3, *([2.2] if ends else [])]
        figure, axes = style.sheet(_title(name, part, evidence, high), rows, 1.6 + sum(rows))
        draw_bands(axes[0], axes[1:], bands)
        _draw_lanes(axes[1], evidence, brokers, window)
        seconds_axis(axes[-1], (low, high), figures["started_at"], since_text(figures, low), window.zero)
        if ends:
            margin = (place(high) - place(low)) * 0.01
            after = place(high) + 4 * margin if final_ends(evidence) else None
            draw_log_ends(axes[2], evidence, ends, lost, brokers, place, after)
    return figure


def _has_dated_terms(evidence: Record) -> bool:
    return any(term["time"] is not None for term in evidence["terms"])


def span_of(figures: Record, evidence: Record, lost: list[LostRecords]) -> tuple[int, int]:
    """The time from the first to the last event, with a fifth of it before and after: most of a run is quiet.

    Events are also the acknowledgements of records that were lost.

    A partition that was created during the run is drawn since then. After the last operation of a client, when brokers
    are usually shut down, only an unclean or contested election is drawn.
    """
    names = ("isr", "lives", "cuts") if has_clients(figures) else ("isr", "lives", "ends", "cuts")
    terms = [term for term in evidence["terms"] if term["time"] is not None]
    times = [row[0] for name in names for row in evidence[name]] + [term["time"] for term in terms]
    times += [time for one in lost for time in (one.since, one.until)]
    if not has_clients(figures):
        return min(times), max(max(times), min(times) + NEAR)
    start, end = figures["span"]
    end = max([end, *(term["time"] + NEAR for term in terms if term["unclean"] or term["rivals"])])
    created = terms[0]["time"] - NEAR // 2 if terms[0]["epoch"] == 0 else start
    times += [time for band in figures["faults"] for time in (band["from"], band["to"]) if time is not None]
    # Events at the start are left out: the lanes show the initial state anyway.
    times = [time for time in times if max(start, created) + NEAR < time <= end] or [start, end]
    margin = max((max(times) - min(times)) // 5, 2 * NEAR)
    return max(start, created, min(times) - margin), min(end, max(times) + margin)


def _brokers(evidence: Record) -> list[str]:
    named = {term["leader"] for term in evidence["terms"]} | {name for _, isr in evidence["isr"] for name in isr}
    return sorted(named | set(evidence["brokers"]), key=_in_order)[:MAX_BROKERS]


def _in_order(broker: str) -> tuple[int, str]:
    """A sort key: ids are usually numbers, but a damaged file may contain any text."""
    return len(broker), broker


def _title(name: str, part: Record, evidence: Record, high: int) -> str:
    terms = [term for term in evidence["terms"] if term["time"] is None or term["time"] <= high]
    lost = f"{name}: {plural(part['lost'], 'acknowledged record')} lost" if part["lost"] else name
    return f"{lost}: {_headline(part, evidence, terms, high)}"


def _headline(part: Record, evidence: Record, terms: list[Record], high: int) -> str:
    """The most serious of what is drawn: a contested or unclean election, a cause, or a smaller ISR."""
    contested = next((term for term in terms if term["rivals"]), None)
    if contested is not None:
        both = sorted([contested["leader"], *(rival for rival, _ in contested["rivals"])], key=_in_order)
        leaders = " and ".join(style.printable(broker, 12) for broker in both[:3])
        return f"brokers {leaders} each led epoch {contested['epoch']}"
    unclean = [term for term in terms if term["unclean"]]
    if unclean:
        elected = ", ".join(f"{style.printable(term['leader'], 12)} in epoch {term['epoch']}" for term in unclean[:3])
        return f"unclean election of broker {elected}"
    causes = sorted({cause for *_, cause in part["causes"] if cause != "unknown"})
    if causes:
        return ", ".join(causes)
    smaller = [
        isr for (_, was), (time, isr) in pairwise(evidence["isr"]) if time <= high and isr and set(isr) < set(was)
    ]
    changes, later = max(len(terms) - 1, 0), len(evidence["terms"]) - len(terms)
    if smaller and not changes:
        least = ", ".join(style.printable(broker, 12) for broker in min(smaller, key=len))
        return f"the ISR shrank {plural(len(smaller), 'time')}, to [{least}]; with one leader throughout"
    more = f"; {later} after the last operation, not drawn" if later else ""
    if not changes:
        return f"no change of leader or epoch{more}"
    is_known = all(term["unclean"] is not None or not term["epoch"] for term in terms)
    clean = "none unclean" if is_known else "not known whether clean"
    return f"{plural(changes, 'change')} of leader or epoch, {clean}{more}"


def _draw_lanes(axis: Axes, evidence: Record, brokers: list[str], window: _Window) -> None:
    low, high, place = window.low, window.high, window.place
    lanes = _Lanes(axis, {broker: -number for number, broker in enumerate(brokers)}, window)
    down = {broker: down_times(evidence, broker, low, high) for broker in brokers}
    drawn = _draw_followers(lanes, evidence["isr"], down)
    led = leaders_between(evidence, low, high)
    _draw_leaders(lanes, led)
    # Gaps that are too short to be seen are left out.
    gaps = [(since, until) for since, until in without_leader(led) if (until - since) * 300 > high - low]
    for since, until in gaps:
        style.bar(axis, 0.52, place(since), place(until), 0.12, zorder=5, **LEADERLESS)
    for term in evidence["terms"]:
        if term["epoch"] > 0 and term["time"] is not None and low <= term["time"] <= high:
            _draw_election(axis, term, place(term["time"]))
    moves = evidence.get("moves", [])
    for since, until, adding, removing in _between(moves, window):
        for look, moved in ((ADDING, adding), (REMOVING, removing)):
            for broker in moved:
                lanes.bar(broker, since, until, 0.78, 8, **MOVING, **look)
    for time, broker, kind in broker_changes(evidence):
        if broker in lanes.rows and low <= time <= high:
            drawn.add("died" if kind == "died" else "back")
            # At two heights, so that a broker that stops and returns at once shows both.
            mark, height = (DIED, 0.18) if kind == "died" else (BACK, -0.18)
            at = lanes.rows[broker] + height
            axis.plot([place(time)], [at], markersize=7.5, markeredgecolor=style.PAPER, zorder=7, **mark)
    axis.set_ylim(-len(brokers) + 0.4, 0.95)
    style.name_rows(axis, [*lanes.rows.values()], [f"broker {style.printable(broker, 12)}" for broker in brokers])
    axis.set_title("leader and ISR")
    drawn |= {name for name, are_any in (("led", led), ("gap", gaps), ("move", moves)) if are_any}
    _draw_legend(axis, drawn)


def _draw_followers(lanes: _Lanes, isr: list[list[Any]], down: dict[str, list[TimeSpan]]) -> set[str]:
    """Draws a line while a broker is up, and a bar while it is in the ISR, hatched where it is down.

    Returns which bars there are: "in sync" and "absent".
    """
    drawn = set()
    for broker, row in lanes.rows.items():
        ends = [lanes.window.low, *(time for span in down[broker] for time in span), lanes.window.high]
        for up in zip(map(lanes.window.place, ends[::2]), map(lanes.window.place, ends[1::2]), strict=True):
            lanes.axis.plot(up, [row, row], color=style.QUIET, linewidth=1.6, zorder=1, solid_capstyle="butt")
    for since, until, brokers in _between(isr, lanes.window):
        for broker in brokers:
            lanes.bar(broker, since, until, 0.62, 3, facecolor=IN_SYNC)
            drawn.add("in sync")
            for died, back in down.get(broker, ()):
                lanes.bar(broker, max(died, since), min(back, until), 0.62, 3.5, **ABSENT)
                drawn |= {"absent"} if max(died, since) < min(back, until) else set()
    return drawn


def _draw_leaders(lanes: _Lanes, led: list[Led]) -> None:
    """Draws the times of leadership with their epochs, each in the longest text that fits."""
    colours = dict(zip(lanes.rows, cycle(style.SERIES), strict=False))
    window = lanes.window
    whole = window.place(window.high) - window.place(window.low)
    for term, broker, since, until in led:
        if broker not in lanes.rows:
            continue
        edge = {"edgecolor": style.RED, "linewidth": 2} if term["rivals"] else {}
        lanes.bar(broker, since, until, 0.62, 4, facecolor=colours[broker], **edge)
        left, width, epoch = window.place(since), window.place(until) - window.place(since), term["epoch"]
        for text in (f"leads, epoch {epoch}", f"epoch {epoch}", str(epoch)):
            if width / whole > 0.0105 * len(text):
                look: dict[str, Any] = {"fontsize": 8.5, "color": style.text_colour(colours[broker])}
                lanes.axis.text(left + 0.004 * whole, lanes.rows[broker], text, va="center", zorder=8, **look)
                break


def _draw_legend(axis: Axes, drawn: set[str]) -> None:
    """The legend of what is drawn."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: dict[str, list[Any]] = {
        "led": [Patch(facecolor=style.FAINT, label="leads (in its own colour)")],
        "in sync": [Patch(facecolor=IN_SYNC, label="in the ISR")],
        "absent": [Patch(**ABSENT, label="in the ISR, but down")],
        "died": [Line2D([], [], linestyle="", **DIED, label="down or fenced")],
        "back": [Line2D([], [], linestyle="", **BACK, label="runs again")],
        "gap": [Patch(**LEADERLESS, label="no leader")],
        "move": [Patch(**MOVING, **ADDING, label="being added"), Patch(**MOVING, **REMOVING, label="being removed")],
    }
    shown = [handle for name, of_name in handles.items() if name in drawn for handle in of_name]
    style.legend(axis, handles=shown, ncols=6, columnspacing=1.2)


def _draw_election(axis: Axes, term: Record, x: float) -> None:
    if not term["unclean"]:
        axis.axvline(x, color=style.FAINT, linewidth=1, zorder=6)
        return
    axis.axvline(x, color=style.RED, linewidth=2, zorder=6)
    begins = f", from offset {term['start']}" if term["start"] is not None else ""
    style.note(axis, f"unclean election{begins}", (x, 0.62), (4, 0), color=style.RED, zorder=9)


def _between(rows: list[list[Any]], window: _Window) -> list[tuple[Any, ...]]:
    """Rows that begin with a time and last until the next one, within the window: since, until, then their content."""
    ends = [*(row[0] for row in rows[1:]), window.high]
    spans = [
        (max(time, window.low), min(until, window.high), *content)
        for (time, *content), until in zip(rows, ends, strict=False)
    ]
    return [span for span in spans if span[0] < span[1]]
