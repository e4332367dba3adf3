"""DataFrames of events, written as a run bundle: every engine then reads them as it reads any history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .histories.errors import UsageError

if TYPE_CHECKING:
    import polars as pl

LIBRARIES = ("polars", "pandas", "pyspark")
_NEEDED = ("time", "process", "op", "type", "f")
_INTEGERS = ("time", "op", "partition", "offset")


def is_frame(found: Any) -> bool:
    """Whether it is a DataFrame of polars, pandas or Spark; none of them is imported."""
    kind = type(found)
    return kind.__module__.split(".")[0] in LIBRARIES and kind.__name__ in ("DataFrame", "LazyFrame")


def write_bundle(frame: Any, folder: str, config: Mapping[str, Any]) -> None:
    """Write history.jsonl, in which line n is row n, and run.json. Raises UsageError."""
    events = to_polars(frame)
    missing = [name for name in _NEEDED if name not in events.columns]
    if missing:
        raise UsageError(
            f"found a DataFrame without {', '.join(missing)}, expected the fields of an event (docs/format.md)"
        )
    (Path(folder) / "run.json").write_text(json.dumps({"format": 1, **config}), encoding="utf-8")
    with (Path(folder) / "history.jsonl").open("wb") as file:
        events.write_ndjson(file)


def to_polars(frame: Any) -> pl.DataFrame:
    """The events as polars has them; whole numbers that pandas made floats, for a missing one, are integers again."""
    import polars as pl

    library = type(frame).__module__.split(".")[0]
    if library == "pyspark":
        frame = pl.from_arrow(frame.toArrow())
    elif library == "pandas":
        frame = pl.from_pandas(frame)
    elif isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    floats = [name for name in _INTEGERS if name in frame.columns and frame.schema[name].is_float()]
    whole: pl.DataFrame = frame.with_columns(pl.col(name).fill_nan(None).cast(pl.Int64) for name in floats)
    return whole
