"""Parses a split into events, block by block, with the reader of its format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polars as pl

from .files import Block, Split, blocks
from .readers import READERS
from .tables import EVENTS, complete

# The columns that an event of a plain send can have.
SEND_COLUMNS = (
    *("line", "time", "process", "op", "type", "f", "topic", "partition"),
    *("key", "value", "offset", "timestamp", "acks", "error", "synthetic"),
)


class Parsed(NamedTuple):
    """The events of one block. `line` counts within the split; `sends` has the invocations and completions of sends."""

    sends: pl.DataFrame  # SEND_COLUMNS; most events are sends, so a narrow table saves memory
    others: pl.DataFrame  # EVENTS
    quarantine: pl.DataFrame
    lines: int
    damage: str

    @property
    def events(self) -> pl.DataFrame:
        """All events, ordered by line."""
        return pl.concat([complete(self.sends, EVENTS), self.others]).sort("line")


def parse_split(split: Split) -> Iterator[Parsed]:
    """The parsed blocks of a split, in order."""
    if split.reader == "parquet":
        from .readers import parquet

        group = parquet.read_group(split.path, split.start)
        yield Parsed(*_split_sends(group.events), group.quarantine, group.rows, group.damage)
        return
    yield from parse_blocks(split.reader, split.path, blocks(split))


def parse_blocks(reader: str, path: str, source: Iterable[Block]) -> Iterator[Parsed]:
    """Parses blocks of whole lines of the file `path`, in order."""
    for block in source:
        events, bad = READERS[reader].parse(block.data, path)
        sends, others = _split_sends(events)
        shift = pl.col("line") + block.first_line
        yield Parsed(
            sends.with_columns(shift), others.with_columns(shift), bad.with_columns(shift), block.lines, block.damage
        )


def _split_sends(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    # Without operation numbers an event pairs with the next of its process, so these must stay in one table.
    if events["op"].null_count():
        return events.clear().select(SEND_COLUMNS), events
    is_send = events["f"] == "send"
    return events.select(SEND_COLUMNS).filter(is_send), events.filter(~is_send)
