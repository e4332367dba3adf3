"""Row groups of Parquet are read one by one, and the file's footer once for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from event_lines import frame
from logjudge.histories.errors import InputError
from logjudge.histories.readers import parquet
from logjudge.histories.readers.parquet import inspect_parquet, read_group
from logjudge.histories.tables import EVENTS, complete

COLUMNS = ("time", "process", "op", "type", "f", "topic", "partition", "value", "offset")


def test_a_footer_is_read_once_for_all_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, opened = tmp_path / "history.parquet", []
    events = frame(lost=False).select(COLUMNS)
    events.write_parquet(file, row_group_size=1)
    open_file = pq.ParquetFile

    def count(path: Any) -> pq.ParquetFile:
        opened.append(path)
        return open_file(path)

    monkeypatch.setattr(pq, "ParquetFile", count)
    groups = [read_group(str(file), number) for number in range(len(events))]
    assert [damage for *_, damage in groups] == [""] * len(events)
    assert [rows["time"].to_list() for rows, *_ in groups] == [[time] for time in events["time"]]
    assert opened == [str(file)]


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    file, other = tmp_path / "history.parquet", tmp_path / "other.parquet"
    events = frame(lost=False).select(COLUMNS)
    events.write_parquet(file, row_group_size=2)
    read_group(str(file), 0)
    events.with_columns(pl.col("time") + 1).write_parquet(other, row_group_size=1)
    other.replace(file)
    assert read_group(str(file), 1)[0]["time"].to_list() == [events["time"][1] + 1]


def _written(tmp_path: Path, table: pa.Table) -> Path:
    pq.write_table(table, tmp_path / "history.parquet")
    return tmp_path / "history.parquet"


WRONG_COLUMNS: dict[str, tuple[pl.Expr, str]] = {
    "a moment": (pl.col("time").cast(pl.Datetime("us")), "timestamp"),
    "a duration": (pl.col("time").cast(pl.Duration("ms")), "duration"),
    "a date": (pl.col("offset").cast(pl.Date), "date32"),
    "a boolean for an offset": (pl.col("offset") > 0, "bool"),
    "text for an offset": (pl.col("offset").cast(pl.String), "string"),
    "a boolean for a value": (pl.col("value") == "m0", "bool"),
    "a struct for a topic": (pl.struct("topic").alias("topic"), "struct"),
    "text for records": (pl.col("value").alias("records"), "string"),
    "a moment in records": (pl.lit([{"topic": "orders", "timestamp": None}]).alias("records"), ""),
}


@pytest.mark.parametrize("case", WRONG_COLUMNS)
def test_columns_of_types_that_a_cast_would_change_are_refused(case: str, tmp_path: Path) -> None:
    column, found = WRONG_COLUMNS[case]
    events = frame(lost=False).select(COLUMNS).with_columns(column)
    if not found:
        inside = pl.element().struct.with_fields(pl.lit(1).cast(pl.Datetime("us")).alias("timestamp"))
        events, found = events.with_columns(pl.col("records").list.eval(inside)), "timestamp"
    with pytest.raises(InputError, match=f"found (large_)?{found}.* in column {column.meta.output_name()}, expected"):
        inspect_parquet(_written(tmp_path, events.to_arrow()))


@pytest.mark.parametrize("type_", [pl.UInt64, pl.Int32, pl.Categorical, pl.Binary, pl.Null])
def test_columns_of_types_that_hold_the_same_values_are_read(type_: Any, tmp_path: Path) -> None:
    events = frame(lost=False).select(COLUMNS)
    name = {pl.UInt64: "offset", pl.Int32: "time", pl.Null: "key"}.get(type_, "value")
    column = pl.lit(None).alias("key") if name == "key" else pl.col(name).cast(type_)
    file = _written(tmp_path, events.with_columns(column).to_arrow())
    assert inspect_parquet(file) == (1, "")
    found, malformed, _, damage = read_group(str(file), 0)
    assert (len(malformed), damage) == (0, "")
    assert found.select(COLUMNS).equals(events.cast({name: EVENTS[name] for name in COLUMNS}))


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    events = frame(lost=False).select(COLUMNS).to_arrow()
    with pytest.raises(InputError, match="found 2 columns value, expected one"):
        inspect_parquet(_written(tmp_path, events.append_column("value", events.column("topic"))))


def test_records_without_a_value_are_malformed_and_no_empty_poll(tmp_path: Path) -> None:
    """The statistics of other tools count records that have only nulls, and empty lists, in the same way."""
    nothing = pl.lit([dict.fromkeys(EVENTS["records"].inner.to_schema())], EVENTS["records"])  # type: ignore[attr-defined]
    polls = frame(lost=False).filter(f="poll").select("time", "process", "op", "type", "f", records=nothing)
    _, malformed, _, damage = read_group(str(_written(tmp_path, polls.to_arrow())), 0)
    assert damage == ""
    assert malformed["line"].to_list() == [0, 1]


def test_row_groups_have_as_much_to_read_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP", 100)
    record = {"topic": "t", "partition": 0, "offset": 0, "key": None, "value": "v", "timestamp": None}
    sends = complete(pl.DataFrame({"time": range(250), "process": "p0", "f": "send"}), EVENTS)
    polls = sends.with_columns(f=pl.lit("poll"), records=pl.lit([record] * 9, EVENTS["records"]))
    path = tmp_path / "history.parquet"
    with parquet.writer(path, "native") as file:
        for first in range(0, 250, 50):
            file.write(sends[first : first + 50])
        file.write(polls[:50])
        file.write(sends[:10])
    with pq.ParquetFile(path) as written:
        rows = [written.metadata.row_group(number).num_rows for number in range(written.num_row_groups)]
        times = written.metadata.row_group(0).column(list(EVENTS).index("time"))
    assert "DELTA_BINARY_PACKED" in times.encodings  # files half as large
    assert rows == [100, 100, 17, 17, 17, 17, 17, 15, 10]
    assert pl.read_parquet(path)["time"].to_list() == [*range(250), *range(50), *range(10)]


@pytest.mark.parametrize("empty", [0, 3])
def test_a_history_without_events_has_a_row_group(empty: int, tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    with parquet.writer(path, "native") as file:
        for _ in range(empty):
            file.write(pl.DataFrame(schema=EVENTS))
    assert inspect_parquet(path) == (1, "native")
    assert read_group(str(path), 0).rows == 0
