"""The DataFrame plan that judges a run: read, pair, observe, then judge by batch of topic-partitions.

Tasks hand each other blocks (blocks.py). So Spark moves a few large values instead of tens of millions of rows, and
the kernels decode them at memory speed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from ....histories.bundle import Run
from ....histories.evidence.parts import NOT_READ, Part
from ....histories.files import COMPRESSION, SPLIT_BYTES, Split
from ....histories.pairing import PLACED_EVENTS
from ....histories.settings import Settings
from ...batches import Unit, batches_of
from ...stages import (
    REFERRING_TABLES,
    choose_batches,
    decode_batches,
    lookups_of,
    pair_at_end,
    read_evidence,
    read_split,
)
from . import ranges, text_blocks
from .batching import OBSERVATIONS, REPORTED, batch_of, make_batch_judge
from .blocks import (
    BLOCK,
    BUCKETS,
    SCHEMA,
    Batches,
    GroupMap,
    blocks_of_parts,
    first_number,
    in_order,
    pack,
    rows_in,
    rows_of,
    to_batches,
    unpack,
)
from .fetching import STAGED, blocks_of, pieces_of, run_on_staged_files, tasks_of_jobs, union
from .frames import blocks_of_frame
from .range_tasks import UNIT, literal
from .session import parallel_tasks, shuffle_tasks

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

ASSUMED_FILE_BYTES = 256 << 10  # of an evidence file that is read whole; Part has no size for it
INVISIBLE = "logjudge found no file on a worker: "  # begins the message of an error in a task; its path ends the line
_LAST = 1 << 60  # blocks with this number or a greater one come after all blocks read from files
_TABLES_OF_JOB = 4  # numbers that are reserved for each decoding job, which yields at most three tables


def plan(
    session: SparkSession, run: Run, lines: Accumulator[int] | None, events: DataFrame | None, stored: ExitStack
) -> tuple[DataFrame, DataFrame]:
    """Two DataFrames of blocks: the results of a run, and what is compared across partitions.

    The latter are the dependencies of transactions and their expected pieces (kinds dependencies and expected).
    `lines` counts the lines that tasks have read; `events` is the history of `open_frame`.
    """
    from pyspark.sql import functions as F  # noqa: N812

    run = run.with_settings(batches=run.settings.batches or batches_of(run))
    settings = run.settings
    read = _read(session, run, lines) if events is None else blocks_of_frame(events, settings, lines)
    read = store(read, stored)
    # Without repartition before groupBy, Spark judges a run of a single split in a single task.
    tasks = shuffle_tasks(session)
    unpaired = read.filter(F.col("kind") == "unpaired").repartition(min(tasks, BUCKETS), "partition")
    paired = store(unpaired.groupBy("partition").applyInArrow(_make_pair_bucket(settings), BLOCK), stored)
    blocks, decoded = read.filter(F.col("kind") != "unpaired").unionByName(paired), None
    if any(part.kind == "headers" for part in run.evidence):
        blocks, decoded = _with_records(session, run, blocks, stored)
    batch, is_observed = batch_of(run.settings.batches), F.col("kind").isin(*OBSERVATIONS)
    sizes = blocks.filter(is_observed).select("kind", *UNIT, batch.alias("batch"), F.length("payload").alias("size"))
    listed = sizes.groupBy("kind", *UNIT, "batch").agg(F.sum("size").alias("size")).collect()
    blocks = blocks.coalesce(tasks)  # the blocks are stored now: selecting them is cheaper than more tasks
    blocks = blocks if decoded is None else blocks.unionByName(decoded)
    if large := ranges.large_units(run, listed):
        blocks = ranges.prove(blocks, large, run.settings, tasks, partial(store, stored=stored))
    batches = literal(sorted({row["batch"] for row in listed}), "array<string>")
    reported = F.array(F.lit(REPORTED))
    destinations = (  # the batches to which a block goes
        F.when(is_observed, F.array(batch))
        .when(F.col("kind") == "context", F.concat(batches, reported))
        .when(F.col("kind").isin("unplaced", "shared"), batches)
        .otherwise(reported)
    )
    needed = blocks.withColumn("batch", F.explode(destinations)).repartition(tasks, "batch")
    judged = store(needed.groupBy("batch").applyInArrow(make_batch_judge(settings), BLOCK), stored)
    is_compared_later = F.col("kind").isin("dependencies", "expected")
    return judged.filter(~is_compared_later), judged.filter(is_compared_later)


def _read(session: SparkSession, run: Run, lines: Accumulator[int] | None) -> DataFrame:
    if run.uri:
        return blocks_of(session, run, parallel_tasks(session))
    tasks = tasks_of(run)
    whole = [task for task in tasks if task["kind"] != "packed"]
    frames = [one_each(session, whole).mapInArrow(partial(_read_tasks, run.settings, lines), BLOCK)] if whole else []
    if packed := [split for split in run.splits if split.is_shared]:
        parsing = text_blocks.tasks_of(packed, parallel_tasks(session))
        rows = one_each(session, [task for task in tasks if task["kind"] == "packed"])
        texts = text_blocks.decompress_files(rows, parsing)
        frames.append(text_blocks.parse_text_blocks(texts, parsing, run.settings, lines))
    return union(frames)


def one_each(session: SparkSession, tasks: list[dict[str, Any]]) -> DataFrame:
    """The rows of `tasks_of`, each in its own task.

    They are a literal, which Spark parses once. A table would need a conversion, a job and a shuffle of its own.
    """
    from pyspark.sql import functions as F  # noqa: N812

    rows = F.from_json(F.lit(json.dumps(tasks)), "array<struct<number bigint, kind string, task string>>")
    each = session.range(0, len(tasks), 1, len(tasks))
    return each.select(F.inline(F.array(rows[F.col("id")])))


def store(frame: DataFrame, stored: ExitStack) -> DataFrame:
    """Lets Spark compute the frame once, and keep it until `stored` ends."""
    from pyspark import StorageLevel

    persisted = frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)
    stored.callback(persisted.unpersist)
    return persisted


def _with_records(session: SparkSession, run: Run, blocks: DataFrame, stored: ExitStack) -> tuple[DataFrame, DataFrame]:
    """The blocks with tables of batches instead of headers; and, separately, the records of the batches to decode.

    These batches are chosen by the headers of all replicas and by the records to which the history refers.
    """
    from pyspark.sql import functions as F  # noqa: N812

    headers = blocks.filter(F.col("kind") == "headers")
    if run.splits:
        referring = blocks.filter((F.col("kind") == "observations") & F.col("name").isin(*REFERRING_TABLES))
        headers = headers.unionByName(referring.mapInArrow(_lookups, BLOCK))
    choosing = _make_choose(run.settings, bool(run.splits))
    by_unit = headers.repartition(shuffle_tasks(session), "topic", "partition")
    chosen = store(by_unit.groupBy("topic", "partition").applyInArrow(choosing, BLOCK), stored)
    jobs = chosen.filter(F.col("kind") == "jobs")
    if run.uri:
        tasks = jobs.mapInArrow(tasks_of_jobs, STAGED)
        wanted = F.broadcast(tasks.select("source").distinct())
        segments = {str(part.path) for part in run.evidence if part.kind == "headers"}
        files = [file for file in run.stored if file.source in segments]
        pieces = pieces_of(session, run.uri, files).join(wanted, "source", "left_semi")
        decoded = run_on_staged_files(files, tasks, pieces, _decode_in_folder)
    else:
        decoded = jobs.repartition(shuffle_tasks(session), "number").mapInArrow(_decode_rows, BLOCK)
    rest = blocks.filter(F.col("kind") != "headers")
    return rest.unionByName(chosen.filter(F.col("kind") != "jobs")), decoded


def _lookups(batches: Batches) -> Batches:
    for row in rows_in(batches):
        lookups = pack(lookups_of(row["name"], unpack(row["payload"])))
        yield from to_batches([("lookups", row["topic"], row["partition"], "", row["number"], lookups)])


def _make_choose(settings: Settings, has_history: bool) -> Callable[..., Iterator[pa.RecordBatch]]:
    def choose(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topic, partition = (value.as_py() for value in key)
        frames: dict[str, list[pl.DataFrame]] = {"headers": [], "lookups": []}
        for row in in_order(batches):
            frames[row["kind"]].append(unpack(row["payload"]))
        if headers := frames["headers"]:  # empty if only the history or a checkpoint has the partition
            lookups = frames["lookups"] if has_history else None
            parts = choose_batches(Unit(topic, partition), headers, lookups, settings)
            yield from to_batches(rows_of(parts, "", _LAST))

    return choose


def _decode_rows(batches: Batches) -> Batches:
    for row in rows_in(batches):
        yield from _decode_in_folder(row, Path())


def _decode_in_folder(row: dict[str, Any], folder: Path) -> Batches:
    """Blocks of a decoding job's records; the job's path may be relative to the folder."""
    job = unpack(row["payload"])
    job = job.with_columns(path=pl.lit(str(folder / job["path"][0])))
    parts = decode_batches(Unit(row["topic"], row["partition"]), job)
    yield from to_batches(rows_of(parts, "", _LAST + (row["number"] - _LAST) * _TABLES_OF_JOB))


def tasks_of(run: Run) -> list[dict[str, Any]]:
    """One row (number, kind, task as a JSON list) for each split of text, or for several small files or row groups.

    Paths are absolute, as workers run in other folders than the driver.
    """
    lists: list[tuple[str, list[dict[str, Any]]]] = []
    bytes_left = 0  # of the last task
    for kind, item, size in _items_of(run):
        if bytes_left < size or not lists or lists[-1][0] != kind:
            lists.append((kind, []))
            bytes_left = SPLIT_BYTES
        lists[-1][1].append(item)
        bytes_left -= size
    return [
        {"number": number, "kind": kind, "task": json.dumps(items, default=str)}
        for number, (kind, items) in enumerate(lists)
    ]


def _items_of(run: Run) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Kind, fields and bytes of each split and each part of brokers' files. A split of text fills a task."""
    row_group_bytes = min(COMPRESSION * run.bytes // max(1, len(run.splits)), SPLIT_BYTES)
    for split in run.splits:
        fields = asdict(replace(split, path=str(Path(split.path).absolute())))
        size = row_group_bytes if split.reader == "parquet" else SPLIT_BYTES
        yield "packed" if split.is_shared else "splits", fields, size
    for part in run.evidence:
        size = (part.end - part.start) if part.end is not None else ASSUMED_FILE_BYTES
        yield "parts", asdict(replace(part, path=part.path.absolute())), size


def splits_of(task: Mapping[str, Any]) -> Iterator[Split]:
    """The splits of a row of `tasks_of`. Raises FileNotFoundError if a worker does not see the file of one."""
    return (Split(**item) for item in _items_in(task))


def parts_of(task: Mapping[str, Any]) -> Iterator[Part]:
    """The parts of brokers' files of a row of `tasks_of`. Raises FileNotFoundError as `splits_of` does."""
    return (Part(**{**item, "path": Path(item["path"])}) for item in _items_in(task))


def _items_in(task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for item in json.loads(task["task"]):
        if item.get("kind") not in NOT_READ and not Path(item["path"]).exists():
            raise FileNotFoundError(INVISIBLE + item["path"])
        yield item


def _read_tasks(settings: Settings, lines: Accumulator[int] | None, batches: Batches) -> Batches:
    for row in rows_in(batches):
        if row["kind"] == "parts":
            found = (("", read_evidence(part)) for part in parts_of(row))
        else:
            found = ((str(split.number), parts) for split in splits_of(row) for parts in read_split(split, settings))
        yield from blocks_of_parts(found, first_number(row["number"]), lines)


def _make_pair_bucket(settings: Settings) -> GroupMap:
    """Pairs the events of a bucket, for `applyInArrow`."""

    def pair_bucket(table: pa.Table) -> pa.Table:
        unpaired = pl.concat([unpack(payload) for payload in table.column("payload").to_pylist()])
        parts = pair_at_end(unpaired.select(list(PLACED_EVENTS)), settings)
        return pa.Table.from_batches(to_batches(rows_of(parts, "", _LAST)), SCHEMA)

    return pair_bucket
