"""Events in Parquet, as `logjudge convert` writes them: the columns of EVENTS, a row a line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import InputError
from ..tables import EVENTS, QUARANTINE

NEEDED = ("time", "process", "type", "f")
ROW_GROUP = 250_000
_DIALECT = b"logjudge.dialect"


def check(path: Path) -> int:
    """The number of row groups. Raises InputError for Parquet that is no history."""
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(str(path), f"damaged Parquet ({error})", "events in Parquet") from error
    missing = [name for name in NEEDED if name not in file.schema_arrow.names]
    if missing:
        raise InputError(
            str(path),
            f"no column {', '.join(missing)}",
            "the columns that `logjudge convert` writes",
            "convert it",
        )
    return int(file.num_row_groups)


def dialect_of(path: Path) -> str:
    """The reader of the history that was converted, where its own rules judge it: jepsen, or nothing."""
    check(path)
    metadata = pq.read_schema(path).metadata or {}
    return str(metadata.get(_DIALECT, b""), "utf-8", "replace")


def read_group(path: str, group: int) -> tuple[pl.DataFrame, pl.DataFrame, int, str]:
    """EVENTS, QUARANTINE, the number of rows, and damage if the group cannot be read."""
    from .native import checked

    try:
        file = pq.ParquetFile(path)
        names = [name for name in EVENTS if name in file.schema_arrow.names and name != "line"]
        frame = pl.DataFrame(pl.from_arrow(file.read_row_group(group, columns=names)))
        typed = frame.with_columns(pl.col(name).cast(EVENTS[name]) for name in names)
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError) as error:
        nothing = pl.DataFrame(schema=EVENTS), pl.DataFrame(schema=QUARANTINE)
        return *nothing, 0, f"row group {group} cannot be read: {str(error).splitlines()[0]}"
    missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in EVENTS.items() if name not in [*names, "line"]]
    numbered = typed.with_row_index("line").with_columns(pl.col("line").cast(pl.Int64), *missing)
    jepsen = (file.schema_arrow.metadata or {}).get(_DIALECT) == b"jepsen"
    events, bad = checked(numbered, numbered=False, placed=not jepsen)
    return events.select(list(EVENTS)), bad, len(frame), ""


def writer(path: Path, dialect: str) -> pq.ParquetWriter:
    """For `write`; a history of Jepsen stays one."""
    schema = pl.DataFrame(schema=EVENTS).to_arrow().schema.with_metadata({_DIALECT: dialect.encode()})
    return pq.ParquetWriter(path, schema, compression="zstd")


def write(events: pl.DataFrame, writer: pq.ParquetWriter) -> None:
    """Appends EVENTS."""
    table = events.select(list(EVENTS)).to_arrow()
    writer.write_table(table.replace_schema_metadata(writer.schema.metadata), row_group_size=ROW_GROUP)
