"""Row groups of Parquet are read one by one, and the file's footer once for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from event_lines import frame
from logjudge.histories.readers.parquet import read_group

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
