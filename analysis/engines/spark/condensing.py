"""Condenses large partitions with unproved rules, range by range (screening/condense.py).

borders of partitions → a task for each range → suspects → driver → a task for each range → condensed blocks

The driver holds what is not plain, as it grows with the faults of a run, not with its size.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ....histories.settings import Settings
from ...batches import Unit
from ...screening.condense import wanted_of
from ...screening.ranges import rows_of
from ...screening.retained import Wanted, condensed, suspects_of_range
from .batching import common_of
from .blocks import BLOCK, in_turn, pack, to_batches, unpack

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from ...partitions.unit import Common, Tables
    from ...screening.suspects import Borders, Suspects

UNIT = ("topic", "partition")


def grouped(frames: list[DataFrame], key: list[str], tasks: int) -> Any:
    """The rows of all frames, grouped by key, in so many tasks."""
    union = reduce(lambda one, other: one.unionByName(other), frames)
    return union.repartition(tasks, *key).groupBy(*key)


def condense(
    handed: list[Any], parts: DataFrame, shared: DataFrame, about: tuple[Settings, int]
) -> tuple[list[Unit], DataFrame]:
    """The partitions that can be condensed, and their blocks of the kinds `condensed` and `others`.

    `handed`: the blocks of their borders, and of the suspects of ranges without rows. `parts`: the blocks of all
    partitions, each with its range; `shared`: those of no partition. `about`: the settings and the number of tasks.
    """
    from pyspark.sql import functions as F  # noqa: N812

    settings, tasks = about
    text, key = settings.to_json(), [*UNIT, "range"]
    borders: dict[Unit, Borders] = {unit: one for kind, unit, _, one in map(_opened, handed) if kind == "borders"}
    found = grouped(_needed(parts, shared, [*borders]), key, tasks).applyInArrow(_suspecting(text, borders), BLOCK)
    suspects: dict[Unit, dict[int, Suspects | None]] = defaultdict(dict)
    for kind, unit, number, one in map(_opened, [*handed, *found.collect()]):
        if kind == "suspects":
            suspects[unit][number] = one
    every = {unit: wanted_of(suspects[unit], borders[unit]) for unit in borders}
    wanted = {unit: one for unit, one in every.items() if one is not None}
    needed = _needed(parts, shared, [*wanted])
    retained = grouped(needed, key, tasks).applyInArrow(_retaining(text, wanted), BLOCK)
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


def _needed(parts: DataFrame, shared: DataFrame, units: list[Unit]) -> list[DataFrame]:
    """The blocks of the ranges of units, and for each range also those in no range and those of all partitions."""
    from pyspark.sql import functions as F  # noqa: N812

    own = parts.filter(is_of(units))
    of_range = own.filter(F.col("kind") != "rest")
    ranges = F.broadcast(of_range.select(*UNIT, "range").distinct())
    return [of_range, own.filter(F.col("kind") == "rest").drop("range").join(ranges, [*UNIT]), shared.crossJoin(ranges)]


def _group_of(batches: Iterator[pa.RecordBatch]) -> tuple[Tables, Tables, Common]:
    """The tables of a range, those of the partition in no range, and those of all partitions."""
    tables: Tables = {}
    rest: Tables = {}
    shared: Tables = {}
    homes = {"observations": tables, "rest": rest}
    for row in in_turn(batches):
        homes.get(row["kind"], shared).setdefault(row["name"] or row["kind"], []).append(unpack(row["payload"]))
    return tables, rest, common_of(shared)


def _suspecting(settings_json: str, borders: Mapping[Unit, Borders]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The suspects of a range, for `applyInArrow`."""
    packed = pickle.dumps(dict(borders))

    def suspect(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition, number = (value.as_py() for value in key)
        own = pickle.loads(packed)[topic, partition]
        tables, rest, common = _group_of(batches)
        settings = Settings.from_json(settings_json)
        found = suspects_of_range(tables, rows_of(rest), number, topic, own, common, settings)
        yield from to_batches([("suspects", topic, partition, "", number, pickle.dumps(found))])

    return suspect


def _retaining(settings_json: str, wanted: Mapping[Unit, Wanted]) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The condensed blocks of a range, for `applyInArrow`, and what its other rows add to the summary."""
    packed = pickle.dumps(dict(wanted))

    def retain(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition, number = (value.as_py() for value in key)
        own = pickle.loads(packed)[topic, partition]
        tables, _, common = _group_of(batches)
        part = condensed(tables, number, own, common, Settings.from_json(settings_json))
        named = [(name, rows) for name, frames in part.tables.items() for rows in frames]
        yield from to_batches([("condensed", topic, partition, name, number, pack(rows)) for name, rows in named])
        others = pickle.dumps((part.others, own.latency))
        yield from to_batches([("others", topic, partition, "", number, others)])

    return retain
