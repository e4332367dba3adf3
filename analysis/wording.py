"""Counts and lists in words, alike in findings, reports and on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

MAX_VALUE = 60  # characters of a value in a sentence

NOTES = "Notes (no breach)"  # the heading of notes


def some(values: Sequence[str], max_shown: int = 3, separator: str = ", ") -> str:
    """The first values, and how many more there are."""
    shown = separator.join(values[:max_shown])
    return shown if len(values) <= max_shown else f"{shown} and {len(values) - max_shown:,} more"


def short(value: object) -> str:
    """A value in a sentence: a long one without its middle. `Finding.values` has it whole."""
    text = str(value)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE // 2]}…{text[-MAX_VALUE // 4 :]}"


def numbered(processes: Sequence[str]) -> str:
    """Clients of a Jepsen history, which have numbers as names."""
    return f"process{'' if len(processes) == 1 else 'es'} {some(processes)}"


def quoted(value: object) -> str:
    """A value in quotation marks, shortened; of a tombstone, None."""
    return repr(short(value) if isinstance(value, str) else value)


def some_values(values: Sequence[str]) -> str:
    """The first values, each shortened, and how many more there are."""
    return some([*map(short, values[:3]), *values[3:]])


def either(measures: Sequence[str]) -> str:
    """a, b or c. With semicolons if a measure has a comma of its own: a, b; c; or d."""
    if len(measures) > 1 and any("," in one for one in measures):
        return "; ".join(measures[:-1]) + f"; or {measures[-1]}"
    return " or ".join(part for part in (", ".join(measures[:-1]), *measures[-1:]) if part)


def allow_options(allowed: Iterable[str]) -> str:
    """The options --allow of a call."""
    return " ".join(f"--allow {rule}" for rule in allowed)


def plural(count: int, noun: str, many: str = "") -> str:
    """The count with its noun; `many` is the plural if it does not only add an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def definite(count: int, noun: str) -> str:
    """The record, or the 12 records."""
    return f"the {noun}" if count == 1 else f"the {count:,} {noun}s"


def duration(ns: float) -> str:
    """A duration with a fitting unit: 3 ms, 1.5 s, 12 min. Minutes begin at ten, as times of events are in seconds."""
    for size, unit, least in ((3.6e12, "h", 3.6e12), (6e10, "min", 6e11), (1e9, "s", 1e9), (1e6, "ms", 1e6)):
        if ns >= least:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e3:.3g} µs" if ns >= 1e3 else f"{ns:.0f} ns"


def utc_text(ms: int) -> str:
    """A time (ms since the epoch) as its day and time in UTC; the number if no calendar has it."""
    if not 0 <= ms < 253402300800000:
        return f"{ms} ms"
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "milliseconds").replace("+00:00", "Z")


def span(first: int, last: int) -> str:
    """Offsets in words."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def printable(text: str) -> str:
    """Escapes control characters, which a hostile value could send to the terminal."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def clipped(text: str, max_chars: int) -> str:
    """The text, cut to at most `max_chars` characters."""
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def brokers(names: Iterable[str]) -> str:
    """broker 1, or brokers 1, 2."""
    listed = list(names)
    return f"broker{'s' if len(listed) > 1 else ''} {', '.join(listed)}"


def nodes_of(names: Sequence[str]) -> str:
    """The nodes of a fault: brokers 1, 2. The names of clients stand alone: c0."""
    return brokers(names) if all(name.isdecimal() for name in names) else ", ".join(names)
