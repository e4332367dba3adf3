"""Acknowledged records that no recorded consumer had read yet, over time."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ..analysis.wording import plural
from . import style
from .time_axis import bands_of, sheet_below, time_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL = "Unread records"
CAPTION = (
    "The number of acknowledged records that no recorded consumer had read yet. Blue: read later. Orange: never read by"
    " a recorded consumer, counted from their acknowledgement on. Where the blue area falls, consumers catch up. The"
    " plot lag shows each consumer by itself, and how long its oldest record had waited."
)


def subjects(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """One figure for all partitions."""
    return [{}] if sum(figures["series"]["acked"]) else []


def draw(figures: dict[str, Any], partition: str | None = None) -> Figure:
    """Draws the unread records of all partitions, or of one."""
    part = next((part for part in figures["partitions"] if part["name"] == partition), None)
    series = (part or figures)["series"]
    waiting, never = levels(series)
    title = (f"{style.printable(partition)}: " if partition else "") + _title(series, waiting, never)
    with style.look():
        figure, (axis,) = sheet_below(title, bands_of(figures, *figures["span"]), [2.0], 3.2)
        edges = style.edges(figures)
        both = [one + other for one, other in zip(waiting, never, strict=True)]
        if any(never):
            label = "never read by a recorded consumer"
            style.steps(axis, never, edges, fill=True, color=style.ORANGE, linewidth=0, label=label)
        style.steps(axis, both, edges, baseline=never, fill=True, color=style.BLUE, linewidth=0, label="read later")
        axis.set_ylim(0, max(*both, 1) * 1.05)
        axis.set_title("records acknowledged and not yet read")
        axis.grid(axis="y")
        style.legend(axis, ncols=2)
        time_axis(axis, figures)
    return figure


def _title(series: dict[str, list[int]], waiting: list[int], never: list[int]) -> str:
    lost, gone = sum(series["lost"]), sum(series["gone"])
    if never and never[-1]:
        return f"{plural(never[-1], 'acknowledged record')} never read by a recorded consumer"
    waited = f"at most {max(waiting, default=0):,} waited at one time"
    if gone:
        before = "was deleted legally before it was" if gone == 1 else "were deleted legally before they were"
        return f"{plural(gone, 'acknowledged record')} {before} read; of the others {waited}"
    if lost:
        later = f"{lost:,} {'was' if lost == 1 else 'were'} lost later"
        return f"every acknowledged record was read, but {later}; {waited}"
    return f"every acknowledged record was read; {waited}"


def levels(series: dict[str, list[int]]) -> tuple[list[int], list[int]]:
    """At the end of each bin: acknowledged records that are read later, and those that are never read."""
    acked, seen, never, gone = (list(accumulate(series[name])) for name in ("acked", "seen", "never", "gone"))
    # Records deleted legally before they were read count in neither.
    return [max(one - sum(rest), 0) for one, *rest in zip(acked, seen, never, gone, strict=True)], never
