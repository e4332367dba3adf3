"""Judges a run on Spark with one action, and runs other work on the session's tasks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import polars as pl
import pyarrow as pa

from ....histories.bundle import EXPECTED, Run
from ....histories.errors import InputError
from ....histories.pairing import PLACED_EVENTS
from ...results import FRAMES, Results
from ...rules.anomalies import DIALECTS
from ...run_rules import judge_pieces, judge_whole_run
from ...stages import Progress, pair_at_end
from ...transactions.pieces import Expected, expected_of_operations
from .blocks import pack, rows_in, unpack
from .connecting import cluster_errors
from .cycles import find_cycles
from .driver_files import driver_folder, shorten_shutdown
from .frames import with_splits
from .plan import INVISIBLE, plan, tasks_of
from .session import context_of, is_cluster, size_of_frame, size_shuffles
from .transactions import judge_transactions
from .whole_run import MAX_BYTES_HERE, is_whole, judge_in_one_task, plan_whole, read_progress

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.status import SparkStageInfo

TRANSACTIONS_BYTES = 256 << 20  # of a run that this process judges: about a million transactions, in 2 GB of memory


def judge_run(
    run: Run, session: SparkSession, progress: Progress = lambda *_: None, events: DataFrame | None = None
) -> Results:
    """Judges one run with one action, cycles of transactions with two more, and torn transactions, if any, with one.

    Nothing the size of a history reaches the driver. `events` is the history of a run from `frames.open_frame`.
    Raises InputError, ClusterError.
    """
    context = context_of(session)
    if context is not None and not is_cluster(session) and events is None and is_whole(run, run.expanded_bytes):
        return judge_here(run, context, progress)
    results = _empty_results(run)
    if run.splits or run.evidence or events is not None:
        lines = context.accumulator(0) if context is not None else None
        tasks = len(tasks_of(run))
        has_begun = False  # stages before the one that reads only hand out its tasks

        def report(stage: SparkStageInfo) -> None:
            nonlocal has_begun
            if stage.numTasks == tasks:
                has_begun = True
                read = lines.value if lines is not None else 0  # by the tasks that are done
                what = f"Spark has read {read:,} lines" if read else "Spark is reading"
                progress(what, stage.numCompletedTasks, tasks)
            elif has_begun:
                progress("Spark is judging", stage.numCompletedTasks, stage.numTasks, "tasks")

        progress("Spark is reading", 0, tasks)
        size = run.expanded_bytes if events is None else size_of_frame(events)
        size_shuffles(session, size)
        with _StageWatcher(context, report), run_errors(run):
            # Not toLocalIterator: it judges one partition after the other.
            if run.settings.dialect in DIALECTS:
                return judge_transactions(run, session, progress)
            if is_whole(run, size):
                _add_blocks(results, plan_whole(session, run))
            else:
                with ExitStack() as stored:
                    blocks, across_partitions = plan(session, run, lines, events, stored)
                    unexpected = _add_blocks(results, blocks)
                    _judge_pieces(results, unexpected, across_partitions)
                    _judge_cycles(results, session, across_partitions)
    if events is not None:
        results.run = with_splits(run, results.splits)
    results.context = results.context.sort("completed", "at")
    return results


def judge_here(run: Run, context: SparkContext, progress: Progress = lambda *_: None) -> Results:
    """Judges a run in one task on this machine. Raises InputError, ClusterError."""
    results = _empty_results(run)
    if run.splits or run.evidence:
        progress("Spark is judging", 0, 1, "tasks")
        file = driver_folder() / f"progress-{uuid4().hex}.json"

        def report(_: SparkStageInfo) -> None:
            with suppress(FileNotFoundError):
                what, *numbers = read_progress(file)
                progress(f"Spark is {what}", *numbers)

        with _StageWatcher(context, report), run_errors(run):
            for block in judge_in_one_task(context, run, file):
                _add_block(results, *block)
    results.context = results.context.sort("completed", "at")
    return results


def _empty_results(run: Run) -> Results:
    """The results of a run without events. They have each count of unpaired events; tasks only report some."""
    results = Results(run)
    results.add_counts(pair_at_end(pl.DataFrame(schema=PLACED_EVENTS), run.settings).counts)
    return results


@contextmanager
def run_errors(run: Run) -> Iterator[None]:
    """Context for an action of the run. Raises InputError, ClusterError."""
    try:
        with cluster_errors():
            yield
    except Exception as error:
        _refuse_invisible_files(run, error)
        raise


def _add_blocks(results: Results, blocks: DataFrame) -> list[pl.DataFrame]:
    """Adds blocks of results. Returns the unexpected pieces of transactions; a partition has few of them."""
    unexpected = []
    for row in blocks.collect():
        payload = bytes(row["payload"])
        if row["kind"] == "unexpected":
            unexpected.append(unpack(payload))
        else:
            _add_block(results, row["kind"], row["name"], payload)
    return unexpected


def _add_block(results: Results, kind: str, name: str, payload: bytes) -> None:
    if kind in FRAMES:
        results.add(kind, unpack(payload))
    elif kind == "summaries":
        results.add_summaries(json.loads(payload))
    elif kind == "run":
        results.add_of_run(pl.DataFrame(), json.loads(payload))
    elif kind == "context":
        results.context = pl.concat([results.context, unpack(payload)])
    elif kind == "lines":
        results.add_lines(int(name), json.loads(payload))
    elif kind == "counts":
        counts = json.loads(payload)
        results.add_counts(counts)
        if name:
            results.add_lines(int(name), counts.get("lines", 0))


def _judge_pieces(results: Results, unexpected: list[pl.DataFrame], blocks: DataFrame) -> None:
    """Adds the torn transactions. Only if there are `unexpected` pieces, one more action collects those beside them."""
    if not unexpected:
        return
    packed = [pack(frame) for frame in unexpected]

    def choose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        frames = [unpack(frame) for frame in packed]
        for row in rows_in(batches):
            found = expected_of_operations(frames, Expected(row["topic"], row["partition"], unpack(row["payload"])))
            if len(found):
                yield pa.RecordBatch.from_pydict({"payload": pa.array([pack(found)], pa.binary())})

    chosen = blocks.filter("kind = 'expected'").select("topic", "partition", "payload")
    found = [unpack(bytes(row["payload"])) for row in chosen.mapInArrow(choose, "payload binary").collect()]
    results.add_of_run(*judge_pieces(unexpected, found, results.losses(), results.run.settings))


def _judge_cycles(results: Results, session: SparkSession, dependencies: DataFrame) -> None:
    """Adds the cycles of a native run with transactions; those of a Jepsen history are among its blocks."""
    settings = results.run.settings
    if settings.dialect == "native" and any(summary["counts"]["transactions"] for summary in results.summaries):
        found = find_cycles(session, dependencies.filter("kind = 'dependencies'"), settings)
        results.add_of_run(*judge_whole_run(found, settings))


def is_judged_here(run: Run) -> bool:
    """Whether one task judges the run if Spark only has this machine.

    A large history of transactions on lists or registers needs too much memory for that.
    """
    size = run.expanded_bytes
    return is_whole(run, size) or (size <= MAX_BYTES_HERE and run.settings.dialect not in DIALECTS)


def needs_no_spark(run: Run) -> bool:
    """Whether a run of transactions is judged in this process: Spark takes four times as long on two cores."""
    return run.settings.dialect in DIALECTS and not run.uri and run.expanded_bytes <= TRANSACTIONS_BYTES


def _refuse_invisible_files(run: Run, error: Exception) -> None:
    """Raises InputError if a worker did not find a file that the driver had found."""
    _, marker, rest = str(error).partition(INVISIBLE)
    if marker:
        path = rest.partition("\n")[0].strip()
        raise InputError(
            str(run.path),
            f"no file {path} on a Spark worker",
            EXPECTED,
            "put the run where every worker sees it under the same path (shared storage), name it by a URI"
            " (s3a://, hdfs://), or use --engine local",
        ) from error


class _StageWatcher:
    """Calls `report` with the active stages every half second, from a thread."""

    def __init__(self, context: SparkContext | None, report: Callable[[SparkStageInfo], None]) -> None:
        self._report, self._done = report, threading.Event()
        self._tracker = context.statusTracker() if context is not None else None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._done.set()
        if kind is not None and not issubclass(kind, Exception):
            shorten_shutdown()
        else:
            self._thread.join()

    def _run(self) -> None:
        with suppress(Exception):  # the JVM may end first, where the process is interrupted
            while self._tracker and not self._done.wait(0.5):
                for stage in self._tracker.getActiveStageIds():
                    if info := self._tracker.getStageInfo(stage):
                        self._report(info)


def map_payloads(
    judge: Callable[[bytes], bytes], payloads: Iterable[bytes], session: SparkSession, progress: Progress
) -> Iterable[bytes]:
    """`judge` of each payload where the session's tasks run, a task each; results in any order."""
    rows = [{"number": number, "payload": payload} for number, payload in enumerate(payloads)]
    if not rows:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results = [judge(payload) for payload in batch.column("payload").to_pylist()]
            yield pa.RecordBatch.from_pydict({"result": pa.array(results, pa.binary())})

    def report(stage: SparkStageInfo) -> None:
        if stage.numTasks == len(rows):  # else the stage that hands them out
            progress("Spark is working", stage.numCompletedTasks, len(rows), "tasks")

    frame = session.createDataFrame(pa.Table.from_pylist(rows)).repartition(len(rows), "number")
    with _StageWatcher(context_of(session), report), cluster_errors():
        return [bytes(row["result"]) for row in frame.select("payload").mapInArrow(run, "result binary").collect()]
