"""Cycles searched in slices of time are those of all dependencies at once, however short the slices are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from campaign import IS_CAMPAIGN
from logjudge.analysis.engines import dependency_store
from logjudge.analysis.engines.dependency_store import DependencyStore
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.engines.spark import blocks
from logjudge.analysis.engines.store import BatchStore
from logjudge.analysis.rules.cycles import searches
from logjudge.analysis.transactions.cycles import Cycles, cycles_of, cycles_of_slices
from logjudge.analysis.transactions.windows import dependencies_within, moment, windows_of
from logjudge.histories.settings import Settings
from logjudge.histories.tables import MAX_INT64
from test_cycles import frame, graph, two_partitions

LOW = pl.min_horizontal(moment("source"), moment("target"))


def test_slices_have_the_cycles_of_the_whole() -> None:
    seen: Counter[str] = Counter()
    for seed in range(3000 if IS_CAMPAIGN else 100):
        random = Random(seed)
        operations, edges = graph(random)
        rows = frame(operations, edges).with_columns(window=pl.lit(0, pl.Int64))
        ends = sorted(random.sample(range(18), random.randint(1, 6)))
        borders = zip([-1, *ends], [*ends, MAX_INT64], strict=True)
        found = cycles_of_slices([(end, rows.filter(before < LOW, end >= LOW)) for before, end in borders], 100)
        whole = cycles_of(rows, 100)
        assert _lengths(found) == _lengths(whole), (operations, edges, ends)
        seen.update(whole.keys())
        seen["none"] += not whole
    assert min(seen[name] for name in ("G0", "G1c", "G0-process", "G1c-process", "none")) >= 2


def _lengths(found: Mapping[str, Cycles]) -> dict[str, tuple[int, list[int]]]:
    return {
        name: (cycles.count, sorted(len(cycle.steps) for cycle in cycles.shortest)) for name, cycles in found.items()
    }


@pytest.mark.parametrize("in_memory", [True, False])
def test_the_store_finds_what_a_search_in_memory_finds(in_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty graphs one after the other, in short chunks and slices, and in a file."""
    random, frames = Random(7), []
    for number in range(40):
        rows = frame(*graph(random))
        shift = pl.col(r"^(source|target)_(at|start)$") + 15 * number
        end = pl.col(r"^(source|target)_end$")
        shifted_end = pl.when(end < MAX_INT64).then(end + 15 * number).otherwise(end)
        frames.append(rows.with_columns(shift, shifted_end))
    settings = Settings(config={"processes": {name: {"isolation.level": "read_committed"} for name in "pq"}})
    for name, value in (("SORTED_ROWS", 60), ("CHUNK_ROWS", 9), ("SLICE_ROWS", 20)):
        monkeypatch.setattr(dependency_store, name, value)
    if not in_memory:
        monkeypatch.setattr(dependency_store, "MAX_BYTES", 0)
    store = DependencyStore(settings)
    for rows in random.sample(frames, len(frames)):
        store.add(rows)
    assert len(store) == sum(map(len, frames)) > 120
    slices: list[Any] = []
    search = dependency_store.cycles_of_slices

    def recorded_search(given: Iterable[Any], *rest: Any) -> Any:
        listed = [*given]
        slices.extend(listed)
        return search(listed, *rest)

    monkeypatch.setattr(dependency_store, "cycles_of_slices", recorded_search)
    found = store.find_cycles()
    rows, whole = pl.concat(frames), {}
    for name, one in searches(settings).items():
        inside = dependencies_within(rows, windows_of(rows, one.dependencies), one.dependencies)
        whole[name] = cycles_of(inside, one.max_components, one.as_elle)
    assert {name: _lengths(one) for name, one in found.items()} == {name: _lengths(one) for name, one in whole.items()}
    assert len(whole["committed"]["G1c"].shortest) >= 3
    assert len(slices) > 6


def test_a_run_finds_the_cycle_of_dependencies_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependency_store, "MAX_BYTES", 0)
    assert judge_run(two_partitions(tmp_path)).findings()["rule"].to_list() == ["G1c"]


def test_spark_gets_the_dependencies_in_blocks_that_fit_into_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.concat([frame(*graph(Random(seed))) for seed in range(3)])
    monkeypatch.setattr(blocks, "MAX_DEPENDENCIES", 2)
    found = [*blocks.dependency_blocks(rows, 3)]
    assert {(kind, bucket) for kind, bucket, _ in found} == {("dependencies", 3)}
    parts = [blocks.unpack(payload) for _, _, payload in found]
    assert len(parts) > 1
    assert max(map(len, parts)) == 2
    assert pl.concat(parts).equals(rows)


def test_batches_beyond_the_limit_are_in_a_file() -> None:
    rows = [
        (batch, table, pl.DataFrame({"n": [n]})) for n, (batch, table) in enumerate([(2, "a"), (1, "b"), (2, "a")] * 4)
    ]
    for limit in (0, 20, 1_000):
        store = BatchStore(limit)
        for one in rows:
            store.add(*one)
        for _ in range(2):
            found = [{name: pl.concat(frames)["n"].to_list() for name, frames in tables.items()} for tables in store]
            assert found == [{"b": [1, 4, 7, 10]}, {"a": [0, 2, 3, 5, 6, 8, 9, 11]}], limit
