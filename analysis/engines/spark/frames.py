"""Histories that are a Spark DataFrame of events (docs/format.md): each partition is parsed in place, as a split.

Row n of the frame, in the order of `collect`, is line n of its history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ....histories.bundle import Run
from ....histories.config_check import check_config
from ....histories.errors import UsageError
from ....histories.event_frames import SOURCE, check_columns, json_lines
from ....histories.files import TEXT_BLOCK_BYTES, Split
from ....histories.parsing import parse_blocks
from ....histories.settings import Settings
from ....histories.tables import EVENTS
from ...stages import pair_and_observe
from .blocks import BLOCK, Batches, blocks_of_parts, first_number
from .fetching import line_blocks

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame

BATCHES = 64  # fixed, as the size of a frame is not known
_SPLIT = "logjudge_split"


def open_frame(frame: DataFrame, config: Mapping[str, Any]) -> Run:
    """The run of a frame; `config` is the content of run.json. Raises UsageError or InputError."""
    if frame.isStreaming:
        raise UsageError("found a streaming DataFrame, expected one that ends; write it to files and judge these")
    check_columns(frame.columns)
    check_config(config, "config")
    settings = Settings(str(config["name"]), config={"format": 1, **config}, batches=BATCHES)
    return Run(Path(SOURCE), settings, (), (SOURCE,), 0, uri="dataframe:")


def with_splits(run: Run, numbers: Iterable[int]) -> Run:
    """The run of a frame; its splits are the frame's partitions that were read, by number."""
    return replace(run, splits=tuple(Split(number, SOURCE, "native", "", 0, 0) for number in sorted(numbers)))


def blocks_of_frame(frame: DataFrame, settings: Settings, lines: Accumulator[int] | None) -> DataFrame:
    """The blocks (blocks.py) of a frame's events."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [name for name in frame.columns if name in EVENTS and name != "line"]
    events = frame.select(*columns, F.spark_partition_id().alias(_SPLIT))
    parse = partial(_parse_partition, settings, lines, TEXT_BLOCK_BYTES)  # the driver's size
    return events.mapInArrow(parse, BLOCK)


def _parse_partition(settings: Settings, lines: Accumulator[int] | None, block_bytes: int, batches: Batches) -> Batches:
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return
    number = first.column(_SPLIT)[0].as_py()
    rows = (pl.DataFrame(batch.drop_columns([_SPLIT])) for batch in chain([first], filled))
    blocks = line_blocks(map(json_lines, rows), block_bytes)
    found = pair_and_observe(number, parse_blocks("native", SOURCE, blocks), settings)
    yield from blocks_of_parts(((str(number), parts) for parts in found), first_number(number), lines)
