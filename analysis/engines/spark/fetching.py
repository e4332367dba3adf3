"""Files of a run at a URI, as Spark's tasks get them: histories line by line, brokers' files and Parquet whole.

The readers of segments and Parquet seek in files. So one task collects the pieces of a file in a temporary folder (in
the executor's TMPDIR), reads the file there and deletes it. The pieces are runs of lines from Spark's text source,
which keeps all bytes. `binaryFile` is no alternative: it makes one row of a file, which takes several times the file's
size in the JVM. A driver of 2 GiB could not read one of Kafka's segments of 1 GiB.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial, reduce
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ....histories.bundle import Run, Stored, path_below
from ....histories.evidence.layout import split_part
from ....histories.evidence.parts import Part
from ....histories.files import BLOCK_BYTES, SPLIT_BYTES, TEXT_BLOCK_BYTES, Block, Split
from ....histories.parsing import parse_blocks
from ....histories.settings import Settings
from ...stages import Parts, pair_and_observe, read_evidence, read_split
from . import text_blocks
from .blocks import BLOCK, Batches, blocks_of_parts, first_number, rows_in, schema_of, unpack
from .text_blocks import TEXT_BLOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

COMPRESSED = (".gz", ".zst", ".bz2", ".lz4", ".snappy")  # what Spark's text source decompresses, by its name
# A source is a file, or a folder that is read as one. One Spark task gets all rows of a source: first the work to do
# (start -1), then the pieces of its files.
STAGED = f"source string, path string, start long, size long, {BLOCK}"
STAGED_SCHEMA = schema_of(STAGED)
MIN_TASKS = 4  # that fetch files; large files get more
Work = Callable[[dict[str, Any], Path], Iterator[pa.RecordBatch]]


def list_all_files(reader: DataFrameReader) -> DataFrameReader:
    """The reader, set to list all files.

    By default Spark hides __cluster_metadata-0, and reads a folder a=b as a column a.
    """
    return reader.option("recursiveFileLookup", "true").option("ignoredPathSegmentRegex", "")


def escape_pattern(path: str) -> str:
    """The path, with the characters escaped that Hadoop reads as a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def text_of(session: SparkSession, paths: Iterable[str]) -> DataFrame:
    """Lines of files: value (bytes), path, start (first byte of the split) and size of the file."""
    reader = list_all_files(session.read).option("lineSep", "\n")
    unique = dict.fromkeys(map(escape_pattern, paths))
    return _with_places(reader.text([*unique]), "cast(value as binary)")


def _with_places(files: DataFrame, value: str) -> DataFrame:
    return files.selectExpr(
        f"{value} as value",
        "_metadata.file_path as path",
        "_metadata.file_block_start as start",
        "_metadata.file_size as size",
    )


def blocks_of(session: SparkSession, run: Run, parallel: int) -> DataFrame:
    """Blocks (blocks.py) of a run at a URI. Lines are read in Spark's own splits, other files whole."""
    lines = [split for split in run.splits if split.reader != "parquet" and not split.is_shared]
    packed = [split for split in run.splits if split.is_shared]
    frames = [_lines_of(session, lines, run.settings)] if lines else []
    if packed:
        parsing = text_blocks.tasks_of(packed, parallel)
        known = {split.path: split for split in packed}
        pack = partial(_pack, known, parsing, TEXT_BLOCK_BYTES)  # tasks get the driver's size
        rows = text_of(session, known).mapInArrow(pack, TEXT_BLOCK)
        frames.append(text_blocks.parse_text_blocks(rows, parsing, run.settings, None))
    tasks = [
        task_row(path_below(run.uri, split.path), "split", split.number, json.dumps(asdict(split)).encode())
        for split in run.splits
        if split.reader == "parquet"
    ]
    tasks += [
        task_row(str(part.path), "part", number, json.dumps(asdict(part), default=str).encode())
        for number, part in enumerate(run.evidence, len(run.splits))
    ]
    if tasks:
        # `run.stored` also has the empty files, for which Spark yields no row.
        read = [(file, file.content) for file in run.stored if file.content is not None]
        read_already = [staged_row(file.source, file.name, 0, file.size, 0, content) for file, content in read]
        rows, pieces = frame_of(session, tasks + read_already), pieces_of(session, run.uri, run.stored)
        frames.append(run_on_staged_files(run.stored, rows, pieces, partial(_read_files, run.settings)))
    return union(frames)


def _read_files(settings: Settings, task: dict[str, Any], folder: Path) -> Batches:
    fields = {**json.loads(task["payload"]), "path": folder / task["source"]}
    if task["kind"] == "split":
        split = Split(**{**fields, "path": str(fields["path"])})
        found = ((str(split.number), parts) for parts in read_split(split, settings))
    else:
        found = (("", parts) for parts in _read_part(Part(**fields), task["source"]))
    yield from blocks_of_parts(found, first_number(task["number"]))


def _read_part(part: Part, source: str) -> Iterator[Parts]:
    """A broker's file, piece by piece. Headers name its source, as the task that decodes uses another folder."""
    for piece in split_part(part):
        parts = read_evidence(piece)
        parts.headers = [(unit, frame.with_columns(path=pl.lit(source))) for unit, frame in parts.headers]
        yield parts


def tasks_of_jobs(batches: Batches) -> Batches:
    """Decoding jobs (replicas/identical_batches.py) as STAGED rows: tasks of the files that they decode."""
    for row in rows_in(batches):
        source = str(unpack(row["payload"])["path"][0])
        yield pa.RecordBatch.from_pylist([task_row(source, **row)], STAGED_SCHEMA)


def _lines_of(session: SparkSession, splits: Iterable[Split], settings: Settings) -> DataFrame:
    known = {(split.path, split.start): (split.number, split.reader) for split in splits}
    lines = text_of(session, (path for path, _ in known))
    return lines.mapInArrow(partial(_parse_runs, settings, known), BLOCK)


def _parse_runs(settings: Settings, known: dict[tuple[str, int], tuple[int, str]], batches: Batches) -> Batches:
    for (path, start, _), runs in by_split(batches):
        number, reader = known[path, start]
        parsed = parse_blocks(reader, path, line_blocks(map(with_line_feed, runs)))
        named = ((str(number), parts) for parts in pair_and_observe(number, parsed, settings))
        yield from blocks_of_parts(named, first_number(number))


def _pack(known: Mapping[str, Split], tasks: int, block_bytes: int, batches: Batches) -> Batches:
    """TEXT_BLOCK rows of the lines of compressed files, which Spark decompresses."""
    for (path, _, _), runs in by_split(batches):
        found = line_blocks(map(with_line_feed, runs), block_bytes)
        yield from text_blocks.packed_rows(known[path], found, tasks)


class Place(NamedTuple):
    """Where lines are in a file."""

    path: str
    start: int  # first byte of the split
    size: int  # of the file in bytes


def by_split(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Place, Iterator[pa.Array]]]:
    """The lines of each split, in runs. Those of a split are adjacent in a task."""

    def runs() -> Iterator[tuple[Place, pa.Array]]:
        for batch in batches:
            places = pl.DataFrame(batch.drop_columns(["value"])).to_struct().rle()
            first = 0
            for length, place in places.struct.unnest().iter_rows():
                yield Place(place["path"], place["start"], place["size"]), batch.column("value").slice(first, length)
                first += length

    for place, group in groupby(runs(), key=itemgetter(0)):
        # Spark percent-encodes the path.
        yield place._replace(path=unquote(place.path)), map(itemgetter(1), group)


def line_blocks(runs: Iterable[bytes], block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Joins runs of whole lines into blocks of about `block_bytes`."""
    first_line, data = 0, bytearray()
    for run in runs:
        data += run
        if len(data) >= block_bytes:
            block = Block(first_line, bytes(data))
            yield block
            first_line, data = first_line + block.lines, bytearray()
    if data:
        yield Block(first_line, bytes(data))


def with_line_feed(lines: pa.Array) -> bytes:
    """The bytes of the lines. The last line gets a line feed even where the file ends without one."""
    listed = pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), lines.cast(pa.large_binary()))
    return bytes(pc.binary_join(listed, pa.scalar(b"\n", pa.large_binary()))[0].as_py()) + b"\n"


def pieces_of(session: SparkSession, root: str, files: Sequence[Stored]) -> DataFrame:
    """STAGED rows with the bytes of files below a URI, without files that were read already (`Stored.content`).

    A piece holds at most the lines of one Arrow batch from Spark.
    """
    sources: dict[str, list[str]] = {}
    for file in files:
        if file.content is None:
            sources.setdefault(f"{root}/{file.name}", []).append(file.source)
    plain = [path for path in sources if not path.endswith(COMPRESSED)]
    # Brokers' older logs, some megabytes each.
    packed = [escape_pattern(path) for path in sources if path.endswith(COMPRESSED)]
    frames = [text_of(session, plain)] if plain else []
    if packed:
        frames.append(_with_places(list_all_files(session.read.format("binaryFile")).load(packed), "content"))
    if not frames:
        return frame_of(session, [])
    # Without coalesce each file would be a task of its own.
    return union(frames).coalesce(_tasks_of(files)).mapInArrow(partial(_cut, root, sources), STAGED)


def _tasks_of(files: Iterable[Stored]) -> int:
    return max(MIN_TASKS, sum(file.size for file in files) // SPLIT_BYTES)


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """The rows of all frames, which have the same columns."""
    return reduce(lambda one, other: one.unionByName(other), frames)


def _cut(root: str, sources: Mapping[str, Sequence[str]], batches: Batches) -> Batches:
    number = 0
    for (path, start, size), runs in by_split(batches):
        for lines in runs:
            payload = with_line_feed(lines)
            for source in sources[path]:
                piece = staged_row(source, path.removeprefix(f"{root}/"), start, size, number, payload)
                number += 1
                yield pa.RecordBatch.from_pylist([piece], STAGED_SCHEMA)


def staged_row(
    source: str, path: str, start: int, size: int, number: int, payload: bytes, **task: Any
) -> dict[str, Any]:
    """A piece of a file of a source; its task writes it to disk."""
    row = {"source": source, "path": path, "start": start, "size": size, "kind": "piece", "topic": "", "partition": -1}
    return {**row, "name": "", "number": number, "payload": payload, **task}


def task_row(source: str, kind: str, number: int, payload: bytes, **task: Any) -> dict[str, Any]:
    """A task that reads a source once its files are on disk."""
    return staged_row(source, "", -1, 0, number, payload, kind=kind, **task)


def frame_of(session: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Rows of tasks and pieces as a DataFrame."""
    return session.createDataFrame(pa.Table.from_pylist(rows, STAGED_SCHEMA))


def run_on_staged_files(
    files: Iterable[Stored], tasks: DataFrame, pieces: DataFrame, work: Work, schema: str = BLOCK
) -> DataFrame:
    """The blocks that `work` yields for each task. It gets a folder with the files of the task, named as at the URI."""
    ordered = (
        tasks.unionByName(pieces)
        .repartition(_tasks_of(files), "source")
        .sortWithinPartitions("source", "path", "start", "number")
    )
    return ordered.mapInArrow(partial(_in_folder, work), schema)


def _in_folder(work: Work, batches: Batches) -> Batches:
    for _, rows in groupby(rows_in(batches), key=itemgetter("source")):
        with tempfile.TemporaryDirectory(prefix="logjudge-") as scratch:
            folder, tasks = Path(scratch), []
            for row in rows:
                if row["start"] < 0:
                    tasks.append(row)
                else:
                    _append(folder / row["path"], row["payload"], row["size"])
            for task in tasks:
                yield from work(task, folder)


def _append(path: Path, piece: bytes, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(piece)
        if file.tell() > size:
            file.truncate(size)  # drops the line feed that `with_line_feed` added to the last line
