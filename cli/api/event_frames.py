"""DataFrames of polars, pandas and Spark, written as a run bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .histories.event_frames import SOURCE, check_columns, json_lines

if TYPE_CHECKING:
    import polars as pl

LIBRARIES = ("polars", "pandas", "pyspark")


def library_of(found: Any) -> str:
    """The library of a DataFrame (one of LIBRARIES); empty for any other object. Imports none of them."""
    library = type(found).__module__.split(".")[0]
    return library if library in LIBRARIES and type(found).__name__ in ("DataFrame", "LazyFrame") else ""


def write_bundle(frame: Any, folder: str, config: Mapping[str, Any]) -> None:
    """Write history.jsonl, in which line n is row n, and run.json. Raises UsageError."""
    events = _to_polars(frame)
    check_columns(events.columns)
    (Path(folder) / "run.json").write_text(json.dumps({"format": 1, **config}), encoding="utf-8")
    (Path(folder) / SOURCE).write_bytes(json_lines(events))


def _to_polars(frame: Any) -> pl.DataFrame:
    import polars as pl

    library = library_of(frame)
    if library == "pyspark":
        return pl.DataFrame(frame.toArrow())
    if library == "pandas":
        return pl.from_pandas(frame)
    return frame.collect() if isinstance(frame, pl.LazyFrame) else frame
