"""Judges a run in one task, as the local engine does, where stages and workers cost more than the work in them.

On a cluster these are small runs. On one machine all workers share its cores. There one task that uses all cores takes
half the time of many tasks, and less memory than many workers and the JVM's heap.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from ....histories.bundle import Run
from ....histories.evidence.parts import Part
from ....histories.files import Split
from ....histories.scratch import replace_file
from ....histories.settings import Settings
from ...stages import Progress
from .. import local
from .blocks import BLOCK, Batches, of_no_partition, pack, rows_in, to_batches
from .plan import parts_of, splits_of, tasks_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

Block = tuple[str, str, bytes]  # kind, name and payload, as results take them
MAX_BYTES = 4 << 20  # of the run's files, if none were compressed; judged in a second
MAX_BYTES_HERE = 32 << 30  # on this machine; the task takes 2 GB of memory, and 8 bytes for each send
PROGRESS_S = 0.25  # between two reports of a task


def judge_in_one_task(context: SparkContext, run: Run, progress_file: Path) -> Iterable[Block]:
    """The blocks of a run's results. Without Spark's SQL, which takes longer to start than a small run to judge.

    The task writes its progress to the file (`read_progress`), as accumulators reach the driver when a task ends.
    """
    judge = partial(_blocks, run.settings, run.bytes, progress_file=progress_file)
    blocks: list[Block] = context.parallelize([tasks_of(run)], 1).flatMap(judge).collect()
    return blocks


def read_progress(file: Path) -> tuple[str, int, int, str]:
    """The arguments of the last call of Progress. Raises OSError if there was none."""
    what, done, total, unit = json.loads(file.read_text())
    return what, done, total, unit


def _write_progress(file: Path) -> Progress:
    written = 0.0

    def write(what: str, done: int, total: int, unit: str = "parts") -> None:
        nonlocal written
        if time.monotonic() - written >= PROGRESS_S:
            written = time.monotonic()
            with suppress(OSError):  # a full disk does not stop the task
                replace_file(file, json.dumps([what, done, total, unit]).encode())

    return write


def plan_whole(session: SparkSession, run: Run) -> DataFrame:
    """The same for a cluster: code is sent to workers for tasks of a session alone, and Connect has no context."""
    rows = session.createDataFrame(pa.Table.from_pylist(tasks_of(run)))
    return rows.coalesce(1).mapInArrow(partial(_judge, run.settings, run.bytes), BLOCK)


def _judge(settings: Settings, size: int, batches: Batches) -> Batches:
    tasks = sorted(rows_in(batches), key=lambda row: int(row["number"]))
    blocks = _blocks(settings, size, tasks)
    yield from to_batches(of_no_partition(kind, payload, name) for kind, name, payload in blocks)


def _blocks(
    settings: Settings, size: int, tasks: Iterable[dict[str, Any]], progress_file: Path | None = None
) -> Iterator[Block]:
    splits: list[Split] = []
    parts: list[Part] = []
    for task in tasks:
        if task["kind"] == "parts":
            parts += parts_of(task)
        else:
            splits += splits_of(task)
    run = Run(Path(), settings, tuple(splits), (), size, tuple(parts))
    results = local.judge_run(run, _write_progress(progress_file)) if progress_file else local.judge_run(run)
    for kind, name, content in results.contents():
        yield kind, name, pack(content) if isinstance(content, pl.DataFrame) else json.dumps(content).encode()


def is_whole(run: Run, size: int) -> bool:
    """Whether one task judges the run; `size` is that of its files in bytes."""
    return not run.uri and size <= MAX_BYTES
