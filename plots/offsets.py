"""The offset map of a partition: the state of the record at each offset, and what each consumer read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import plural, span
from . import style
from .scale import Scale, mark_cuts, offset_axis, scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL = "Offsets"
CAPTION = (
    "Offsets from left to right. First lane: the state of the first known record at each offset, red or orange if it"
    " was lost. Second lane: the present content of the offsets of lost records. Then the cause of each loss, if broker"
    " files prove one. Below: the records that each consumer read; red ones were lost later; hatched: the consumer also"
    " read the records that replaced them. A white gap with ≈ shortens a range without findings."
)

# Class -> colour, label, hatch; the order of the legend.
LOOKS = {
    "lost-read": (style.RED, "read, then lost", ""),
    "lost": (style.ORANGE, "lost, not read by a recorded consumer", ""),
    "duplicate": (style.PURPLE, "written twice", ""),
    "unread": (style.YELLOW, "acknowledged, not read by a recorded consumer", ""),
    "read": (style.BLUE, "acknowledged and read", ""),
    "read-only": (style.SKY, "read, never acknowledged", ""),
    "undecided": ("#c9e2f2", "outcome unknown, not read", ""),
    "aborted": ("#c3c6ca", "aborted or failed", "////"),
    "absent": ("#dfe1e3", "deleted legally (retention, compaction, request)", "\\\\\\\\"),
    "hole": (style.PAPER, "no record known", ""),
}
LATER = {
    "replaced": (style.GREEN, "replaced by another record", "xxxx"),
    "inconsistent": (style.PURPLE, "two values at one offset", "xxxx"),
    "gone": (style.PAPER, "no record is there now", "----"),
    "several": (style.GREEN, "several of these", "//"),
}
SEEN = {"read": (style.BLUE, ""), "lost": (style.RED, ""), "both": (style.RED, "xxxx"), "several": (style.SKY, "//")}
SEVERE = ("lost-read", "lost", "duplicate", "unread")
MAX_READERS = 8
MAX_CAUSES = 40
CAUSE = "#3f4650"  # dark, on light and dark pages


def subjects(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Partitions with losses or violations, worst first; in a clean run the biggest partition."""
    known = [part for part in figures["partitions"] if part["offsets"]]
    troubled = [part for part in known if part["violations"] or part["lost"]]
    return [{"partition": part["name"]} for part in (troubled[:4] or known[:1])]


def draw(figures: dict[str, Any], partition: str) -> Figure:
    """Draws the offset map of a partition."""
    part = next(part for part in figures["partitions"] if part["name"] == partition)
    offsets = part["offsets"]
    with style.look():
        if not offsets:
            return style.empty_sheet(style.printable(partition), "No offset of this partition is recorded.")
        readers = _worst_readers(offsets)
        found = [] if part["lost"] else breaches(offsets)
        severe = [(first, last) for first, last, kinds in offsets["blocks"] if any(kind in SEVERE for kind in kinds)]
        scale = scale_of(offsets["first"], offsets["last"], [*severe, *((one.first, one.last) for one in found)])
        lanes = _lanes(part, readers, found, scale)
        figure, (axis,) = style.sheet(title_of(part), [1], 2.0 + 0.5 * sum(lane.height for lane in lanes))
        names, y = [], 0.0
        for lane in lanes:
            y -= lane.height + 0.16
            lane.draw(axis, y, lane.height)
            names.append((y + lane.height / 2, lane.name))
        _label_axis(axis, scale, names, y)
        _legend(axis, offsets, readers, sorted({cause.name for cause in _causes(part)}))
        left = offsets["readers_left_out"] + len(offsets["readers"]) - len(readers)
        if left:
            axis.text(0, y - 0.1, f"and {plural(left, 'more consumer')}", fontsize=8.5, color=style.FAINT, va="top")
    return figure


class NamedRange(NamedTuple):
    """Offsets with the name of a rule or a cause."""

    first: int
    last: int
    name: str


class Lane(NamedTuple):
    """A row of the map."""

    name: str
    height: float
    draw: Callable[[Axes, float, float], None]  # called with axis, y, height


def _lanes(part: dict[str, Any], readers: list[dict[str, Any]], found: list[NamedRange], scale: Scale) -> list[Lane]:
    offsets, causes = part["offsets"], _causes(part)
    lanes = [Lane("records", 1.0, partial(_log, offsets, scale))]
    if offsets["later"]:
        lanes.append(Lane("there now", 0.6, partial(_ranges, offsets["later"], LATER, scale)))
    if found:
        rules = {one.name for one in found}
        name = rules.pop() if len(rules) == 1 else "breaches"
        lanes.append(Lane(name, 0.3, partial(_breaches, found, scale)))
    if causes:
        lanes.append(Lane("cause of loss", 0.4, partial(_cause_boxes, causes, scale)))
    for reader in readers:
        name = f"read by {style.printable(reader['process'], 18)}"
        lanes.append(Lane(name, 0.5, partial(_ranges, reader["segments"], SEEN, scale)))
    return lanes


def title_of(part: dict[str, Any]) -> str:
    """The result that the map shows, in one sentence."""
    name, offsets = style.printable(part["name"]), part["offsets"]
    spans = [(first, last) for first, last, kinds in offsets["blocks"] if kinds.keys() & {"lost", "lost-read"}]
    if not part["lost"]:
        return f"{name}: {_without_loss(offsets)}"
    where = span(spans[0][0], spans[-1][1]) if spans else "offsets unknown"
    has_readers = offsets["readers"] or offsets["readers_left_out"]
    unread = "none read by a recorded consumer" if has_readers else "no consumer is recorded"
    read = {0: unread, part["lost"]: "all of them after being read"}.get(
        part["lost_read"], f"{part['lost_read']:,} of them after being read"
    )
    return f"{name}: {plural(part['lost'], 'acknowledged record')} lost ({where}), {read}"


def _without_loss(offsets: dict[str, Any]) -> str:
    """The result for a partition that lost nothing."""
    if found := breaches(offsets):
        first, last, rule = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        if rule != "consumer-loss":
            return f"{rule} at {span(first, last)}{more}; no loss found"
        were = "was" if first == last and not more else "were"
        return f"{span(first, last)}{more} {were} never handled by their group; no write was lost"
    permitted = [(first, last) for first, last, rule, *_ in offsets["findings"] if rule == "consumer-loss"]
    if permitted:
        first, last = permitted[0]
        are = "is" if first == last else "are"
        return f"no write was lost; {span(first, last)} {are} older than their group, not handled"
    among = "at" if offsets["first"] == offsets["last"] else "among"
    return f"no loss found {among} {span(offsets['first'], offsets['last'])}"


def breaches(offsets: dict[str, Any]) -> list[NamedRange]:
    """Offset ranges of the violations that no other lane shows."""
    shown = ("lost-write", "inconsistent-offsets", "unseen", "duplicate")
    low, high = offsets["first"], offsets["last"]
    return [
        NamedRange(max(first, low), min(last, high), rule)
        for first, last, rule, severity, _ in offsets["findings"]
        if severity == "violation" and rule not in shown and first <= high and last >= low and first <= last
    ]


def _causes(part: dict[str, Any]) -> list[NamedRange]:
    """Lost offset ranges with their causes; of overlapping explanations the widest."""
    widest: list[NamedRange] = []
    for cause in sorted(map(NamedRange._make, part.get("causes", ())), key=lambda one: one.first - one.last):
        if all(cause.last < other.first or cause.first > other.last for other in widest):
            widest.append(cause)
    return sorted(widest)[:MAX_CAUSES]


def _breaches(found: list[NamedRange], scale: Scale, axis: Axes, y: float, height: float) -> None:
    for first, last, _ in found:
        _box(axis, scale.place(first), scale.place(last + 1), y, height, style.INK, "")


def _cause_boxes(causes: list[NamedRange], scale: Scale, axis: Axes, y: float, height: float) -> None:
    for first, last, cause in causes:
        left, right = scale.place(first), scale.place(last + 1)
        _box(axis, left, right, y, height, style.QUIET if cause == "unknown" else CAUSE, "")
        text = style.printable(cause, 40)
        if right - left > 0.0085 * len(text):
            axis.text((left + right) / 2, y + height / 2, text, ha="center", va="center", color="white", fontsize=8.5)


def _worst_readers(offsets: dict[str, Any]) -> list[dict[str, Any]]:
    """Consumers that read lost records first, then those that read most; returned in the order of names."""

    def rank(reader: dict[str, Any]) -> tuple[bool, int, str]:
        has_read_lost = any(kind in ("lost", "both") for *_, kind in reader["segments"])
        return not has_read_lost, -reader["records"], reader["process"]

    return sorted(sorted(offsets["readers"], key=rank)[:MAX_READERS], key=lambda reader: str(reader["process"]))


def _log(offsets: dict[str, Any], scale: Scale, axis: Axes, y: float, height: float) -> None:
    """Draws the blocks: one class fills the lane, several are stacked by share; severe ones stay visible."""
    for first, last, kinds in offsets["blocks"]:
        left, right = scale.place(first), scale.place(last + 1)
        total = sum(kinds.values())
        shares = {kind: max(count / total, 0.12 if kind in SEVERE else 0.0) for kind, count in kinds.items()}
        scaling = height / sum(shares.values())
        base = y
        for kind in [kind for kind in LOOKS if kind in shares][::-1]:
            colour, _, hatch = LOOKS[kind]
            _box(axis, left, right, base, shares[kind] * scaling, colour, hatch)
            base += shares[kind] * scaling


def _ranges(ranges: list[list[Any]], looks: dict[str, Any], scale: Scale, axis: Axes, y: float, height: float) -> None:
    for first, last, kind in ranges:
        look = looks[kind]
        _box(axis, scale.place(first), scale.place(last + 1), y, height, look[0], look[-1])


def _box(axis: Axes, left: float, right: float, y: float, height: float, colour: str, hatch: str) -> None:
    right = max(right, left + 0.002)  # one offset among a million stays visible
    look = {"facecolor": colour, "edgecolor": _edge(colour, hatch), "hatch": hatch, "linewidth": 0.4}
    style.bar(axis, y + height / 2, left, right, height, **look)


def _label_axis(axis: Axes, scale: Scale, names: list[tuple[float, str]], bottom: float) -> None:
    axis.set_ylim(bottom - 0.12, 0.05)
    style.name_rows(axis, [y for y, _ in names], [name for _, name in names])
    offset_axis(axis, scale)
    mark_cuts(axis, scale)


def _edge(colour: str, hatch: str) -> str:
    """The colour of a box's edge and hatching."""
    if hatch and colour in (style.RED, style.GREEN, style.PURPLE):
        return style.PAPER
    return style.FAINT if hatch or colour == style.PAPER else colour


def _patch(colour: str, hatch: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, hatch=hatch, edgecolor=_edge(colour, hatch), linewidth=0.4, label=label)


def _legend(axis: Axes, offsets: dict[str, Any], readers: list[dict[str, Any]], causes: list[str]) -> None:
    counts: Counter[str] = Counter()
    for _, _, kinds in offsets["blocks"]:
        counts.update(kinds)
    handles = [
        _patch(colour, hatch, f"{label}: {counts[kind]:,}")
        for kind, (colour, label, hatch) in LOOKS.items()
        if kind in counts
    ]
    for kind in sorted({kind for *_, kind in offsets["later"]}):
        colour, label, hatch = LATER[kind]
        many = sum(last - first + 1 for first, last, other in offsets["later"] if other == kind)
        handles.append(_patch(colour, hatch, label if kind == "several" else f"{label}: {many:,}"))
    seen = {kind for reader in readers for *_, kind in reader["segments"]}
    if "both" in seen:
        handles.append(_patch(*SEEN["both"], "a consumer read the lost record and its successor"))
    # A cause may not fit into its box.
    for cause in causes:
        colour = style.QUIET if cause == "unknown" else CAUSE
        handles.append(_patch(colour, "", f"cause: {style.printable(cause, 40)}"))
    axis.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, borderaxespad=0.2, handlelength=1.6
    )
