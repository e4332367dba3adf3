"""Spark sessions: how they are opened and configured, and what is reached only through their JVM."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from ....histories.errors import MissingComponentError, describe_error
from .connecting import limit_retries, refuse_unreachable
from .driver_files import driver_folder, interruptible_start, ship_code, silence_py4j, use_own_local_dirs

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

Session: TypeAlias = "SparkSession"
Frame: TypeAlias = "DataFrame"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
DEFAULT_SHUFFLE_PARTITIONS = 200  # Spark's own
UNKNOWN_SIZE = 1 << 60  # bytes, of a run of unknown size: its shuffles get as many tasks as those of the largest
JSON_BYTES_PER_ESTIMATED = 64  # events as JSON lines against Spark's estimate, which counts compressed bytes
BYTES_PER_TASK = 1 << 20  # of the run's files; with brokers' files, judging these may take a second
MAX_BYTES_PER_TASK = 256 << 20  # Spark keeps what a task makes in a gigabyte of the JVM, in one piece
MAX_TASKS = 2000  # Spark's driver keeps the state of each
MIN_CLUSTER_CORES = 8  # taken for a cluster on which few executors have registered, and for Connect
# A setting of ours in the session: the user chose no number of shuffle partitions, so each run sets one.
_SIZED_BY_DATA = "spark.logjudge.shufflePartitionsByData"
# A Connect server takes these of each session.
_SQL_DEFAULTS = {
    "spark.sql.adaptive.enabled": "false",  # it would run the stages of small tables one after the other
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),  # rows are blocks of megabytes, or lines
}
# Optimising Java code takes half of the CPU time of a small run. The JVM only moves blocks, so it never pays off.
_UNOPTIMISED = " -XX:TieredStopAtLevel=1"
_LOGGING = Path(__file__).with_name("log4j2.properties")


def open_session(
    master: str | None = None, remote: str | None = None, conf: Sequence[tuple[str, str]] = ()
) -> SparkSession:
    """A session on local[*], a cluster's master, or a Connect server. `conf` overrides our defaults.

    Raises MissingComponentError.
    """
    refuse_unreachable(master, remote)
    if not remote:
        _refuse_missing_java()
    with _start_errors(remote or master, conf):
        from pyspark.sql import SparkSession

        settings = _SQL_DEFAULTS if remote else {**_defaults(master), **_SQL_DEFAULTS}
        builder = SparkSession.builder.appName("logjudge")
        for name, value in {**settings, **dict(conf)}.items():
            builder = builder.config(name, value)
        builder = builder.remote(remote) if remote else builder
        if not remote and (master or not _is_submitted()):
            builder = builder.master(master or "local[*]")
        with nullcontext() if remote else interruptible_start():
            session = builder.getOrCreate()
    if remote:
        limit_retries(session)
    if is_cluster(session):
        ship_code(session)
    if SHUFFLE_PARTITIONS not in dict(conf):
        _size_by_data(session)
    return session


def open_local_context(master: str | None = None, conf: Sequence[tuple[str, str]] = ()) -> SparkContext:
    """A context for tasks that use all cores of this machine, without a session: Spark's SQL takes seconds to start.

    `master` is local[N] or None. Raises MissingComponentError.
    """
    _refuse_missing_java()
    with _start_errors(master, conf):
        from pyspark import SparkConf, SparkContext

        settings = {**_defaults(master), "spark.app.name": "logjudge"}
        settings["spark.driver.extraJavaOptions"] += " -XX:+UseSerialGC"
        settings["spark.executorEnv.POLARS_MAX_THREADS"] = os.environ.get("POLARS_MAX_THREADS", _cores(master))
        settings |= {**dict(conf), "spark.master": master or "local[*]"}
        with interruptible_start():
            return SparkContext.getOrCreate(SparkConf().setAll([*settings.items()]))


def _refuse_missing_java() -> None:
    """Raises MissingComponentError if Spark's scripts would find no Java: they would print errors of the shell."""
    home = os.environ.get("JAVA_HOME")
    contexts = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    is_running = _is_submitted() or getattr(contexts, "_gateway", None) is not None
    if not is_running and not shutil.which(str(Path(home, "bin", "java")) if home else "java"):
        where = f" in JAVA_HOME={home}" if home else ""
        raise MissingComponentError(
            f"Spark needs Java 17 or newer, which was not found{where}; `logjudge doctor` prints how to install it, and"
            " --engine local needs neither Spark nor Java"
        )


def _cores(master: str | None) -> str:
    """The number of cores that local, local[N] or local[*] has."""
    limited = re.match(r"local(?:\[(\d+)|$)", master or "")
    return (limited[1] or "1") if limited else str(os.cpu_count())


@contextmanager
def _start_errors(where: str | None, conf: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Context for a start of Spark. Raises MissingComponentError if that fails."""
    # PySpark reads only the variable in a session that Python starts; the setting is for spark-submit.
    os.environ["PYSPARK_PYTHON"] = dict(conf).get("spark.pyspark.python") or os.environ.get(
        "PYSPARK_PYTHON", sys.executable
    )
    silence_py4j()
    try:
        yield
    except Exception as error:
        raise MissingComponentError(
            f"Spark could not be started on {where or 'local[*]'} ({describe_error(error)}); `logjudge doctor` reports"
            " what is missing, and --engine local needs neither Spark nor Java"
        ) from error


@contextmanager
def cloned_session(
    session: SparkSession, frame: DataFrame | None = None
) -> Iterator[tuple[SparkSession, DataFrame | None]]:
    """A copy of a user's session with our settings, and the session's frame in it.

    The user's session keeps its settings and its artifacts, and stays the active one.
    """
    view = f"logjudge_{uuid4().hex}"  # a copy has the session's temporary views
    active = type(session).getActiveSession()
    if frame is not None:
        frame.createTempView(view)
    try:
        clone = _clone(session)
        events = None if frame is None else clone.table(view)
        if events is not None:
            _ = events.schema  # views are copied when the copy first looks for one
    finally:
        if frame is not None:
            session.catalog.dropTempView(view)
    try:
        for name, value in _SQL_DEFAULTS.items():
            clone.conf.set(name, value)
        _size_by_data(clone)
        if is_cluster(clone):
            ship_code(clone)
        yield clone, events
    finally:
        if context_of(session) is None:
            clone.client.release_session()
            clone.client.close()
        else:
            _activate(session, active)


def _clone(session: SparkSession) -> SparkSession:
    if context_of(session) is None:
        return session.cloneSession()
    # In Python only Connect has cloneSession.
    return type(session)(session.sparkContext, session._jsparkSession.cloneSession())


def _activate(session: SparkSession, active: SparkSession | None) -> None:
    """Makes `active` the thread's active session again, as `session.createDataFrame` makes its own session active."""
    sessions = session._get_j_spark_session_class(session._jvm)
    type(session)._activeSession = active
    if active is None:
        sessions.clearActiveSession()
    else:
        sessions.setActiveSession(active._jsparkSession)


def _size_by_data(session: SparkSession) -> None:
    if session.conf.get(SHUFFLE_PARTITIONS) == str(DEFAULT_SHUFFLE_PARTITIONS):
        session.conf.set(_SIZED_BY_DATA, "true")


def starts_here(master: str | None, remote: str | None) -> bool:
    """Whether these options of `open_session` start Spark on this machine alone."""
    return remote is None and (master.startswith("local") if master else not _is_submitted())


def _defaults(master: str | None) -> dict[str, str]:
    settings = {
        # Workers must run this environment's Python, not the python3 of PATH.
        "spark.pyspark.python": os.environ["PYSPARK_PYTHON"],
        "spark.pyspark.driver.python": sys.executable,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": (
            f'-Dlog4j2.configurationFile=file:{_LOGGING} "-Djava.io.tmpdir={driver_folder()}"'
        ),
        "spark.executorEnv.POLARS_MAX_THREADS": os.environ.get("POLARS_MAX_THREADS", "2"),
        "spark.shuffle.compress": "false",  # blocks are compressed
        "spark.rdd.compress": "false",
    }
    if master is None or master.startswith("local"):
        use_own_local_dirs()
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "2g",
        }
        settings["spark.driver.extraJavaOptions"] += _UNOPTIMISED
    return settings


def _is_submitted() -> bool:
    """Whether spark-submit started this process and so chose the master."""
    return "SPARK_ENV_LOADED" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ


def context_of(session: SparkSession) -> SparkContext | None:
    """The session's context; None with Spark Connect, which has neither accumulators nor a status tracker."""
    return getattr(session, "_sc", None)


def size_shuffles(session: SparkSession, size: int) -> None:
    """Sets how many tasks follow each shuffle of a run of `size` bytes, unless the user set it."""
    if session.conf.get(_SIZED_BY_DATA, "false") == "true":
        session.conf.set(SHUFFLE_PARTITIONS, str(shuffle_partitions(session, size)))


def size_of_frame(frame: DataFrame) -> int:
    """The most bytes that a frame's events may have as JSON lines; UNKNOWN_SIZE where Spark has no estimate."""
    if context_of(frame.sparkSession) is None:
        return UNKNOWN_SIZE
    estimate: int = frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    return min(JSON_BYTES_PER_ESTIMATED * estimate, UNKNOWN_SIZE)


def shuffle_partitions(session: SparkSession, size: int) -> int:
    """One for each BYTES_PER_TASK, and at most four a core, so that a slow task keeps few others waiting.

    A run that needs no more gets at most one a core, as starting a task costs more than its work. A larger run of known
    size gets one for each MAX_BYTES_PER_TASK.
    """
    wanted = max(1, -(-size // BYTES_PER_TASK))
    cores = parallel_tasks(session)
    if wanted <= 4 * cores:
        return min(wanted, cores)
    most = 4 * max(cores, MIN_CLUSTER_CORES * is_cluster(session))
    needed = 0 if size >= UNKNOWN_SIZE else -(-size // MAX_BYTES_PER_TASK)
    return max(min(wanted, most), min(needed, MAX_TASKS))


def shuffle_tasks(session: SparkSession) -> int:
    """The number of tasks after a shuffle, as `size_shuffles` or the user set it."""
    return int(session.conf.get(SHUFFLE_PARTITIONS) or DEFAULT_SHUFFLE_PARTITIONS)


def parallel_tasks(session: SparkSession) -> int:
    """The number of tasks that the session runs at once, as far as Spark reports it: executors may register later."""
    context = context_of(session)
    return int(context.defaultParallelism) if context is not None else MIN_CLUSTER_CORES


def is_cluster(session: SparkSession) -> bool:
    """Whether tasks run in other processes than the driver's."""
    context = context_of(session)
    return context is None or not str(context.master).startswith("local")


def hadoop_path(session: SparkSession, uri: str) -> tuple[Any, Any] | None:
    """Hadoop's file system of a URI, and the URI as its path; None with Spark Connect."""
    jvm = getattr(session, "_jvm", None)
    if jvm is None:
        return None
    path = jvm.org.apache.hadoop.fs.Path(uri)
    return path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()), path
