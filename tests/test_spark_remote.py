"""Runs at URIs. Hadoop's viewfs gives a scheme that is no local path without a server."""

from __future__ import annotations

import gzip
import json
import shutil
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyspark
import pytest
from command_line import invoke, thinned
from evidence.test_groups import offset_key, offset_value, write_group_log
from logjudge.analysis.engines import local
from logjudge.analysis.engines.spark import fetching, publishing, remote
from logjudge.analysis.engines.spark.connecting import call_with_timeout
from logjudge.analysis.verdict.document import verdict_of
from logjudge.cli.engines import Engine
from logjudge.cli.progress import Progress
from logjudge.histories import files
from logjudge.histories.bundle import open_run
from logjudge.histories.convert import convert
from logjudge.histories.errors import ClusterError, InputError, UsageError
from logjudge.histories.files import local_path
from logjudge.histories.output_folder import MARK

EXAMPLE = Path(__file__).parents[1] / "examples" / "unclean-election"
URI = "s3a://bucket/run"
JEPSEN = Path(__file__).parent / "data" / "jepsen.edn"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The history in four files: text with a malformed line, two compressed, and Parquet of two row groups."""
    tmp_path = tmp_path_factory.mktemp("remote")
    folder = tmp_path / "a run"
    (folder / "history").mkdir(parents=True)
    shutil.copy(EXAMPLE / "run.json", folder)
    lines = gzip.decompress((EXAMPLE / "history.jsonl.gz").read_bytes()).splitlines(keepends=True)
    (folder / "history" / "a.jsonl").write_bytes(b"".join([*lines[:2000], b"no event\n", *lines[2000:3000]]))
    (folder / "history" / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[3000:5000])))
    (folder / "history" / "d.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[5000:5500])))
    (folder / "history" / "e.jsonl").touch()
    (tmp_path / "rest.jsonl").write_bytes(b"".join(lines[5500:]))
    rest = pl.read_parquet(_converted(tmp_path / "rest.jsonl", tmp_path / "rest.parquet"))
    rest.write_parquet(folder / "history" / "c.parquet", row_group_size=len(rest) // 2)
    return folder


@pytest.fixture
def bundle(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "stored" / written.name)


@pytest.fixture
def mounted(spark: Any, bundle: Path) -> Iterator[str]:
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")  # tasks of so little data are all overhead
    cluster = f"c{uuid.uuid4().hex}"  # Hadoop caches the result for a name
    spark.conf.set(f"fs.viewfs.mounttable.{cluster}.link./stored", f"file://{bundle.parent}")
    yield f"viewfs://{cluster}/stored"
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


@pytest.mark.spark
def test_a_run_at_a_uri_is_judged_as_a_local_one(
    spark: Any, bundle: Path, mounted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task decompresses the larger of two compressed files for others."""
    from logjudge.analysis.engines.spark import judge_run

    monkeypatch.setattr(files, "MIN_SHARED_BYTES", (bundle / "history" / "b.jsonl.gz").stat().st_size - 1)
    monkeypatch.setattr(fetching, "TEXT_BLOCK_BYTES", 50_000)
    expected = local.judge_run(open_run(bundle))
    run = remote.open_run(spark, f"{mounted}/a run", split_bytes=200_000)
    assert len(run.splits) > 3
    assert run.empty == ("history/e.jsonl",)
    assert run.files == tuple(f"history/{name}" for name in ("a.jsonl", "b.jsonl.gz", "c.parquet", "d.jsonl.gz"))
    assert {split.path.rpartition("/")[2] for split in run.splits if split.is_shared} == {"b.jsonl.gz"}
    results = judge_run(run, spark)
    assert len(expected.findings())
    assert results.findings().equals(expected.findings())
    assert results.quarantine().equals(expected.quarantine())
    assert results.quarantine().rows()[0][:2] == ("history/a.jsonl", 2001)
    assert verdict_of(results) == verdict_of(expected)


@pytest.mark.spark
def test_a_lone_file_at_a_uri(spark: Any, mounted: str) -> None:
    run = remote.open_run(spark, f"{mounted}/a run/history/b.jsonl.gz")
    assert (run.settings.name, run.files, run.settings.config) == ("b", ("b.jsonl.gz",), {})


@pytest.fixture
def brokers(bundle: Path) -> Path:
    """A simulated run with odd names, an empty segment, an older log, a damaged batch and a second copy of a broker."""
    folder = bundle.parent / "run #1 [50%41]"
    simulated = ("simulate", "--seed", "3", "--ops", "300", "--out", str(folder))
    assert invoke(*simulated).exception is None
    (folder / "brokers" / "3").rename(folder / "brokers" / "a b%20#c")
    data = folder / "brokers" / "1" / "data"
    shutil.copytree(data / "orders-0", folder / "snapshots" / "early" / "brokers" / "1" / "data" / "orders-0")
    copied = shutil.copytree(folder / "brokers" / "2", folder / "brokers" / "2 of May")
    flip_byte(copied / "data" / "orders-0" / f"{0:020d}.log")  # an equal copy would be set aside
    (data / "orders-7").mkdir()
    (data / "orders-7" / f"{40:020d}.log").touch()
    (data / "orders-7" / f"{40:020d}.index").write_bytes(b"never asked for")
    for name in (f"{0:020d}.txnindex", f"{18:020d}.snapshot"):
        shutil.copy(Path(__file__).parent / "evidence" / "data" / "transactions" / name, data / "orders-7")
    log = folder / "brokers" / "1" / "server.log"
    (log.parent / "server.log.2026-11-20.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.write_bytes(b"")
    (log.parent / "notes.txt").write_text("no dump")
    flip_byte(data / "orders-0" / f"{0:020d}.log")
    return folder


def flip_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


lists_all = pytest.mark.skipif(
    tuple(map(int, pyspark.__version__.split(".")[:2])) < remote.LISTS_ALL, reason="lists no __cluster_metadata"
)


@pytest.mark.spark
def test_files_that_an_older_spark_cannot_list_are_missed(
    spark: Any, bundle: Path, mounted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logjudge.analysis.engines.spark import judge_run

    shutil.copytree(EXAMPLE, bundle.parent / "example")
    monkeypatch.setattr(remote, "LISTS_ALL", (99, 0))
    results = judge_run(remote.open_run(spark, f"{mounted}/example"), spark)
    [missing] = [one for one in verdict_of(results)["assumptions"] if one["name"] == "brokers' common files readable"]
    assert not missing["holds"]
    assert f"Spark {spark.version} lists no names that begin with _, such as __cluster_metadata-0" in missing["says"]


@lists_all
@pytest.mark.spark
def test_coordinators_topics_at_a_uri(spark: Any, bundle: Path, mounted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the coordinators' topics of this recorded run show the hanging transaction and the last commits."""
    from logjudge.analysis.engines.spark import judge_run

    monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", "0")
    shutil.unpack_archive(
        Path(__file__).parent / "evidence" / "data" / "transactions" / "hanging.tar.xz", bundle.parent
    )
    for state in (bundle.parent / "hanging").rglob("__transaction_state-*"):
        commit = (offset_key("late", "orders", 0), offset_value(3, 10**6))
        write_group_log(state.parent / "__consumer_offsets-0", [commit])
    here = open_run(bundle.parent / "hanging")
    expected = local.judge_run(here)
    run = remote.open_run(spark, f"{mounted}/hanging")
    assert [(part.kind, part.name) for part in run.evidence] == [(part.kind, part.name) for part in here.evidence]
    results = judge_run(run, spark)
    assert results.findings().equals(expected.findings())
    assert {"hanging-transaction", "commit-beyond-end"} <= set(results.findings()["rule"])
    assert verdict_of(results) == verdict_of(expected)


@lists_all
@pytest.mark.sampled(1)
@pytest.mark.spark
@pytest.mark.parametrize("large", ["", "0"], ids=["decoded", "by headers"])
def test_brokers_files_at_a_uri(
    spark: Any, brokers: Path, mounted: str, large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from logjudge.analysis.engines.spark import judge_run

    if large:
        thinned(brokers)  # so that the history does not refer to all records
        monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", large)
    here = open_run(brokers)
    expected = local.judge_run(here)
    run = remote.open_run(spark, f"{mounted}/.//nowhere/../{brokers.name}/")
    assert {(part.kind, part.broker, part.name, part.reason) for part in run.evidence} == {
        (part.kind, part.broker, part.name, part.reason) for part in here.evidence
    }
    assert {part.kind for part in run.evidence} > {
        *("metadata", "log", "left-out", "txnindex", "snapshot"),
        "headers" if large else "segment",
    }
    assert not [file for file in run.stored if file.name.endswith((".index", ".txt"))]
    results = judge_run(run, spark)
    assert (run.settings.name, run.bytes) == (here.settings.name, here.bytes)
    assert len(expected.quarantine())
    assert results.findings().equals(expected.findings())
    assert results.quarantine().equals(expected.quarantine())
    assert results.causes() == expected.causes()
    assert verdict_of(results) == verdict_of(expected)
    assert results.counts["evidence files"] == expected.counts["evidence files"]


@pytest.mark.spark
def test_the_footer_of_parquet_at_a_uri_names_its_dialect(spark: Any, bundle: Path, mounted: str) -> None:
    here = open_run(_converted(JEPSEN, bundle.parent / "jepsen.parquet"))
    run = remote.open_run(spark, f"{mounted}/jepsen.parquet")
    assert (run.settings, run.files) == (here.settings, here.files)
    assert [split.reader for split in run.splits] == [split.reader for split in here.splits]


def _converted(source: Path, target: Path) -> Path:
    convert(open_run(source), target)
    return target


@pytest.mark.spark
def test_uris_that_cannot_be_judged_are_refused_in_a_sentence(spark: Any, bundle: Path, mounted: str) -> None:
    stored = bundle.parent
    pl.DataFrame({"time": [1], "who": ["p"]}).write_parquet(stored / "foreign.parquet")
    (stored / "cut.parquet").write_bytes((stored / "foreign.parquet").read_bytes()[:-1])
    (stored / "empty" / "below").mkdir(parents=True)
    (stored / "empty.jsonl").touch()
    (stored / "two").mkdir()
    for name in "ab":
        shutil.copytree(bundle, stored / "two" / name)
    for name, expected in {
        "nowhere": "no such file or folder; ",
        "empty": "no such file or folder; ",
        "empty.jsonl": "found an empty file",
        "foreign.parquet": "found no column process, type, f, expected the columns",
        "cut.parquet": "found damaged Parquet",
        "two": r"found 2 run bundles in it \(a, b\), .*viewfs://.*/two/\*",
    }.items():
        with pytest.raises(InputError, match=expected) as raised:
            remote.open_run(spark, f"{mounted}/{name}")
        assert str(raised.value).startswith(f"{mounted}/{name}: ")
        assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize(
    "command",
    [
        ("explain", URI),
        ("timeline", URI),
        ("diff", URI),
        ("plot", URI, "glance"),
        ("plot", ".", "glance", "--out", URI),
        ("report", URI),
        ("convert", URI, "history.parquet"),
        ("convert", ".", URI),
        ("simulate", "--out", URI),
        ("search", "--variant", "kraft", "--out", URI),
        ("scenarios", "run", "elr", "--out", URI),
    ],
)
def test_commands_that_read_no_uri_refuse_it(command: tuple[str, ...]) -> None:
    error = invoke(*command).exception
    assert isinstance(error, UsageError)
    assert f"found {URI}, expected a local or mounted path" in str(error)


def test_the_local_search_of_linearize_names_the_engine_that_reads_uris() -> None:
    error = invoke("linearize", URI).exception
    assert isinstance(error, UsageError)
    assert str(error) == f"found {URI}, expected a local path; --engine spark reads URIs"


def test_a_file_uri_is_a_local_path(bundle: Path, tmp_path: Path) -> None:
    target = tmp_path / "a history.parquet"
    done = invoke("convert", bundle.as_uri(), target.as_uri())
    assert done.exception is None
    assert target.is_file()


@pytest.mark.spark
def test_results_go_to_a_uri_with_a_manifest_last(
    spark: Any, bundle: Path, mounted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, out, uri = bundle.parent / "result", bundle.parent / "out", f"{mounted}/out"
    (result / "plots").mkdir(parents=True)
    (result / "plots" / "one.svg").write_text("<svg/>")
    (result / MARK).write_text('{"verdict": "valid", "rules": {}}')
    publishing.publish(spark, result, uri)
    assert files_below(out) == ["_SUCCESS", "plots/one.svg", MARK]
    assert json.loads((out / "_SUCCESS").read_bytes())["files"] == ["plots/one.svg", MARK]

    # The next result replaces the first, and nothing else.
    (out / "plots" / "mine.svg").write_text("<svg/>")
    (result / "plots" / "one.svg").rename(result / "plots" / "two.svg")
    publishing.publish(spark, result, uri)
    assert files_below(out) == ["_SUCCESS", "plots/mine.svg", "plots/two.svg", MARK]

    put = publishing.Store.put

    def interrupted(store: publishing.Store, local: Path, name: str) -> None:
        if name == MARK:
            raise KeyboardInterrupt
        put(store, local, name)

    with monkeypatch.context() as patch:
        patch.setattr(publishing.Store, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            publishing.publish(spark, result, uri)
    assert files_below(out) == ["plots/mine.svg"]
    with pytest.raises(UsageError, match="found a folder with other files"):
        publishing.publish(spark, result, uri)
    with pytest.raises(UsageError, match="found a folder with other files"):
        publishing.publish(spark, result, f"{mounted}/a run")
    (bundle / MARK).write_text("a user's own file")
    with pytest.raises(UsageError, match="found a folder with other files"):
        publishing.publish(spark, result, f"{mounted}/a run")
    assert (bundle / "run.json").exists()
    with pytest.raises(UsageError, match=r"cannot be written by Spark .*spark\.jars\.packages"):
        publishing.check_target(spark, "s3x://bucket/out")


@pytest.mark.spark
def test_the_result_of_a_killed_writer_is_replaced(spark: Any, bundle: Path, mounted: str) -> None:
    out, result = bundle.parent / "out", bundle.parent / "result"
    for folder in (out, result):
        folder.mkdir()
    (out / publishing.STARTED).write_text('{"writer": "logjudge", "files": ["report.html", "../../etc"]}')
    (out / "report.html").write_text("<html>half")
    (result / MARK).write_text('{"verdict": "valid", "rules": {}}')
    publishing.publish(spark, result, f"{mounted}/out")
    assert files_below(out) == ["_SUCCESS", MARK]


def files_below(folder: Path) -> list[str]:
    """The names of all files, without Hadoop's checksums."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")
    return sorted(path.relative_to(folder).as_posix() for path in files)


def test_a_timeout_is_one_sentence() -> None:
    with pytest.raises(ClusterError, match=r"s3a://b/x: not done after 0 s; .*retry"):
        call_with_timeout(0.01, lambda: threading.Event().wait(5), "s3a://b/x")
    assert call_with_timeout(5, lambda: 7, "") == 7
    with pytest.raises(ZeroDivisionError):
        call_with_timeout(5, lambda: 1 / 0, "")


def test_the_local_engine_reads_no_uri() -> None:
    with pytest.raises(UsageError, match="Spark reads URIs"):
        Engine().open_run("s3a://bucket/run", None, Progress("run", quiet=True))
    assert local_path("file:///tmp/a%20run") == Path("/tmp/a run")
