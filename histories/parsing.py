"""A split to events: the reader of its format, block by block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polars as pl

from .files import Block, Split, blocks
from .readers import READERS
from .tables import EVENTS, complete

# What an event of a plain send can hold.
SEND_COLUMNS = (
    *("line", "time", "process", "op", "type", "f", "topic", "partition"),
    *("key", "value", "offset", "acks", "error", "synthetic"),
)


class Parsed(NamedTuple):
    """One block. Lines count within the split; a send's invocation and completion are both in `sends`."""

    sends: pl.DataFrame  # SEND_COLUMNS of EVENTS; most events are sends, so a narrow table saves much
    others: pl.DataFrame  # EVENTS
    quarantine: pl.DataFrame
    lines: int
    damage: str

    @property
    def events(self) -> pl.DataFrame:
        """All events, in the order of lines."""
        return pl.concat([complete(self.sends, EVENTS), self.others]).sort("line")


def parse_split(split: Split) -> Iterator[Parsed]:
    """The split's blocks in order."""
    if split.reader == "parquet":
        from .readers import parquet

        events, bad, rows, damage = parquet.read_group(split.path, split.start)
        yield Parsed(*_split_sends(events), bad, rows, damage)
        return
    yield from parse_blocks(split.reader, split.path, blocks(split))


def parse_blocks(reader: str, path: str, found: Iterable[Block]) -> Iterator[Parsed]:
    """Blocks of whole lines of a file, in order, wherever they come from."""
    for block in found:
        events, bad = READERS[reader].parse(block.data, path)
        sends, others = _split_sends(events)
        shift = pl.col("line") + block.first_line
        yield Parsed(
            sends.with_columns(shift), others.with_columns(shift), bad.with_columns(shift), block.lines, block.damage
        )


def _split_sends(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    # Without operation numbers events pair with their neighbours, so a process's events must stay together.
    if events["op"].null_count():
        return events.clear().select(SEND_COLUMNS), events
    is_send = events["f"] == "send"
    return events.select(SEND_COLUMNS).filter(is_send), events.filter(~is_send)
