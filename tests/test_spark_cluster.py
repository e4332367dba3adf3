"""The pipeline against a real Spark Connect server and a real standalone cluster, started here on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import HOST, free_port, spark_process, wait_for_port, wait_for_text
from logjudge.analysis.engines import local
from logjudge.cli.doctor import java
from logjudge.histories.bundle import open_run

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from generate import generate

EXAMPLE = Path(__file__).parents[1] / "examples" / "unclean-election"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(java().state != "ok", reason="Spark needs Java 17 or newer"),
]


def check(*arguments: str, cwd: Path) -> tuple[int, dict[str, object]]:
    """`logjudge check --json` in a process of its own, as a user calls it."""
    done = subprocess.run(
        [sys.executable, "-m", "logjudge.cli", "check", "--json", "--no-plots", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=400,
        check=False,
    )
    assert done.returncode in (0, 1, 3), done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout)


def expected(path: Path) -> list[dict[str, object]]:
    from logjudge.analysis.finding_order import worst_rows_first
    from logjudge.analysis.verdict import WORST

    return worst_rows_first(local.judge_run(open_run(path)).findings()).head(WORST).to_dicts()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("runs") / "faulty", 100_000, faulty=True)


def test_connect_server(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "connect.log"
    arguments = [
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", f"spark.connect.grpc.binding.address={HOST}", "--conf", "spark.ui.enabled=false"),
        "spark-internal",
    ]
    with spark_process(log, "spark-submit", *arguments) as server:
        wait_for_port(port, server, log)
        remote = ("--remote", f"sc://{HOST}:{port}")
        code, report = check(str(EXAMPLE), *remote, cwd=tmp_path)
        arguments = ["search", "--variant", "high-watermark", "--runs", "300", "--engine", "spark", *remote]
        search = [sys.executable, "-m", "logjudge.cli", *arguments]
        found = subprocess.run(search, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (found.returncode, "is broken" in found.stdout) == (1, True), found.stderr[-3000:]
    assert code == 1
    assert report["findings"] == expected(EXAMPLE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A master and two workers of one core each, and their processes."""
    folder = tmp_path_factory.mktemp("cluster")
    port, ui = free_port(), free_port()
    master, log = f"spark://{HOST}:{port}", folder / "master.log"
    name = "org.apache.spark.deploy.{}.{}"
    with spark_process(
        log,
        "spark-class",
        name.format("master", "Master"),
        "--host",
        HOST,
        "--port",
        str(port),
        "--webui-port",
        str(ui),
    ) as process:
        wait_for_port(port, process, log)
        options = ("--cores", "1", "--memory", "1g", "--host", HOST, "--webui-port", "0")
        worker = name.format("worker", "Worker")
        with (
            spark_process(folder / "one.log", "spark-class", worker, *options, "-d", str(folder / "1"), master) as one,
            spark_process(folder / "two.log", "spark-class", worker, *options, "-d", str(folder / "2"), master) as two,
        ):
            for each in ("one", "two"):
                wait_for_text(folder / f"{each}.log", "Successfully registered with master")
            yield master, [one, two]


SMALL = ("--conf", "spark.executor.memory=700m", "--conf", "spark.driver.host=127.0.0.1")


def test_workers_import_the_shipped_code(tmp_path: Path) -> None:
    from logjudge.analysis.engines.spark.session import write_code_archive

    archive = tmp_path / "code.zip"
    write_code_archive(archive)
    shipped = "kernel as k, logjudge.analysis.linearizability.linearize, logjudge.models.exploration.search"
    program = f"import logjudge.analysis.{shipped}; print(k.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(archive))


@pytest.mark.campaign
def test_a_standalone_cluster_bears_the_death_of_a_worker(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], faulty: Path, tmp_path: Path
) -> None:
    """The worker dies once it has an executor at work; its tasks and its blocks are made again on the other."""
    master, workers = cluster
    log = Path(f"/proc/{workers[1].pid}/cwd").resolve() / "two.log"
    seen = log.read_text(errors="replace").count("Asked to launch executor")
    killed = threading.Event()

    def kill() -> None:
        while log.read_text(errors="replace").count("Asked to launch executor") == seen and not killed.wait(0.2):
            pass
        killed.wait(4)
        workers[1].send_signal(signal.SIGKILL)
        killed.set()

    threading.Thread(target=kill, daemon=True).start()
    code, report = check(str(faulty), "--master", master, *SMALL, cwd=tmp_path)
    assert killed.is_set(), "the run ended before the worker was killed"
    assert workers[1].wait(10) == -signal.SIGKILL
    assert code == 1
    assert report["findings"] == expected(faulty)
