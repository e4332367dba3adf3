"""Reads and writes events in Parquet, as `logjudge convert` does: the columns of EVENTS, one row for each line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from ..errors import InputError, describe_error
from ..tables import EVENTS, QUARANTINE, complete

if TYPE_CHECKING:
    import pyarrow.parquet as pq  # imported where it is used: it loads file systems, with SSL

NEEDED = ("time", "process", "type", "f")
ROW_GROUP = 250_000
_DIALECT = b"logjudge.dialect"


def inspect_parquet(path: Path) -> tuple[int, str]:
    """The number of row groups, and the dialect of a converted history: jepsen, or nothing.

    Raises InputError for Parquet that is not a history.
    """
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            groups, schema = int(file.num_row_groups), file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise InputError(str(path), f"damaged Parquet ({describe_error(error)})", "events in Parquet") from error
    missing = [name for name in NEEDED if name not in schema.names]
    if missing:
        expected = "the columns that `logjudge convert` writes"
        raise InputError(str(path), f"no column {', '.join(missing)}", expected, "convert it")
    for field in pl.DataFrame(schema=EVENTS).to_arrow().schema:
        # A float loses its fraction, and has already lost digits of large offsets.
        if field.name in schema.names and (kind := _fraction(schema.field(field.name).type)):
            raise InputError(str(path), f"{kind} in column {field.name}", f"{field.type}", "write it as integers")
    return groups, str((schema.metadata or {}).get(_DIALECT, b""), "utf-8", "replace")


def _fraction(kind: pa.DataType) -> pa.DataType | None:
    """The first type with a fraction within a type, at any depth, or None."""
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return kind
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return next((found for field in fields if (found := _fraction(field.type))), None)


def read_group(path: str, group: int) -> tuple[pl.DataFrame, pl.DataFrame, int, str]:
    """EVENTS, QUARANTINE, the number of rows, and damage if the group cannot be read."""
    import pyarrow.parquet as pq

    from .native import check_events

    try:
        file = pq.ParquetFile(path)
        names = [name for name in EVENTS if name in file.schema_arrow.names and name != "line"]
        frame = pl.DataFrame(pl.from_arrow(file.read_row_group(group, columns=names)))
        typed = frame.with_columns(pl.col(name).cast(EVENTS[name]) for name in names)
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError) as error:
        empty = pl.DataFrame(schema=EVENTS), pl.DataFrame(schema=QUARANTINE)
        return *empty, 0, f"row group {group} cannot be read: {describe_error(error)}"
    numbered = complete(typed.with_row_index("line").cast({"line": pl.Int64}), EVENTS)
    is_jepsen = (file.schema_arrow.metadata or {}).get(_DIALECT) == b"jepsen"
    events, malformed = check_events(numbered, numbered=False, placed=not is_jepsen)
    return events.select(list(EVENTS)), malformed, len(frame), ""


def writer(path: Path, dialect: str) -> pq.ParquetWriter:
    """A writer for `write`. The file records the dialect."""
    import pyarrow.parquet as pq

    schema = pl.DataFrame(schema=EVENTS).to_arrow().schema.with_metadata({_DIALECT: dialect.encode()})
    return pq.ParquetWriter(path, schema, compression="zstd")


def write(events: pl.DataFrame, writer: pq.ParquetWriter) -> None:
    """Appends EVENTS to the file."""
    table = events.select(list(EVENTS)).to_arrow()
    writer.write_table(table.replace_schema_metadata(writer.schema.metadata), row_group_size=ROW_GROUP)
