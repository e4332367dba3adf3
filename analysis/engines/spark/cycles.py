"""Finds the cycles of dependencies within windows of time (analysis/transactions/windows.py).

The first job computes the windows; most runs have few. The second job sends the dependencies within windows to tasks, a
bucket of windows each, and these tasks find the cycles. The driver receives only windows (at most MAX_WINDOWS for each
search) and the cycles that become findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import orjson
import polars as pl
import pyarrow as pa

from ....histories.settings import Settings
from ...rules.cycles import CyclesByType, searches
from ...transactions.cycles import cycles_in, cycles_of, join_cycles
from ...transactions.windows import dependencies_within, join_windows, split_windows, windows_of
from .blocks import Batches, GroupMap, pack, rows_in, schema_of, to_batches, unpack
from .session import shuffle_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_ROWS = 1_000_000  # approximate number of dependencies of one task
# Windows, dependencies or cycles of a search. `number`: the number of dependencies behind windows, or the bucket of
# dependencies.
ROW = "search string, number long, payload binary"
SCHEMA = schema_of(ROW)


def find_cycles(session: SparkSession, blocks: DataFrame, settings: Settings) -> dict[str, CyclesByType]:
    """The cycles in blocks of DEPENDENCIES, by search and type, as DependencyStore.find_cycles returns them."""
    of_tasks = blocks.select("payload").mapInArrow(partial(_windows, settings), ROW)
    by_search = of_tasks.repartition(len(searches(settings)), "search").groupBy("search")
    rows = by_search.applyInArrow(_join_windows, ROW)
    windows: dict[str, pl.DataFrame] = {}
    buckets = 1
    for row in rows.collect():
        of_search = unpack(bytes(row["payload"]))
        if searches(settings)[row["search"]].may_split:
            of_search = split_windows(of_search, row["number"] // MAX_ROWS + 1)
        windows[row["search"]] = of_search
        buckets = max(buckets, 2 * row["number"] // MAX_ROWS + 1)  # half full on average, as windows differ
    no_cycles: dict[str, CyclesByType] = {name: {} for name in searches(settings)}
    if not any(map(len, windows.values())):
        return no_cycles
    packed = {name: pack(frame) for name, frame in windows.items() if len(frame)}
    within = blocks.select("payload").mapInArrow(partial(_within, settings, packed, buckets), ROW)
    tasks = min(len(packed) * buckets, shuffle_tasks(session))
    by_bucket = within.repartition(tasks, "search", "number").groupBy("search", "number")
    found = by_bucket.applyInArrow(_of_search(partial(_find, settings)), ROW)
    joined = found.groupBy("search").applyInArrow(_of_search(partial(_join, settings)), ROW)
    return no_cycles | {row["search"]: cycles_in(orjson.loads(bytes(row["payload"]))) for row in joined.collect()}


def _windows(settings: Settings, batches: Batches) -> Batches:
    chosen = searches(settings)
    for row in rows_in(batches):
        dependencies = unpack(row["payload"])
        for name, search in chosen.items():
            rows = dependencies.filter(search.dependencies)
            yield from to_batches([(name, len(rows), pack(windows_of(rows)))], SCHEMA)


def _join_windows(table: pa.Table) -> pa.Table:
    windows = join_windows(unpack(payload) for payload in table.column("payload").to_pylist())
    return _row(table.column("search")[0].as_py(), sum(table.column("number").to_pylist()), pack(windows))


def _within(settings: Settings, packed: Mapping[str, bytes], buckets: int, batches: Batches) -> Batches:
    chosen = searches(settings)
    windows = {name: unpack(payload) for name, payload in packed.items()}
    for row in rows_in(batches):
        dependencies = unpack(row["payload"])
        for name, of_search in windows.items():
            rows = dependencies_within(dependencies.filter(chosen[name].dependencies), of_search)
            for (bucket,), part in rows.group_by(pl.col("window") % buckets, maintain_order=True):
                yield from to_batches([(name, bucket, pack(part))], SCHEMA)


def _of_search(work: Callable[[str, list[bytes]], object]) -> GroupMap:
    """`work` on a search and its payloads, for `applyInArrow`, which reads the type of a function's argument."""

    def apply(table: pa.Table) -> pa.Table:
        name = table.column("search")[0].as_py()
        return _row(name, 0, orjson.dumps(work(name, table.column("payload").to_pylist())))

    return apply


def _find(settings: Settings, name: str, payloads: list[bytes]) -> object:
    search, rows = searches(settings)[name], pl.concat(map(unpack, payloads))
    if search.is_exact:  # of the keys with the same edge the one that appeared first, as in the local engine
        edge = ["source_at", "target_at", "kind"]
        rows = rows.sort("key_appeared").unique(edge, keep="first", maintain_order=True)
    return cycles_of(rows, search.max_components, search.as_elle, search.is_exact)


def _join(settings: Settings, name: str, payloads: list[bytes]) -> object:
    parts = [cycles_in(orjson.loads(payload)) for payload in payloads]
    return join_cycles(parts, searches(settings)[name].max_components)


def _row(search: str, number: int, payload: bytes) -> pa.Table:
    return pa.Table.from_batches(to_batches([(search, number, payload)], SCHEMA))
