"""Small records in, matplotlib figures out: a module a figure, and one PLOTS dict.

A new plot is one module with `subjects` (what the report draws of it), `draw` and CAPTION, and one line in PLOTS.
The records are figures.json (analysis/figures/merge.py). matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from . import around, glance, heatmap, lag, offsets, replicas, swimlane, unread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PLOTS", "Plot", "preload_drawing"]


class Plot(Protocol):
    """A module of this folder."""

    CAPTION: str  # says what to see

    def subjects(self, figures: dict[str, Any]) -> list[dict[str, Any]]:
        """The arguments of `draw`, once for each figure that a report shows, worst first; empty: nothing to show."""

    @property
    def draw(self) -> Any:
        """draw(figures, **subject) -> Figure"""


# In the order of the report.
PLOTS: dict[str, Plot] = {
    "glance": glance,
    "offsets": offsets,
    "replicas": replicas,
    "swimlane": swimlane,
    "around": around,
    "unread": unread,
    "lag": lag,
    "heatmap": heatmap,
}


@cache
def preload_drawing() -> None:
    """Begins to import matplotlib in a thread, as the import takes as long as judging a small run."""
    threading.Thread(target=_import_drawing, daemon=True).start()


def _import_drawing() -> None:
    with suppress(ImportError):  # whoever draws will raise it
        import matplotlib.backends.backend_agg
        import matplotlib.backends.backend_svg
        import matplotlib.figure  # noqa: F401


def draw(name: str, figures: dict[str, Any], subject: dict[str, Any]) -> Figure:
    figure: Figure = PLOTS[name].draw(figures, **subject)
    return figure
