"""Saved results for tests, and report.html as a parsed page."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

from figure_cases import Judged
from logjudge.plots.report import write_report
from logjudge.plots.report.saved import save_figures


def save(run: Judged, folder: Path, plots: tuple[str, ...] = ("svg",)) -> Path:
    """Saves the results of `check` that the report needs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "verdict.json").write_text(json.dumps(run.verdict))
    run.findings.write_parquet(folder / "findings.parquet")
    save_figures(folder, run.figures)
    write_report(folder, run.verdict, run.findings, run.figures, plots)
    return folder


class Page(HTMLParser):
    """Tags with their attributes, and the text, of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            assert not name.startswith("on"), f"{tag} has {name}"
            if name in ("src", "href", "xlink:href"):
                self.links.append(str(value))

    def handle_data(self, data: str) -> None:
        self.text += data
