"""Opens a run: finds its parts and the reader of each file, and reads run.json."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from .errors import InputError, UsageError
from .evidence.layout import find_parts, split_part, with_headers_first
from .evidence.log_names import ARCHIVE
from .evidence.misplaced_folders import refuse_misplaced_folders
from .evidence.parts import Part
from .files import (
    COMPRESSION,
    PARQUET_MAGIC,
    SPLIT_BYTES,
    Split,
    check_path,
    compression_of,
    head_of,
    magic_of,
    read_whole,
    reason_of,
)
from .readers import LOG, READERS, TRANSACTIONS, dialect_of, readers_of, recognise, verifiable
from .readers.unrecognised import NO_JSON, describe
from .settings import SINCE_1970, UNDATED, Settings, read_config

EXPECTED = (
    "a history (JSON lines, Parquet, Jepsen's EDN of its kafka workload, the lines of VerifiableProducer or"
    " VerifiableConsumer), a run bundle, or brokers' files (log folders, server.log, the text of kafka-dump-log)"
)

NO_RUN = "a folder without a history or brokers' files"
LOG_ENDINGS = (".log", ".txt")  # endings of histories, and of brokers' logs
_LINEARIZE = "`logjudge linearize` judges histories of general operations"
# The first line has a process and a function, as each operation on an object has.
_IS_OPERATION = re.compile(rb"(?=[^\n]*[:\"]process\b)(?=[^\n]*[:\"]f\b)")
_HISTORY_NAMES = ("history.jsonl", "history.jsonl.gz", "history.jsonl.zst", "history.parquet", "history.edn")
_BUNDLE_FILES = ("run.json", "truth.json")
LARGE_BYTES = 256 << 20  # of all segments of a run; LOGJUDGE_LARGE_BYTES overrides it


class Stored(NamedTuple):
    """A file at a URI that a task reads as a whole."""

    name: str  # below the URI
    source: str  # the path that a reader gets: of the file, or of its folder
    size: int  # bytes
    content: bytes | None = None  # of a small file; None: not read yet


@dataclass(frozen=True)
class Run:
    """One run, opened but not read."""

    path: Path
    settings: Settings
    splits: tuple[Split, ...]
    files: tuple[str, ...]  # as shown to users, in the order of their splits
    bytes: int
    evidence: tuple[Part, ...] = ()  # brokers' files, in parts that one task reads
    uri: str = ""  # empty for a local path; else the paths of its evidence are relative to it
    stored: tuple[Stored, ...] = ()  # at a URI: brokers' files and Parquet
    empty: tuple[str, ...] = ()  # histories without a byte or a row, beside others that have events
    unknown_texts: tuple[str, ...] = ()  # without a history: of no known format, beside the brokers' files
    archives: tuple[str, ...] = ()  # beside the other files, not read
    unread_folders: tuple[str, ...] = ()  # of brokers, and archives of them, if nothing in them could be read

    def with_settings(self, **changed: Any) -> Run:
        """The run with these settings changed."""
        return replace(self, settings=replace(self.settings, **changed))

    @cached_property
    def expanded_bytes(self) -> int:
        """The bytes of the run's files, about, if none were compressed."""
        is_packed = any(split.compression or split.reader == "parquet" for split in self.splits)
        evidence = sum((part.end or 0) - part.start for part in self.evidence)
        return self.bytes * (COMPRESSION if is_packed else 1) + evidence

    @cached_property
    def shown(self) -> list[str]:
        """The file of each split, as shown to users: its path below the run."""
        if self.uri:
            return [path_below(self.uri, split.path) or split.path.rsplit("/", 1)[-1] for split in self.splits]
        root = self.path if self.path.is_dir() else self.path.parent
        return [_shown_path(Path(split.path), root) for split in self.splits]


def _shown_path(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def path_below(root: str, uri: str) -> str:
    """The part of a URI below the root; empty for the root itself. One of the two may leave out the host."""
    here, there = (each.partition("://")[2].partition("/")[2].strip("/") for each in (root, uri))
    return there.removeprefix(here).lstrip("/")


def open_run(
    path: Path,
    reader: str | None = None,
    split_bytes: int = SPLIT_BYTES,
    pieces: Callable[[Part], list[Part]] = split_part,
    contents: tuple[str, ...] = (LOG,),
) -> Run:
    """Finds the parts of a bundle, or takes a lone file as a history. Raises InputError if it finds neither.

    `pieces` cuts a broker's file into the parts that one task reads; `contents` are the kinds of histories to open.
    """
    try:
        return _open_run(path, reader, split_bytes, pieces, contents)
    except OSError as error:
        raise InputError(str(error.filename or path), reason_of(error), EXPECTED, "check the path") from error


def _open_run(
    path: Path, reader: str | None, split_bytes: int, pieces: Callable[[Part], list[Part]], contents: tuple[str, ...]
) -> Run:
    check_path(path, EXPECTED)
    _refuse_other_folders(path)
    evidence = _evidence(path, reader, pieces)
    files = _histories(path, evidence)
    if not files and not evidence:
        packed = _archives(path)
        raise InputError(str(path), NO_RUN, EXPECTED, f"unpack {_first_names(packed)}" if packed else "")
    if not files:
        refuse_misplaced_folders(path, evidence)
    if path.is_dir() and not evidence and reader is None:
        _refuse_other_texts(path, files)
    config, config_name = _read_config(path)
    splits: list[Split] = []
    formats: set[str] = set()
    empty: list[str] = []
    for file in files:
        own: Sequence[Split] = ()
        if len(files) == 1 or head_of(file):
            format_name, own = _splits_of(file, reader, contents, len(splits), split_bytes)
            formats.add(format_name)
            splits += own
        if not own and len(files) > 1:
            empty.append(_shown_path(file, path))
    if empty and not formats:
        raise InputError(str(path), f"{len(empty)} empty histories", EXPECTED)
    if not files and "started_at" not in config:
        # Without a history the start of the run is not recorded: times count from 1970.
        config = {**config, "started_at": UNDATED}
    elif formats == {verifiable.NAME}:
        config = {"started_at": SINCE_1970, **config}
    settings = Settings(str(config.get("name") or config_name), dialect_of(formats, str(path)), config)
    size = sum(file.stat().st_size for file in files)
    run = Run(path, settings, tuple(splits), (), size, evidence, empty=tuple(empty), archives=_archives(path))
    if not files:
        run = replace(run, unknown_texts=_unread_texts(path, evidence))
    elif not evidence:
        run = replace(run, unread_folders=_folders_of_brokers(path))
    return replace(run, files=tuple(dict.fromkeys(run.shown)))


def _histories(path: Path, evidence: tuple[Part, ...]) -> list[Path]:
    """The histories at a path, which are not evidence. Raises InputError for one that cannot be opened."""
    files = [] if evidence else [path]
    if path.is_dir():
        taken = {part.path for part in evidence}  # a segment and a server.log have endings of histories
        files = [file for file in _history_files(path) if not taken & {file, file.parent}]
        # A broker's folder of logs has some that are no evidence, such as those of requests, and empty ones.
        files = [
            file for file in files if not evidence or file.suffix not in LOG_ENDINGS or _is_log_history(head_of(file))
        ]
        files = files or _histories_beside_brokers(path, taken)
    for file in files:
        check_path(file, EXPECTED)
        _check_encoding(file)
    return files


def _histories_beside_brokers(folder: Path, taken: set[Path]) -> list[Path]:
    """The histories under names of their own in a folder to which `logjudge collect` has added brokers' files."""
    others = sorted(file for file in folder.iterdir() if file.is_file() and file not in taken)
    return [file for file in others if _looks_like_history(file.name) and _is_log_history(head_of(file))]


def _unread_texts(folder: Path, evidence: tuple[Part, ...]) -> tuple[str, ...]:
    """The names of texts beside brokers/ that may be of clients, such as a console consumer's output."""
    if not (folder / "brokers").is_dir():
        return ()
    taken = {part.path for part in evidence}
    others = sorted(file.name for file in folder.iterdir() if file.is_file() and file not in taken)
    known = {*_BUNDLE_FILES, *_archives(folder)}
    return tuple(name for name in others if _looks_like_history(name) and name not in known)


def _archives(folder: Path) -> tuple[str, ...]:
    """The names of archives in a folder, which may have a broker's files; none of a path that is no folder."""
    return tuple(sorted(file.name for file in folder.glob("*") if ARCHIVE.fullmatch(file.name)))


def _folders_of_brokers(folder: Path) -> tuple[str, ...]:
    """The names that the folders of brokers' files have in a bundle, and archives with such a name."""
    found = [name for name in ("brokers", "snapshots") if (folder / name).is_dir()]
    return (*found, *(name for name in _archives(folder) if name.startswith(("broker", "snapshot"))))


def _check_encoding(path: Path) -> None:
    """Raises InputError for a path that is not UTF-8: Parquet and Spark cannot open it, findings cannot name it."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise InputError(str(path), "a name that is not UTF-8", "a name in UTF-8", "rename the file") from error


def _check_compression(path: Path, head: bytes) -> None:
    """Raises InputError for compressed data of which not a byte can be decompressed."""
    if not head and (compression := compression_of(path)):
        try:
            read_whole(path)
        except (OSError, ValueError) as error:
            hint = "the file was cut or damaged: copy it again"
            raise InputError(str(path), f"damaged {compression} data ({error})", EXPECTED, hint) from error


def _refuse_other_folders(path: Path) -> None:
    """Raises InputError for a folder of results, and for a folder of several runs."""
    if not path.is_dir() or (path / "run.json").exists():
        return
    if (path / "verdict.json").is_file() and (path / "findings.parquet").is_file():
        hint = f"name the run itself, or write its report again with `logjudge report {path}`"
        raise InputError(str(path), "the result of an earlier check", EXPECTED, hint)
    bundles = sorted(each.name for each in path.iterdir() if (each / "run.json").is_file())
    if len(bundles) > 1:
        found = f"{len(bundles)} run bundles in it ({_first_names(bundles)})"
        raise InputError(str(path), found, "one run", f"name them all: $(dirname {path}/*/run.json)")


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + ", …" * (len(names) > 3)


def _refuse_other_texts(folder: Path, files: Sequence[Path]) -> None:
    """Raises InputError for a folder in which every candidate has the ending of any text and no known format."""
    heads = {file.name: head_of(file) for file in files if file.parent == folder and file.suffix in LOG_ENDINGS}
    if len(heads) == len(files) and all(head and recognise(head, LOG) is None for head in heads.values()):
        name, head = next(iter(heads.items()))
        found, _ = describe(head, name)
        more = f", and {len(heads) - 1} more" if len(heads) > 1 else ""
        raise InputError(str(folder), f"{NO_RUN} ({name}: {found}{more})", EXPECTED)


def _evidence(path: Path, reader: str | None, pieces: Callable[[Part], list[Part]]) -> tuple[Part, ...]:
    """Brokers' files of a bundle or a folder, or a lone log or dump; empty for a lone history."""
    if path.is_file() and (reader or magic_of(path) == PARQUET_MAGIC or _is_log_history(head_of(path))):
        return ()
    found = [piece for part in find_parts(path) for piece in pieces(part)]
    return tuple(with_headers_first(found, _large_bytes()))


def _large_bytes() -> int:
    """LARGE_BYTES or the environment's value. Raises UsageError."""
    setting = os.environ.get("LOGJUDGE_LARGE_BYTES", str(LARGE_BYTES))
    if not setting.isdecimal():
        raise UsageError(f"found LOGJUDGE_LARGE_BYTES={setting[:40]}, expected a number of bytes")
    return int(setting)


def _history_files(folder: Path) -> list[Path]:
    inside = [folder, *([folder / "history"] if (folder / "history").is_dir() else [])]
    names = [str(path.relative_to(folder)) + "/" * path.is_dir() for each in inside for path in sorted(each.iterdir())]
    if packed := next((name for name in _HISTORY_NAMES if f"{name}/" in names), None):
        hint = "if it has the parts of one history, as Spark writes them, rename it to history"
        raise InputError(str(folder / packed), "a folder", "a file", hint)
    return [folder / name for name in history_names(names)]


def history_names(names: Sequence[str]) -> list[str]:
    """The histories among the paths in a bundle. Paths of folders end with a slash."""
    found = [name for name in _HISTORY_NAMES if name in names]
    found += sorted(name for name in names if name.startswith("history/") and _looks_like_history(name[8:]))
    parts = {name.split("/", 1)[0] for name in names}
    if not found and not parts & {"run.json", "brokers", "snapshots"}:
        # A folder of histories, as VerifiableProducer and VerifiableConsumer leave them.
        found = sorted(name for name in names if _looks_like_history(name))
    return found


def _looks_like_history(name: str) -> bool:
    endings = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".edn", ".edn.gz", ".json", ".log", ".txt")
    return "/" not in name and not name.startswith(".") and name.endswith(endings)


def config_file(path: Path) -> Path | None:
    """The run.json of a run at a path: in its folder, or beside a history that has a bundle's name."""
    file = path / "run.json" if path.is_dir() else path.parent / "run.json"
    return file if os.path.lexists(file) and (path.is_dir() or path.name.startswith("history.")) else None


def _read_config(path: Path) -> tuple[dict[str, Any], str]:
    """The content of run.json beside the history, and the run's name if run.json sets none."""
    name = Path(os.path.realpath(path)).name if path.is_dir() else path.name.split(".", 1)[0] or path.name
    file = config_file(path)
    return ({} if file is None else read_config(file)), name


def reader_of(head: bytes, source: str, contents: tuple[str, ...] = (LOG,)) -> str:
    """The name of the reader of such histories that recognises a file's first bytes. Raises InputError."""
    _refuse_brackets(head, source, contents)
    name = recognise(head, LOG)
    if name is not None and READERS[name].CONTENT in contents:
        return name
    if not head:
        raise InputError(source, "an empty file", "events", "nothing was recorded, or the file lost its content")
    if name is not None:
        _refuse_other_content(name, head, source)
    found, advice = describe(head, source)
    if found.startswith(NO_JSON):
        raise InputError(source, found, "one JSON object a line", advice or "correct the line, or copy the file again")
    hint = advice or f"docs/format.md describes them, --from names one ({', '.join(readers_of(*contents))})"
    if name is not None and not advice:
        hint += f"; {_LINEARIZE}"
    raise InputError(source, found, EXPECTED, hint)


def _refuse_brackets(head: bytes, source: str, contents: tuple[str, ...]) -> None:
    """Raises InputError for events in a JSON array, or operations in a vector."""
    if re.match(rb'\s*\[\s*\{\s*"', head):
        hint = f"`jq -c '.[]' {shlex.quote(source)}` writes its items so"
        raise InputError(source, "a JSON array", "one JSON object a line", hint)
    if LOG in contents and re.match(rb"\s*\[\s*\{\s*:", head):
        raise InputError(source, "a vector of operations", "one operation a line", "leave out the brackets around them")


def _refuse_other_content(name: str, head: bytes, source: str) -> None:
    """Raises InputError for a file that is surely no history of a log, as this reader recognises it."""
    expected = "the history of a replicated log"
    if READERS[name].CONTENT == TRANSACTIONS:
        hint = "`logjudge check` judges transactions on lists and registers"
        raise InputError(source, f"transactions ({name})", expected, hint)
    if _IS_OPERATION.match(head):
        raise InputError(source, f"general operations ({name})", expected, _LINEARIZE)


def _check_reader(name: str, head: bytes, source: str) -> None:
    """Raises InputError if another reader recognises a file's first bytes, and this one does not."""
    other = None if READERS[name].recognises(head) else recognise(head, LOG)
    if other is not None and READERS[other].CONTENT == LOG:
        hint = f"leave out --from, or choose --from {other}"
        raise InputError(source, f"a history of {other}", f"one of {name}, as chosen with --from", hint)


def _is_log_history(head: bytes) -> bool:
    """Whether a reader of log histories recognises a file's first bytes."""
    name = recognise(head, LOG)
    return name is not None and READERS[name].CONTENT == LOG


def _splits_of(
    file: Path, reader: str | None, contents: tuple[str, ...], first: int, split_bytes: int
) -> tuple[str, Sequence[Split]]:
    """The format of a history (the dialect of a Parquet file), and its splits, numbered from `first`."""
    if magic_of(file) == PARQUET_MAGIC:
        from .readers.parquet import inspect_parquet  # pyarrow takes a while to load

        groups, dialect = inspect_parquet(file)
        return dialect, [Split(first + n, str(file), "parquet", "", n, n + 1) for n in range(groups)]
    head, compression, size = head_of(file), compression_of(file), file.stat().st_size
    _check_compression(file, head)
    name = reader or reader_of(head, str(file), contents)
    _check_reader(name, head, str(file))
    if compression:
        return name, [Split(first, str(file), name, compression, 0, size)]
    return name, plain_splits(str(file), size, name, first, split_bytes)


def plain_splits(path: str, size: int, reader: str, first: int, split_bytes: int) -> list[Split]:
    """Byte ranges of a file that is not compressed, numbered from `first`."""
    starts = range(0, max(size, 1), split_bytes)
    return [Split(n, path, reader, "", start, min(start + split_bytes, size)) for n, start in enumerate(starts, first)]
