"""Files of a run at a URI, as Spark's tasks get them: histories line by line, brokers' files and Parquet whole.

What reads segments and Parquet seeks in files. So the pieces of a file meet in a task, which puts them into a temporary
folder (of the executor's TMPDIR), reads the file there and deletes it. The pieces are runs of lines of Spark's text
source, which leaves all bytes as they are: its `binaryFile` makes one row of a file, which takes several times the
file's size in the JVM, so that a segment of Kafka's usual 1 GiB does not fit into a driver of 2 GiB.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import reduce
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from ..histories.bundle import Run, Settings, Stored, path_below
from ..histories.evidence.layout import split_part
from ..histories.evidence.parts import Part
from ..histories.files import BLOCK_BYTES, SPLIT_BYTES, Block, Split
from ..histories.parsing import parse_blocks
from .blocks import BLOCK, SCHEMA, rows_of, to_batches, unpack
from .stages import Parts, read_evidence, read_split, take_apart

Session = Any  # a SparkSession, and a DataFrame of it: pyspark is imported in spark.py alone
Frame = Any
COMPRESSED = (".gz", ".zst", ".bz2", ".lz4", ".snappy")  # what Spark's text source decompresses, by its name
# Rows of one home (a file, or a folder that is read as one) meet in a task: first what is to be done there, at start
# -1, then the pieces of its files.
STAGED = f"home string, path string, start long, size long, {BLOCK}"
STAGED_SCHEMA = pa.schema(
    [("home", pa.string()), ("path", pa.string()), ("start", pa.int64()), ("size", pa.int64()), *SCHEMA]
)
FEWEST_TASKS = 4  # that fetch files; more where they are large
Work = Callable[[dict[str, Any], Path], Iterator[pa.RecordBatch]]


def all_names(reader: Any) -> Any:
    """A DataFrameReader that takes folders as they are: names like __cluster_metadata-0 are hidden otherwise, and those
    like a=b tell of columns."""
    return reader.option("recursiveFileLookup", "true").option("ignoredPathSegmentRegex", "")


def literal(path: str) -> str:
    """A path in which Hadoop sees no pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def text_of(session: Session, paths: Iterable[str]) -> Frame:
    """Lines of files: value (bytes), path, start (first byte of the split) and size of the file."""
    reader = all_names(session.read).option("lineSep", "\n")
    return _with_places(reader.text([literal(path) for path in paths]), "cast(value as binary)")


def _with_places(files: Frame, value: str) -> Frame:
    return files.selectExpr(
        f"{value} as value",
        "_metadata.file_path as path",
        "_metadata.file_block_start as start",
        "_metadata.file_size as size",
    )


def blocks_of(session: Session, run: Run) -> Frame:
    """Blocks (blocks.py) of a run at a URI. Lines are read where Spark splits them, all else as whole files."""
    lines = [split for split in run.splits if split.reader != "parquet"]
    frames = [_lines_of(session, lines, run.settings)] if lines else []
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
        # Empty files among them, of which Spark gives no line.
        at_hand = [
            staged_row(file.home, file.name, 0, file.size, 0, file.content)
            for file in run.stored
            if file.content is not None
        ]
        rows = frame_of(session, tasks + at_hand)
        frames.append(
            staged(run.stored, rows, pieces_of(session, run.uri, run.stored), _reading_files(run.settings.to_json()))
        )
    return _union(frames)


def _reading_files(settings_json: str) -> Work:
    def read(task: dict[str, Any], folder: Path) -> Iterator[pa.RecordBatch]:
        settings = Settings.from_json(settings_json)
        told = {**json.loads(task["payload"]), "path": folder / task["home"]}
        turn = task["turn"] << 32
        if task["kind"] == "split":
            split = Split(**{**told, "path": str(told["path"])})
            found = ((parts, str(split.number)) for parts in read_split(split, settings))
        else:
            found = ((parts, "") for parts in _read_part(Part(**told), task["home"]))
        for parts, name in found:
            rows = rows_of(parts, name, turn)
            turn += len(rows)
            yield from to_batches(rows)

    return read


def _read_part(part: Part, home: str) -> Iterator[Parts]:
    """A broker's file, piece by piece. What is decoded later will stand in another task's folder."""
    for piece in split_part(part):
        parts = read_evidence(piece)
        parts.headers = [(unit, frame.with_columns(pl.lit(home).alias("path"))) for unit, frame in parts.headers]
        yield parts


def tasks_of_jobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Blocks of jobs (replicas/identical_batches.py) as STAGED rows: tasks of the files that they decode."""
    for batch in batches:
        for row in batch.to_pylist():
            home = str(unpack(row["payload"])["path"][0])
            yield pa.RecordBatch.from_pylist([task_row(home, **row)], STAGED_SCHEMA)


def _lines_of(session: Session, splits: Iterable[Split], settings: Settings) -> Frame:
    known = {(split.path, split.start): (split.number, split.reader) for split in splits}
    lines = text_of(session, dict.fromkeys(path for path, _ in known))
    return lines.mapInArrow(_reading(settings.to_json(), known), BLOCK)


def _reading(
    settings_json: str, known: dict[tuple[str, int], tuple[int, str]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settings = Settings.from_json(settings_json)
        for (path, start, _), runs in by_split(batches):
            number, reader = known[path, start]
            parsed = parse_blocks(reader, path, _blocks(map(pl.Series, runs)))
            turn = number << 32
            for parts in take_apart(number, parsed, settings):
                rows = rows_of(parts, str(number), turn)
                turn += len(rows)
                yield from to_batches(rows)

    return read


def by_split(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[tuple[str, int, int], Iterator[pa.Array]]]:
    """The lines of each split, which stand together in a task: (path, first byte, file's size), runs of lines."""

    def runs() -> Iterator[tuple[tuple[str, int, int], pa.Array]]:
        for batch in batches:
            places = pl.DataFrame(batch.drop_columns(["value"])).to_struct().rle()
            at = 0
            for length, place in places.struct.unnest().iter_rows():
                yield (place["path"], place["start"], place["size"]), batch.column("value").slice(at, length)
                at += length

    for (path, start, size), group in groupby(runs(), key=itemgetter(0)):
        # Spark gives the path with its odd letters encoded.
        yield (unquote(path), start, size), map(itemgetter(1), group)


def _blocks(runs: Iterator[pl.Series]) -> Iterator[Block]:
    """Runs of lines together, until they are a block."""
    first_line, lines, size = 0, list[bytes](), 0
    for run in runs:
        lines += run.to_list()
        size += int(run.bin.size().sum())
        if size >= BLOCK_BYTES:
            yield Block(first_line, b"\n".join(lines) + b"\n")
            first_line, lines, size = first_line + len(lines), [], 0
    if lines:
        yield Block(first_line, b"\n".join(lines) + b"\n")


def joined(lines: pa.Array) -> bytes:
    """The bytes that the lines are of; the last of them has its line feed even where the file ends without one."""
    listed = pa.LargeListArray.from_arrays(pa.array([0, len(lines)], pa.int64()), lines.cast(pa.large_binary()))
    return bytes(pc.binary_join(listed, pa.scalar(b"\n", pa.large_binary()))[0].as_py()) + b"\n"


def pieces_of(session: Session, root: str, files: Sequence[Stored]) -> Frame:
    """STAGED rows of the bytes of files below a URI, each piece no larger than a batch of Spark's or a single line.

    Files whose content is at hand are left out.
    """
    homes = {f"{root}/{file.name}": file.home for file in files if file.content is None}
    plain = [path for path in homes if not path.endswith(COMPRESSED)]
    packed = [literal(path) for path in homes if path.endswith(COMPRESSED)]  # brokers' older logs, some megabytes each
    frames = [text_of(session, plain)] if plain else []
    if packed:
        frames.append(_with_places(all_names(session.read.format("binaryFile")).load(packed), "content"))
    if not frames:
        return frame_of(session, [])
    # Else each file would be a task of its own.
    return _union(frames).coalesce(_tasks_of(files)).mapInArrow(_piecing(root, homes), STAGED)


def _tasks_of(files: Iterable[Stored]) -> int:
    return max(FEWEST_TASKS, sum(file.size for file in files) // SPLIT_BYTES)


def _union(frames: Iterable[Frame]) -> Frame:
    return reduce(lambda one, other: one.unionByName(other), frames)


def _piecing(root: str, homes: dict[str, str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        turn = 0
        for (path, start, size), runs in by_split(batches):
            for lines in runs:
                piece = staged_row(homes[path], path.removeprefix(f"{root}/"), start, size, turn, joined(lines))
                turn += 1
                yield pa.RecordBatch.from_pylist([piece], STAGED_SCHEMA)

    return cut


def staged_row(home: str, path: str, start: int, size: int, turn: int, payload: bytes, **task: Any) -> dict[str, Any]:
    row = {"home": home, "path": path, "start": start, "size": size, "kind": "piece", "topic": "", "partition": -1}
    return {**row, "name": "", "turn": turn, "payload": payload, **task}


def task_row(home: str, kind: str, turn: int, payload: bytes, **task: Any) -> dict[str, Any]:
    """What is to be done at a home once its files are there."""
    return staged_row(home, "", -1, 0, turn, payload, kind=kind, **task)


def frame_of(session: Session, rows: list[dict[str, Any]]) -> Frame:
    return session.createDataFrame(pa.Table.from_pylist(rows, STAGED_SCHEMA))


def staged(files: Iterable[Stored], tasks: Frame, pieces: Frame, work: Work, schema: str = BLOCK) -> Frame:
    """What `work` yields for each task, whose files stand in the folder that it is given as they do below the URI."""
    ordered = (
        tasks.unionByName(pieces)
        .repartition(_tasks_of(files), "home")
        .sortWithinPartitions("home", "path", "start", "turn")
    )
    return ordered.mapInArrow(_in_folder(work), schema)


def _in_folder(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        for _, mine in groupby(rows, key=itemgetter("home")):
            with tempfile.TemporaryDirectory(prefix="logjudge-") as scratch:
                folder, tasks = Path(scratch), []
                for row in mine:
                    if row["start"] < 0:
                        tasks.append(row)
                    else:
                        _append(folder / row["path"], row["payload"], row["size"])
                for task in tasks:
                    yield from work(task, folder)

    return run


def _append(path: Path, piece: bytes, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(piece)
        if file.tell() > size:
            file.truncate(size)  # the line feed that the last line did not have
