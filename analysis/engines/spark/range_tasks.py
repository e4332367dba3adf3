"""Cuts the blocks of large partitions into ranges of offsets, and brings those of a range to one task, once.

Spark keeps the blocks of each task where they are, so everything that is made of a range is made there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ....histories.settings import Settings
from ...batches import Unit
from ...partitions.common import Common, common_of
from ...partitions.offset_ranges import REST, by_range
from ...partitions.unit import Tables
from ...screening.range_facts import Rows, rows_of
from .blocks import BLOCK, Batches, pack, rows_in, schema_of, to_batches, unpack

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

UNIT = ("topic", "partition")
RANGED = BLOCK + ", range long"
_RANGED = schema_of(RANGED)
_NO_UNIT = Unit("", -1)  # of blocks that all partitions share


def literal(value: Any, kind: str) -> Column:
    """A value that JSON can hold as a column of that type; so a few rows need no join."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.from_json(F.lit(json.dumps(value)), kind)


def is_block_of(units: Iterable[Unit]) -> Column:
    """Whether a block is of one of these partitions."""
    from pyspark.sql import functions as F  # noqa: N812

    conditions = [(F.col("topic") == topic) & (F.col("partition") == partition) for topic, partition in units]
    return reduce(lambda one, other: one | other, conditions, F.lit(False))


def cut(range_offsets: int, large: list[Unit], batches: Batches) -> Batches:
    """Cuts the blocks of large partitions into ranges, also their rows in blocks of many small partitions."""
    for row in rows_in(batches):
        frame = unpack(row["payload"])
        units = {Unit(row["topic"], row["partition"]): frame}
        if row["kind"] == "small":
            units = {unit: frame.filter(**unit._asdict()).drop(*UNIT) for unit in large}
        for unit, rows in units.items():
            parts = by_range(row["name"], rows, range_offsets) if len(rows) else []
            is_one = rows is frame and len(parts) == 1
            for number, part in parts:
                kind = "rest" if number == REST else "observations"
                payload = row["payload"] if is_one else pack(part)
                yield from to_batches([(kind, *unit, row["name"], row["number"], payload, number)], _RANGED)


def by_task(parts: DataFrame, shared: DataFrame, units: Iterable[Unit], tasks: int) -> DataFrame:
    """All blocks of a range in one task, with the blocks of its unit that are in no range, and those of all units.

    `parts`: the blocks of `cut`; `shared`: those of no partition. They are sorted as `ranges_in` expects.
    """
    from pyspark.sql import functions as F  # noqa: N812

    of_range = F.pmod(F.crc32("topic") + F.col("partition") + F.col("range"), F.lit(tasks)).cast("int")
    every = F.sequence(F.lit(0), F.lit(tasks - 1))
    numbers = F.when(F.col("range") == REST, every).otherwise(F.array(of_range))
    blocks = parts.filter(is_block_of(units)).unionByName(shared.withColumn("range", F.lit(REST)))
    placed = blocks.withColumn("task", F.explode(numbers)).repartitionById(tasks, "task").drop("task")
    return placed.sortWithinPartitions(*UNIT, "range", "number")


def of_units(placed: DataFrame, units: Iterable[Unit]) -> DataFrame:
    """The blocks of `by_task` that concern some of its units."""
    return placed.filter(is_block_of([*units, _NO_UNIT]))


class RangeBlocks(NamedTuple):
    """The tables of a range, the rows of its partition in no range, and those of all partitions."""

    unit: Unit
    number: int
    tables: Tables
    rest: Rows
    common: Common


def ranges_in(batches: Iterable[pa.RecordBatch], settings: Settings) -> Iterator[RangeBlocks]:
    """The ranges of a task of `by_task`, one after the other."""
    common = common_of({}, settings)
    for key, of_unit in groupby(rows_in(batches), key=itemgetter(*UNIT)):
        unit, rest = Unit(*key), rows_of({})
        for number, rows in groupby(of_unit, key=itemgetter("range")):
            tables: Tables = {}
            for row in rows:
                tables.setdefault(row["name"] or row["kind"], []).append(unpack(row["payload"]))
            if unit == _NO_UNIT:
                common = common_of(tables, settings)
            elif number == REST:
                rest = rows_of(tables)
            else:
                yield RangeBlocks(unit, number, tables, rest, common)
