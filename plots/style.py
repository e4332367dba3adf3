"""The style of all figures: colours, fonts, escaped text, units, saving."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis.timelines.fault_kinds import fault_kind
from ..analysis.wording import nodes_of
from .layout import GAP, lay_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, distinguishable with any colour vision; greys show what needs no attention.
# Their vermillion looks orange beside ORANGE, so RED is darker: captions call it red.
BLUE, SKY, GREEN, YELLOW, ORANGE, RED, PURPLE = (
    "#0072b2", "#56b4e9", "#009e73", "#f0e442", "#e69f00", "#bf2626", "#cc79a7",
)  # fmt: skip
# The report replaces these four by its own colours for its light and dark themes.
INK, FAINT, RULE, PAPER = "#1b1b1a", "#6b6b69", "#dededb", "#fffffe"
QUIET = "#a9adb2"
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW)  # colours of brokers or leader epochs


def text_colour(background: str) -> str:
    """The colour of text on one of SERIES. It is not INK, as it is the same in the report's light and dark themes."""
    return "white" if background in (BLUE, GREEN) else "#1b1b1b"


WIDTH = 10.0  # inches
TITLE_WIDTH = 96  # characters
DPI = 110

_SETTINGS: Any = {  # matplotlib's own names and types
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10.0,
    "text.parse_math": False,  # a topic may be called $x$
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titley": 1.0,  # else it is found from the sizes of all texts
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.unicode_minus": False,
    "figure.facecolor": PAPER,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.8,
    "hatch.linewidth": 0.7,
    "svg.hashsalt": "logjudge",
    "svg.fonttype": "none",
}


@contextmanager
def look() -> Iterator[None]:
    """A context with this style that leaves the caller's matplotlib settings alone and does without pyplot."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes; a warning on the terminal would not help.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def legend(axis: Axes, **options: Any) -> None:
    """The legend above the axis, at its right end."""
    defaults = {"loc": "lower right", "bbox_to_anchor": (1, 0.99), "borderaxespad": 0.1, "handlelength": 1.4}
    axis.legend(**{**defaults, **options})


def sheet(title: str, rows: Sequence[float], inches: float) -> tuple[Figure, list[Axes]]:
    """A figure with a heading and one axis per row, of the given relative heights; all share x."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, inches), dpi=DPI)
    grid = figure.add_gridspec(len(rows), 1, height_ratios=rows)
    axes: list[Axes] = []
    for number in range(len(rows)):
        axes.append(figure.add_subplot(grid[number], sharex=axes[0] if axes else None))
    for axis in axes[:-1]:
        axis.tick_params(labelbottom=False)
    # Matplotlib's own wrapping parses mathematics even if that is turned off.
    heading = textwrap.fill(title, TITLE_WIDTH)
    figure.suptitle(
        heading, x=0.01, y=1 - GAP / 72 / inches, va="top", ha="left", fontsize=12.5, fontweight="bold", color=INK
    )
    return figure, axes


def bar(axis: Axes, row: float, left: float, right: float, height: float, **look: Any) -> None:
    """Draws a bar in the middle of a row. Unlike barh, it leaves the limits of the axis alone."""
    from matplotlib.patches import Rectangle

    axis.add_artist(Rectangle((left, row - height / 2), right - left, height, **{"edgecolor": "none", **look}))


def name_rows(axis: Axes, rows: Sequence[float], names: Sequence[str]) -> None:
    """Names the rows of an axis without a scale."""
    axis.set_yticks(rows, names)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)


def steps(axis: Axes, values: Sequence[float], edges: Sequence[float], **look: Any) -> None:
    """Draws a value for each bin. Unlike stairs, it leaves the limits of the axis alone: finding them takes long."""
    from matplotlib.patches import StepPatch

    axis.add_artist(StepPatch(values, edges, **{"fill": False, **look}))


def note(axis: Axes, text: str, place: tuple[float, float], shift: tuple[float, float], **look: Any) -> None:
    """Writes a text beside a place of the axis, `shift` points away from it."""
    axis.annotate(text, place, shift, textcoords="offset points", **{"va": "center", "fontsize": 8.5, **look})


def empty_sheet(title: str, reason: str) -> Figure:
    """A figure with the reason why there is nothing to draw."""
    figure, (axis,) = sheet(title, [1], 1.4)
    axis.set_axis_off()
    axis.text(0, 0.5, reason, transform=axis.transAxes, color=FAINT)
    return figure


def printable(text: object, max_chars: int = 48) -> str:
    """Text shortened for display, with a visible sign for each character that must not be shown.

    Control characters and noncharacters break SVG; bidirectional characters could show text in a misleading order.
    """
    shown = str(text)
    shown = shown if len(shown) <= max_chars else shown[: max_chars - 1] + "…"
    return "".join(c if c.isprintable() else "\ufffd" for c in shown)


def edges(figures: dict[str, Any]) -> list[float]:
    """The edges of the run's bins in seconds: one more than there are bins."""
    bins = figures["bins"]
    return [((bins["first"] + number) << bins["shift"]) / 1e9 for number in range(bins["count"] + 1)]


def bin_seconds(figures: dict[str, Any]) -> float:
    """The width of the run's bins in seconds."""
    return float(1 << figures["bins"]["shift"]) / 1e9


def fault_name(band: dict[str, Any]) -> str:
    """The kind of a fault, its place and its nodes: kill broker 1, truncate of orders-0 on broker 1."""
    nodes = band["nodes"]
    more = f"+{len(nodes) - 4}" if len(nodes) > 4 else ""
    which = f" {nodes_of(nodes[:4])}{more}" if nodes else ""
    place = f" of {band['place']}{' on' if which else ''}" if band.get("place") else ""
    return printable(fault_kind(band["kind"]) + place + which, 40)


def save(figure: Figure, path: Path, description: str | None = None, scale: float = 1) -> None:
    """Saves a PNG or SVG, by the extension, with a description; equal figures give equal bytes.

    A PNG is `scale` times 1100 pixels wide.
    """
    metadata: dict[str, str | None] = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
    metadata["Description"] = description
    with look():
        lay_out(figure)
        figure.savefig(path, metadata=metadata, dpi=DPI * scale)
