"""Judges a small run in one task, as the local engine does: stages and workers cost more than the work in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from ....histories.bundle import Run, Settings
from ....histories.evidence.parts import Part
from ....histories.files import Split
from .. import local
from .blocks import BLOCK, Map, pack, to_batches
from .plan import refuse_missing, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ...results import Results

MAX_BYTES = 4 << 20  # of the run's files, if none were compressed; judged in a second


def plan_whole(session: SparkSession, run: Run) -> DataFrame:
    """The blocks of a run's results, from one task."""
    rows = session.createDataFrame(pa.Table.from_pylist(tasks_of(run)))
    return rows.coalesce(1).mapInArrow(_judging(run.settings.to_json()), BLOCK)


def _judging(settings_json: str) -> Map:
    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        splits: list[Split] = []
        parts: list[Part] = []
        for row in sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: int(row["number"])):
            for item in json.loads(row["task"]):
                refuse_missing(item)
                if row["kind"] == "parts":
                    parts.append(Part(**{**item, "path": Path(item["path"])}))
                else:
                    splits.append(Split(**item))
        run = Run(Path(), Settings.from_json(settings_json), tuple(splits), (), 0, tuple(parts))
        for kind, name, payload in _contents(local.judge_run(run)):
            yield from to_batches([(kind, "", -1, name, 0, payload)])

    return judge


def _contents(results: Results) -> Iterator[tuple[str, str, bytes]]:
    """Kind, name and payload of each block, as `judge_run` takes them."""
    for kind, name, content in results.contents():
        yield kind, name, pack(content) if isinstance(content, pl.DataFrame) else json.dumps(content).encode()


def is_whole(run: Run, size: int) -> bool:
    """Whether one task judges the run; `size` is that of its files in bytes."""
    return not run.uri and size <= MAX_BYTES
