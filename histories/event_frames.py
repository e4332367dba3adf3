"""DataFrames of events as JSON lines, which every engine reads as it reads any history."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from .errors import UsageError

SOURCE = "history.jsonl"  # the name of such a history in findings
_NEEDED = ("time", "process", "op", "type", "f")
_INTEGERS = ("time", "op", "partition", "offset")


def check_columns(columns: Iterable[str]) -> None:
    """Raises UsageError if a column is missing that every event has."""
    found = set(columns)
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise UsageError(
            f"found a DataFrame without {', '.join(missing)}, expected the fields of an event (docs/format.md)"
        )


def json_lines(events: pl.DataFrame) -> bytes:
    """A line for each row. Whole numbers that pandas made floats, for a missing one, are integers again."""
    floats = [name for name in _INTEGERS if name in events.columns and events.schema[name].is_float()]
    whole = events.with_columns(pl.col(name).fill_nan(None).cast(pl.Int64) for name in floats)
    return whole.write_ndjson().encode()
