"""Places the panels of a sheet, one below the other, by the sizes of their texts.

matplotlib's layout engines measure every text of a figure several times, which takes longer than drawing it. Here one
text of each kind is measured: the longest label, the widest tick, the legend.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure
    from matplotlib.text import Text

# In points.
HEADING, TEXT = 12.5 * 1.25, 10 * 1.25  # the height of a line
TITLE = 10.5 * 1.25 + 6  # the height of a panel's title
GAP = 8.0  # between texts and panels, and at the edges
TICK = 6.0  # from a panel to its tick labels
NAME = 3.0  # from these to the name of the axis
COLOUR_BAR = 76.0  # the width of a colour bar with its labels


def lay_out(figure: Figure) -> None:
    """Sets the positions of all panels. An axis outside of the grid is a colour bar, to the right of them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    renderer: RendererBase = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    width, height = (72 * inches for inches in figure.get_size_inches())
    panels = [axis for axis in figure.axes if axis.get_subplotspec() is not None]
    bars = [axis for axis in figure.axes if axis.get_subplotspec() is None]
    labels = [(panel.get_xticklabels(), panel.get_yticklabels()) for panel in panels]
    heights = [_ticks_below(panel, x_labels) for panel, (x_labels, _) in zip(panels, labels, strict=True)]
    widths = [_ticks_beside(panel, y_labels, renderer) for panel, (_, y_labels) in zip(panels, labels, strict=True)]
    for text in chain(*chain(*labels)):
        text.set_in_layout(False)  # else drawing measures it again, for the names of the axes
    left = GAP + max(_with_name(size, panel.get_ylabel()) for size, panel in zip(widths, panels, strict=True))
    below = [_with_name(size, panel.get_xlabel()) for size, panel in zip(heights, panels, strict=True)]
    overhang = _width(labels[-1][0], renderer) / 2
    right = width - max(GAP, COLOUR_BAR if bars else overhang + 2)
    above = [_height_above(panel, right - left, renderer) for panel in panels]
    top = height - GAP - HEADING * _lines(figure.get_suptitle()) - GAP / 2
    ratios: Any = figure.axes[0].get_gridspec().get_height_ratios()  # type: ignore[union-attr]
    unit = max(top - GAP - sum(above) - sum(below), height / 4) / sum(ratios)
    upper = top - above[0]
    for number, panel in enumerate(panels):
        top -= above[number] + unit * ratios[number]
        _place(panel, left / width, top / height, (right - left) / width, unit * ratios[number] / height)
        panel.xaxis.set_label_coords(0.5, -(heights[number] + NAME) / (unit * ratios[number]))
        panel.yaxis.set_label_coords(-(widths[number] + NAME) / (right - left), 0.5)
        top -= below[number]
    for bar in bars:
        bottom = top + below[-1]
        _place(bar, (right + GAP) / width, bottom / height, GAP / width, (upper - bottom) / height)


def _place(axis: Axes, left: float, bottom: float, width: float, height: float) -> None:
    # Rounded, so that equal figures have equal bytes.
    axis.set_position((round(left, 5), round(bottom, 5), round(width, 5), round(height, 5)))


def _height_above(panel: Axes, width: float, renderer: RendererBase) -> float:
    """The height of the title and of the legend above a panel. The title moves above a legend that is too wide."""
    text, legend = panel.get_title("left"), panel.get_legend()
    if legend is None:
        return TITLE if text else GAP / 2
    box = legend.get_window_extent(renderer)
    top = _points(box.y1 - panel.bbox.y1, renderer)
    if not text:
        return max(top, GAP / 2)
    title = panel.set_title(text).get_window_extent(renderer)
    if _points(title.width + box.width, renderer) + GAP <= width:
        return max(top, TITLE)
    panel.set_title(text, pad=top + GAP / 2)
    return top + TITLE


def _ticks_below(panel: Axes, labels: Iterable[Text]) -> float:
    """The height of the tick labels below a panel."""
    if not panel.axison or not panel.xaxis.get_tick_params()["labelbottom"]:
        return GAP / 2
    return TICK + TEXT * max((_lines(label.get_text()) for label in labels), default=0)


def _ticks_beside(panel: Axes, labels: Iterable[Text], renderer: RendererBase) -> float:
    """The width of the tick labels left of a panel."""
    return TICK + _width(labels, renderer) if panel.axison else 0


def _with_name(size: float, name: str) -> float:
    """The size of tick labels with the name of their axis."""
    return size + (NAME + TEXT * _lines(name) if name else 0)


def _width(labels: Iterable[Text], renderer: RendererBase) -> float:
    """The width of the widest of the labels with most characters."""
    lengths = [(max(map(len, label.get_text().split("\n"))), label) for label in labels]
    longest = max((length for length, _ in lengths), default=0)
    widths = [label.get_window_extent(renderer).width for length, label in lengths if length == longest]
    return max((_points(width, renderer) for width in widths), default=0)


def _lines(text: str) -> int:
    return text.count("\n") + 1 if text else 0


def _points(pixels: float, renderer: RendererBase) -> float:
    scale: Any = renderer.points_to_pixels(1)
    return float(pixels / scale)
