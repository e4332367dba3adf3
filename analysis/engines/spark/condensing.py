"""Condenses large partitions with unproved rules, range by range (screening/condense.py).

borders of partitions → a task for each range → suspects → driver → a task for each range → condensed blocks

The driver holds what is not plain, as it grows with the faults of a run, not with its size.
"""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ....histories.settings import Settings
from ...batches import Unit
from ...partitions.offset_ranges import REST
from ...screening.condense import wanted_of
from ...screening.range_facts import rows_of
from ...screening.retained import Wanted, condensed
from ...screening.suspects import suspects_of_range
from .batching import common_of
from .blocks import BLOCK, in_turn, pack, to_batches, unpack

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ...partitions.common import Common
    from ...partitions.unit import Tables
    from ...screening.suspects import Borders, Suspects

UNIT = ("topic", "partition")


def literal(value: Any, kind: str) -> Column:
    """A value that JSON can hold as a column of that type; so a few rows need no join."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.from_json(F.lit(json.dumps(value)), kind)


def grouped(frames: list[DataFrame], key: list[str], tasks: int) -> Any:
    """The rows of all frames, grouped by key, in so many tasks."""
    union = reduce(lambda one, other: one.unionByName(other), frames)
    return union.repartition(tasks, *key).groupBy(*key)


def by_range_of(parts: DataFrame, shared: DataFrame, ranges: Mapping[Unit, Sequence[int]], tasks: int) -> Any:
    """The blocks of the ranges of units, grouped by range. Each has also those in no range and those of all partitions.

    `parts`: the blocks of all partitions, each with its range; `shared`: those of no partition.
    """
    from pyspark.sql import functions as F  # noqa: N812

    numbers = {f"{unit.topic}-{unit.partition}": found for unit, found in ranges.items()}
    of_unit = literal(numbers, "map<string,array<long>>")[F.concat_ws("-", *UNIT)]
    homes = F.when(F.col("range") == REST, of_unit).otherwise(F.array("range"))
    own = parts.filter(is_of([*ranges])).withColumn("range", F.explode(homes))
    each = [{**unit._asdict(), "range": number} for unit, numbers in ranges.items() for number in numbers]
    everywhere = shared.drop(*UNIT).select(
        "*", F.inline(literal(each, "array<struct<topic:string,partition:int,range:long>>"))
    )
    return grouped([own, everywhere], [*UNIT, "range"], tasks)


def condense(
    handed: list[Any],
    parts: DataFrame,
    shared: DataFrame,
    ranges: Mapping[Unit, Sequence[int]],
    settings: Settings,
    tasks: int,
) -> tuple[list[Unit], DataFrame]:
    """The partitions that can be condensed, and their blocks of the kinds `condensed` and `others`.

    `handed`: the blocks of their borders, and of the suspects of ranges without rows. `parts`, `shared`, `ranges`: as
    of `by_range_of`.
    """
    from pyspark.sql import functions as F  # noqa: N812

    text = settings.to_json()
    borders: dict[Unit, Borders] = {unit: one for kind, unit, _, one in map(_opened, handed) if kind == "borders"}
    own = {unit: ranges[unit] for unit in borders}
    found = by_range_of(parts, shared, own, tasks).applyInArrow(_suspecting(text, borders), BLOCK)
    suspects: dict[Unit, dict[int, Suspects | None]] = defaultdict(dict)
    for kind, unit, number, one in map(_opened, [*handed, *found.collect()]):
        if kind == "suspects":
            suspects[unit][number] = one
    every = {unit: wanted_of(suspects[unit], borders[unit]) for unit in borders}
    wanted = {unit: one for unit, one in every.items() if one is not None}
    own = {unit: ranges[unit] for unit in wanted}
    retained = by_range_of(parts, shared, own, tasks).applyInArrow(_retaining(text, wanted), BLOCK)
    rest = parts.filter(is_of([*wanted])).filter("kind = 'rest'").drop("range")
    return [*wanted], retained.unionByName(rest.withColumn("kind", F.lit("condensed")))


def _opened(row: Any) -> tuple[str, Unit, int, Any]:
    """The kind, partition, range and content of a block that tasks hand the driver."""
    content = pickle.loads(bytes(row["payload"]))
    return row["kind"], Unit(row["topic"], row["partition"]), row["turn"], content


def is_of(units: list[Unit]) -> Column:
    """Whether a block is of one of these partitions."""
    from pyspark.sql import functions as F  # noqa: N812

    is_one = [(F.col("topic") == topic) & (F.col("partition") == partition) for topic, partition in units]
    return reduce(lambda one, other: one | other, is_one, F.lit(False))


def _group_of(batches: Iterator[pa.RecordBatch], settings: Settings) -> tuple[Tables, Tables, Common]:
    """The tables of a range, those of the partition in no range, and those of all partitions."""
    tables: Tables = {}
    rest: Tables = {}
    shared: Tables = {}
    homes = {"observations": tables, "rest": rest}
    for row in in_turn(batches):
        homes.get(row["kind"], shared).setdefault(row["name"] or row["kind"], []).append(unpack(row["payload"]))
    return tables, rest, common_of(shared, settings)


def _suspecting(settings_json: str, borders: Mapping[Unit, Borders]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The suspects of a range, for `applyInArrow`."""
    packed = pickle.dumps(dict(borders))

    def suspect(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition, number = (value.as_py() for value in key)
        own = pickle.loads(packed)[topic, partition]
        tables, rest, common = _group_of(batches, Settings.from_json(settings_json))
        found = suspects_of_range(tables, rows_of(rest), number, topic, own, common)
        yield from to_batches([("suspects", topic, partition, "", number, pickle.dumps(found))])

    return suspect


def _retaining(settings_json: str, wanted: Mapping[Unit, Wanted]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The condensed blocks of a range, for `applyInArrow`, and what its other rows add to the summary."""
    packed = pickle.dumps(dict(wanted))

    def retain(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition, number = (value.as_py() for value in key)
        own = pickle.loads(packed)[topic, partition]
        tables, _, common = _group_of(batches, Settings.from_json(settings_json))
        part = condensed(tables, number, own, common)
        named = [(name, rows) for name, frames in part.tables.items() for rows in frames]
        yield from to_batches([("condensed", topic, partition, name, number, pack(rows)) for name, rows in named])
        others = pickle.dumps((part.others, own.latency))
        yield from to_batches([("others", topic, partition, "", number, others)])

    return retain
