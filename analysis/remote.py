"""Runs at a URI that Spark's filesystems read (s3a://, hdfs://, ...), and results that go to one.

Spark itself lists and reads the files and hands their lines to the readers; only whole lines of a split meet, as with
local files. Brokers' files are not read this way: a segment is no text, and Spark reads binary files whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from ..histories.bundle import EXPECTED, Run, Settings, config_of, history_names, path_below, plain_splits, reader_of
from ..histories.errors import InputError, UsageError, first_line
from ..histories.files import BLOCK_BYTES, HEAD_BYTES, SPLIT_BYTES, Block, Split
from ..histories.parsing import parse_blocks
from .blocks import rows_of, to_batches
from .stages import take_apart

Session = Any  # a SparkSession, and a DataFrame of it: pyspark is imported in spark.py alone
Frame = Any
CHECK = "check the URI, and that Spark has its file system (--conf spark.jars.packages=...)"
_COMPRESSED = (".gz", ".zst", ".bz2", ".lz4", ".snappy")


def open_run(session: Session, uri: str, reader: str | None = None, split_bytes: int = SPLIT_BYTES) -> Run:
    """Finds the histories of a bundle, or takes a lone file as one. Raises InputError if there is nothing."""
    # So Spark splits files as we do, and each split has a number before anybody reads it.
    session.conf.set("spark.sql.files.maxPartitionBytes", str(split_bytes))
    session.conf.set("spark.sql.files.openCostInBytes", str(split_bytes))
    root = uri.rstrip("/")
    files = {path_below(root, path): (path, size) for path, size in _list(session, root)}
    lone = list(files) == [""]
    names = [""] if lone else history_names(sorted(files))
    if not names:
        raise InputError(uri, "no history in it", EXPECTED, "brokers' files are read from local or mounted folders")
    told = f"{root}/run.json" if not lone else root.rsplit("/", 1)[0] + "/run.json"
    config = _config(session, told) if "run.json" in files or root.rsplit("/", 1)[-1].startswith("history.") else {}
    splits: list[Split] = []
    for name in names:
        path, size = files[name]
        found = reader or reader_of(_head(session, path), path)
        whole = [Split(len(splits), path, found, "", 0, size)]
        splits += whole if path.endswith(_COMPRESSED) else plain_splits(path, size, found, len(splits), split_bytes)
    dialect = "jepsen" if any(split.reader == "jepsen" for split in splits) else "native"
    name = str(config.get("name") or root.rsplit("/", 1)[-1].split(".", 1)[0])
    settings = Settings(name, dialect, config)
    run = Run(Path(root), settings, tuple(splits), (), sum(files[name][1] for name in names), uri=root)
    return replace(run, files=tuple(dict.fromkeys(run.source_of(split.number) for split in splits)))


def lines_of(session: Session, run: Run, block: str) -> Frame:
    """Blocks (blocks.py) of all lines of a run at a URI."""
    settings = run.settings.to_json()
    known = {(split.path, split.start): (split.number, split.reader) for split in run.splits}
    paths = list(dict.fromkeys(split.path for split in run.splits))
    lines = (
        session.read.option("lineSep", "\n")
        .text(paths)
        .selectExpr(
            "cast(value as binary) as value", "_metadata.file_path as path", "_metadata.file_block_start as start"
        )
    )
    return lines.mapInArrow(_reading(settings, known), block)


def _reading(
    settings_json: str, known: dict[tuple[str, int], tuple[int, str]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settings = Settings.from_json(settings_json)
        for path, start, runs in _by_split(batches):
            number, reader = known[path, start]
            parsed = parse_blocks(reader, path, _blocks(runs))
            turn = number << 32
            for parts in take_apart(number, parsed, settings):
                rows = rows_of(parts, str(number), turn)
                turn += len(rows)
                yield from to_batches(rows)

    return read


def _by_split(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, int, Iterator[pl.Series]]]:
    """The lines of each split, which stand together in a task's rows: (path, first byte, runs of lines)."""

    def runs() -> Iterator[tuple[tuple[str, int], pl.Series]]:
        for batch in batches:
            frame = pl.DataFrame(batch).with_columns(pl.struct("path", "start").rle_id().alias("run"))
            for mine in frame.partition_by("run", maintain_order=True):
                yield (mine["path"][0], mine["start"][0]), mine["value"]

    for (path, start), group in groupby(runs(), key=itemgetter(0)):
        yield unquote(path), start, map(itemgetter(1), group)  # Spark gives it with its odd letters encoded


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


def _list(session: Session, uri: str) -> list[tuple[str, int]]:
    """All files at and below a URI, and their bytes. Raises InputError where Spark finds none or cannot look."""
    try:
        found = (
            session.read.format("binaryFile")
            .option("recursiveFileLookup", "true")
            .load(uri)
            .select("path", "length")
            .collect()
        )
    except Exception as error:
        raise InputError(uri, f"nothing that Spark can list ({first_line(error)})", EXPECTED, CHECK) from error
    if not found:
        raise InputError(uri, "nothing", EXPECTED, CHECK)
    return [(row["path"], row["length"]) for row in found]


def _config(session: Session, uri: str) -> dict[str, Any]:
    content = _content(session, uri)  # a lone history.jsonl may stand without a run.json
    return config_of(content, uri) if content else {}


def _content(session: Session, uri: str) -> bytes:
    """A small file's bytes; none where there is no such file."""
    try:
        rows = session.read.format("binaryFile").load(uri).select("content").collect()
    except Exception:
        return b""
    return bytes(rows[0]["content"]) if rows else b""


def _head(session: Session, path: str) -> bytes:
    rows = session.read.option("lineSep", "\n").text(path).selectExpr("cast(value as binary) as value").take(50)
    lines = [bytes(row["value"]) for row in rows]
    return b"\n".join(lines)[: max([HEAD_BYTES, *map(len, lines[:1])])]


def check_target(session: Session, uri: str, mark: str, is_ours: Callable[[bytes], bool]) -> None:
    """Refuses a URI that holds anything but an earlier result, as its file `mark` says. Raises UsageError."""
    with _told(uri):
        files, target = _hadoop(session, uri)
        taken = files.exists(target) and len(files.listStatus(target))
    if taken and not is_ours(_content(session, f"{uri}/{mark}")):
        raise UsageError(
            f"{uri}: found a folder with other files, expected a new folder or an earlier result;"
            " name another with --out"
        )


def publish(session: Session, folder: Path, uri: str, mark: str, is_ours: Callable[[bytes], bool]) -> None:
    """Moves a written result to a URI: to a name beside it first, then in one rename. Raises UsageError."""
    check_target(session, uri, mark, is_ours)
    with _told(uri):
        files, target = _hadoop(session, uri)
        scratch = target.suffix(f".{uuid.uuid4().hex}")
        files.copyFromLocalFile(False, True, session._jvm.org.apache.hadoop.fs.Path(str(folder.resolve())), scratch)
        files.delete(target, True)
        renamed = files.rename(scratch, target)
    if not renamed:
        raise UsageError(f"{uri}: cannot be written; the result is at {scratch.toString()}")


@contextmanager
def _told(uri: str) -> Iterator[None]:
    """What Hadoop says against a URI, as one sentence. Raises UsageError."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(
            f"{uri}: cannot be written by Spark ({first_line(error)}); its file systems"
            " come with --conf spark.jars.packages=..., or name a local folder with --out"
        ) from error


def _hadoop(session: Session, uri: str) -> tuple[Any, Any]:
    """Hadoop's file system of a URI, and the URI as its path. Raises UsageError."""
    jvm = getattr(session, "_jvm", None)
    if jvm is None:
        raise UsageError(f"found --out {uri} with --remote, expected a local folder: Spark Connect moves no files")
    path = jvm.org.apache.hadoop.fs.Path(uri.rstrip("/"))
    return path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()), path
