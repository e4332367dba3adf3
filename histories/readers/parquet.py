"""Reads and writes events in Parquet, as `logjudge convert` does: the columns of EVENTS, one row for each line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pyarrow as pa

from ..errors import InputError, describe_error
from ..tables import EVENTS, QUARANTINE, complete, no_rows

if TYPE_CHECKING:
    import pyarrow.parquet as pq  # imported where it is used: it loads file systems, with SSL

NEEDED = ("time", "process", "type", "f")
ROW_GROUP = 500_000  # rows and records in a row group, about: each has as much work for a core
_DIALECT = b"logjudge.dialect"
# Numbers that grow from row to row: as differences they take half of the bytes.
_GROWING = ("line", "time", "op", "records.list.element.offset")
NEMESIS = "nemesis"  # the process of faults; a malformed row of it in Jepsen's dialect hides no client's operation
# Lists that a completion repeats or leaves out, so an empty one is not null, by the functions that have them.
_REPEATED_LISTS = {"ops": ("txn",), "topics": ("subscribe",), "offsets": ("commit", "assign", "seek", "end_offsets")}


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
        columns = schema.get_all_field_indices(field.name)
        if len(columns) > 1:
            raise InputError(str(path), f"{len(columns)} columns {field.name}", "one", "remove the others")
        if columns and (wrong := _wrong_type(schema.field(columns[0]).type, field.type)):
            found, expected = wrong
            advice = "write it as integers" if pa.types.is_integer(expected) else "convert it"
            raise InputError(str(path), f"{found} in column {field.name}", str(expected), advice)
    return groups, str((schema.metadata or {}).get(_DIALECT, b""), "utf-8", "replace")


_KINDS: dict[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "integer": (pa.types.is_integer,),
    "text": (
        *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    ),
    "boolean": (pa.types.is_boolean,),
    "list": (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    "struct": (pa.types.is_struct,),
    "null": (pa.types.is_null,),
}


def _kind_of(type_: pa.DataType) -> str | None:
    """The kind of values of a type; None for others, such as times."""
    return next((kind for kind, tests in _KINDS.items() if any(test(type_) for test in tests)), None)


def _wrong_type(found: pa.DataType, expected: pa.DataType) -> tuple[pa.DataType, pa.DataType] | None:
    """The first type, at any depth, that does not hold what is expected, with the expected one; None if all do.

    A cast would accept more: a float loses its fraction, and has already lost digits of large offsets; times have other
    units and epochs; the text of a list or a struct is no value.
    """
    if pa.types.is_dictionary(found):
        found = found.value_type
    kind, wanted = _kind_of(found), _kind_of(expected)
    if kind == "null" or (kind == "integer" and wanted == "text"):
        return None
    if kind != wanted:
        return found, expected
    if kind == "list":
        return _wrong_type(found.value_type, expected.value_type)
    names = [field.name for field in expected if found.get_field_index(field.name) >= 0] if kind == "struct" else []
    wrongs = (_wrong_type(found.field(name).type, expected.field(name).type) for name in names)
    return next((wrong for wrong in wrongs if wrong), None)


class RowGroup(NamedTuple):
    """A row group, parsed."""

    events: pl.DataFrame  # EVENTS
    quarantine: pl.DataFrame  # QUARANTINE
    rows: int
    damage: str  # why the group cannot be read; empty: it can


def read_group(path: str, group: int) -> RowGroup:
    """Reads a row group.

    pyarrow reads the footer. polars reads the values in half of pyarrow's time, without columns that have none.
    """
    from .native import check_events

    try:
        found = Path(path).stat()
        file = _open_file(path, found.st_ino, found.st_size, found.st_mtime_ns)
        described, metadata = file.metadata.row_group(group), file.schema.metadata or {}
        names = [name for name in EVENTS if name in file.schema.names and name != "line"]
        rows = file.rows.slice(file.firsts[group], described.num_rows)
        # Other tools' statistics may be wrong, and their lists may have nothing but nulls.
        filled = _filled_columns(described).intersection(names) if _DIALECT in metadata else {*names}
        frame = rows.select(filled).collect()
        functions = {*frame["f"].cast(pl.String).unique()} if "f" in filled else set()
        lists = [
            name for name in names if name not in filled and not functions.isdisjoint(_REPEATED_LISTS.get(name, ()))
        ]
        if lists:
            frame = frame.hstack(rows.select(lists).collect())
        typed = frame.with_columns(pl.col(name).cast(EVENTS[name]) for name in frame.columns)
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        empty = pl.DataFrame(schema=EVENTS), pl.DataFrame(schema=QUARANTINE)
        return RowGroup(*empty, 0, f"row group {group} cannot be read: {describe_error(error)}")
    numbered = complete(typed.with_row_index("line").cast({"line": pl.Int64}), EVENTS)
    is_jepsen = metadata.get(_DIALECT) == b"jepsen"
    events, malformed = check_events(numbered, needs_op=False, needs_offset=not is_jepsen)
    of_nemesis = numbered.filter(process=NEMESIS)["line"]
    if is_jepsen and len(of_nemesis):
        malformed = malformed.with_columns(of_nemesis=pl.col("line").is_in(of_nemesis.implode()))
    return RowGroup(events, malformed, described.num_rows, "")


class _Opened(NamedTuple):
    """A file whose footer is known. The footer grows with the row groups, so it is read once for all of them."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    firsts: list[int]  # by row group: the number of its first row
    rows: pl.LazyFrame  # keeps what it reads of the footer


@lru_cache(maxsize=8)
def _open_file(path: str, *version: int) -> _Opened:  # noqa: ARG001 - a file that was replaced is opened again
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        counts = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        firsts = [0, *accumulate(counts)]
        return _Opened(file.metadata, file.schema_arrow, firsts, pl.scan_parquet(path, glob=False))


def _filled_columns(group: pq.RowGroupMetaData) -> set[str]:
    """The columns in which a row group has a value, as far as its statistics show. They count empty lists as null."""
    columns = [group.column(number) for number in range(group.num_columns)]
    is_null = [column.is_stats_set and column.statistics.null_count == column.num_values for column in columns]
    return {column.path_in_schema.split(".")[0] for column, null in zip(columns, is_null, strict=True) if not null}


def _leaves(field: pa.Field, path: str) -> Iterator[str]:
    """The paths of the columns that Parquet has for a field."""
    type_ = field.type
    if pa.types.is_large_list(type_):
        yield from _leaves(type_.value_field, f"{path}.list.element")
    elif pa.types.is_struct(type_):
        for inner in type_:
            yield from _leaves(inner, f"{path}.{inner.name}")
    else:
        yield path


class Writer:
    """Appends EVENTS to a file. Its row groups have about as many rows and records each (ROW_GROUP)."""

    def __init__(self, file: pq.ParquetWriter) -> None:
        self._file = file
        self._waiting = [no_rows(EVENTS)]
        self._size = 0  # rows and records of those that wait

    def write(self, events: pl.DataFrame) -> None:
        """Appends events."""
        self._waiting.append(events)
        self._size += len(events) + int(events["records"].list.len().sum())
        if self._size >= ROW_GROUP:
            self.write_waiting()

    def write_waiting(self) -> None:
        """Writes what waits: a row group without rows, if that is nothing."""
        events = pl.concat(self._waiting).select(list(EVENTS))
        table = events.to_arrow().replace_schema_metadata(self._file.schema.metadata)
        groups = max(1, round(self._size / ROW_GROUP))
        self._file.write_table(table, row_group_size=max(1, math.ceil(len(events) / groups)))
        self._waiting, self._size = [no_rows(EVENTS)], 0


@contextmanager
def writer(path: Path, dialect: str) -> Iterator[Writer]:
    """A writer of the file, which records the dialect."""
    import pyarrow.parquet as pq

    schema = pl.DataFrame(schema=EVENTS).to_arrow().schema.with_metadata({_DIALECT: dialect.encode()})
    dictionaries = [path for field in schema for path in _leaves(field, field.name) if path not in _GROWING]
    encodings = dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED")
    with pq.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=dictionaries, column_encoding=encodings
    ) as file:
        opened = Writer(file)
        yield opened
        opened.write_waiting()
