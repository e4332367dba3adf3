"""Transactions on lists and registers on Spark: the findings of the local engine, from paths and from a URI."""

from __future__ import annotations

import gzip
import uuid
from pathlib import Path
from random import Random
from typing import Any

import pytest
import twin_isolation as twin
from logjudge.analysis.engines import local
from logjudge.analysis.transactions import anomalies
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import Run, open_run
from logjudge.histories.readers import CHECKED

HISTORIES = 60


def lines_of(is_register: bool) -> list[str]:
    """Histories as one: keys and processes apart but for some processes, with odd lines between."""
    random = Random(13)
    lines = []
    for number in range(HISTORIES):
        history = twin.random_history(random, is_register, once=number % 2 == 0)
        lines += twin.edn_lines(history, 100 * (number // 3), f"k{number}_")
    write = ":w" if is_register else ":append"
    for value in (1, 1):  # a key with a repeated value, in transactions with another key
        ops = f"[[{write} :twice {value}] [{write} :once {len(lines)}]]"
        lines += [f"{{:type {kind}, :f :txn, :value {ops}, :process 77}}" for kind in (":invoke", ":ok")]
    lines.insert(len(lines) // 2, "{:type :ok, :f :txn, :value [[:r")
    return lines


def run_of(run: Run, **settings: Any) -> Run:
    return run.with_settings(**settings)


@pytest.mark.sampled(1)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("is_register", "settings", "is_whole"),
    [
        (False, {"model": "snapshot-isolation"}, False),
        pytest.param(True, {}, False, marks=pytest.mark.campaign),
        (True, {"keys": ("wfr", "sequential", "linearizable"), "model": "serializable"}, True),
    ],
)
def test_spark_finds_what_one_process_finds(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_register: bool,
    settings: dict[str, Any],
    is_whole: bool,
) -> None:
    from logjudge.analysis.engines.spark import judge_run, remote

    monkeypatch.setattr(anomalies, "MAX_ANOMALIES", 3)
    lines = lines_of(is_register)
    if is_whole:
        lines = [line for line in lines if line[-1] == "}"]
    folder = tmp_path / "stored" / "run"
    (folder / "history").mkdir(parents=True)
    half = lines.index(next(line for line in lines[len(lines) // 2 :] if ":invoke" in line))
    (folder / "history" / "a.edn").write_text("\n".join(lines[:half]) + "\n")
    (folder / "history" / "b.edn.gz").write_bytes(gzip.compress("\n".join(lines[half:]).encode()))
    run = run_of(open_run(folder, split_bytes=8000, contents=CHECKED), **settings)
    assert len(run.splits) > 2
    expected = local.judge_run(run)
    assert len(expected.findings()) > 8
    cluster = f"c{uuid.uuid4().hex}"
    spark.conf.set(f"fs.viewfs.mounttable.{cluster}.link./stored", f"file://{folder.parent}")
    stored = run_of(remote.open_run(spark, f"viewfs://{cluster}/stored/run", split_bytes=8000), **settings)
    for chosen in (run, stored) if is_register else (stored,):
        found = judge_run(chosen, spark)
        assert found.findings().equals(expected.findings())
        assert found.quarantine().equals(expected.quarantine())
        assert found.counts == expected.counts
        assert found.repeated_keys == expected.repeated_keys == [":twice"]
        assert verdict_of(found) == verdict_of(expected)
        assert found.records == expected.records
