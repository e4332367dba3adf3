"""Runs at a URI that Spark's file systems read (s3a://, hdfs://, ...).

`open_run` makes a *skeleton* of the run on the driver: a folder with the names and sizes of its files. Brokers' small
files are whole in it, texts have their first lines, Parquet files their footer, and the rest is sparse. bundle.py finds
in it what it would find in a local copy, except byte-identical copies of a log, which it cannot compare. Tasks then
read the files themselves (fetching.py).
"""

from __future__ import annotations

import posixpath
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from ....histories import bundle
from ....histories.bundle import EXPECTED, Run, Stored, history_names, path_below, plain_splits
from ....histories.errors import NO_SUCH_FILE, InputError, describe_error
from ....histories.evidence.checkpoints import MAX_BYTES as MAX_CHECKPOINT_BYTES
from ....histories.evidence.layout import FOLDERS, SMALL_FILES, is_text, may_be_evidence, split_part
from ....histories.evidence.parts import NOT_READ, Part
from ....histories.files import HEAD_BYTES, MAX_HEAD_BYTES, PARQUET_MAGIC, SPLIT_BYTES, Split
from ....histories.readers import CHECKED
from ....histories.settings import Settings
from .fetching import (
    COMPRESSED,
    by_split,
    escape_pattern,
    frame_of,
    list_all_files,
    pieces_of,
    run_on_staged_files,
    task_row,
    text_of,
    with_line_feed,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHECK = "check the URI, and that Spark has its file system (--conf spark.jars.packages=...)"
_MARKERS = ("run.json", "verdict.json", "findings.parquet")  # files by which a folder is recognised
_WHOLE = ("run.json", *SMALL_FILES)  # read when the run is opened
UNSPLIT = 1 << 50  # bytes
LISTS_ALL = (4, 3)  # the first version of Spark that can list names that begin with _


class Listing(NamedTuple):
    """The files at a URI."""

    base: str  # the URI itself, or the folder of a lone file, as Spark names it
    lone: str  # the name of a lone file, or nothing
    sizes: dict[str, int]  # bytes by name, relative to the base


def open_run(session: SparkSession, uri: str, reader: str | None = None, split_bytes: int = SPLIT_BYTES) -> Run:
    """Finds the parts of a bundle, or takes a lone file as a history. Raises InputError if there is nothing."""
    listing = _list(session, uri)
    with tempfile.TemporaryDirectory(prefix="logjudge-") as scratch:
        # A folder's name has a meaning for bundle.py, so the skeleton has the same.
        skeleton = Path(scratch, listing.base.rsplit("/", 1)[-1])
        try:
            small = _make_skeleton(session, listing, skeleton)
            run = bundle.open_run(skeleton / listing.lone, reader, split_bytes, _unsplit, CHECKED)
        except InputError as error:
            error.args = (str(error).replace(str(skeleton), listing.base),)
            raise
        except OSError as error:
            raise InputError(uri, f"a name that no file can have ({error})", EXPECTED) from error
        # Spark must split files as we do, as each split is numbered before it is read.
        _split_files(session, split_bytes)
        run = _at_uri(run, skeleton, listing, small)
        return replace(run, evidence=(*run.evidence, *_not_listed(session.version, run.evidence)))


def _not_listed(version: str, evidence: Sequence[Part]) -> Iterator[Part]:
    """What a version of Spark cannot list beside the evidence that it found: reported, as it may prove breaches."""
    if evidence and tuple(map(int, version.split(".")[:2])) < LISTS_ALL:
        reason = f"Spark {version} lists no names that begin with _, such as __cluster_metadata-0: use Spark 4.3"
        yield Part("", evidence[0].broker, "unreadable", Path("brokers"), "brokers", reason=reason)


def open_file(
    session: SparkSession, uri: str, reader_of: Callable[[bytes], str], split_bytes: int = SPLIT_BYTES
) -> tuple[Run, bytes]:
    """The splits of a lone file, and its first lines, from which `reader_of` names its reader. Raises InputError."""
    base, lone, sizes = _list(session, uri)
    if not lone:
        raise InputError(uri, "a folder", "a file")
    path, size = f"{base}/{lone}", sizes[lone]
    head = _heads(session, base, [lone]).get(lone, b"") if size else b""
    splits = plain_splits(path, size, reader_of(head), 0, split_bytes)
    if lone.endswith(COMPRESSED):
        splits = [Split(0, path, splits[0].reader, lone.rpartition(".")[2], 0, size)]
    _split_files(session, split_bytes)
    return Run(Path(base, lone), Settings(lone, "native", {}), tuple(splits), (lone,), size, uri=base), head


def _unsplit(part: Part) -> list[Part]:
    """One part a file: tasks cut it into ranges once they have it. A missing file is a part, too."""
    if not part.path.exists():
        return split_part(part)
    size = part.path.stat().st_size
    return [replace(part, end=size if part.kind == "segment" else None)] if size else split_part(part)


def _at_uri(run: Run, skeleton: Path, listing: Listing, small: Mapping[str, bytes]) -> Run:
    """The run with the paths of its URI instead of the skeleton's."""
    names = [Path(split.path).relative_to(skeleton).as_posix() for split in run.splits]
    splits = [_at_base(split, listing, name) for split, name in zip(run.splits, names, strict=True)]
    evidence = [replace(part, path=part.path.relative_to(skeleton)) for part in run.evidence]
    sources = {(name, name) for split, name in zip(splits, names, strict=True) if split.reader == "parquet"}
    folders: dict[Path, list[str]] = {}
    for name in filter(may_be_evidence, listing.sizes):
        folders.setdefault(Path(name).parent, []).append(name)
    for part in evidence:
        if part.kind not in NOT_READ:
            inside = folders.get(part.path, []) if part.kind in FOLDERS else [part.path.as_posix()]
            sources.update((name, part.path.as_posix()) for name in inside)
    sizes = listing.sizes
    stored = [
        Stored(name, source, sizes[name], small.get(name, None if sizes[name] else b""))
        for name, source in sorted(sources)
    ]
    size = sum(sizes[name] for name in set(names))
    return replace(
        run,
        path=Path(listing.base, listing.lone),
        splits=tuple(splits),
        bytes=size,
        evidence=tuple(evidence),
        uri=listing.base,
        stored=tuple(stored),
    )


def _at_base(split: Split, listing: Listing, name: str) -> Split:
    """A split of the file at the URI. A compressed file is one split; its skeleton has only its first lines."""
    split = replace(split, path=f"{listing.base}/{name}")
    if not name.endswith(COMPRESSED):
        return split
    return replace(split, compression=name.rpartition(".")[2], end=listing.sizes[name])


def _list(session: SparkSession, uri: str) -> Listing:
    """All files at and below a URI. Raises InputError if Spark finds none or cannot look."""
    root = _normalize_uri(uri)
    try:
        files = _files(session, root)
        found = {row["path"]: row["length"] for row in files.select("path", "length").collect()}
        # Spark lists an empty file but yields no row for it.
        paths = sorted(map(unquote, files.inputFiles()))
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            raise InputError(uri, NO_SUCH_FILE, EXPECTED, CHECK) from error
        raise InputError(uri, f"nothing that Spark can list ({describe_error(error)})", EXPECTED, CHECK) from error
    if not paths:
        raise InputError(uri, NO_SUCH_FILE, EXPECTED, CHECK)
    sizes = {path_below(root, path): found.get(path, 0) for path in paths}
    path, name = paths[0], path_below(root, paths[0])
    if name:
        # Keys of an object store may have parts that no file system allows.
        valid = {name: size for name, size in sizes.items() if not {"", ".", ".."} & set(name.split("/"))}
        return Listing(path.removesuffix(f"/{name}"), "", valid)
    base, _, lone = path.rpartition("/")
    return Listing(base, lone, {lone: sizes[""]})


def _normalize_uri(uri: str) -> str:
    """The URI without empty parts, `.` and `..`, as Hadoop requires."""
    scheme, _, rest = uri.partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}/" + posixpath.normpath(f"/{path}").lstrip("/")


def _files(session: SparkSession, uri: str) -> DataFrame:
    return list_all_files(session.read.format("binaryFile")).load(escape_pattern(uri))


def _split_files(session: SparkSession, split_bytes: int) -> None:
    """Makes Spark cut files at multiples of `split_bytes`, one task for each piece."""
    session.conf.set("spark.sql.files.maxPartitionBytes", str(split_bytes))
    session.conf.set("spark.sql.files.openCostInBytes", str(split_bytes))


def _make_skeleton(session: SparkSession, listing: Listing, skeleton: Path) -> dict[str, bytes]:
    """Makes the skeleton; returns the brokers' small files that are whole in it. Raises InputError, OSError."""
    base, lone, sizes = listing
    histories = set(history_names(sorted(sizes))) if not lone else {lone}
    skeleton.mkdir(parents=True)
    small = _small_files(session, listing)
    with_heads = [name for name in sizes if name in histories or (is_text(name) and not name.endswith(COMPRESSED))]
    heads = _heads(session, base, [name for name in with_heads if sizes[name] and name not in small])
    parquet = [name for name, head in heads.items() if head.startswith(PARQUET_MAGIC)]
    footers = _footers(session, base, [Stored(name, name, sizes[name]) for name in parquet])
    for number, (name, size) in enumerate(sizes.items()):
        if name in histories or may_be_evidence(name) or name.rsplit("/", 1)[-1] in _MARKERS:
            path = skeleton / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                if name in heads and name.endswith(COMPRESSED):
                    file.write(heads[name])  # as Spark decompressed it
                    continue
                file.write(small.get(name, heads.get(name, b""))[:size])
                file.truncate(size)
                # Files of which only the size is known must not pass as equal.
                unique = b"" if name in small or name in heads else f"{number:08}".encode()[max(8 - size, 0) :]
                footer = footers.get(name, unique)
                file.seek(size - len(footer))
                file.write(footer)
    if lone.startswith("history.") and (config := _content(session, f"{base}/run.json")):
        (skeleton / "run.json").write_bytes(config)
    return small


def _small_files(session: SparkSession, listing: Listing) -> dict[str, bytes]:
    """The files that the driver reads whole: run.json, checkpoints, and files of properties."""
    files = list_all_files(session.read.format("binaryFile")).option("pathGlobFilter", f"{{{','.join(_WHOLE)}}}")
    found = files.load(escape_pattern(f"{listing.base}/{listing.lone}")).where(f"length <= {MAX_CHECKPOINT_BYTES}")
    return {path_below(listing.base, row["path"]): bytes(row["content"]) for row in _collect_rows(listing.base, found)}


def _content(session: SparkSession, uri: str) -> bytes:
    """A small file's bytes; none where there is no such file."""
    try:
        rows = _files(session, uri).select("content").collect()
    except Exception as error:
        if "PATH_NOT_FOUND" in str(error):
            return b""
        raise InputError(uri, f"what Spark cannot read ({describe_error(error)})", EXPECTED, CHECK) from error
    return bytes(rows[0]["content"]) if rows else b""


def _heads(session: SparkSession, base: str, names: Iterable[str]) -> dict[str, bytes]:
    """The first lines of files, decompressed."""
    paths = [f"{base}/{name}" for name in names]
    if not paths:
        return {}
    _split_files(session, UNSPLIT)
    found = _collect_rows(base, text_of(session, paths).mapInArrow(_first_lines, "path string, head binary"))
    return {row["path"].removeprefix(f"{base}/"): bytes(row["head"]) for row in found}


def _collect_rows(uri: str, frame: DataFrame) -> list[Any]:
    try:
        return list(frame.collect())
    except Exception as error:
        raise InputError(uri, f"what Spark cannot read ({describe_error(error)})", EXPECTED, CHECK) from error


def _first_lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first lines of a task's file. It stops early in a large one, though that costs its Python worker."""
    for (path, _, size), runs in by_split(batches):
        head = bytearray()
        for lines in runs:
            head += with_line_feed(lines)
            if len(head) >= HEAD_BYTES:
                break
        length = min(max(HEAD_BYTES, head.find(b"\n") + 1), MAX_HEAD_BYTES)
        yield pa.RecordBatch.from_pydict({"path": [path], "head": pa.array([bytes(head[:length])], pa.binary())})
        if size > SPLIT_BYTES:
            return


def _footers(session: SparkSession, base: str, files: list[Stored]) -> dict[str, bytes]:
    """The ends of Parquet files, with their schema and row groups. Each file is read whole for it."""
    if not files:
        return {}
    _split_files(session, SPLIT_BYTES)
    tasks = frame_of(session, [task_row(file.source, "footer", 0, b"") for file in files])
    found = run_on_staged_files(files, tasks, pieces_of(session, base, files), _footer, "source string, footer binary")
    return {row["source"]: bytes(row["footer"]) for row in _collect_rows(base, found)}


def _footer(task: dict[str, Any], folder: Path) -> Iterator[pa.RecordBatch]:
    with (folder / task["source"]).open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 8, 0))
        # Its last bytes are its own length and the magic bytes.
        length = 8 + int.from_bytes(file.read(4), "little")
        file.seek(size - length if length <= size else max(size - 8, 0))
        footer = pa.array([file.read()], pa.binary())
    yield pa.RecordBatch.from_pydict({"source": [task["source"]], "footer": footer})
