"""The pipeline on Spark: the same stages as local.py, as one DataFrame plan and one action.

Tasks hand each other blocks (blocks.py): Spark so moves a few large values instead of tens of millions of rows, and
the kernels decode them at memory speed. This is the only module that imports pyspark.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from ..histories.bundle import Run, Settings
from ..histories.errors import MissingComponentError, describe_error
from ..histories.evidence.parts import Part
from ..histories.files import SPLIT_BYTES, Split
from ..histories.pairing import PLACED_EVENTS
from ..histories.tables import CONTEXT, SENDS
from .blocks import BLOCK, SCHEMA, Row, in_turn, pack, rows_of, to_batches, unpack
from .fetching import STAGED, blocks_of, pieces_of, staged, tasks_of_jobs
from .kernel import Common, Tables, judge_unit, to_frame
from .results import Results
from .spark_files import deferred_signals, driver_options, silence_py4j
from .stages import (
    ASKING,
    Parts,
    Unit,
    choose_batches,
    close_waiting,
    decode_batches,
    lookups_of,
    read_evidence,
    read_split,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_PART = 256 << 10  # bytes that a whole file of evidence is taken for
_LOGGING = Path(__file__).with_name("log4j2.properties")
_LAST = 1 << 60  # the turn of blocks that come after all that tasks read
Progress = Callable[..., None]  # what, done, of how many, unit


def open_session(
    master: str | None = None, remote: str | None = None, conf: Sequence[tuple[str, str]] = ()
) -> SparkSession:
    """A session on local[*], a cluster's master, or a Connect server; what the user configures wins."""
    # In a session that Python starts, PySpark reads only the variable; the setting is spark-submit's.
    os.environ["PYSPARK_PYTHON"] = dict(conf).get("spark.pyspark.python") or os.environ.get(
        "PYSPARK_PYTHON", sys.executable
    )
    settings = {} if remote else _defaults(master)
    silence_py4j()
    try:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("logjudge")
        for name, value in {**settings, **dict(conf)}.items():
            builder = builder.config(name, value)
        builder = builder.remote(remote) if remote else builder
        if not remote and (master or not _is_submitted()):
            builder = builder.master(master or "local[*]")
        with deferred_signals():
            session = builder.getOrCreate()
    except Exception as error:
        raise MissingComponentError(
            f"Spark could not be started on {remote or master or 'local[*]'} ({describe_error(error)});"
            " `logjudge doctor` says what is missing,"
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
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOGGING} {driver_options()}",
        "spark.sql.adaptive.enabled": "false",  # it would run the stages of small tables one after the other
        "spark.executorEnv.POLARS_MAX_THREADS": os.environ.get("POLARS_MAX_THREADS", "2"),
        "spark.shuffle.compress": "false",  # blocks are compressed
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),  # rows are blocks of megabytes, or lines
    }
    if master is None or master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1)),
            "spark.driver.memory": "2g",
        }
    return settings


def _is_submitted() -> bool:
    """spark-submit chose the master already."""
    return "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


def _ship_code(session: SparkSession) -> None:
    """Sends the package to workers that do not have it; polars and pyarrow must be there."""
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
    # Tasks count what waited only where something did.
    results.add_counts(close_waiting(pl.DataFrame(schema=PLACED_EVENTS), run.settings).counts)
    if run.splits or run.evidence:
        # Spark Connect has neither accumulators nor a status tracker; there it is not to be seen how far it is.
        context = getattr(session, "_sc", None)
        lines = context.accumulator(0) if context is not None else None
        tasks = len(_tasks(run))
        has_begun = False  # the first stages hand out the tasks

        def tell(stage: Any) -> None:
            nonlocal has_begun
            if stage.numTasks == tasks:
                has_begun = True
                # A task's lines are known when it is done.
                read = lines.value if lines is not None else 0
                what = f"Spark has read {read:,} lines" if read else "Spark is reading"
                progress(what, stage.numCompletedTasks, tasks)
            elif has_begun:
                progress("Spark is judging", stage.numCompletedTasks, stage.numTasks, "tasks")

        progress("Spark is reading", 0, tasks)
        with _Watch(context, tell):
            # Not toLocalIterator: it judges one partition after the other.
            for row in _plan(session, run, lines).collect():
                _take(results, row["kind"], row["name"], bytes(row["payload"]))
    results.context = results.context.sort("completed", "at")
    return results


class _Watch:
    """Shows `tell` the stages at which Spark is, from a thread: its status tracker counts the tasks of each."""

    def __init__(self, context: Any, tell: Callable[[Any], None]) -> None:
        self._tell, self._done = tell, threading.Event()
        self._tracker = context.statusTracker() if context is not None else None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(Exception):  # the JVM may end first, where the process is interrupted
            while self._tracker and not self._done.wait(0.5):
                for stage in self._tracker.getActiveStageIds():
                    if info := self._tracker.getStageInfo(stage):
                        self._tell(info)


def _take(results: Results, kind: str, name: str, payload: bytes) -> None:
    if kind == "findings":
        results.add_judged(unpack(payload), [])
    elif kind == "summaries":
        results.add_judged(pl.DataFrame(), json.loads(payload))
    elif kind == "quarantine":
        results.add_quarantine(unpack(payload))
    elif kind == "damage":
        results.add_damage(unpack(payload))
    elif kind == "context":
        results.context = pl.concat([results.context, unpack(payload)])
    elif kind == "counts":
        counts = json.loads(payload)
        results.add_counts(counts)
        if name:
            results.add_lines(int(name), counts.get("lines", 0))


def map_payloads(
    judge: Callable[[bytes], bytes],
    payloads: Iterable[bytes],
    session: SparkSession,
    progress: Progress = lambda *_: None,
) -> Iterable[bytes]:
    """`judge` of each payload where the session's tasks run, a task each; results in any order."""
    rows = [{"number": number, "payload": payload} for number, payload in enumerate(payloads)]
    if not rows:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results = [judge(payload) for payload in batch.column("payload").to_pylist()]
            yield pa.RecordBatch.from_pydict({"result": pa.array(results, pa.binary())})

    def tell(stage: Any) -> None:
        if stage.numTasks == len(rows):  # else the stage that hands them out
            progress("Spark is working", stage.numCompletedTasks, len(rows), "tasks")

    frame = session.createDataFrame(pa.Table.from_pylist(rows)).repartition(len(rows), "number")
    with _Watch(getattr(session, "_sc", None), tell):
        return [bytes(row["result"]) for row in frame.select("payload").mapInArrow(run, "result binary").collect()]


def _plan(session: SparkSession, run: Run, lines: Any) -> DataFrame:
    from pyspark import StorageLevel
    from pyspark.sql import functions as F  # noqa: N812

    settings = run.settings.to_json()
    # What is broadcast follows from all that is read, which may take longer than Spark's five minutes.
    session.conf.set("spark.sql.broadcastTimeout", "-1")
    read = _read(session, run, lines).persist(StorageLevel.MEMORY_AND_DISK)
    waiting = read.filter(F.col("kind") == "waiting")
    closed = waiting.groupBy("partition").applyInArrow(_closing(settings), BLOCK).persist(StorageLevel.MEMORY_AND_DISK)
    blocks = read.filter(F.col("kind") != "waiting").unionByName(closed)
    if any(part.kind == "headers" for part in run.evidence):
        blocks = _with_records(session, run, blocks)
    observed = blocks.filter(F.col("kind") == "observations")
    units = observed.select("topic", "partition").distinct()
    everywhere = blocks.filter(F.col("kind").isin("context", "unplaced", "shared"))
    shared = everywhere.drop("topic", "partition").crossJoin(F.broadcast(units))
    units_blocks = observed.unionByName(shared)
    judged = units_blocks.groupBy("topic", "partition").applyInArrow(_judging(settings), BLOCK)
    told = blocks.filter(F.col("kind").isin("quarantine", "damage", "counts", "context"))
    return judged.unionByName(told)


def _read(session: SparkSession, run: Run, lines: Any) -> DataFrame:
    if run.uri:
        return blocks_of(session, run)
    tasks = _tasks(run)
    # From an Arrow table, for which Spark needs no Python worker.
    splits = session.createDataFrame(pa.Table.from_pylist(tasks))
    return splits.repartition(len(tasks), "number").mapInArrow(_reading(run.settings.to_json(), lines), BLOCK)


def _with_records(session: SparkSession, run: Run, blocks: DataFrame) -> DataFrame:
    """Of large logs what matters is decoded, once the headers of all their replicas are known, and what the history
    asks of them.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F  # noqa: N812

    headers = blocks.filter(F.col("kind") == "headers")
    asking = blocks.filter((F.col("kind") == "observations") & F.col("name").isin(*ASKING))
    told = headers.unionByName(asking.mapInArrow(_asking, BLOCK)) if run.splits else headers
    choosing = _choosing(run.settings.to_json(), bool(run.splits))
    chosen = told.groupBy("topic", "partition").applyInArrow(choosing, BLOCK)
    chosen = chosen.persist(StorageLevel.MEMORY_AND_DISK)
    jobs = chosen.filter(F.col("kind") == "jobs")
    if run.uri:
        tasks = jobs.mapInArrow(tasks_of_jobs, STAGED)
        wanted = F.broadcast(tasks.select("home").distinct())
        segments = {str(part.path) for part in run.evidence if part.kind == "headers"}
        files = [file for file in run.stored if file.home in segments]
        pieces = pieces_of(session, run.uri, files).join(wanted, "home", "left_semi")
        decoded = staged(files, tasks, pieces, _decode_there)
    else:
        decoded = jobs.repartition("turn").mapInArrow(_decoding, BLOCK)
    rest = blocks.filter(F.col("kind") != "headers")
    return rest.unionByName(chosen.filter(F.col("kind") != "jobs")).unionByName(decoded)


def _asking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            asked = lookups_of(row["name"], unpack(row["payload"]))
            yield from to_batches([("asked", row["topic"], row["partition"], "", row["turn"], pack(asked))])


def _choosing(settings_json: str, history: bool) -> Callable[..., Iterator[pa.RecordBatch]]:
    def choose(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition = (value.as_py() for value in key)
        blocks = in_turn(batches)
        headers = [frame for kind, _, frame in blocks if kind == "headers"]
        asked = [frame for kind, _, frame in blocks if kind == "asked"] if history else None
        if headers:  # not of a partition that only the history, or a checkpoint, speaks of
            parts = choose_batches(Unit(topic, partition), headers, asked, Settings.from_json(settings_json))
            yield from to_batches(rows_of(parts, "", _LAST))

    return choose


def _decoding(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            yield from _decode_there(row, Path())


def _decode_there(row: dict[str, Any], folder: Path) -> Iterator[pa.RecordBatch]:
    """Of a job, whose path may be relative to the folder."""
    job = unpack(row["payload"])
    job = job.with_columns(pl.lit(str(folder / job["path"][0])).alias("path"))
    parts = decode_batches(Unit(row["topic"], row["partition"]), job)
    yield from to_batches(rows_of(parts, "", _LAST + (row["turn"] - _LAST) * 4))


def _tasks(run: Run) -> list[dict[str, Any]]:
    """Number, kind, and task (a JSON list): a split each, and the brokers' many small files together."""
    lists: list[tuple[str, list[dict[str, Any]]]] = [("splits", [asdict(split)]) for split in run.splits]
    room = 0
    for part in run.evidence:
        size = (part.end - part.start) if part.end is not None else SMALL_PART
        if room < size or not lists or lists[-1][0] != "parts":
            lists.append(("parts", []))
            room = SPLIT_BYTES
        lists[-1][1].append(asdict(part))
        room -= size
    return [
        {"number": number, "kind": kind, "task": json.dumps(told, default=str)}
        for number, (kind, told) in enumerate(lists)
    ]


def _reading(settings_json: str, lines: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settings = Settings.from_json(settings_json)
        for batch in batches:
            for number, kind, text in zip(*batch.to_pydict().values(), strict=True):
                turn = number << 32
                for told in json.loads(text):
                    for parts, name in _read_task(kind, told, settings):
                        if lines is not None:
                            lines.add(parts.counts.get("lines", 0))
                        rows = rows_of(parts, name, turn)
                        turn += len(rows)
                        yield from to_batches(rows)

    return read


def _read_task(kind: str, told: dict[str, Any], settings: Settings) -> Iterator[tuple[Parts, str]]:
    if kind == "parts":
        yield read_evidence(Part(**{**told, "path": Path(told["path"])})), ""
        return
    split = Split(**told)
    for parts in read_split(split, settings):
        yield parts, str(split.number)


def _closing(settings_json: str) -> Callable[[pa.Table], pa.Table]:
    def close(table: pa.Table) -> pa.Table:
        settings = Settings.from_json(settings_json)
        waiting = pl.concat([unpack(payload) for payload in table.column("payload").to_pylist()])
        parts = close_waiting(waiting.select(list(PLACED_EVENTS)), settings)
        return pa.Table.from_batches(to_batches(rows_of(parts, "", _LAST)), SCHEMA)

    return close


def _judging(settings_json: str) -> Callable[..., Iterator[pa.RecordBatch]]:
    # The annotations choose Spark's way of calling it: a group's blocks one after the other, never all at once.
    def judge(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settings = Settings.from_json(settings_json)
        tables: Tables = {}
        common: Tables = {}
        for kind, name, frame in in_turn(batches):
            home = tables if kind == "observations" else common
            home.setdefault(name or kind, []).append(frame)
        context = pl.concat([pl.DataFrame(schema=CONTEXT), *common.pop("context", [])]).sort("completed", "at")
        unplaced = pl.concat([pl.DataFrame(schema=SENDS), *common.pop("unplaced", [])])
        shared = {table: pl.concat(frames) for table, frames in common.items()}
        topic, partition = (value.as_py() for value in key)
        findings, summaries = judge_unit(topic, partition, tables, Common(context, unplaced, shared), settings)
        rows: list[Row] = [("summaries", topic, partition, "", 0, json.dumps(summaries).encode())]
        if findings:
            rows.append(("findings", topic, partition, "", 0, pack(to_frame(findings))))
        yield from to_batches(rows)

    return judge
