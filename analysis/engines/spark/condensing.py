"""Condenses large partitions with unproved rules, range by range (screening/condense.py).

borders of partitions → by range → suspects → driver → by range → condensed blocks

The driver holds what is not plain, as it grows with the faults of a run, not with its size.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ....histories.settings import Settings
from ...batches import Unit
from ...screening.condense import wanted_of
from ...screening.retained import Wanted, condense_range
from ...screening.suspects import suspects_of_range
from .blocks import BLOCK, Batches, pack, to_batches
from .range_tasks import is_block_of, of_units, ranges_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ...screening.suspects import Borders, Suspects


def condense(handed: list[Any], placed: DataFrame, rest: DataFrame, settings: Settings) -> tuple[list[Unit], DataFrame]:
    """The partitions that can be condensed, and their blocks of the kinds `condensed` and `others`.

    `handed`: the blocks of their borders, and of the suspects of ranges without rows. `placed`: the blocks of all
    ranges (range_tasks.py). `rest`: those of partitions that are in no range.
    """
    from pyspark.sql import functions as F  # noqa: N812

    borders: dict[Unit, Borders] = {unit: one for kind, unit, _, one in map(_unpack_block, handed) if kind == "borders"}
    found = of_units(placed, borders).mapInArrow(partial(_suspects, settings, borders), BLOCK)
    suspects: dict[Unit, dict[int, Suspects | None]] = defaultdict(dict)
    for kind, unit, number, one in map(_unpack_block, [*handed, *found.collect()]):
        if kind == "suspects":
            suspects[unit][number] = one
    every = {unit: wanted_of(suspects[unit], borders[unit]) for unit in borders}
    wanted = {unit: one for unit, one in every.items() if one is not None}
    retained = of_units(placed, wanted).mapInArrow(partial(_condense_blocks, settings, wanted), BLOCK)
    return [*wanted], retained.unionByName(rest.filter(is_block_of(wanted)).withColumn("kind", F.lit("condensed")))


def _unpack_block(row: Any) -> tuple[str, Unit, int, Any]:
    """The kind, partition, range and content of a block that tasks hand the driver."""
    content = pickle.loads(bytes(row["payload"]))
    return row["kind"], Unit(row["topic"], row["partition"]), row["number"], content


def _suspects(settings: Settings, borders: Mapping[Unit, Borders], batches: Batches) -> Batches:
    """The suspects of each range."""
    for unit, number, tables, rest, common in ranges_in(batches, settings):
        found = suspects_of_range(tables, rest, number, unit.topic, borders[unit], common)
        yield from to_batches([("suspects", *unit, "", number, pickle.dumps(found))])


def _condense_blocks(settings: Settings, wanted: Mapping[Unit, Wanted], batches: Batches) -> Batches:
    """The condensed blocks of each range, and what its other rows add to the summary."""
    for unit, number, tables, _, common in ranges_in(batches, settings):
        part = condense_range(tables, number, wanted[unit], common)
        named = [(name, rows) for name, frames in part.tables.items() for rows in frames]
        yield from to_batches(("condensed", *unit, name, number, pack(rows)) for name, rows in named)
        others = pickle.dumps((part.others, wanted[unit].latency))
        yield from to_batches([("others", *unit, "", number, others)])
