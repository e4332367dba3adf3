"""The heat map: findings by partition and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..analysis.wording import duration, plural
from . import style
from .time_axis import bands_of, sheet_below, time_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABEL = "Findings by partition and time"
CAPTION = (
    "One row per partition, worst first; darker means more records. A loss is drawn at the time of its"
    " acknowledgements, any other finding at the time of its first evidence. A column through many rows is one event;"
    " a single row is a problem of that partition."
)
MAX_ROWS = 30


def subjects(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """One figure, if the run has findings to compare by partition or time."""
    return [{}] if figures["heat"] else []


def grid(figures: dict[str, Any]) -> tuple[str, list[str], list[list[int]]]:
    """The worst severity found, the names of its partitions, and its records by partition and bin."""
    for severity in ("violation", "permitted", "note"):
        rows = []
        for row in figures["heat"]:
            cells = [cell for cell in row["cells"] if cell["severity"] == severity]
            if cells:
                counts = [0] * figures["bins"]["count"]
                for cell in cells:
                    for number, many in zip(cell["bins"], cell["records"], strict=True):
                        counts[number] += many
                rows.append((row["partition"], counts))
        if rows:
            return severity, [name for name, _ in rows], [counts for _, counts in rows]
    return "violation", [], []


def _permission(figures: dict[str, Any]) -> str:
    """Whether permitted findings are so by the configuration, or accepted by --allow, or both."""
    cells = [cell for row in figures["heat"] for cell in row["cells"] if cell["severity"] == "permitted"]
    words = {"accepted" if cell.get("accepted") else "permitted" for cell in cells}
    return " or ".join(sorted(words)) or "permitted"


def draw(figures: dict[str, Any]) -> Figure:
    """Draws the findings of the worst severity by partition and time."""
    from matplotlib.collections import PatchCollection
    from matplotlib.colors import LinearSegmentedColormap, LogNorm
    from matplotlib.patches import Rectangle

    severity, names, counts = grid(figures)
    what = {"violation": "breaches", "permitted": f"{_permission(figures)} findings", "note": "notes"}[severity]
    with style.look():
        if not names:
            return style.empty_sheet(LABEL, "No finding has a time in the run.")
        left = len(names) - MAX_ROWS + figures["heat_left_out"]
        names, counts = names[:MAX_ROWS], counts[:MAX_ROWS]
        title = f"{what[0].upper()}{what[1:]} in {plural(len(names) + max(left, 0), 'partition')}"
        rows = 0.24 * len(names)
        figure, (axis,) = sheet_below(title, bands_of(figures, *figures["span"]), [max(rows, 0.6)], 1.7 + rows)
        colours = LinearSegmentedColormap.from_list("heat", ["#f8d5cf", style.RED, "#4f0a0a"])
        edges = style.edges(figures)
        cells = [(number, row, many) for row, line in enumerate(counts) for number, many in enumerate(line) if many]
        mesh = PatchCollection(
            [Rectangle((edges[number], row), edges[number + 1] - edges[number], 1) for number, row, _ in cells],
            cmap=colours,
            norm=LogNorm(1, max(*(many for *_, many in cells), 2)),
            linewidth=0,
        )
        mesh.set_array([many for *_, many in cells])
        axis.add_collection(mesh)
        axis.set_yticks([row + 0.5 for row in range(len(names))], [style.printable(name, 28) for name in names])
        axis.set_ylim(len(names), 0)
        axis.tick_params(axis="y", length=0)
        axis.hlines(range(len(names) + 1), 0, 1, transform=axis.get_yaxis_transform(), color=style.RULE, linewidth=0.6)
        bar = figure.colorbar(mesh, cax=figure.add_axes((0, 0, 1, 1)))  # layout.py places it
        bar.set_label(f"records per {duration(style.bin_seconds(figures) * 1e9)}\n(log scale)")
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        bar.ax.minorticks_off()
        if left > 0:
            text = f"and {plural(left, 'more partition')}"
            axis.set_title(text, fontsize=9, fontweight="normal", color=style.FAINT)
        time_axis(axis, figures)
    return figure
