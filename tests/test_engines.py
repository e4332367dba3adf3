"""The same findings whatever the engine, the files, their order and their compression.

The whole corpus is judged as a few runs, each history on a topic of its own with processes of its own.
"""

from __future__ import annotations

import gzip
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from logjudge.analysis.engines import local
from logjudge.analysis.engines.spark import handing_on
from logjudge.analysis.results import Results
from logjudge.analysis.verdict import verdict_of
from logjudge.histories import files, parsing
from logjudge.histories.bundle import open_run
from logjudge.histories.files import blocks
from notation import History, JudgeOnce, parse
from rules_corpus import load, shown

HISTORIES = list(dict.fromkeys(case.history for case in load()))
_CALM = 1_000_000_000_000  # ns: by then the last fault of every history is over


def _kind(history: History) -> tuple[Any, ...]:
    """What a run is as a whole, so that histories that differ in it cannot share one."""
    named = any(event["process"] == "final" for event in history.events)
    handles = any(event["f"] == "handle" for event in history.events)
    level = history.config["processes"].get("final", {}).get("isolation.level")
    senders = {event["process"] for event in history.events if event["f"] in ("send", "txn")}
    producers = {name for name, about in history.config["processes"].items() if about.get("role") == "producer"}
    return named, history.config.get("final") is True, handles, level, producers <= senders


def _calmed(history: History) -> Iterator[dict[str, Any]]:
    """The events; those behind the last fault come behind the last fault of all histories of the run."""
    faults = [number for number, event in enumerate(history.events) if event["f"] in ("fault", "heal")]
    for number, event in enumerate(history.events):
        yield {**event, "time": event["time"] + (_CALM if number > max(faults, default=-1) else 0)}


def together(texts: list[str]) -> list[tuple[History, dict[str, str]]]:
    """Few runs that hold all histories, and which topic holds which history."""
    runs: dict[Any, tuple[History, dict[str, str]]] = {}
    for number, text in enumerate(texts):
        kind = _kind(parse(text))
        run, topics = runs.setdefault(kind, (History([], {"format": 1, "topics": {}, "processes": {}}), {}))
        mine = parse(text, f"x{number}", f"h{number}.")
        topics[f"x{number}"] = text
        run.config["topics"] |= mine.config["topics"]
        run.config["processes"] |= mine.config["processes"]
        run.config["final"] = mine.config.get("final", False)
        for event in _calmed(mine):
            nemesis = {"op": number * 1000 + event["op"]} if event["process"] == "nemesis" else {}
            run.events.append({**event, **nemesis})
    for run, _ in runs.values():
        run.events.sort(key=lambda event: event["time"])
    return list(runs.values())


RUNS = together(HISTORIES)
SOME = together(HISTORIES[::8])  # for what is judged again and again


def _judge_all(runs: list[tuple[History, dict[str, str]]], folder: Path) -> list[tuple[Path, Results]]:
    folders = [run.write(folder / str(number)) for number, (run, _) in enumerate(runs)]
    return [(each, local.judge_run(open_run(each))) for each in folders]


@pytest.fixture(scope="module")
def on_polars(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Results]]:
    return _judge_all(RUNS, tmp_path_factory.mktemp("all"))


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Results]]:
    judged = _judge_all(SOME, tmp_path_factory.mktemp("some"))
    assert sum(len(results.findings()) for _, results in judged) > 20
    return judged


def test_together_as_alone(on_polars: list[tuple[Path, Results]], judged_once: JudgeOnce) -> None:
    assert sum(len(topics) for _, topics in RUNS) == len(HISTORIES)
    for (_, topics), (_, results) in zip(RUNS, on_polars, strict=True):
        assert not len(results.quarantine())
        found: dict[str, Counter[str]] = {topic: Counter() for topic in topics}
        for finding in results.findings().iter_rows(named=True):
            found[finding["topic"]][shown(finding)] += 1
        for topic, text in topics.items():
            assert found[topic] == Counter(map(shown, judged_once(text).findings)), text


@pytest.mark.spark
def test_spark_finds_the_same(spark: Any, on_polars: list[tuple[Path, Results]]) -> None:
    from logjudge.analysis.engines.spark import judge_run

    for folder, expected in on_polars:
        run = open_run(folder, split_bytes=max((folder / "history.jsonl").stat().st_size // 3, 1))
        assert len(run.splits) >= 3
        results = judge_run(run, spark)
        assert results.findings().equals(expected.findings())
        assert verdict_of(results) == verdict_of(expected)


@pytest.mark.spark
def test_spark_counts_the_same_where_nothing_waits(spark: Any, tmp_path: Path) -> None:
    from logjudge.analysis.engines.spark import judge_run

    run = open_run(parse("p:a@0 p:b@1 c:<a@0,b@1").write(tmp_path / "run"))
    assert verdict_of(judge_run(run, spark)) == verdict_of(local.judge_run(run))


def _one_file_a_process(history: History, folder: Path) -> None:
    """In the order of names, which is not that of time."""
    for event, line in zip(history.events, history.jsonl().splitlines(keepends=True), strict=True):
        with (folder / f"{event['process']}.jsonl").open("ab") as file:
            file.write(line)


def _shuffled(history: History, folder: Path) -> None:
    lines = history.jsonl().splitlines(keepends=True)
    random.Random(7).shuffle(lines)
    (folder / "history.jsonl").write_bytes(b"".join(lines))


def _gzipped(history: History, folder: Path) -> None:
    (folder / "history.jsonl.gz").write_bytes(gzip.compress(history.jsonl()))


def _zstandard(history: History, folder: Path) -> None:
    (folder / "history.jsonl.zst").write_bytes(zstandard.compress(history.jsonl()))


def _two_halves(history: History, folder: Path) -> None:
    """The second half in the file that comes first."""
    lines = history.jsonl().splitlines(keepends=True)
    half = len(lines) // 2
    (folder / "b.jsonl").write_bytes(b"".join(lines[:half]))
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[half:])))


@pytest.mark.parametrize("write", [_one_file_a_process, _shuffled, _gzipped, _zstandard, _two_halves])
def test_any_files(write: Callable[[History, Path], None], some: list[tuple[Path, Results]], tmp_path: Path) -> None:
    for number, ((history, _), (folder, expected)) in enumerate(zip(SOME, some, strict=True)):
        bundle = tmp_path / str(number)
        (bundle / "history").mkdir(parents=True)
        (bundle / "run.json").write_bytes((folder / "run.json").read_bytes())
        write(history, bundle / "history")
        results = local.judge_run(open_run(bundle))
        assert _without_lines(results) == _without_lines(expected)
        assert verdict_of(results) == verdict_of(expected)


@pytest.mark.parametrize("split_bytes", [5_000, 60_000])
def test_any_splits(split_bytes: int, some: list[tuple[Path, Results]]) -> None:
    for folder, expected in some:
        results = local.judge_run(open_run(folder, split_bytes=split_bytes))
        assert results.findings().equals(expected.findings())


def test_any_blocks(monkeypatch: pytest.MonkeyPatch, some: list[tuple[Path, Results]]) -> None:
    monkeypatch.setattr(parsing, "blocks", partial(blocks, block_bytes=3_000))
    for folder, expected in some:
        assert local.judge_run(open_run(folder)).findings().equals(expected.findings())


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every compressed file is decompressed in one place, and its blocks of a few lines are parsed in others."""
    monkeypatch.setattr(files, "HANDED_ON_BYTES", 0)
    for module in (local, handing_on):
        monkeypatch.setattr(module, "HANDED_ON_BLOCK_BYTES", 20_000)


@pytest.mark.parametrize("write", [_gzipped, _zstandard])
@pytest.mark.usefixtures("handed_on")
def test_blocks_that_are_handed_on(
    write: Callable[[History, Path], None], some: list[tuple[Path, Results]], tmp_path: Path
) -> None:
    for bundle, expected in _packed(write, some, tmp_path):
        _same_but_for_names(local.judge_run(open_run(bundle)), expected)


@pytest.mark.spark
@pytest.mark.usefixtures("handed_on")
def test_spark_hands_blocks_on_and_judges_on_many_tasks(
    spark: Any, some: list[tuple[Path, Results]], tmp_path: Path
) -> None:
    from logjudge.analysis.engines.spark import judge_run
    from logjudge.analysis.engines.spark.plan import plan
    from pyspark.sql import functions as F  # noqa: N812

    for bundle, expected in _packed(_gzipped, some[:2], tmp_path):
        run = open_run(bundle)
        assert len(run.splits) == 1
        assert plan(spark, run, None).select(F.spark_partition_id().alias("task")).distinct().count() > 1
        _same_but_for_names(judge_run(run, spark), expected)


def _packed(
    write: Callable[[History, Path], None], some: list[tuple[Path, Results]], folder: Path
) -> Iterator[tuple[Path, Results]]:
    """The runs with their histories as one compressed file each, and what is expected of them."""
    for number, ((history, _), (original, expected)) in enumerate(zip(SOME, some, strict=False)):
        bundle = folder / str(number)
        bundle.mkdir()
        (bundle / "run.json").write_bytes((original / "run.json").read_bytes())
        write(history, bundle)
        yield bundle, expected


def _same_but_for_names(found: Results, expected: Results) -> None:
    """The findings are the same, down to the line, in a file of another name."""
    assert found.counts == expected.counts
    lines = pl.col("evidence").list.eval(pl.element().struct.field("line"))
    assert found.findings().with_columns(lines).equals(expected.findings().with_columns(lines))
    assert verdict_of(found) == verdict_of(expected)


def _without_lines(results: Results) -> list[dict[str, Any]]:
    """Findings with what their evidence says, whichever lines say it."""
    says = pl.col("evidence").list.eval(pl.element().struct.field("says")).list.sort()
    return results.findings().with_columns(says).to_dicts()
