"""Reads large compressed histories, which cannot be split: one task decompresses a file, and many
tasks parse its blocks of text in parallel.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from ....histories.files import COMPRESSION, SPLIT_BYTES, TEXT_BLOCK_BYTES, Block, Split, blocks
from ....histories.settings import Settings
from ...stages import read_block
from .blocks import BLOCK, Batches, blocks_of_parts, first_number, rows_in, schema_of, to_batches

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame

# A block of a split (JSON). `data` is compressed; `size` is its uncompressed size in bytes.
TEXT_BLOCK = "split string, task int, block int, first_line long, damage string, size long, data binary"
_SCHEMA = schema_of(TEXT_BLOCK)
_CODEC = "zstd"


def tasks_of(splits: Sequence[Split], parallel: int) -> int:
    """The number of tasks that parse the blocks of the splits, if `parallel` tasks run at once."""
    blocks_expected = sum(split.end - split.start for split in splits) * COMPRESSION // TEXT_BLOCK_BYTES
    return max(1, min(blocks_expected, max(parallel, blocks_expected * TEXT_BLOCK_BYTES // SPLIT_BYTES)))


def parse_text_blocks(packed: DataFrame, tasks: int, settings: Settings, lines: Accumulator[int] | None) -> DataFrame:
    """The blocks (blocks.py) that `tasks` tasks parse from TEXT_BLOCK rows."""
    return packed.repartitionById(tasks, "task").mapInArrow(partial(_parse, settings, lines), BLOCK)


def decompress_files(rows: DataFrame, tasks: int) -> DataFrame:
    """TEXT_BLOCK rows, for `tasks` tasks, of files that are each a split as JSON in the column `task`."""
    return rows.mapInArrow(partial(_decompress, tasks, TEXT_BLOCK_BYTES), TEXT_BLOCK)  # tasks get the driver's size


def _decompress(tasks: int, block_bytes: int, batches: Batches) -> Batches:
    for row in rows_in(batches):
        for fields in json.loads(row["task"]):
            split = Split(**fields)
            yield from packed_rows(split, blocks(split, block_bytes), tasks)


def packed_rows(split: Split, found: Iterable[Block], tasks: int) -> Iterator[pa.RecordBatch]:
    """TEXT_BLOCK rows of a split's blocks, dealt to the tasks one by one."""
    text = json.dumps(asdict(split))
    for number, block in enumerate(found):
        task, data = (split.number + number) % tasks, pa.compress(block.data, _CODEC, asbytes=True)
        row = (text, task, number, block.first_line, block.damage, len(block.data), data)
        yield from to_batches([row], _SCHEMA)


def _parse(settings: Settings, lines: Accumulator[int] | None, batches: Batches) -> Batches:
    for row in rows_in(batches):
        split = Split(**json.loads(row["split"]))
        data = pa.decompress(row["data"], row["size"], _CODEC, asbytes=True)
        found = read_block(split, Block(row["first_line"], data, row["damage"]), settings)
        named = ((str(split.number), parts) for parts in found)
        yield from blocks_of_parts(named, first_number(split.number, row["block"]), lines)
