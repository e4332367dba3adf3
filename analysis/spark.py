"""The pipeline on Spark: the same stages as local.py, as one DataFrame plan and one action.

Tasks hand each other *blocks*: rows (kind, topic, partition, name, payload) whose payload is a table in Arrow's
IPC format, compressed. Spark so moves a few large values instead of tens of millions of rows, and the kernels
decode them at memory speed. This is the only module that imports pyspark.
"""

from __future__ import annotations

import io
import json
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from ..histories.bundle import Run, Settings
from ..histories.errors import MissingComponentError
from ..histories.evidence.layout import Part
from ..histories.files import Split
from ..histories.operations import PLACED_EVENTS
from ..histories.tables import CONTEXT, SENDS
from .kernel import Common, Tables, judge_unit, to_frame
from .results import Results
from .stages import Parts, close_waiting, read_evidence, read_split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLOCK = "kind string, topic string, partition int, name string, payload binary"
_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("name", pa.string()),
        ("payload", pa.binary()),
    ]
)
_BUCKETS = 16  # groups in which invocations and completions of different splits meet
_LOGGING = Path(__file__).with_name("log4j2.properties")
Row = tuple[str, str, int, str, bytes]
Progress = Callable[..., None]  # what, done, of how many, unit


def open_session(
    master: str | None = None, remote: str | None = None, conf: Sequence[tuple[str, str]] = ()
) -> SparkSession:
    """A session on local[*], a cluster's master, or a Connect server; what the user configures wins."""
    # In a session that Python starts, PySpark reads only the variable; the setting is spark-submit's.
    os.environ["PYSPARK_PYTHON"] = dict(conf).get("spark.pyspark.python") or os.environ.get(
        "PYSPARK_PYTHON", sys.executable
    )
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("logjudge")
    settings = {} if remote else _defaults(master)
    for name, value in {**settings, **dict(conf)}.items():
        builder = builder.config(name, value)
    builder = builder.remote(remote) if remote else builder
    if not remote and (master or not _is_submitted()):
        builder = builder.master(master or "local[*]")
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise MissingComponentError(
            f"Spark could not be started ({_first_line(error)}); `logjudge doctor` says what is missing,"
            " and --engine local needs neither Spark nor Java"
        ) from error
    if remote or (master and not master.startswith("local")):
        _ship_code(session)
    return session


def _defaults(master: str | None) -> dict[str, str]:
    settings = {
        # Workers must run this environment's Python, not the python3 of PATH.
        "spark.pyspark.python": os.environ["PYSPARK_PYTHON"],
        "spark.pyspark.driver.python": sys.executable,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOGGING}",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
        "spark.executorEnv.POLARS_MAX_THREADS": os.environ.get("POLARS_MAX_THREADS", "2"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "8",  # rows are blocks of megabytes
    }
    if master is None or master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
            "spark.driver.memory": "2g",
        }
    return settings


def _is_submitted() -> bool:
    """spark-submit chose the master already."""
    return "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]


def _ship_code(session: SparkSession) -> None:
    """Sends the package to workers that do not have it; polars and pyarrow must be there."""
    import tempfile

    archive = Path(tempfile.mkdtemp(prefix="logjudge-")) / "logjudge_code.zip"
    write_code_archive(archive)
    session.addArtifacts(str(archive), pyfile=True)


def write_code_archive(archive: Path) -> None:
    """A zip of this package that Python can import from."""
    import zipfile
    from importlib.resources import files

    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("logjudge/__init__.py", "")
        for name in ("analysis", "histories", "models"):
            root = Path(str(files(f"logjudge.{name}")))
            for file in sorted(root.rglob("*.py")):
                packed.write(file, f"logjudge/{name}/{file.relative_to(root)}")


def judge_run(run: Run, session: SparkSession, progress: Progress = lambda *_: None) -> Results:
    """Judges one run with one action. Nothing the size of a history reaches the driver."""
    results = Results(run)
    if run.splits or run.evidence:
        with _Watch(session, len(run.splits) + len(run.evidence), progress):
            for row in _plan(session, run).toLocalIterator(prefetchPartitions=True):
                _take(results, row["kind"], row["name"], bytes(row["payload"]))
    results.context = results.context.sort("completed", "at")
    return results


class _Watch:
    """Tells how far Spark is, from a thread: its status tracker counts the tasks of each stage."""

    def __init__(self, session: SparkSession, splits: int, progress: Progress) -> None:
        self._splits, self._progress = splits, progress
        self._done = threading.Event()
        # Spark Connect has no status tracker; there the stages are not to be seen.
        context = getattr(session, "_sc", None)
        self._tracker = context.statusTracker() if context is not None else None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._progress("Spark is reading", 0, self._splits)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while self._tracker and not self._done.wait(0.5):
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                if info and info.numTasks == self._splits:
                    self._progress("Spark is reading", info.numCompletedTasks, info.numTasks)
                elif info:
                    self._progress("Spark is judging", info.numCompletedTasks, info.numTasks, "tasks")


def _take(results: Results, kind: str, name: str, payload: bytes) -> None:
    if kind == "findings":
        results.add_judged(unpack(payload), [])
    elif kind == "summaries":
        results.add_judged(pl.DataFrame(), json.loads(payload))
    elif kind == "quarantine":
        results.add_quarantine(unpack(payload))
    elif kind == "context":
        results.context = pl.concat([results.context, unpack(payload)])
    elif kind == "counts":
        counts = json.loads(payload)
        results.add_counts(counts)
        if name:
            results.add_lines(int(name), counts.get("lines", 0))


def _plan(session: SparkSession, run: Run) -> DataFrame:
    from pyspark import StorageLevel
    from pyspark.sql import functions as F  # noqa: N812

    settings = run.settings.to_json()
    rows = [("split", json.dumps(asdict(split))) for split in run.splits]
    rows += [("part", json.dumps(asdict(part), default=str)) for part in run.evidence]
    numbered = [(number, *row) for number, row in enumerate(rows)]
    splits = session.createDataFrame(numbered, "number long, kind string, task string").repartition(len(rows), "number")
    read = splits.mapInArrow(_reading(settings), BLOCK).persist(StorageLevel.MEMORY_AND_DISK)
    waiting = read.filter(F.col("kind") == "waiting")
    closed = waiting.groupBy("partition").applyInArrow(_closing(settings), BLOCK)
    blocks = read.filter(F.col("kind") != "waiting").unionByName(closed)
    observed = blocks.filter(F.col("kind") == "observations")
    units = observed.select("topic", "partition").distinct()
    everywhere = blocks.filter(F.col("kind").isin("context", "unplaced", "shared"))
    shared = everywhere.select("kind", "name", "payload").crossJoin(F.broadcast(units))
    units_blocks = observed.unionByName(shared.select("kind", "topic", "partition", "name", "payload"))
    judged = units_blocks.groupBy("topic", "partition").applyInArrow(_judging(settings), BLOCK)
    told = blocks.filter(F.col("kind").isin("quarantine", "counts", "context"))
    return judged.unionByName(told)


def _reading(settings_json: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settings = Settings.from_json(settings_json)
        for batch in batches:
            for kind, text in zip(batch.column("kind").to_pylist(), batch.column("task").to_pylist(), strict=True):
                told = json.loads(text)
                if kind == "part":
                    part = Part(**{**told, "path": Path(told["path"])})
                    yield from _to_batches(_rows(read_evidence(part), ""))
                    continue
                split = Split(**told)
                for parts in read_split(split, settings):
                    yield from _to_batches(_rows(parts, str(split.number)))

    return read


def _closing(settings_json: str) -> Callable[[pa.Table], pa.Table]:
    def close(table: pa.Table) -> pa.Table:
        settings = Settings.from_json(settings_json)
        waiting = pl.concat([unpack(payload) for payload in table.column("payload").to_pylist()])
        parts = close_waiting(waiting.select(list(PLACED_EVENTS)), settings)
        return pa.Table.from_batches(_to_batches(_rows(parts, "")), _SCHEMA)

    return close


def _judging(settings_json: str) -> Callable[[tuple[Any, ...], pa.Table], pa.Table]:
    def judge(key: tuple[Any, ...], table: pa.Table) -> pa.Table:
        settings = Settings.from_json(settings_json)
        tables: Tables = {}
        common: Tables = {}
        kinds, names, payloads = (table.column(name).to_pylist() for name in ("kind", "name", "payload"))
        for kind, name, payload in zip(kinds, names, payloads, strict=True):
            home = tables if kind == "observations" else common
            home.setdefault(name or kind, []).append(unpack(payload))
        context = pl.concat([pl.DataFrame(schema=CONTEXT), *common.pop("context", [])]).sort("completed", "at")
        unplaced = pl.concat([pl.DataFrame(schema=SENDS), *common.pop("unplaced", [])])
        shared = {table: pl.concat(frames) for table, frames in common.items()}
        topic, partition = (value.as_py() for value in key)
        findings, summaries = judge_unit(topic, partition, tables, Common(context, unplaced, shared), settings)
        rows: list[Row] = [("summaries", topic, partition, "", json.dumps(summaries).encode())]
        if findings:
            rows.append(("findings", topic, partition, "", pack(to_frame(findings))))
        return pa.Table.from_batches(_to_batches(rows), _SCHEMA)

    return judge


def _rows(parts: Parts, split: str) -> list[Row]:
    rows: list[Row] = [
        ("observations", unit.topic, unit.partition, table, pack(frame)) for unit, table, frame in parts.observations
    ]
    for kind in ("context", "unplaced", "quarantine"):
        rows += [(kind, "", -1, "", pack(frame)) for frame in getattr(parts, kind)]
    rows += [("shared", "", -1, table, pack(frame)) for table, frame in parts.shared]
    for frame in parts.waiting:
        buckets = {name: zlib.crc32(name.encode()) % _BUCKETS for name in frame["process"].unique().to_list()}
        bucket = pl.col("process").replace_strict(buckets, return_dtype=pl.Int32).alias("bucket")
        for (number,), mine in frame.group_by(bucket, maintain_order=True):
            rows.append(("waiting", "", int(str(number)), "", pack(mine.select(list(PLACED_EVENTS)))))
    if parts.counts:
        name = split if "lines" in parts.counts else ""
        rows.append(("counts", "", -1, name, json.dumps(parts.counts).encode()))
    return rows


def _to_batches(rows: list[Row]) -> list[pa.RecordBatch]:
    """One batch a row: a batch is what Spark holds at once."""
    return [
        pa.RecordBatch.from_arrays(
            [pa.array([value], field.type) for value, field in zip(row, _SCHEMA, strict=True)], schema=_SCHEMA
        )
        for row in rows
    ]


def pack(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.rechunk().write_ipc(buffer, compression="lz4")
    return buffer.getvalue()


def unpack(payload: bytes) -> pl.DataFrame:
    return pl.read_ipc(io.BytesIO(payload))
