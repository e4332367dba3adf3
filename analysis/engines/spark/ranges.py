"""Proves large partitions by ranges of their offsets, each in a task of its own, before anyone needs all of their rows.

blocks of large partitions → cut → by range → facts → by partition → proof: a summary, or the rules left to judge
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from ....histories.bundle import Run
from ....histories.settings import Settings
from ...batches import Unit
from ...partitions.common import Common
from ...partitions.offset_ranges import REST, by_range
from ...partitions.unit import OBSERVED, Tables
from ...screening.condense import borders_of
from ...screening.range_facts import Facts, RangeFacts, range_facts, rows_of
from ...screening.ranges import MAX_REST, can_be_proved, proof_of, ranges_of
from ...screening.screen import chosen_rules
from ...screening.suspects import suspects_of_range
from .batching import batch_of, common_of
from .blocks import BLOCK, SCHEMA, Map, in_turn, of_no_partition, pack, rows_in, to_batches, unpack
from .condensing import UNIT, by_range_of, condense, grouped, is_of, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import Row as Listed

VALID = "valid"  # the name of proofs of plainly valid partitions
BYTES_PER_ROW = 16  # of a large partition's blocks, at least
RANGED = BLOCK + ", range long"
_RANGED = SCHEMA.append(pa.field("range", pa.int64()))


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
    """The blocks of a run in which those of large partitions are superseded as far as these can be proved.

    There are then blocks of kind `proof` with the unproved rules, summaries of plainly valid partitions, and the
    blocks that condense the others for their unproved rules (condensing.py).
    """
    from pyspark.sql import functions as F  # noqa: N812

    text = settings.to_json()
    observed = blocks.filter(F.col("kind").isin("observations", "small"))
    batches = sorted({*large.values()})
    is_large = F.when(F.col("kind") == "small", batch_of(settings.batches).isin(batches)).otherwise(is_of([*large]))
    parts = store(observed.filter(is_large).mapInArrow(_cutting(settings.range_offsets, [*large]), RANGED))
    shared = blocks.filter(F.col("kind").isin("context", "unplaced", "shared"))
    size = F.sum(F.length("payload")).alias("size")
    sizes = {(Unit(*row[:2]), row[2]): row[3] for row in parts.groupBy(*UNIT, "range").agg(size).collect()}
    ranges = {
        unit: [number for one, number in sizes if one == unit and number != REST]
        for unit in large
        if sizes.get((unit, REST), 0) <= BYTES_PER_ROW * MAX_REST
    }
    facts = by_range_of(parts, shared, ranges, tasks).applyInArrow(_stating(text), BLOCK)
    rest = parts.filter(is_of([*ranges])).filter(F.col("range") == REST).drop("range")
    units = literal([unit._asdict() for unit in ranges], "array<struct<topic:string,partition:int>>")
    for_all = shared.drop(*UNIT).select("*", F.inline(units))
    concluded = grouped([facts, rest, for_all], [*UNIT], tasks).applyInArrow(_concluding(text), BLOCK).collect()
    handed = [row for row in concluded if row["kind"] in ("borders", "suspects")]
    proofs = [row.asDict() for row in concluded if row["kind"] in ("proof", "summaries")]
    done = [Unit(row["topic"], row["partition"]) for row in proofs if row["name"] == VALID]
    added = [blocks.sparkSession.createDataFrame(pa.Table.from_pylist(proofs, SCHEMA))] if proofs else []
    if handed:
        replaced, condensed = condense(handed, parts, shared, ranges, settings, tasks)
        done += replaced
        added.append(condensed)
    is_done = F.col("kind").isin("observations", "small") & is_of(done)
    return reduce(lambda one, other: one.unionByName(other), [blocks.filter(~is_done), *added])


def _cutting(range_offsets: int, large: list[Unit]) -> Map:
    """Cuts blocks into ranges; of blocks of many small partitions only the rows of large ones are taken."""

    def cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
                    cells = [kind, *unit, row["name"], row["turn"], payload, number]
                    arrays = [pa.array([cell], field.type) for cell, field in zip(cells, _RANGED, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=_RANGED)

    return cut


class _Group(NamedTuple):
    """The blocks of a range, or of a whole partition: then without the rows of its ranges, but with their facts."""

    tables: Tables
    rest: Tables
    common: Common
    facts: dict[int, Facts]


def _group_of(batches: Iterator[pa.RecordBatch], settings: Settings) -> _Group:
    tables: Tables = {}
    rest: Tables = {}
    shared: Tables = {}
    facts: dict[int, Facts] = {}
    for row in in_turn(batches):
        payload = row["payload"]
        if row["kind"] == "facts":
            length = int(row["name"])
            hashes = np.frombuffer(payload, np.uint64, offset=length)
            facts[row["turn"]] = RangeFacts.of_json(payload[:length]), hashes
        elif row["kind"] in ("observations", "rest"):
            home = rest if row["kind"] == "rest" else tables
            home.setdefault(row["name"], []).append(unpack(payload))
        else:
            shared.setdefault(row["name"] or row["kind"], []).append(unpack(payload))
    return _Group(tables, rest, common_of(shared, settings), facts)


def _stating(settings_json: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The facts of a range, for `applyInArrow`: JSON of the length that is the block's name, then the hashes."""

    def state(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition, number = (value.as_py() for value in key)
        group = _group_of(batches, Settings.from_json(settings_json))
        facts, hashes = range_facts(group.tables, rows_of(group.rest), number, group.common)
        text = facts.to_json().encode()
        text += b" " * (-len(text) % 8)  # so that the hashes are aligned
        yield from to_batches([("facts", topic, partition, str(len(text)), number, text + hashes.tobytes())])

    return state


def _concluding(settings_json: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The proof of a partition, for `applyInArrow`, and its summary if it is plainly valid."""

    def conclude(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition = (value.as_py() for value in key)
        settings = Settings.from_json(settings_json)
        group = _group_of(batches, settings)
        rest, unproved = rows_of(group.rest), [*chosen_rules(settings)]
        if can_be_proved(topic, OBSERVED, len(rest.sends) + len(rest.reads) + len(rest.marks), group.common):
            empty = set(ranges_of(group.facts, rest, settings)) - set(group.facts)
            found = {number: range_facts({}, rest, number, group.common) for number in empty} | group.facts
            ranges = {number: found[number] for number in sorted(found)}
            proof = proof_of(topic, partition, [*ranges.values()], rest, group.common)
            unproved = sorted(proof.unproved)
            borders = borders_of(topic, ranges, rest, proof.unproved, group.common) if unproved else None
            if borders is not None:
                of_empty = {
                    number: suspects_of_range({}, rest, number, topic, borders, group.common) for number in empty
                }
                handed = [("borders", 0, borders), *(("suspects", *item) for item in of_empty.items())]
                rows = [(kind, topic, partition, "", number, pickle.dumps(one)) for kind, number, one in handed]
                yield from to_batches(rows)
            if proof.summary is not None:
                yield from to_batches([of_no_partition("summaries", json.dumps([proof.summary]).encode())])
        name = "" if unproved else VALID
        yield from to_batches([("proof", topic, partition, name, 0, json.dumps(unproved).encode())])

    return conclude
