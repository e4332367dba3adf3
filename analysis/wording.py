"""Counts and lists in words, alike in findings, reports and on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def some(values: Sequence[str], most: int = 3) -> str:
    """The first values, and how many more."""
    shown = ", ".join(values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most:,} more"


def either(measures: Sequence[str]) -> str:
    """a, b or c."""
    return " or ".join(part for part in (", ".join(measures[:-1]), *measures[-1:]) if part)


def plural(count: int, noun: str, many: str = "") -> str:
    """`many` is the noun's plural where it is not made with an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def span(first: int, last: int) -> str:
    """Offsets in words."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def clipped(text: str, most: int) -> str:
    """The text in at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def brokers(names: Iterable[str]) -> str:
    """broker 1, or brokers 1, 2."""
    listed = list(names)
    return f"broker{'s' if len(listed) > 1 else ''} {', '.join(listed)}"
