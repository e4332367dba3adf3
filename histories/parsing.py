"""A split to events: the reader of its format, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from .files import Split, blocks
from .readers import READERS


class Parsed(NamedTuple):
    """One block: EVENTS and QUARANTINE with lines counted within the split, its number of lines, and damage."""

    events: pl.DataFrame
    quarantine: pl.DataFrame
    lines: int
    damage: str


def parse_split(split: Split) -> Iterator[Parsed]:
    """The split's blocks in order."""
    if split.reader == "parquet":
        from .readers import parquet

        yield Parsed(*parquet.read_group(split.path, split.start))
        return
    reader = READERS[split.reader]
    for block in blocks(split):
        events, bad = reader.parse(block.data, split.path)
        lines = block.data.count(b"\n") + (not block.data.endswith(b"\n") and bool(block.data))
        shift = pl.col("line") + block.first_line
        yield Parsed(events.with_columns(shift), bad.with_columns(shift), lines, block.damage)
