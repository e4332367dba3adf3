"""Proves large partitions by ranges of their offsets, each in a task of its own, before anyone needs all of their rows.

blocks of large partitions → cut → by range → facts → by partition → proof: a summary, or the rules left to judge
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa

from ....histories.bundle import Run
from ....histories.settings import Settings
from ...batches import Unit
from ...partitions.offset_ranges import REST, by_range
from ...partitions.unit import OBSERVED, Common, Tables
from ...screening.condense import borders_of
from ...screening.range_facts import RangeFacts
from ...screening.ranges import MAX_REST, Facts, can_be_proved, proof_of, range_facts, ranges_of, rows_of
from ...screening.retained import suspects_of_range
from ...screening.screen import chosen_rules
from .batching import common_of
from .blocks import BLOCK, SCHEMA, Map, in_turn, of_no_partition, pack, rows_in, to_batches, unpack
from .condensing import UNIT, condense, grouped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

VALID = "valid"  # the name of proofs of plainly valid partitions
BYTES_PER_ROW = 16  # of a large partition's blocks, at least; and a quarter of those of its lines
RANGED = BLOCK + ", range long"
_RANGED = SCHEMA.append(pa.field("range", pa.int64()))


class Proofs(NamedTuple):
    """The proofs of large partitions: blocks of kind `proof` with the unproved rules, and summaries of valid ones.

    Also the blocks that condense partitions for their unproved rules (condensing.py). All blocks of the partitions
    in `done` are superseded.
    """

    proofs: DataFrame
    summaries: DataFrame
    condensed: DataFrame | None
    done: list[Unit]


def may_be_large(run: Run, size: int) -> bool:
    """Whether a run of `size` bytes may have partitions that are worth proving by ranges."""
    settings = run.settings
    return settings.dialect == "native" and not run.evidence and size > 4 * BYTES_PER_ROW * settings.large_rows


def prove(observed: DataFrame, everywhere: DataFrame, settings: Settings, tasks: int, store: Any) -> Proofs:
    """Proves what can be proved of large partitions, from their blocks and those that concern every partition."""
    from pyspark.sql import functions as F  # noqa: N812

    whole = observed.filter(F.col("kind") == "observations")
    size = F.sum(F.length("payload")).alias("size")
    sizes = whole.groupBy(*UNIT).agg(size)
    units = store(sizes.filter(F.col("size") > BYTES_PER_ROW * settings.large_rows).drop("size"))
    names = units.agg(F.to_json(F.collect_list(F.struct(*UNIT))).alias("units"))
    of_large = whole.join(F.broadcast(units), [*UNIT], "left_semi").withColumn("units", F.lit("[]"))
    of_small = observed.filter(F.col("kind") == "small").crossJoin(F.broadcast(names))
    text = settings.to_json()
    parts = store(of_large.unionByName(of_small).mapInArrow(_cutting(settings.range_offsets), RANGED))
    of_range = F.col("range") != REST
    much = parts.filter(~of_range).groupBy(*UNIT).agg(size)
    much = much.filter(F.col("size") > BYTES_PER_ROW * MAX_REST)
    parts = parts.join(F.broadcast(much), [*UNIT], "left_anti")
    ranges = parts.filter(of_range).select(*UNIT, "range").distinct()
    rest = parts.filter(~of_range).drop("range")
    shared = everywhere.drop(*UNIT)
    needed = [parts.filter(of_range), rest.join(F.broadcast(ranges), [*UNIT]), shared.crossJoin(F.broadcast(ranges))]
    facts = grouped(needed, [*UNIT, "range"], tasks).applyInArrow(_stating(text), BLOCK)
    needed = [facts, rest, shared.crossJoin(F.broadcast(ranges.select(*UNIT).distinct()))]
    concluded = grouped(needed, [*UNIT], tasks).applyInArrow(_concluding(text), BLOCK).collect()
    blocks = {kind: [row for row in concluded if row["kind"] == kind] for kind in ("proof", "summaries")}
    handed = [row for row in concluded if row["kind"] in ("borders", "suspects")]
    proofs, summaries = (observed.sparkSession.createDataFrame(rows, BLOCK) for rows in blocks.values())
    done = [Unit(row["topic"], row["partition"]) for row in blocks["proof"] if row["name"] == VALID]
    if not handed:
        return Proofs(proofs, summaries, None, done)
    units, condensed = condense(handed, parts, shared, (settings, tasks))
    return Proofs(proofs, summaries, store(condensed), done + units)


def _cutting(range_offsets: int) -> Map:
    """Cuts blocks into ranges; of blocks of many small partitions only the rows of large ones are taken."""

    def cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in rows_in(batches):
            frame = unpack(row["payload"])
            units = {Unit(row["topic"], row["partition"]): frame}
            if row["kind"] == "small":
                large = [Unit(one["topic"], one["partition"]) for one in json.loads(row["units"])]
                units = {unit: frame.filter(**unit._asdict()).drop(*UNIT) for unit in large}
            for unit, rows in units.items():
                for number, part in by_range(row["name"], rows, range_offsets) if len(rows) else ():
                    kind = "rest" if number == REST else "observations"
                    cells = [kind, *unit, row["name"], row["turn"], pack(part), number]
                    arrays = [pa.array([cell], field.type) for cell, field in zip(cells, _RANGED, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=_RANGED)

    return cut


class _Group(NamedTuple):
    """The blocks of a range, or of a whole partition: then without the rows of its ranges, but with their facts."""

    tables: Tables
    rest: Tables
    common: Common
    facts: dict[int, Facts]


def _group_of(batches: Iterator[pa.RecordBatch]) -> _Group:
    group = _Group({}, {}, Common(pl.DataFrame(), pl.DataFrame(), {}), {})
    shared: Tables = {}
    for row in in_turn(batches):
        payload = row["payload"]
        if row["kind"] == "facts":
            length = int(row["name"])
            hashes = np.frombuffer(payload, np.uint64, offset=length)
            group.facts[row["turn"]] = RangeFacts.of_json(payload[:length]), hashes
        elif row["kind"] in ("observations", "rest"):
            home = group.rest if row["kind"] == "rest" else group.tables
            home.setdefault(row["name"], []).append(unpack(payload))
        else:
            shared.setdefault(row["name"] or row["kind"], []).append(unpack(payload))
    return group._replace(common=common_of(shared))


def _stating(settings_json: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The facts of a range, for `applyInArrow`: JSON of the length that is the block's name, then the hashes."""

    def state(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition, number = (value.as_py() for value in key)
        group, settings = _group_of(batches), Settings.from_json(settings_json)
        facts, hashes = range_facts(group.tables, rows_of(group.rest), number, group.common, settings)
        text = facts.to_json().encode()
        text += b" " * (-len(text) % 8)  # so that the hashes are aligned
        yield from to_batches([("facts", topic, partition, str(len(text)), number, text + hashes.tobytes())])

    return state


def _concluding(settings_json: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    """The proof of a partition, for `applyInArrow`, and its summary if it is plainly valid."""

    def conclude(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition = (value.as_py() for value in key)
        group, settings = _group_of(batches), Settings.from_json(settings_json)
        rest, unproved = rows_of(group.rest), [*chosen_rules(settings)]
        if can_be_proved(topic, OBSERVED, len(rest.sends) + len(rest.reads) + len(rest.marks), group.common, settings):
            empty = set(ranges_of(group.facts, rest, settings)) - set(group.facts)
            found = {number: range_facts({}, rest, number, group.common, settings) for number in empty} | group.facts
            ranges = {number: found[number] for number in sorted(found)}
            proof = proof_of(topic, partition, [*ranges.values()], rest, group.common, settings)
            unproved = sorted(proof.unproved)
            borders = borders_of(topic, ranges, rest, proof.unproved, group.common, settings) if unproved else None
            if borders is not None:
                of_empty = {
                    number: suspects_of_range({}, rest, number, topic, borders, group.common, settings)
                    for number in empty
                }
                handed = [("borders", 0, borders), *(("suspects", *item) for item in of_empty.items())]
                rows = [(kind, topic, partition, "", number, pickle.dumps(one)) for kind, number, one in handed]
                yield from to_batches(rows)
            if proof.summary is not None:
                yield from to_batches([of_no_partition("summaries", json.dumps([proof.summary]).encode())])
        name = "" if unproved else VALID
        yield from to_batches([("proof", topic, partition, name, 0, json.dumps(unproved).encode())])

    return conclude
