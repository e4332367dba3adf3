"""Groups topic-partitions into batches by a hash (`batch_of`), and judges the observations of a batch in one call.

The small partitions of a batch are screened together; a large one is judged by itself.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from ....histories.settings import Settings
from ...batches import MAX_SMALL_ROWS, WHOLE, Unit
from ...kernel import Judged
from ...partitions.common import common_of
from ...partitions.unit import Tables
from ...results import to_frame
from ...run_rules import judge_whole_run
from ...screening.retained import OtherRows
from ...screening.screen import as_small, screen_batch
from ..dependency_store import DependencyStore
from ..local import judge_stored
from ..store import ObservationStore
from ..threads import in_pool
from .blocks import SCHEMA, Row, dependency_blocks, in_order, of_no_partition, pack, to_batches, unpack

if TYPE_CHECKING:
    from pyspark.sql import Column


REPORTED = ""  # the batch of blocks that no rule judges, such as quarantine and counts
SMALL_BYTES = 4 << 20  # if the packed blocks of a partition are larger, it has many rows
OBSERVATIONS = ("observations", "small", "condensed", "others", "proof")  # kinds of blocks that belong to one batch


def batch_of(batches: int) -> Column:
    """The batch of a block of observations, by a hash of its topic-partition, as `split_small` computes it.

    A block of many small partitions has its batch in the column `partition`. Without `batches` each topic-partition is
    a batch of its own.
    """
    from pyspark.sql import functions as F  # noqa: N812

    if not batches:
        return F.concat_ws("-", "topic", "partition")
    of_unit = F.pmod(F.crc32("topic") + F.col("partition"), F.lit(batches))
    return F.when(F.col("kind") == "small", F.col("partition")).otherwise(of_unit).cast("string")


def make_batch_judge(settings: Settings) -> Callable[..., Iterator[pa.RecordBatch]]:
    """Judges the blocks of a batch, for `applyInArrow`."""

    # The annotations make Spark pass a group's blocks one after the other, never all at once.
    def judge(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if key[0].as_py() == REPORTED:
            yield from (batch.select(SCHEMA.names) for batch in batches)
        else:
            yield from to_batches(_judge_batch(_by_kind(batches), settings))

    return judge


@dataclass
class _Blocks:
    """The blocks of a batch, by kind."""

    small: Tables = field(default_factory=dict)  # of all small partitions
    shared: Tables = field(default_factory=dict)  # of the run
    packed: dict[Unit, list[tuple[str, bytes]]] = field(default_factory=dict)  # of large ones, unpacked to be judged
    unproved: dict[Unit, Collection[str]] = field(default_factory=dict)  # the rules that must judge a large one
    others: dict[Unit, list[OtherRows]] = field(default_factory=dict)  # of condensed ones


def _by_kind(batches: Iterator[pa.RecordBatch]) -> _Blocks:
    found = _Blocks()
    for row in in_order(batches):
        unit = Unit(row["topic"], row["partition"])
        if row["kind"] in ("observations", "condensed"):
            found.packed.setdefault(unit, []).append((row["name"], row["payload"]))
        elif row["kind"] == "others":
            found.others.setdefault(unit, []).append(pickle.loads(row["payload"]))
        elif row["kind"] == "proof":
            found.unproved[unit] = json.loads(row["payload"])
        else:
            tables = found.small if row["kind"] == "small" else found.shared
            tables.setdefault(row["name"] or row["kind"], []).append(unpack(row["payload"]))
    return found


def _judge_batch(blocks: _Blocks, settings: Settings) -> Iterator[Row]:
    """The blocks of the results."""
    if settings.batches:
        _screen_few_rows(blocks)
    common = common_of(blocks.shared, settings)
    units: dict[Unit, Tables] = {unit: {} for unit in blocks.packed}
    screened = screen_batch(blocks.small, {*units, *blocks.unproved}, common)
    for unit, name, rows in screened.left:
        units.setdefault(unit, {}).setdefault(name, []).append(rows)
    unproved = blocks.unproved | screened.unproved
    yield from _results(pl.DataFrame(), screened.summaries)
    for unit in sorted(units):
        tables, packed = units.pop(unit), blocks.packed.pop(unit, ())
        if unproved.get(unit) == []:
            continue  # proved valid
        if unit in blocks.others:
            tables = {}  # its rows among the small partitions are among the condensed ones
        store = ObservationStore(settings.range_offsets)
        for name, frames in tables.items():
            for frame in frames:
                store.add(unit, name, frame)
        for name, payload in packed:
            store.add(unit, name, unpack(payload))
        judged = in_pool(judge_stored, store, unit, common, unproved.get(unit), blocks.others.get(unit, ()))
        yield from _blocks_of(judged, settings)


def _screen_few_rows(blocks: _Blocks) -> None:
    """Moves the packed partitions with few rows to the small ones."""
    for unit in sorted(blocks.packed.keys() - {WHOLE, *blocks.unproved, *blocks.others}):
        if few := _few_rows(blocks.packed[unit]):
            del blocks.packed[unit]
            for name, rows in few:
                blocks.small.setdefault(name, []).append(as_small(unit, name, rows))


def _few_rows(blocks: Collection[tuple[str, bytes]]) -> list[tuple[str, pl.DataFrame]]:
    """The tables of a partition; empty if it has many rows."""
    if sum(len(payload) for _, payload in blocks) > SMALL_BYTES:
        return []
    tables = [(name, unpack(payload)) for name, payload in blocks]
    return tables if sum(len(rows) for _, rows in tables) <= MAX_SMALL_ROWS else []


def _blocks_of(judged: Judged, settings: Settings) -> Iterator[Row]:
    yield from _results(to_frame(judged.findings), judged.summaries)
    if settings.dialect == "jepsen" and judged.dependencies:  # one unit: all of its cycles are here
        between = DependencyStore(settings)
        for dependencies in judged.dependencies:
            between.add(dependencies)
        findings, record = judge_whole_run(between.find_cycles(), settings)
        yield from _results(findings, [])
        yield of_no_partition("run", json.dumps(record).encode())
    else:
        parts = (part for one in judged.dependencies for part in dependency_blocks(one))
        yield from (of_no_partition(kind, payload) for kind, _, payload in parts)
    yield from (of_no_partition("unexpected", pack(one)) for one in judged.unexpected)
    yield from (Row("expected", one.topic, one.partition, "", 0, pack(one.states)) for one in judged.expected)


def _results(findings: pl.DataFrame, summaries: list[dict[str, Any]]) -> list[Row]:
    rows: list[Row] = [of_no_partition("summaries", json.dumps(summaries).encode())] if summaries else []
    return [*rows, of_no_partition("findings", pack(findings))] if len(findings) else rows
