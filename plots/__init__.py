"""The figures: one module per figure, listed in PLOTS. Each draws small records with matplotlib.

A new plot is one module with `subjects` (what the report draws), `draw`, LABEL and CAPTION, and one line in PLOTS.
The records are figures.json (analysis/figures/merge.py). matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from . import (
    around,
    cycles,
    glance,
    heatmap,
    lag,
    offsets,
    owners,
    replicas,
    swimlane,
    transactions,
    under_replicated,
    unread,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PLOTS", "Plot", "draw"]


class Plot(Protocol):
    """A module of this folder."""

    LABEL: str  # its name in the report
    CAPTION: str  # explains the figure to its reader

    def subjects(self, figures: dict[str, Any]) -> list[dict[str, Any]]:
        """The arguments of `draw` for each figure of a report, worst first; empty if there is nothing to show."""

    @property
    def draw(self) -> Any:
        """draw(figures, **subject) -> Figure"""


# In the order of the report.
PLOTS: dict[str, Plot] = {
    "glance": glance,
    "offsets": offsets,
    "replicas": replicas,
    "swimlane": swimlane,
    "under-replicated": under_replicated,
    "owners": owners,
    "transactions": transactions,
    "around": around,
    "cycles": cycles,
    "unread": unread,
    "lag": lag,
    "heatmap": heatmap,
}


def draw(name: str, figures: dict[str, Any], subject: dict[str, Any]) -> Figure:
    """Draws the plot `name` of figures.json for a subject, the arguments from `subjects`."""
    figure: Figure = PLOTS[name].draw(figures, **subject)
    return figure
