"""The offset map of a partition: what became of the record at each offset, and what each consumer saw of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import plural
from . import style
from .scale import Scale, scale_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = (
    "Offsets from left to right. First lane: what became of the first record known at each offset. Second lane: what"
    " is at the offsets of lost records now. Then the cause of each loss, if the brokers' files prove one. Below: what"
    " each consumer read. Red: it read records that were lost later; hatched: it also read what replaced them. A white"
    " gap with ≈ shortens a range without findings."
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
SEEN = {
    "read": (style.BLUE, ""),
    "lost": (style.RED, ""),
    "both": (style.RED, "xxxx"),
    "several": (style.SKY, "//"),
}
SEVERE = ("lost-read", "lost", "duplicate", "unread")
MAX_READERS = 8
MAX_CAUSES = 40
CAUSE = "#3f4650"  # dark, on light and dark pages


def subjects(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Partitions in trouble, worst first; of a clean run its biggest partition."""
    known = [part for part in figures["partitions"] if part["offsets"]]
    troubled = [part for part in known if part["violations"] or part["lost"]]
    return [{"partition": part["name"]} for part in (troubled[:4] or known[:1])]


def draw(figures: dict[str, Any], partition: str) -> Figure:
    part = next(part for part in figures["partitions"] if part["name"] == partition)
    told = part["offsets"]
    with style.look():
        if not told:
            return style.empty_sheet(style.printable(partition), "No offset of this partition is recorded.")
        readers = _worst_readers(told)
        found = [] if part["lost"] else breaches(told)
        severe = [(first, last) for first, last, kinds in told["blocks"] if any(kind in SEVERE for kind in kinds)]
        scale = scale_of(told["first"], told["last"], [*severe, *((first, last) for first, last, _ in found)])
        lanes = _lanes(part, readers, found, scale)
        figure, (axis,) = style.sheet(title_of(part), [1], 2.0 + 0.5 * sum(lane.height for lane in lanes))
        names, y = [], 0.0
        for lane in lanes:
            y -= lane.height + 0.16
            lane.draw(axis, y, lane.height)
            names.append((y + lane.height / 2, lane.name))
        _dress(axis, scale, names, y)
        _legend(axis, told, readers, sorted({cause for *_, cause in _causes(part)}))
        left = told["readers_left_out"] + len(told["readers"]) - len(readers)
        if left:
            axis.text(
                0,
                y - 0.1,
                f"and {plural(left, 'more consumer')}",
                fontsize=8.5,
                color=style.FAINT,
                va="top",
            )
    return figure


class Lane(NamedTuple):
    """A row of the map, from the top down."""

    name: str
    height: float
    draw: Callable[[Axes, float, float], None]  # at a y, so high


def _lanes(
    part: dict[str, Any], readers: list[dict[str, Any]], found: list[tuple[int, int, str]], scale: Scale
) -> list[Lane]:
    told, causes = part["offsets"], _causes(part)
    lanes = [Lane("records", 1.0, partial(_log, told, scale))]
    if told["later"]:
        lanes.append(Lane("there now", 0.6, partial(_ranges, told["later"], LATER, scale)))
    if found:
        rules = {rule for *_, rule in found}
        name = rules.pop() if len(rules) == 1 else "breaches"
        lanes.append(Lane(name, 0.3, partial(_breaches, found, scale)))
    if causes:
        lanes.append(Lane("cause of loss", 0.4, partial(_why, causes, scale)))
    for reader in readers:
        name = f"read by {style.printable(reader['process'], 18)}"
        lanes.append(Lane(name, 0.5, partial(_ranges, reader["segments"], SEEN, scale)))
    return lanes


def title_of(part: dict[str, Any]) -> str:
    """What the map shows, in one sentence."""
    name, told = style.printable(part["name"]), part["offsets"]
    spans = [(first, last) for first, last, kinds in told["blocks"] if kinds.keys() & {"lost", "lost-read"}]
    found = breaches(told)
    if not part["lost"] and found:
        first, last, rule = found[0]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        if rule == "consumer-loss":
            return f"{name}: offsets {first} to {last}{more} were never handled by their group; no write was lost"
        return f"{name}: {rule} at offsets {first} to {last}{more}; no loss found"
    if not part["lost"]:
        older = [(first, last) for first, last, rule, *_ in told["findings"] if rule == "consumer-loss"]
        if older:  # else it were a breach
            first, last = older[0]
            return f"{name}: no write was lost; offsets {first} to {last} are older than their group, not handled"
        return f"{name}: no loss found among offsets {told['first']} to {told['last']}"
    where = f"offsets {spans[0][0]} to {spans[-1][1]}" if spans else "offsets unknown"
    read = {0: "none read by a recorded consumer", part["lost"]: "all of them after being read"}.get(
        part["lost_read"], f"{style.number(part['lost_read'])} of them after being read"
    )
    return f"{name}: {plural(part['lost'], 'acknowledged record')} lost ({where}), {read}"


def breaches(told: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Ranges of offsets in which a rule is broken that the lanes do not show by themselves."""
    shown = ("lost-write", "inconsistent-offsets", "unseen", "duplicate")
    low, high = told["first"], told["last"]
    return [
        (max(first, low), min(last, high), rule)
        for first, last, rule, severity, _ in told["findings"]
        if severity == "violation" and rule not in shown and first <= high and last >= low and first <= last
    ]


def _causes(part: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Offsets that were lost, with the cause; of explanations that overlap the widest."""
    kept: list[tuple[int, int, str]] = []
    for first, last, cause in sorted(part.get("causes", ()), key=lambda row: row[0] - row[1]):
        if all(last < other[0] or first > other[1] for other in kept):
            kept.append((first, last, cause))
    return sorted(kept)[:MAX_CAUSES]


def _breaches(found: list[tuple[int, int, str]], scale: Scale, axis: Axes, y: float, height: float) -> None:
    for first, last, _ in found:
        _box(axis, scale.place(first), scale.place(last + 1), y, height, style.INK, "")


def _why(causes: list[tuple[int, int, str]], scale: Scale, axis: Axes, y: float, height: float) -> None:
    for first, last, cause in causes:
        left, right = scale.place(first), scale.place(last + 1)
        _box(axis, left, right, y, height, style.QUIET if cause == "unknown" else CAUSE, "")
        text = style.printable(cause, 40)
        if right - left > 0.0085 * len(text):
            axis.text((left + right) / 2, y + height / 2, text, ha="center", va="center", color="white", fontsize=8.5)


def _worst_readers(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Those who saw lost records first, then those who read most; drawn in the order of their names."""

    def rank(reader: dict[str, Any]) -> tuple[bool, int, str]:
        return (
            not any(kind in ("lost", "both") for *_, kind in reader["segments"]),
            -reader["records"],
            reader["process"],
        )

    return sorted(sorted(told["readers"], key=rank)[:MAX_READERS], key=lambda reader: str(reader["process"]))


def _log(told: dict[str, Any], scale: Scale, axis: Axes, y: float, height: float) -> None:
    """Blocks of one class fill the lane; mixed ones are stacked by share, the severe ones never too thin to see."""
    for first, last, kinds in told["blocks"]:
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
    from matplotlib.patches import Rectangle

    width = max(right - left, 0.002)  # one offset among a million must still be seen
    edge = _edge(colour, hatch)
    axis.add_patch(Rectangle((left, y), width, height, facecolor=colour, edgecolor=edge, hatch=hatch, linewidth=0.4))


def _dress(axis: Axes, scale: Scale, names: list[tuple[float, str]], bottom: float) -> None:
    axis.set_xlim(-0.005, 1.005)
    axis.set_ylim(bottom - 0.12, 0.05)
    axis.set_yticks([y for y, _ in names], [name for _, name in names])
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    ticks = scale.ticks()
    axis.set_xticks([scale.place(tick) for tick in ticks], [str(tick) for tick in ticks])
    axis.set_xlabel("offset" + (" (shortened at ≈)" if scale.cuts else ""))
    for cut in scale.cuts:
        axis.axvline(cut, color=style.PAPER, linewidth=5)
        axis.text(cut, bottom - 0.12, "≈", ha="center", va="center", fontsize=12, clip_on=False)


def _edge(colour: str, hatch: str) -> str:
    """The colour of a box's edge, which is that of its hatching too."""
    if hatch and colour in (style.RED, style.GREEN, style.PURPLE):
        return style.PAPER
    return style.FAINT if hatch or colour == style.PAPER else colour


def _patch(colour: str, hatch: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, hatch=hatch, edgecolor=_edge(colour, hatch), linewidth=0.4, label=label)


def _legend(axis: Axes, told: dict[str, Any], readers: list[dict[str, Any]], causes: list[str]) -> None:
    counts: dict[str, int] = {}
    for _, _, kinds in told["blocks"]:
        for kind, count in kinds.items():
            counts[kind] = counts.get(kind, 0) + count
    handles = [
        _patch(colour, hatch, f"{label}: {style.number(counts[kind])}")
        for kind, (colour, label, hatch) in LOOKS.items()
        if kind in counts
    ]
    for kind in sorted({kind for *_, kind in told["later"]}):
        colour, label, hatch = LATER[kind]
        many = sum(last - first + 1 for first, last, other in told["later"] if other == kind)
        handles.append(_patch(colour, hatch, label if kind == "several" else f"{label}: {style.number(many)}"))
    seen = {kind for reader in readers for *_, kind in reader["segments"]}
    if "both" in seen:
        handles.append(_patch(*SEEN["both"], "a consumer read the lost record and its successor"))
    # A cause may be too long for its box.
    for cause in causes:
        colour = style.QUIET if cause == "unknown" else CAUSE
        handles.append(_patch(colour, "", f"cause: {style.printable(cause, 40)}"))
    axis.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=3,
        borderaxespad=0.2,
        handlelength=1.6,
    )
