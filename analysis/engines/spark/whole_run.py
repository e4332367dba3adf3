"""Judges a small run in one task, as the local engine does: stages and workers cost more than the work in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from ....histories.bundle import Run
from ....histories.evidence.parts import Part
from ....histories.files import Split
from ....histories.settings import Settings
from .. import local
from .blocks import BLOCK, Batches, of_no_partition, pack, rows_in, to_batches
from .plan import refuse_missing, tasks_of

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

Block = tuple[str, str, bytes]  # kind, name and payload, as results take them
MAX_BYTES = 4 << 20  # of the run's files, if none were compressed; judged in a second


def judge_in_one_task(context: SparkContext, run: Run) -> Iterable[Block]:
    """The blocks of a run's results. Without Spark's SQL, which takes longer to start than such a run to judge."""
    tasks = context.parallelize([tasks_of(run)], 1)
    blocks: list[Block] = tasks.flatMap(partial(_blocks, run.settings)).collect()
    return blocks


def plan_whole(session: SparkSession, run: Run) -> DataFrame:
    """The same for a cluster: code is sent to workers for tasks of a session alone, and Connect has no context."""
    rows = session.createDataFrame(pa.Table.from_pylist(tasks_of(run)))
    return rows.coalesce(1).mapInArrow(partial(_judge, run.settings), BLOCK)


def _judge(settings: Settings, batches: Batches) -> Batches:
    tasks = sorted(rows_in(batches), key=lambda row: int(row["number"]))
    yield from to_batches(of_no_partition(kind, payload, name) for kind, name, payload in _blocks(settings, tasks))


def _blocks(settings: Settings, tasks: Iterable[dict[str, Any]]) -> Iterator[Block]:
    splits: list[Split] = []
    parts: list[Part] = []
    for task in tasks:
        for item in json.loads(task["task"]):
            refuse_missing(item)
            if task["kind"] == "parts":
                parts.append(Part(**{**item, "path": Path(item["path"])}))
            else:
                splits.append(Split(**item))
    run = Run(Path(), settings, tuple(splits), (), 0, tuple(parts))
    for kind, name, content in local.judge_run(run).contents():
        yield kind, name, pack(content) if isinstance(content, pl.DataFrame) else json.dumps(content).encode()


def is_whole(run: Run, size: int) -> bool:
    """Whether one task judges the run; `size` is that of its files in bytes."""
    return not run.uri and size <= MAX_BYTES
