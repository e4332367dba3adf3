"""index.html: the runs of one call, with their verdicts and links to their reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

from .postmortem import environment

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


def index_of(rows: Sequence[Row]) -> str:
    """The page, as text of HTML."""
    counts = Counter(row.verdict for row in rows)
    links = [quote(row.folder.encode("utf-8", "surrogateescape"), safe="") for row in rows]
    return str(
        environment(html=True)
        .get_template("index.html.j2")
        .render(rows=list(zip(rows, links, strict=True)), counts=dict(counts), mark=MARK)
    )
