"""Proves large partitions by ranges of their offsets, each in a task of its own, so that few rows must be judged.

blocks of large partitions → range_tasks.py → facts → by partition → proof: a summary, or the rules left to judge

Those with unproved rules are condensed, range by range (screening/condense.py):
borders of partitions → by range → suspects → driver → by range → condensed blocks
The driver holds what is not plain, as it grows with the faults of a run, not with its size.
"""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from ....histories.bundle import Run
from ....histories.settings import Settings
from ....histories.tables import OBSERVED
from ...batches import Unit
from ...partitions.common import Common, common_of
from ...partitions.offset_ranges import REST
from ...partitions.unit import Tables
from ...screening.condense import borders_of, wanted_of
from ...screening.range_facts import HashedFacts, Rows, range_facts, rows_of
from ...screening.ranges import MAX_REST, can_be_proved, proof_of, ranges_of
from ...screening.retained import Wanted, condense_range
from ...screening.screen import chosen_rules
from ...screening.suspects import Borders, Suspects, suspects_of_range
from .batching import batch_of
from .blocks import BLOCK, SCHEMA, Batches, Row, in_order, of_no_partition, pack, to_batches, unpack
from .fetching import union
from .range_tasks import RANGED, UNIT, by_task, cut, is_block_of, literal, of_units, ranges_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import Row as Listed

VALID = "valid"  # the name of proofs of plainly valid partitions
BYTES_PER_ROW = 16  # of a large partition's blocks, at least


def large_units(run: Run, listed: Sequence[Listed]) -> dict[Unit, str]:
    """The partitions that are worth proving by ranges, and their batches.

    `listed`: kind, topic, partition, batch and bytes of the blocks of observations.
    """
    if run.settings.dialect != "native" or run.evidence:
        return {}
    whole = {Unit(row["topic"], row["partition"]): row for row in listed if row["kind"] == "observations"}
    least = BYTES_PER_ROW * run.settings.large_rows
    return {unit: str(row["batch"]) for unit, row in sorted(whole.items()) if row["size"] > least}


def prove(blocks: DataFrame, large: Mapping[Unit, str], settings: Settings, tasks: int, store: Any) -> DataFrame:
    """The blocks of a run. Of a large partition, a proof with its unproved rules comes instead of its observations.

    A plainly valid partition also has a summary. A condensed one has the blocks that its unproved rules judge. A
    partition that cannot be condensed keeps its observations.
    """
    from pyspark.sql import functions as F  # noqa: N812

    ranged = _by_range(blocks, large, settings, tasks, store)
    rows = _prove_partitions(ranged, settings).collect()
    for_condensing = [row for row in rows if row["kind"] in ("borders", "suspects")]
    proofs = [row.asDict() for row in rows if row["kind"] in ("proof", "summaries")]
    replaced = [Unit(row["topic"], row["partition"]) for row in proofs if row["name"] == VALID]
    added = [blocks.sparkSession.createDataFrame(pa.Table.from_pylist(proofs, SCHEMA))] if proofs else []
    if for_condensing:
        units, condensed = condense(for_condensing, ranged, settings)
        replaced += units
        added.append(condensed)
    is_replaced = F.col("kind").isin("observations", "small") & is_block_of(replaced)
    return union([blocks.filter(~is_replaced), *added])


class _ByRange(NamedTuple):
    """The blocks of large partitions, cut by ranges of offsets."""

    placed: DataFrame  # those of ranges, all of one range in one task (range_tasks.by_task)
    rest: DataFrame  # those in no range
    shared: DataFrame  # those of the run, for all partitions
    units: list[Unit]  # the partitions that can be proved: few of their rows are in no range
    tasks: int


def _by_range(blocks: DataFrame, large: Mapping[Unit, str], settings: Settings, tasks: int, store: Any) -> _ByRange:
    from pyspark.sql import functions as F  # noqa: N812

    batches = sorted({*large.values()})
    in_batch = batch_of(settings.batches).isin(batches)  # a block of small partitions may hold rows of large ones
    is_large = F.when(F.col("kind") == "small", in_batch).otherwise(is_block_of(large))
    observed = blocks.filter(F.col("kind").isin("observations", "small") & is_large)
    parts = store(observed.mapInArrow(partial(cut, settings.range_offsets, [*large]), RANGED))
    size = F.sum(F.length("payload")).alias("size")
    sizes = {(Unit(*row[:2]), row[2]): row[3] for row in parts.groupBy(*UNIT, "range").agg(size).collect()}
    units = [unit for unit in large if sizes.get((unit, REST), 0) <= BYTES_PER_ROW * MAX_REST]
    tasks = min(tasks, len(sizes))
    shared = blocks.filter(F.col("kind").isin("context", "unplaced", "shared"))
    rest = parts.filter(F.col("range") == REST).drop("range")
    return _ByRange(store(by_task(parts, shared, units, tasks)), rest, shared, units, tasks)


def _prove_partitions(ranged: _ByRange, settings: Settings) -> DataFrame:
    """Blocks of each partition: its proof, its summary if it is plainly valid, else what condensing it needs."""
    from pyspark.sql import functions as F  # noqa: N812

    facts = ranged.placed.mapInArrow(partial(_facts, settings), BLOCK)
    units = literal([unit._asdict() for unit in ranged.units], "array<struct<topic:string,partition:int>>")
    for_each = ranged.shared.drop(*UNIT).select("*", F.inline(units))
    own = facts.unionByName(ranged.rest.filter(is_block_of(ranged.units)))
    by_unit = own.unionByName(for_each).repartition(ranged.tasks, *UNIT)
    return by_unit.groupBy(*UNIT).applyInArrow(_make_prove(settings), BLOCK)


def _facts(settings: Settings, batches: Batches) -> Batches:
    for unit, number, tables, rest, common in ranges_in(batches, settings):
        facts = range_facts(tables, rest, number, common)
        yield from to_batches([("facts", *unit, "", number, pickle.dumps(facts))])


def _partition_of(batches: Iterator[pa.RecordBatch], settings: Settings) -> tuple[dict[int, HashedFacts], Rows, Common]:
    """The facts of the ranges of a partition, its rows in no range, and those of all partitions."""
    facts: dict[int, HashedFacts] = {}
    rest: Tables = {}
    shared: Tables = {}
    for row in in_order(batches):
        payload = row.pop("payload")  # hashes are large, so they are held once
        if row["kind"] == "facts":
            facts[row["number"]] = pickle.loads(payload)
        else:
            tables = rest if row["kind"] == "rest" else shared
            tables.setdefault(row["name"] or row["kind"], []).append(unpack(payload))
    return facts, rows_of(rest), common_of(shared, settings)


def _make_prove(settings: Settings) -> Callable[..., Iterator[pa.RecordBatch]]:
    """`_prove_partition` for `applyInArrow`, which reads the types of a function's arguments."""

    def prove(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition = (value.as_py() for value in key)
        yield from to_batches(_prove_partition(Unit(topic, partition), *_partition_of(batches, settings)))

    return prove


def _prove_partition(unit: Unit, facts: Mapping[int, HashedFacts], rest: Rows, common: Common) -> Iterator[Row]:
    unproved = [*chosen_rules(common.settings)]
    if can_be_proved(unit.topic, OBSERVED, len(rest.sends) + len(rest.reads) + len(rest.marks), common):
        empty = {*ranges_of(facts, rest, common.settings)} - {*facts}
        facts_of_empty = {number: range_facts({}, rest, number, common) for number in empty}
        ranges = dict(sorted({**facts, **facts_of_empty}.items()))
        proof = proof_of(*unit, [*ranges.values()], rest, common)
        unproved = sorted(proof.unproved)
        borders = borders_of(unit.topic, ranges, rest, proof.unproved, common) if unproved else None
        if borders is not None:
            yield Row("borders", *unit, "", 0, pickle.dumps(borders))
            for number in empty:
                suspects = suspects_of_range({}, rest, number, unit.topic, borders, common)
                yield Row("suspects", *unit, "", number, pickle.dumps(suspects))
        if proof.summary is not None:
            yield of_no_partition("summaries", json.dumps([proof.summary]).encode())
    yield Row("proof", *unit, "" if unproved else VALID, 0, json.dumps(unproved).encode())


def condense(collected: list[Any], ranged: _ByRange, settings: Settings) -> tuple[list[Unit], DataFrame]:
    """The partitions that can be condensed, and their blocks of the kinds `condensed` and `others`.

    `collected`: the blocks of their borders, and of the suspects of ranges without rows.
    """
    from pyspark.sql import functions as F  # noqa: N812

    unpacked = [_unpack_block(row) for row in collected]
    borders: dict[Unit, Borders] = {unit: content for kind, unit, _, content in unpacked if kind == "borders"}
    found = of_units(ranged.placed, borders).mapInArrow(partial(_suspects, settings, borders), BLOCK)
    suspects: dict[Unit, dict[int, Suspects | None]] = defaultdict(dict)
    for kind, unit, number, content in [*unpacked, *map(_unpack_block, found.collect())]:
        if kind == "suspects":
            suspects[unit][number] = content
    wanted = {unit: one for unit in borders if (one := wanted_of(suspects[unit], borders[unit])) is not None}
    retained = of_units(ranged.placed, wanted).mapInArrow(partial(_condense_blocks, settings, wanted), BLOCK)
    rest = ranged.rest.filter(is_block_of(wanted)).withColumn("kind", F.lit("condensed"))
    return [*wanted], retained.unionByName(rest)


def _unpack_block(row: Any) -> tuple[str, Unit, int, Any]:
    """The kind, partition, range and content of a block that the driver collected."""
    content = pickle.loads(bytes(row["payload"]))
    return row["kind"], Unit(row["topic"], row["partition"]), row["number"], content


def _suspects(settings: Settings, borders: Mapping[Unit, Borders], batches: Batches) -> Batches:
    for unit, number, tables, rest, common in ranges_in(batches, settings):
        found = suspects_of_range(tables, rest, number, unit.topic, borders[unit], common)
        yield from to_batches([("suspects", *unit, "", number, pickle.dumps(found))])


def _condense_blocks(settings: Settings, wanted: Mapping[Unit, Wanted], batches: Batches) -> Batches:
    """The condensed blocks of each range, and what its other rows add to the summary."""
    for unit, number, tables, _, common in ranges_in(batches, settings):
        part = condense_range(tables, number, wanted[unit], common)
        named = [(name, rows) for name, frames in part.tables.items() for rows in frames]
        yield from to_batches(("condensed", *unit, name, number, pack(rows)) for name, rows in named)
        yield from to_batches([("others", *unit, "", number, pickle.dumps(part.others))])
