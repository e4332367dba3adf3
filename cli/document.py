"""Small documents for the terminal or as Markdown: headings, sentences, lists, tables."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from ..plots.escaping import markdown
from .output import printable

MAX_CELL = 40
_MAX_SENTENCE = 4000  # characters


class Document:
    """Blocks in the order in which they were added. Text may hold anything; `terminal` and `markdown` escape it."""

    def __init__(self) -> None:
        self._blocks: list[tuple[str, Any]] = []

    def heading(self, text: str) -> None:
        """Adds a heading."""
        self._blocks.append(("heading", text))

    def sentences(self, *sentences: str) -> None:
        """Adds a paragraph for each sentence."""
        self._blocks += [("sentence", sentence) for sentence in sentences]

    def numbered(self, items: Sequence[tuple[str, str]]) -> None:
        """Adds a numbered list of texts with their sources, which may be empty."""
        if items:
            self._blocks.append(("numbered", list(items)))

    def listed(self, items: Sequence[tuple[str, str]]) -> None:
        """Adds a bullet list of texts with their sources, which may be empty."""
        if items:
            self._blocks.append(("listed", list(items)))

    def dated(self, items: Sequence[tuple[str, str, str]]) -> None:
        """Adds times, events and sources; the times form a column."""
        width = max((len(when) for when, _, _ in items), default=0)
        self._blocks.append(("dated", [(when.rjust(width), text, source) for when, text, source in items]))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Adds a table; long cells are shortened."""
        self._blocks.append(("table", (list(head), [list(row) for row in rows])))

    def terminal(self) -> str:
        """The document wrapped to the width of the terminal."""
        width = min(shutil.get_terminal_size((100, 40)).columns, 120)
        lines: list[str] = []
        for kind, content in self._blocks:
            if kind == "heading":
                lines += ["", click.style(printable(str(content)), bold=True)] if lines else [_bold(str(content))]
            elif kind == "sentence":
                lines += _wrap(str(content), width, "  ")
            elif kind in ("numbered", "listed"):
                lines += _items(content, kind == "numbered", width)
            elif kind == "dated":
                for when, text, source in content:
                    lines += _wrap(_sourced(text, source), width, f"  {when}  ", " " * (len(when) + 4))
            else:
                lines += _table(*content)
        return "\n".join(lines)

    def markdown(self) -> str:
        """The document as Markdown."""
        lines: list[str] = []
        for kind, content in self._blocks:
            if kind == "heading":
                lines.append(f"## {markdown(content, _MAX_SENTENCE)}\n")
            elif kind == "sentence":
                lines.append(f"{markdown(content, _MAX_SENTENCE)}\n")
            elif kind in ("numbered", "listed"):
                for number, (text, source) in enumerate(content, 1):
                    mark = f"{number}." if kind == "numbered" else "-"
                    lines.append(f"{mark} {markdown(text, _MAX_SENTENCE)}{_in_markdown(source)}")
                lines.append("")
            elif kind == "dated":
                for when, text, source in content:
                    lines.append(f"- {when.strip()} {markdown(text, _MAX_SENTENCE)}{_in_markdown(source)}")
                lines.append("")
            else:
                head, rows = content
                lines += ["| " + " | ".join(markdown(cell, MAX_CELL) for cell in row) + " |" for row in [head]]
                lines.append("|" + "---|" * len(head))
                lines += ["| " + " | ".join(markdown(cell, MAX_CELL) for cell in row) + " |" for row in rows]
                lines.append("")
        return "\n".join(lines)


def _bold(text: str) -> str:
    return click.style(printable(text), bold=True)


def _wrap(text: str, width: int, first: str, rest: str = "  ") -> list[str]:
    return textwrap.wrap(
        printable(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    ) or [first]


def _items(items: list[tuple[str, str]], numbered: bool, width: int) -> list[str]:
    lines: list[str] = []
    for number, (text, source) in enumerate(items, 1):
        first = f"  {number:>2}. " if numbered else "  - "
        lines += _wrap(_sourced(text, source), width, first, " " * len(first))
    return lines


def _sourced(text: str, source: str) -> str:
    return f"{text} [{source}]" if source else text


def _in_markdown(source: str) -> str:
    return f" ({markdown(source)})" if source else ""


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    shown = [[_short(printable(cell)) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[column]) for row in shown) for column in range(len(head))]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in shown]
    return [line.rstrip() for line in lines]


def _short(text: str) -> str:
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"
