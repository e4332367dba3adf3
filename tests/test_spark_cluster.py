"""The pipeline against a real Spark Connect server and a real standalone cluster, started here on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import logjudge
import polars as pl
import pytest
from cluster import HOST, free_port, spark_process, wait_for_port, wait_for_text
from event_lines import CONFIG, frame
from logjudge.analysis.engines import local
from logjudge.cli.doctor import java
from logjudge.histories.bundle import open_run

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from generate import generate

EXAMPLE = Path(__file__).parents[1] / "examples" / "unclean-election"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.cluster,
    pytest.mark.skipif(java().state != "ok", reason="Spark needs Java 17 or newer"),
]


def check(*arguments: str, cwd: Path) -> tuple[int, dict[str, object]]:
    """`logjudge check --json` in a process of its own, as a user calls it."""
    done = subprocess.run(
        [sys.executable, "-m", "logjudge.cli", "check", "--json", "--no-plots", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=1_200,  # a loaded machine takes several times as long
        check=False,
    )
    assert done.returncode in (0, 1, 3), done.stderr[-3000:]
    return done.returncode, json.loads(done.stdout)


def expected(path: Path) -> list[dict[str, object]]:
    from logjudge.analysis.finding_order import worst_rows_first
    from logjudge.analysis.verdict.document import MAX_FINDINGS

    return worst_rows_first(local.judge_run(open_run(path)).findings()).head(MAX_FINDINGS).to_dicts()


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("runs") / "faulty", 100_000, faulty=True)


# A user's program in a Connect session; it prints the state of the session before and after, and the findings.
IN_A_SESSION = """
import json, sys
import logjudge
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.conf.set("spark.sql.adaptive.enabled", "true")
def state():
    tables = [table.name for table in spark.catalog.listTables()]
    return dict(spark.conf.getAll), tables, spark.getActiveSession() is spark
before = state()
result = logjudge.spark.check(spark, sys.argv[2])
rows = spark.createDataFrame(json.loads(sys.argv[3]), sys.argv[4]).repartitionByRange(3, "time")
of_rows = logjudge.spark.check(spark, rows, config=json.loads(sys.argv[5]))
ids = [row[0] for row in result.findings_spark.select("id").collect()]
print(json.dumps([state() == before, ids, of_rows.verdict, of_rows.findings["sentence"].to_list()]))
"""


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
        events = frame(lost=True).select("time", "process", "op", "type", "f", "topic", "partition", "value", "offset")
        columns = "time long, process string, op long, type string, f string, topic string, partition int, value string"
        rows = json.dumps(events.rows()), f"{columns}, offset long", json.dumps(CONFIG)
        session = [sys.executable, "-c", IN_A_SESSION, remote[1], str(EXAMPLE), *rows]
        shown = subprocess.run(session, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert shown.returncode == 0, shown.stderr[-3000:]
    of_file, of_rows = local.judge_run(open_run(EXAMPLE)), logjudge.check(events, config=CONFIG)
    sentences = of_rows.findings["sentence"].to_list()
    assert json.loads(shown.stdout) == [True, of_file.findings()["id"].to_list(), of_rows.verdict, sentences]
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


def executors_of(worker: subprocess.Popen[bytes]) -> list[int]:
    """The processes of a worker's executors."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == worker.pid and b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


def kill_executor(worker: subprocess.Popen[bytes]) -> int:
    """Kills an executor of a worker, once it has one, and returns its pid."""
    deadline = time.monotonic() + 60
    while not (pids := executors_of(worker)):
        assert time.monotonic() < deadline, "the worker started no executor"
        time.sleep(0.1)
    os.kill(pids[0], signal.SIGKILL)
    return pids[0]


# `logjudge` that prints all of its progress
TALKATIVE = "from logjudge.cli import progress; progress.INTERVAL = 0; from logjudge.cli.main import main; main()"
PHASES = ("reading", "judging", "writing")


def test_a_cluster_bears_the_death_of_executors(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], faulty: Path, tmp_path: Path
) -> None:
    """One dies while the history is read, one while it is judged, and one while the report is written."""
    options = ["check", str(faulty), "--no-plots", "--out", str(tmp_path / "out"), "--master", cluster[0], *SMALL]
    command = [sys.executable, "-c", TALKATIVE, *options]
    killed: dict[str, int] = {}
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            phase = next((phase for phase in PHASES if f" {phase} " in line), "")
            if phase and phase not in killed:  # the executors of both workers die in turn
                killed[phase] = kill_executor(cluster[1][len(killed) % 2])
    assert (process.returncode, set(killed)) == (1, set(PHASES))
    judged = pl.read_parquet(tmp_path / "out" / "findings.parquet")
    assert judged.equals(local.judge_run(open_run(faulty)).findings())


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


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[str]:
    """The address of a bucket on an S3 server (S3Proxy) that stores files."""
    if "S3_LIBS" not in os.environ:
        pytest.skip("scripts/fetch-s3 fetches an S3 server; S3_LIBS names its folder")
    port, log, stored = free_port(), tmp_path / "s3.log", tmp_path / "stored"
    stored.mkdir()
    (tmp_path / "s3.properties").write_text(
        f"s3proxy.authorization=none\ns3proxy.endpoint=http://{HOST}:{port}\n"
        f"jclouds.provider=filesystem\njclouds.filesystem.basedir={stored}\n"
    )
    options = ("-Xmx256m", "-cp", f"{os.environ['S3_LIBS']}/server/*", "org.gaul.s3proxy.Main")
    command = ["java", *options, "--properties", str(tmp_path / "s3.properties")]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        wait_for_port(port, server, log)
        put(f"http://{HOST}:{port}/runs", b"")
        yield f"http://{HOST}:{port}/runs"
        server.kill()


def put(address: str, content: bytes) -> None:
    request = urllib.request.Request(address, content, {"Content-Type": "application/octet-stream"}, method="PUT")
    urllib.request.urlopen(request, timeout=60).close()


def test_a_run_and_its_result_on_s3(bucket: str, tmp_path: Path) -> None:
    for file in EXAMPLE.rglob("*"):
        if file.is_file():
            put(f"{bucket}/example/{file.relative_to(EXAMPLE).as_posix()}", file.read_bytes())
    jars = sorted(map(str, Path(os.environ["S3_LIBS"], "client").glob("*.jar")))
    settings = {
        "spark.driver.extraClassPath": ":".join(jars),
        "spark.hadoop.fs.s3a.endpoint": bucket.rpartition("/")[0],
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "any",
        "spark.hadoop.fs.s3a.secret.key": "any",
    }
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    options = ("--out", "s3a://runs/verdicts/example", "--master", "local[2]", *conf)
    code, report = check("s3a://runs/example", *options, cwd=tmp_path)
    assert code == 1
    assert report["findings"] == expected(EXAMPLE)
    with urllib.request.urlopen(f"{bucket}/verdicts/example/_SUCCESS", timeout=60) as answer:
        names = json.load(answer)["files"]
    assert "verdict.json" in names
    with urllib.request.urlopen(f"{bucket}?list-type=2&prefix=verdicts/", timeout=60) as answer:
        stored = set(re.findall("<Key>verdicts/example/([^<]+)</Key>", answer.read().decode()))
    assert stored == {*names, "_SUCCESS"}
