"""The index.html of `check` (many runs) and of `watch` (the rounds of one run)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from .postmortem import template

MARK = '<meta name="generator" content="logjudge">'  # identifies an index.html that logjudge wrote


class Row(NamedTuple):
    """One run."""

    name: str
    folder: str  # beside the index, with its report; empty if it could not be judged
    verdict: str
    headline: str
    operations: int
    findings: int
    assumptions: str  # the broken ones
    causes: str = ""  # of its breaches


def index_of(rows: Sequence[Row]) -> str:
    """The index of the runs of one call, with links to their reports, as HTML."""
    counts = Counter(row.verdict for row in rows)
    links = [quote(row.folder.encode("utf-8", "surrogateescape"), safe="") for row in rows]
    rendered = template("index.html").render(rows=list(zip(rows, links, strict=True)), counts=dict(counts), mark=MARK)
    return str(rendered)


SHOWN_ROUNDS = 120
WIDTH, HEIGHT = 600, 80  # of a curve, in pixels


class Round(NamedTuple):
    """One round of watching."""

    at: str  # UTC
    lines: int  # that were new
    seconds: float  # that it took
    behind: float  # seconds since the newest line that it judged was, or may have been, written
    unread: int | None  # bytes or messages that are not judged yet; None if not known
    unit: str  # of `unread`
    whole: str  # why it judged the whole history; empty if it did not

    @property
    def rate(self) -> float:
        """Lines a second."""
        return self.lines / max(self.seconds, 1e-9)


def live_page_of(
    report: dict[str, Any], headline: str, folder: str, count: int, shown: Sequence[Round], every: float
) -> str:
    """The page of a run that is watched, as HTML. `folder` beside it has the report.

    `shown` are the last of `count` rounds, `every` is the number of seconds from one to the next.
    """
    curves = [
        ("Lines judged a second", *_curve([each.rate for each in shown])),
        ("Seconds behind the run", *_curve([each.behind for each in shown])),
    ]
    rules: dict[str, list[str]] = {}
    for name, rule in report["rules"].items():
        rules.setdefault("not yet" if name in report["not_yet"] else rule["verdict"], []).append(name)
    rendered = template("live.html").render(
        **{"report": report, "headline": headline, "folder": folder, "rounds": count, "last": shown[-1]},
        **{"curves": curves, "shown": len(shown), "rules": rules, "mark": MARK, "every": max(round(every), 1)},
        **{"width": WIDTH, "height": HEIGHT},
    )
    return str(rendered)


def _curve(values: Sequence[float]) -> tuple[str, str]:
    """A curve of values over WIDTH and HEIGHT as the points of an SVG polyline, and the highest value."""
    highest = max(*values, 1e-9)
    step = WIDTH / max(len(values) - 1, 1)
    points = (f"{number * step:.1f},{HEIGHT * (1 - value / highest):.1f}" for number, value in enumerate(values))
    return " ".join(points), f"{highest:,.1f}"
