"""Rows that tasks exchange by bucket: of a key or a process, so that one task has all rows of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from ....histories.bundle import Run
from ....histories.files import BLOCK_BYTES, Block, Split, blocks
from .blocks import rows_in, schema_of, to_batches
from .fetching import by_split, line_blocks, text_of, with_line_feed
from .plan import one_each, splits_of, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW = "kind string, bucket int, payload binary"
SCHEMA = schema_of(ROW)
Row = tuple[str, int, bytes]
Payloads = dict[str, list[bytes]]  # of a bucket, by kind
Judge = Callable[[int, Payloads], Iterator[Row]]  # gets a bucket
Parse = Callable[[Split, Iterable[Block]], Iterator[Row]]  # gets a split and its lines


def by_bucket(frame: DataFrame, buckets: int, judge: Judge) -> DataFrame:
    """The rows that `judge` makes of each bucket."""

    def of_bucket(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        payloads: Payloads = defaultdict(list)
        for row in rows_in(batches):
            payloads[row["kind"]].append(row["payload"])
        yield from to_batches(judge(key[0].as_py(), payloads), SCHEMA)

    return frame.repartition(buckets, "bucket").groupBy("bucket").applyInArrow(of_bucket, ROW)


def read_splits(session: SparkSession, run: Run, parse: Parse, block_bytes: int = BLOCK_BYTES) -> DataFrame:
    """The rows that `parse` makes of each split of a run, which has no other files. It gets lines in blocks."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in rows_in(batches):
            for split in splits_of(row):
                yield from to_batches(parse(split, blocks(split, block_bytes)), SCHEMA)

    def read_lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (path, start, _), runs in by_split(batches):
            rows = parse(known[path, start], line_blocks(map(with_line_feed, runs), block_bytes))
            yield from to_batches(rows, SCHEMA)

    if not run.uri:
        return one_each(session, tasks_of(run)).mapInArrow(read, ROW)
    known = {(split.path, split.start): split for split in run.splits}
    return text_of(session, (path for path, _ in known)).mapInArrow(read_lines, ROW)
