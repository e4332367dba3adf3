"""Replica logs side by side, as in KIP-101: leader epochs, differences, high watermarks, truncations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import plural, span
from . import style
from .leadership import leader_at
from .scale import Scale, mark_cuts, offset_axis, scale_of
from .time_axis import time_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Replicas"
CAPTION = (
    "Each replica's log at the times when its files were copied; offsets from left to right. One colour per leader"
    " epoch. Red frame: the replicas have different records here. ▼: the high watermark (HW) in the broker's"
    " checkpoint, which is older than the log. Dashed line: the broker truncated its log here, after this panel or, if"
    " no earlier panel shows the removed records, before it; 9 → 4: its log ended at 9, then at 4. A log that only ends"
    " earlier is behind, not divergent. White gaps with ≈ shorten ranges without differences."
)
SAME = "#c3c9cf"
MAX_PANELS = 4
MAX_BROKERS = 7
ROW = 0.74  # inches
CHARACTER = 0.008  # of the width of the axis
RIGHT_OF, LEFT_OF = (5, -1), (-5, -1)  # points between a mark and its text
HALF = 0.3  # of a row: half the height of a log
# A frame may cross the text.
NOTE: dict[str, Any] = {"fontsize": 8, "zorder": 8, "bbox": {"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.6}}

Record = dict[str, Any]
FormatTime = Callable[[int], str]


def subjects(figures: Record) -> list[Record]:
    """Partitions with losses or differing replicas, worst first."""
    with_logs = [part for part in figures["partitions"] if part.get("replicas") and part["replicas"]["logs"]]
    troubled = [p for p in with_logs if p["lost"] or any(log["differ"] for log in p["replicas"]["logs"])]
    return [{"partition": part["name"]} for part in troubled[:3]]


def draw(figures: Record, partition: str) -> Figure:
    """Draws the replica logs of a partition, a panel per snapshot."""
    part = next(part for part in figures["partitions"] if part["name"] == partition)
    evidence = part.get("replicas")
    with style.look():
        if not evidence or not evidence["logs"]:
            return style.empty_sheet(style.printable(partition), "No replica's log of this partition was collected.")
        logs = panels_of(evidence)
        rows = [min(len(log["brokers"]), MAX_BROKERS) for log in logs]
        figure, axes = style.sheet(_title(part, logs), rows, 1.5 + ROW * sum(rows) + 0.5 * len(rows))
        scale = _scale(logs)
        entries = _legend_entries(logs)
        truncations = _truncations_by_panel(evidence, logs)
        for log, axis, cuts in zip(logs, axes, truncations, strict=True):
            _draw_panel(axis, evidence, log, scale, entries, cuts, partial(time_text, figures))
        offset_axis(axes[-1], scale)
        _legend(axes[0], logs, entries)
    return figure


def panels_of(evidence: Record) -> list[Record]:
    """The snapshots to draw: the first with a difference, those before and after it, and the last."""
    logs = evidence["logs"]
    if len(logs) <= MAX_PANELS:
        return _distinct(logs)
    wanted = {len(logs) - 1}
    for number, log in enumerate(logs):
        if log["differ"]:
            wanted |= {number - 1, number, number + 1}
            break
    if len(wanted) == 1:
        wanted |= {number for number, log in enumerate(logs) if len({b["end"] for b in log["brokers"]}) > 1}
    return _distinct([logs[number] for number in sorted(wanted) if 0 <= number < len(logs)][-MAX_PANELS:])


def _distinct(logs: list[Record]) -> list[Record]:
    """The snapshots without repetitions: of consecutive ones in which all replicas agree, only the last."""
    distinct: list[Record] = []
    for log in logs:
        if distinct and not log["differ"] and _agree(log) and not distinct[-1]["differ"] and _agree(distinct[-1]):
            distinct.pop()
        if not distinct or [log["differ"], log["brokers"]] != [distinct[-1]["differ"], distinct[-1]["brokers"]]:
            distinct.append(log)
    return distinct


def _agree(log: Record) -> bool:
    """Whether the logs end at one offset and no high watermark lags far behind."""
    ends = {broker["end"] for broker in log["brokers"]}
    return len(ends) == 1 and all(2 * (b["high_watermark"] or b["end"]) > b["end"] + b["start"] for b in log["brokers"])


def _title(part: Record, logs: list[Record]) -> str:
    name = style.printable(part["name"])
    gone = f"{plural(part['lost'], 'acknowledged record')} lost: " if part["lost"] else ""
    worst = max(logs, key=lambda log: sum(last - first + 1 for first, last in log["differ"]))
    if worst["differ"]:
        first, last = worst["differ"][0]
        more = " and more" if len(worst["differ"]) > 1 else ""
        sides = " and ".join(f"broker{'s' if len(side) > 1 else ''} {', '.join(side)}" for side in _sides(worst, first))
        differ = "differ" if gone else "have different records"
        return f"{name}: {gone}{sides} {differ} at {span(first, last)}{more}{_end_of_divergence(logs[-1])}"
    brokers = [broker for log in logs for broker in log["brokers"]]
    short = max(brokers, key=lambda broker: (broker["high_watermark"] or 0) - broker["end"])
    missing = (short["high_watermark"] or 0) - short["end"]
    if missing > 0:
        who = f"broker {style.printable(short['broker'], 12)}"
        below = f"below its own high watermark {short['high_watermark']}"
        return f"{name}: {gone}{who}'s log ended at {short['end']}, {below}"
    if cut := next((cut for cuts in _truncations_by_panel(part["replicas"], logs) for cut in cuts), None):
        return f"{name}: {gone}broker {style.printable(cut.broker, 12)} truncated its log to {cut.end}"
    if any(len({broker["end"] for broker in log["brokers"]}) > 1 for log in logs):
        return f"{name}: {gone}replicas have the same records, but some logs end earlier"
    return f"{name}: {gone}all replicas have the same records"


def _end_of_divergence(last: Record) -> str:
    """Whether the replicas still differ in the last panel, as the end of a title."""
    if not last["differ"]:
        return "; later reconciled by truncation"
    return "" if last["name"] else "; still different at the end"


class _Truncation(NamedTuple):
    """A truncation before or after a panel."""

    time: int  # ns
    broker: str
    end: int
    old_end: int | None  # None: not known
    is_after: bool  # after the panel


def _truncations_by_panel(evidence: Record, logs: list[Record]) -> list[list[_Truncation]]:
    """The truncations of each panel. A truncation is in the last panel before it if that shows the removed records,
    else in the first panel after it if the log then is longer again, else in none.
    """
    cuts: list[list[_Truncation]] = [[] for _ in logs]
    for time, name, end, old_end in evidence["cuts"]:
        before = [number for number, log in enumerate(logs) if log["time"] is not None and log["time"] <= time]
        after = [number for number in range(len(logs)) if number not in before]
        for number in [*before[-1:], *after[:1]]:
            own = [log for log in logs[number]["brokers"] if log["broker"] == name]
            if any(log["start"] <= end < log["end"] for log in own):
                cuts[number].append(_Truncation(time, name, end, old_end, number in before))
                break
    return cuts


class _Block(NamedTuple):
    """Adjacent offsets of a log that look the same."""

    first: int
    last: int
    epoch: int | None  # leader epoch; None: the message format has none
    side: str | None  # a broker with this record; None: no difference

    @property
    def look(self) -> tuple[str, Any]:
        """The key of its legend entry."""
        if self.epoch is not None:
            return ("epoch", self.epoch)
        return ("same", None) if self.side is None else ("side", self.side)


def _blocks(broker: Record) -> list[_Block]:
    """The blocks of a log; adjacent ones that look the same are merged."""
    joined: list[_Block] = []
    for block in map(_Block._make, broker["blocks"]):
        before = joined[-1] if joined else None
        if before and before.last + 1 == block.first and before.look == block.look:
            joined[-1] = before._replace(last=block.last)
        else:
            joined.append(block)
    return joined


def _sides(log: Record, offset: int) -> list[list[str]]:
    """Groups of brokers with the same record at an offset at which they differ."""
    sides: dict[str, list[str]] = {}
    for broker in log["brokers"]:
        for block in map(_Block._make, broker["blocks"]):
            if block.first <= offset <= block.last and block.side is not None:
                sides.setdefault(block.side, []).append(style.printable(broker["broker"], 12))
    return list(sides.values())


def _scale(logs: list[Record]) -> Scale:
    brokers = [broker for log in logs for broker in log["brokers"]]
    low = min(b["start"] for b in brokers)
    high = max(max(b["end"], b["high_watermark"] or 0) for b in brokers) - 1
    return scale_of(low, max(high, low + 1), [(first, last) for log in logs for first, last in log["differ"]])


class _LegendEntry(NamedTuple):
    colour: str
    label: str


def _legend_entries(logs: list[Record]) -> dict[Any, _LegendEntry]:
    """An entry for each leader epoch; for records from before leader epochs (Kafka 0.11), for each side."""
    keys = {block.look for log in logs for broker in log["brokers"] for block in _blocks(broker)}
    epochs = sorted(epoch for kind, epoch in keys if kind == "epoch")
    sides = sorted(side for kind, side in keys if kind == "side")
    entries: dict[Any, _LegendEntry] = {}
    for colour, epoch in zip(cycle(style.SERIES), epochs, strict=False):
        entries["epoch", epoch] = _LegendEntry(colour, f"written in leader epoch {epoch}")
    for colour, side in zip(cycle(style.SERIES), sides, strict=False):
        entries["side", side] = _LegendEntry(colour, f"broker {side}'s record")
    if ("same", None) in keys:
        entries["same", None] = _LegendEntry(SAME, "no difference (this message format has no leader epoch)")
    return entries


def _draw_panel(
    axis: Axes,
    evidence: Record,
    log: Record,
    scale: Scale,
    entries: dict[Any, _LegendEntry],
    cuts: list[_Truncation],
    format_time: FormatTime,
) -> None:
    from matplotlib.patches import Rectangle

    brokers = log["brokers"][:MAX_BROKERS]
    leader = leader_at(evidence, log["time"])
    for row, broker in enumerate(brokers):
        own = [cut for cut in cuts if cut.broker == broker["broker"]]
        lines = [scale.place(cut.end) for cut in own] + [edge for frame in _frames(log, scale) for edge in frame]
        for block in _blocks(broker):
            left, right = scale.place(block.first), scale.place(block.last + 1)
            colour = entries[block.look].colour
            box = {"facecolor": colour, "edgecolor": style.PAPER, "linewidth": 1.2}
            style.bar(axis, -row, left, max(right, left + 0.002), 2 * HALF, **box)
            _draw_label(axis, block, scale, -row, colour, lines)
        _draw_high_watermark(axis, broker, scale, row)
        _draw_truncations(axis, own, scale, row, _frames(log, scale), format_time)
    for left, right in _frames(log, scale):
        frame = Rectangle((left, -len(brokers) + 0.36), max(right - left, 0.004), len(brokers) + 0.24, fill=False)
        frame.set(edgecolor=style.RED, linewidth=2.4, zorder=5)
        axis.add_artist(frame)
    axis.set_ylim(-len(brokers) + 0.26, 0.68)
    names = [
        f"broker {style.printable(b['broker'], 12)}" + ("\n(leader)" if b["broker"] == leader else "") for b in brokers
    ]
    style.name_rows(axis, [-row for row in range(len(brokers))], names)
    when = "" if log["time"] is None else f", {format_time(log['time'])}"
    named = f"snapshot {style.printable(log['name'], 30)}{when}" if log["name"] else "end of the run"
    ranges = " and ".join(span(first, last) for first, last in log["differ"][:2])
    more = f" and {plural(len(log['differ']) - 2, 'more range')}" if len(log["differ"]) > 2 else ""
    axis.set_title(named + (f": different records at {ranges}{more}" if ranges else ""))
    mark_cuts(axis, scale)


def _draw_label(axis: Axes, block: _Block, scale: Scale, y: float, colour: str, lines: list[float]) -> None:
    """Epoch and offsets, in the widest part of the box that no cut and none of the vertical `lines` goes through."""
    first, last, epoch, _ = block
    left, right = scale.place(first), scale.place(last + 1)
    stops = [left, *sorted(x for x in (*scale.cuts, *lines) if left < x < right), right]
    since, until = max(pairwise(stops), key=lambda piece: piece[1] - piece[0])
    known = "" if epoch is None else f"epoch {epoch}: "
    offsets = f"{first}" if first == last else f"{first}–{last}"
    ink = style.text_colour(colour)
    for text in (known + offsets, offsets):
        if until - since > 0.0095 * len(text):
            axis.text((since + until) / 2, y, text, ha="center", va="center", fontsize=8.5, color=ink, zorder=7)
            return


def _draw_high_watermark(axis: Axes, broker: Record, scale: Scale, row: int) -> None:
    """Draws the checkpointed high watermark; the records between the log end and it are missing."""
    mark = broker["high_watermark"]
    if mark is not None and mark > broker["end"]:
        left, right = scale.place(broker["end"]), scale.place(mark)
        style.bar(axis, -row, left, right, 2 * HALF, facecolor="none", edgecolor=style.RED, hatch="////")
    if mark is not None and broker["start"] <= mark:
        x = scale.place(mark)
        axis.plot([x], [-row + HALF + 0.06], marker="v", color=style.INK, markersize=7, zorder=8, clip_on=False)
        place, align = ((-6, 2), "right") if x > 0.85 else ((6, 2), "left")
        style.note(axis, f"HW checkpoint {mark}", (x, -row + HALF), place, ha=align, va="baseline", **NOTE)


def _frames(log: Record, scale: Scale) -> list[tuple[float, float]]:
    """The left and right edge of the frame around each range with different records."""
    return [(scale.place(first), scale.place(last + 1)) for first, last in log["differ"]]


def _draw_truncations(
    axis: Axes,
    cuts: list[_Truncation],
    scale: Scale,
    row: int,
    frames: list[tuple[float, float]],
    format_time: FormatTime,
) -> None:
    """Draws the truncations of a broker before or after a panel, each with the longest text that covers no frame."""
    free = 0.0
    for cut in sorted(cuts, key=lambda cut: cut.end):
        x = scale.place(cut.end)
        axis.vlines(x, -row - HALF - 0.1, -row + HALF + 0.1, style.INK, (0, (3, 2)), linewidth=2, zorder=9)
        known = f" from {cut.old_end}" if cut.old_end is not None else ""
        what = f"{'after' if cut.is_after else 'before'}: truncated"
        short = f"{what.split(':')[0]}: {'' if cut.old_end is None else f'{cut.old_end} '}→ {cut.end}"
        texts = (f"{what}{known} to {cut.end} at {format_time(cut.time)}", f"{what}{known} to {cut.end}", short)
        labels = [_label_beside(x, text, side) for text in texts for side in (RIGHT_OF, LEFT_OF)]
        fitting = [label for label in labels if free <= label.left and label.right <= 1]
        edges = [edge for frame in frames for edge in frame]
        clear = (label for label in fitting if not any(label.left < edge < label.right for edge in edges))
        # Of labels that all cover a frame, the shortest covers least.
        label = next(clear, fitting[-1] if fitting else None)
        if label is not None:
            align = "left" if label.side is RIGHT_OF else "right"
            style.note(axis, label.text, (x, -row - HALF), label.side, ha=align, va="top", **NOTE)
            free = label.right


class _Label(NamedTuple):
    """A text beside a mark."""

    text: str
    side: tuple[int, int]  # RIGHT_OF or LEFT_OF
    left: float
    right: float


def _label_beside(x: float, text: str, side: tuple[int, int]) -> _Label:
    width = CHARACTER * len(text)
    return _Label(text, side, x, x + width) if side is RIGHT_OF else _Label(text, side, x - width, x)


def _legend(axis: Axes, logs: list[Record], entries: dict[Any, _LegendEntry]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=entry.colour, label=entry.label) for entry in list(entries.values())[:8]]
    if any(log["differ"] for log in logs):
        handles.append(Patch(facecolor="none", edgecolor=style.RED, linewidth=2, label="different records"))
    if any((broker["high_watermark"] or 0) > broker["end"] for log in logs for broker in log["brokers"]):
        label = "missing below the high watermark"
        handles.append(Patch(facecolor="none", edgecolor=style.RED, hatch="////", linewidth=0.5, label=label))
    style.legend(axis, handles=handles, ncols=3)
