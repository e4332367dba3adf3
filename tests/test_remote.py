"""Runs at URIs. Hadoop's viewfs gives a scheme that is no local path without a server."""

from __future__ import annotations

import gzip
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis import local, remote
from logjudge.analysis.verdict import verdict_of
from logjudge.cli.engines import LocalEngine
from logjudge.cli.folder import MARK, is_verdict
from logjudge.cli.progress import Progress
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError, UsageError
from logjudge.histories.files import local_path

EXAMPLE = Path(__file__).parents[1] / "examples" / "unclean-election"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """The history in two files, the second of which is compressed."""
    folder = tmp_path / "stored" / "a run"
    (folder / "history").mkdir(parents=True)
    shutil.copy(EXAMPLE / "run.json", folder)
    lines = gzip.decompress((EXAMPLE / "history.jsonl.gz").read_bytes()).splitlines(keepends=True)
    (folder / "history" / "a.jsonl").write_bytes(b"".join([*lines[:2000], b"no event\n", *lines[2000:4000]]))
    (folder / "history" / "b.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[4000:])))
    return folder


@pytest.fixture
def mounted(spark: Any, bundle: Path) -> str:
    cluster = f"c{uuid.uuid4().hex}"  # Hadoop keeps what it once made of a name
    spark.conf.set(f"fs.viewfs.mounttable.{cluster}.link./stored", f"file://{bundle.parent}")
    return f"viewfs://{cluster}/stored"


@pytest.mark.spark
def test_a_run_at_a_uri_is_judged_as_a_local_one(spark: Any, bundle: Path, mounted: str) -> None:
    from logjudge.analysis.spark import judge_run

    expected = local.judge_run(open_run(bundle))
    run = remote.open_run(spark, f"{mounted}/a run", split_bytes=200_000)
    assert len(run.splits) > 3
    assert run.files == ("history/a.jsonl", "history/b.jsonl.gz")
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


@pytest.mark.spark
def test_what_is_not_there_is_said_in_a_sentence(spark: Any, mounted: str) -> None:
    with pytest.raises(InputError, match="nothing"):
        remote.open_run(spark, f"{mounted}/nowhere")


@pytest.mark.spark
def test_results_go_to_a_uri_whole_and_over_nothing_else(spark: Any, bundle: Path, mounted: str) -> None:
    result = bundle.parent / "result"
    result.mkdir()
    (result / "verdict.json").write_text('{"rules": {}, "verdict": "valid"}')
    for _ in range(2):  # again over the earlier result
        remote.publish(spark, result, f"{mounted}/out", MARK, is_verdict)
    assert [path.name for path in (bundle.parent / "out").iterdir() if path.suffix != ".crc"] == ["verdict.json"]
    assert sorted(path.name for path in bundle.parent.iterdir()) == ["a run", "out", "result"]
    with pytest.raises(UsageError, match="other files"):
        remote.publish(spark, result, f"{mounted}/a run", MARK, is_verdict)
    (bundle / MARK).write_text('{"verdict": "of somebody else"}')
    with pytest.raises(UsageError, match="other files"):
        remote.publish(spark, result, f"{mounted}/a run", MARK, is_verdict)
    assert (bundle / "run.json").is_file()
    with pytest.raises(UsageError, match=r"cannot be written by Spark .*s3x"):
        remote.check_target(spark, "s3x://bucket/out", MARK, is_verdict)


def test_the_local_engine_reads_no_uri() -> None:
    with pytest.raises(UsageError, match="Spark reads URIs"):
        LocalEngine().open_run("s3a://bucket/run", None, Progress("run", quiet=True))
    assert local_path("file:///tmp/a%20run") == Path("/tmp/a run")
