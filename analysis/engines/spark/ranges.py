"""Proves large partitions by ranges of their offsets, each in a task of its own, before anyone needs all of their rows.

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
from typing import TYPE_CHECKING, Any

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
from .blocks import BLOCK, SCHEMA, Batches, in_order, of_no_partition, pack, to_batches, unpack
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

    observed = blocks.filter(F.col("kind").isin("observations", "small"))
    batches = sorted({*large.values()})
    is_large = F.when(F.col("kind") == "small", batch_of(settings.batches).isin(batches)).otherwise(is_block_of(large))
    parts = store(observed.filter(is_large).mapInArrow(partial(cut, settings.range_offsets, [*large]), RANGED))
    shared = blocks.filter(F.col("kind").isin("context", "unplaced", "shared"))
    size = F.sum(F.length("payload")).alias("size")
    sizes = {(Unit(*row[:2]), row[2]): row[3] for row in parts.groupBy(*UNIT, "range").agg(size).collect()}
    units = [unit for unit in large if sizes.get((unit, REST), 0) <= BYTES_PER_ROW * MAX_REST]
    tasks = min(tasks, len(sizes))
    placed = store(by_task(parts, shared, units, tasks))
    facts = placed.mapInArrow(partial(_facts, settings), BLOCK)
    rest = parts.filter(F.col("range") == REST).drop("range")
    each = literal([unit._asdict() for unit in units], "array<struct<topic:string,partition:int>>")
    for_all = shared.drop(*UNIT).select("*", F.inline(each))
    by_unit = facts.unionByName(rest.filter(is_block_of(units))).unionByName(for_all).repartition(tasks, *UNIT)
    concluded = by_unit.groupBy(*UNIT).applyInArrow(_make_conclude(settings), BLOCK).collect()
    handed = [row for row in concluded if row["kind"] in ("borders", "suspects")]
    proofs = [row.asDict() for row in concluded if row["kind"] in ("proof", "summaries")]
    done = [Unit(row["topic"], row["partition"]) for row in proofs if row["name"] == VALID]
    added = [blocks.sparkSession.createDataFrame(pa.Table.from_pylist(proofs, SCHEMA))] if proofs else []
    if handed:
        replaced, condensed = condense(handed, placed, rest, settings)
        done += replaced
        added.append(condensed)
    is_done = F.col("kind").isin("observations", "small") & is_block_of(done)
    return union([blocks.filter(~is_done), *added])


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
            home = rest if row["kind"] == "rest" else shared
            home.setdefault(row["name"] or row["kind"], []).append(unpack(payload))
    return facts, rows_of(rest), common_of(shared, settings)


def _make_conclude(settings: Settings) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The proof of a partition, for `applyInArrow`, and its summary if it is plainly valid."""

    def conclude(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition = (value.as_py() for value in key)
        facts, rest, common = _partition_of(batches, settings)
        unproved = [*chosen_rules(settings)]
        if can_be_proved(topic, OBSERVED, len(rest.sends) + len(rest.reads) + len(rest.marks), common):
            empty = set(ranges_of(facts, rest, settings)) - set(facts)
            found = {number: range_facts({}, rest, number, common) for number in empty} | facts
            ranges = {number: found[number] for number in sorted(found)}
            proof = proof_of(topic, partition, [*ranges.values()], rest, common)
            unproved = sorted(proof.unproved)
            borders = borders_of(topic, ranges, rest, proof.unproved, common) if unproved else None
            if borders is not None:
                of_empty = {number: suspects_of_range({}, rest, number, topic, borders, common) for number in empty}
                handed = [("borders", 0, borders), *(("suspects", *item) for item in of_empty.items())]
                rows = [(kind, topic, partition, "", number, pickle.dumps(one)) for kind, number, one in handed]
                yield from to_batches(rows)
            if proof.summary is not None:
                yield from to_batches([of_no_partition("summaries", json.dumps([proof.summary]).encode())])
        name = "" if unproved else VALID
        yield from to_batches([("proof", topic, partition, name, 0, json.dumps(unproved).encode())])

    return conclude


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
