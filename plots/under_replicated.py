"""How many partitions lacked in-sync replicas, or a leader, over time."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import duration, plural
from . import style
from .leadership import leaders_between
from .time_axis import bands_of, has_clients, seconds, seconds_axis, sheet_below, since_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL = "Under-replicated partitions"
CAPTION = (
    "How many partitions were not whole, by the ISR and the leaders in brokers' files. Yellow: fewer replicas in sync"
    " than the partition has. Orange: fewer than min.insync.replicas, so sends with acks=all fail. Red: no live leader,"
    " so nothing is written or read. A partition counts once, in its worst state; where nothing is drawn, all are"
    " whole. Kafka's metrics UnderReplicatedPartitions, UnderMinIsrPartitionCount and OfflinePartitionsCount show the"
    " same, but notice a dead broker only when its session ends."
)
UNDER, BELOW, OFFLINE = "fewer replicas in sync", "below min.insync.replicas", "no leader"
COLOURS = {OFFLINE: style.RED, BELOW: style.ORANGE, UNDER: style.YELLOW}  # the worst at the bottom

Record = dict[str, Any]


class StateSpan(NamedTuple):
    """A time (ns) in which a partition had one state."""

    since: int
    until: int
    state: str  # of COLOURS; empty: whole


def subjects(figures: Record) -> list[Record]:
    """One figure for all partitions, if one was not whole during the run."""
    return [{}] if any(span.state for spans in _spans_by_partition(figures).values() for span in spans) else []


def has_isr(figures: Record) -> bool:
    """Whether the ISR during the run is recorded; `draw` then shows that all partitions were whole, too."""
    return bool(_spans_by_partition(figures))


def draw(figures: Record) -> Figure:
    """Draws the number of partitions in each state."""
    spans = _spans_by_partition(figures)
    low, high = _span(figures)
    zero = 0 if has_clients(figures) else low
    with style.look():
        if not spans:
            return style.empty_sheet(LABEL, "No brokers' files with the ISR during the run were collected.")
        bands = bands_of(figures, low, high, lambda time: seconds(time - zero))
        figure, (axis,) = sheet_below(_title(spans), bands, [1.8], 3.0)
        edges = sorted({time for own in spans.values() for span in own for time in (span.since, span.until)})
        base = [0] * (len(edges) - 1)
        for state, colour in COLOURS.items():
            # The state of a partition is constant between two edges.
            counts = [sum(_state_at(own, time) == state for own in spans.values()) for time in edges[:-1]]
            top = [low + count for low, count in zip(base, counts, strict=True)]
            if any(counts):
                look = {"fill": True, "facecolor": colour, "linewidth": 0, "label": state}
                style.steps(axis, top, [seconds(time - zero) for time in edges], baseline=base, **look)
            base = top
        axis.set_ylim(0, len(spans) * 1.08)
        axis.locator_params("y", integer=True, nbins=5)
        left = figures.get("partitions_left_out", 0)
        axis.set_title(f"partitions, of {len(spans)}" + (f"; {left:,} more not drawn" if left else ""))
        axis.grid(axis="y")
        if axis.patches:
            style.legend(axis, ncols=3)
        seconds_axis(axis, (low, high), figures["started_at"], since_text(figures, low), zero)
    return figure


def _spans_by_partition(figures: Record) -> dict[str, list[StateSpan]]:
    """By partition: its states within the run."""
    evidence = {part["name"]: part["replicas"] for part in figures["partitions"] if part.get("replicas")}
    found = {name: _spans_of(one, *_span(figures)) for name, one in evidence.items() if one["isr"]}
    return {name: spans for name, spans in found.items() if spans}


def _span(figures: Record) -> tuple[int, int]:
    """The time of the run; without clients, from the first to the last event of a broker."""
    if has_clients(figures):
        return figures["span"][0], figures["span"][1]
    evidence = [part["replicas"] for part in figures["partitions"] if part.get("replicas")]
    times = [row[0] for one in evidence for name in ("isr", "lives") for row in one[name]]
    return min(times, default=0), max(times, default=0)


def _spans_of(evidence: Record, low: int, high: int) -> list[StateSpan]:
    led = leaders_between(evidence, low, high)
    first = max(evidence["isr"][0][0], low)
    moments = {first, high, *(time for time, _ in evidence["isr"]), *(time for one in led for time in one[2:])}
    # Old results have no number of replicas; then the largest ISR shows it.
    replicas = evidence.get("factor") or max(len(isr) for _, isr in evidence["isr"])
    spans: list[StateSpan] = []
    for since, until in pairwise(sorted(time for time in moments if first <= time <= high)):
        in_sync = len([isr for time, isr in evidence["isr"] if time <= since][-1])
        is_led = any(one.since <= since < one.until for one in led)
        is_below = in_sync < (evidence.get("min_isr") or 0)
        states = {OFFLINE: bool(led) and not is_led, BELOW: is_below, UNDER: in_sync < replicas}
        spans.append(StateSpan(since, until, next((state for state, holds in states.items() if holds), "")))
    return spans


def _state_at(spans: list[StateSpan], time: int) -> str | None:
    """The state at a time; None: not known, as no ISR is recorded yet."""
    return next((span.state for span in spans if span.since <= time < span.until), None)


def _title(spans: dict[str, list[StateSpan]]) -> str:
    parts: list[str] = []
    for what, states in (("under-replicated", set(COLOURS)), (BELOW, {BELOW}), (OFFLINE, {OFFLINE})):
        times = [sum(span.until - span.since for span in own if span.state in states) for own in spans.values()]
        if count := sum(map(bool, times)):
            total = "" if parts else f" of {plural(len(spans), 'partition')}"
            verb = "had" if what == OFFLINE else "was" if count == 1 else "were"
            parts.append(f"{count}{total} {verb} {what} for up to {duration(max(times))}")
    return "; ".join(parts) or "Every replica was in sync throughout"
