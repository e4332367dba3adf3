"""The same findings whatever the engine, the files, their order and their compression."""

from __future__ import annotations

import gc
import gzip
import random
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
import zstandard
from combined_corpus import BREAKING, SOUND, JudgedRun, combine, judge_combined
from logjudge.analysis import kernel
from logjudge.analysis.engines import local
from logjudge.analysis.engines.spark import blocks as spark_blocks
from logjudge.analysis.engines.spark import text_blocks
from logjudge.analysis.engines.threads import is_in_pool
from logjudge.analysis.results import Results
from logjudge.analysis.stages import Progress
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories import files, parsing
from logjudge.histories.bundle import Run, open_run
from logjudge.histories.files import blocks
from notation import History, parse

EXAMPLE = Path(__file__).parents[1] / "examples" / "unclean-election"


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> list[JudgedRun]:
    """A breach of each rule, for what is judged again and again."""
    return judge_combined(BREAKING, tmp_path_factory.mktemp("some"))


def _compare_on_spark(session: Any, runs: list[JudgedRun]) -> None:
    from logjudge.analysis.engines.spark import judge_run

    for judged in runs:
        size = (judged.folder / "history.jsonl").stat().st_size
        run = open_run(judged.folder, split_bytes=max(size // 3, 1))
        assert len(run.splits) >= 3
        results = judge_run(run, session)
        assert results.findings().equals(judged.results.findings())
        assert verdict_of(results) == verdict_of(judged.results)


@pytest.mark.spark
def test_spark_finds_the_same(spark: Any, tmp_path: Path) -> None:
    run = max(combine(sorted({*BREAKING, *SOUND})), key=lambda run: len(run.topics))  # each run costs Spark seconds
    largest = judge_combined(list(run.topics.values()), tmp_path)
    assert largest[0].results.findings()["rule"].n_unique() >= 15
    _compare_on_spark(spark, largest)


@pytest.mark.spark
def test_spark_judges_a_small_run_in_one_task(
    spark: Any, some: list[JudgedRun], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also its quarantine, and the lines that its findings quote. On a cluster, and without a session's SQL."""
    from logjudge.analysis.engines.spark import judge, judge_run, whole_run

    monkeypatch.setattr(whole_run, "MAX_BYTES", 1 << 30)
    judged = max(some, key=lambda judged: len(judged.run.topics))
    folder = shutil.copytree(judged.folder, tmp_path / "run")
    with (folder / "history.jsonl").open("ab") as history:
        history.write(b"no JSON\n")
    size = (folder / "history.jsonl").stat().st_size
    for run in (open_run(folder, split_bytes=size // 3), open_run(EXAMPLE)):
        same = local.judge_run(run)
        assert len(same.findings()) > 0
        for way in ("plan_whole", "judge_in_one_task"):
            with monkeypatch.context() as patch:
                patch.setattr(judge, "is_cluster", lambda _, way=way: way == "plan_whole")
                for other in {"plan", "plan_whole", "judge_in_one_task"} - {way}:
                    patch.delattr(judge, other)
                results = judge_run(run, spark)
            assert results.findings().equals(same.findings())
            assert results.quarantine().equals(same.quarantine())
            assert verdict_of(results) == verdict_of(same)


def test_one_task_judges_more_on_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large histories of transactions are excluded, as they need more memory."""
    from logjudge.analysis.engines.spark import is_judged_here, judge, whole_run

    run = open_run(EXAMPLE)
    size = run.expanded_bytes
    monkeypatch.setattr(whole_run, "MAX_BYTES", size - 1)
    for limit, fits in ((size, True), (size - 1, False)):
        monkeypatch.setattr(judge, "MAX_BYTES_HERE", limit)
        assert is_judged_here(run) == fits
        assert not is_judged_here(run.with_settings(dialect="elle-append"))
        assert not judge.is_whole(run, size)


@pytest.mark.usefixtures("judged_anew")
def test_a_small_run_is_judged_on_one_thread_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    run, are_in_pool = open_run(EXAMPLE), []
    gather = local.gather

    def gather_here(run: Run, progress: Progress) -> local.Gathered:
        are_in_pool.append(is_in_pool())
        return gather(run, progress)

    monkeypatch.setattr(local, "gather", gather_here)
    monkeypatch.setattr(local, "SMALL_BYTES", run.expanded_bytes)
    small = local.judge_run(run)
    monkeypatch.setattr(local, "SMALL_BYTES", run.expanded_bytes - 1)
    assert local.judge_run(run).findings().equals(small.findings())
    assert are_in_pool == [True, False]


def test_a_task_of_a_whole_run_knows_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of batches of small partitions follows from it."""
    from logjudge.analysis.engines.spark import plan, whole_run

    judged: list[Run] = []
    results = local.judge_run(open_run(EXAMPLE))
    monkeypatch.setattr(local, "judge_run", lambda run: [judged.append(run), results][1])
    run = open_run(EXAMPLE)
    tasks = whole_run.pa.RecordBatch.from_pylist(plan.tasks_of(run))
    list(whole_run._judge(run.settings, run.bytes, iter([tasks])))
    assert (judged[0].bytes, judged[0].expanded_bytes) == (run.bytes, run.expanded_bytes)


def test_a_task_reports_its_progress_in_a_file(tmp_path: Path) -> None:
    from logjudge.analysis.engines.spark import whole_run

    file = tmp_path / "progress.json"
    with pytest.raises(FileNotFoundError):
        whole_run.read_progress(file)
    write = whole_run._write_progress(file)
    write("reading", 1, 3)
    write("judging", 2, 3, "partitions")  # too early for another report
    assert whole_run.read_progress(file) == ("reading", 1, 3, "parts")
    whole_run._write_progress(tmp_path / "no folder" / "progress.json")("reading", 1, 3)


@pytest.mark.spark
@pytest.mark.campaign
def test_spark_finds_the_same_in_the_whole_corpus(spark: Any, combined_corpus: list[JudgedRun]) -> None:
    _compare_on_spark(spark, combined_corpus)


@pytest.mark.usefixtures("judged_anew")
def test_partitions_that_only_logs_name_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    judge = kernel.judge
    monkeypatch.setattr(kernel, "judge", lambda p, *rules: judged.append(p.name) or judge(p, *rules))
    local.judge_run(open_run(EXAMPLE))
    assert sorted(judged) == ["orders-0", "orders-1"]


def test_a_worker_excludes_its_imports_from_garbage_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of every task: a later one may import more."""
    spark_blocks._freeze.cache_clear()
    before = gc.get_freeze_count()
    try:
        assert list(spark_blocks.blocks_of_parts([], 0)) == []
        first = gc.get_freeze_count()
        assert first > before
        made = [[] for _ in range(100_000)]  # far more than other tests' objects that end in between
        assert list(spark_blocks.rows_in([])) == []
        assert gc.get_freeze_count() < first + len(made) // 2
        monkeypatch.setitem(sys.modules, "imported_later", ModuleType("imported_later"))
        assert list(spark_blocks.rows_in([])) == []
        assert gc.get_freeze_count() > first + len(made) // 2
    finally:
        gc.unfreeze()


@pytest.mark.spark
def test_spark_counts_the_same_where_nothing_waits(spark: Any, tmp_path: Path) -> None:
    from logjudge.analysis.engines.spark import judge_run

    run = open_run(parse("p:a@0 p:b@1 c:<a@0,b@1").write(tmp_path / "run"))
    assert verdict_of(judge_run(run, spark)) == verdict_of(local.judge_run(run))


def _one_file_a_role(history: History, folder: Path) -> None:
    """In the order of names, which is not that of time: each process of all histories in the file of its name."""
    for event, line in zip(history.events, history.jsonl().splitlines(keepends=True), strict=True):
        with (folder / f"{event['process'].rpartition('.')[2]}.jsonl").open("ab") as file:
            file.write(line)


def _shuffled(history: History, folder: Path) -> None:
    lines = history.jsonl().splitlines(keepends=True)
    random.Random(7).shuffle(lines)
    (folder / "history.jsonl.zst").write_bytes(zstandard.compress(b"".join(lines)))


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


@pytest.mark.thorough
@pytest.mark.parametrize("write", [_one_file_a_role, _shuffled, _two_halves])
def test_any_files(write: Callable[[History, Path], None], some: list[JudgedRun], tmp_path: Path) -> None:
    for judged in some:
        bundle = tmp_path / judged.folder.name
        (bundle / "history").mkdir(parents=True)
        (bundle / "run.json").write_bytes((judged.folder / "run.json").read_bytes())
        write(judged.run.history, bundle / "history")
        results = local.judge_run(open_run(bundle))
        assert _without_lines(results) == _without_lines(judged.results)
        assert verdict_of(results) == verdict_of(judged.results)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("split_bytes", [5_000, pytest.param(60_000, marks=pytest.mark.campaign)])
@pytest.mark.usefixtures("on_all_cores")
def test_any_splits(split_bytes: int, some: list[JudgedRun]) -> None:
    for judged in some:
        results = local.judge_run(open_run(judged.folder, split_bytes=split_bytes))
        assert results.findings().equals(judged.results.findings())


def test_any_blocks(monkeypatch: pytest.MonkeyPatch, some: list[JudgedRun]) -> None:
    monkeypatch.setattr(parsing, "blocks", partial(blocks, block_bytes=3_000))
    for judged in some:
        assert local.judge_run(open_run(judged.folder)).findings().equals(judged.results.findings())


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every compressed file is decompressed in one place, and its blocks of a few lines are parsed in others."""
    monkeypatch.setattr(files, "MIN_SHARED_BYTES", 0)
    for module in (local, text_blocks):
        monkeypatch.setattr(module, "TEXT_BLOCK_BYTES", 20_000)


def _packed(write: Callable[[History, Path], None], judged: JudgedRun, bundle: Path) -> Path:
    """The run with its history as one compressed file."""
    bundle.mkdir()
    (bundle / "run.json").write_bytes((judged.folder / "run.json").read_bytes())
    write(judged.run.history, bundle)
    return bundle


@pytest.mark.sampled(1)
@pytest.mark.parametrize("write", [_gzipped, _zstandard])
@pytest.mark.usefixtures("handed_on")
def test_blocks_that_are_handed_on(
    write: Callable[[History, Path], None], some: list[JudgedRun], tmp_path: Path
) -> None:
    for judged in some:
        bundle = _packed(write, judged, tmp_path / judged.folder.name)
        _same_but_for_names(local.judge_run(open_run(bundle)), judged.results)


@pytest.mark.spark
@pytest.mark.usefixtures("handed_on")
def test_spark_parses_the_blocks_of_a_compressed_file_in_many_tasks(
    spark: Any, some: list[JudgedRun], tmp_path: Path
) -> None:
    from logjudge.analysis.engines.spark import judge_run
    from logjudge.analysis.engines.spark.plan import plan
    from pyspark.sql import functions as F  # noqa: N812

    judged = max(some, key=lambda each: len(each.run.topics))
    run = open_run(_packed(_gzipped, judged, tmp_path / "packed"))
    run = run.with_settings(batches=8)  # as a larger run has
    assert len(run.splits) == 1
    with ExitStack() as stored:
        blocks, _ = plan(spark, run, None, None, stored)
        units = blocks.filter(F.col("kind") == "summaries")
        assert units.select(F.spark_partition_id()).distinct().count() > 1
    _same_but_for_names(judge_run(run, spark), judged.results)


def _same_but_for_names(found: Results, expected: Results) -> None:
    """The findings are the same, down to the line, in a file of another name."""
    assert found.counts == expected.counts
    lines = pl.col("evidence").list.eval(pl.element().struct.field("line"))
    assert found.findings().with_columns(lines).equals(expected.findings().with_columns(lines))
    assert verdict_of(found) == verdict_of(expected)


def _without_lines(results: Results) -> list[dict[str, Any]]:
    """Findings with the sentences of their evidence, without its lines."""
    sentences = pl.col("evidence").list.eval(pl.element().struct.field("says")).list.sort()
    return results.findings().with_columns(sentences).to_dicts()
