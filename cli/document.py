"""Small documents for the terminal or as Markdown: headings, sentences, lists, tables."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

import click

from ..analysis.wording import clipped, printable
from ..plots.escaping import markdown

MAX_CELL = 40
_MAX_SENTENCE = 4000  # characters


class Document:
    """Blocks in the order in which they were added. `terminal` and `markdown` escape their texts."""

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
        self._add_items([(f"{n:>2}. ", f"{n}.", *item) for n, item in enumerate(items, 1)])

    def listed(self, items: Sequence[tuple[str, str]]) -> None:
        """Adds a bullet list of texts with their sources, which may be empty."""
        self._add_items([("- ", "-", *item) for item in items])

    def dated(self, items: Sequence[tuple[str, str, str]]) -> None:
        """Adds times, events and sources; the times form a column."""
        width = max((len(when) for when, _, _ in items), default=0)
        self._add_items([(f"{when:>{width}}  ", f"- {when}", *item) for when, *item in items])

    def _add_items(self, items: list[tuple[str, ...]]) -> None:
        """Adds a list of items: the mark on the terminal, the mark in Markdown, text, source."""
        if items:
            self._blocks.append(("items", items))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Adds a table; long cells are shortened."""
        self._blocks.append(("table", [list(row) for row in (head, *rows)]))

    def terminal(self) -> str:
        """The document wrapped to the width of the terminal."""
        width = min(shutil.get_terminal_size((100, 40)).columns, 120)
        lines: list[str] = []
        for kind, content in self._blocks:
            if kind == "heading":
                lines += [*([""] if lines else []), click.style(printable(content), bold=True)]
            elif kind == "sentence":
                lines += _wrap(content, width, "")
            elif kind == "items":
                for mark, _, text, source in content:
                    lines += _wrap(f"{text} [{source}]" if source else text, width, mark)
            else:
                lines += _table(content)
        return "\n".join(lines)

    def markdown(self) -> str:
        """The document as Markdown."""
        lines: list[str] = []
        for kind, content in self._blocks:
            if kind == "heading":
                lines.append(f"## {_escaped(content)}\n")
            elif kind == "sentence":
                lines.append(f"{_escaped(content)}\n")
            elif kind == "items":
                for _, mark, text, source in content:
                    lines.append(f"{mark} {_escaped(text)}" + (f" ({markdown(source)})" if source else ""))
                lines.append("")
            else:
                rows = ["| " + " | ".join(markdown(cell, MAX_CELL) for cell in row) + " |" for row in content]
                lines += [rows[0], "|" + "---|" * len(content[0]), *rows[1:], ""]
        return "\n".join(lines)


def _escaped(text: str) -> str:
    return markdown(text, _MAX_SENTENCE)


def _wrap(text: str, width: int, mark: str) -> list[str]:
    """The lines of a text; the first begins with the mark, and the others are indented to align with it."""
    first, rest = f"  {mark}", " " * (len(mark) + 2)
    wrapped = textwrap.wrap(
        printable(text), width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return wrapped or [first]


def _table(rows: list[list[str]]) -> list[str]:
    shown = [[clipped(printable(cell), MAX_CELL) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in shown]
    return [line.rstrip() for line in lines]
