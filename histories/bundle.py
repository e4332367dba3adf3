"""Opens a run: which parts it has, which reader each file needs, and what run.json says of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from .errors import InputError, UsageError
from .evidence.layout import find_parts, split_part, with_headers_first
from .evidence.parts import Part
from .files import PARQUET_MAGIC, SPLIT_BYTES, Split, check_path, compression_of, head_of, magic_of, reason_of
from .readers import READERS, recognise
from .readers.parquet import opened

EXPECTED = (
    "a history (JSON lines, Parquet, Jepsen's EDN of its kafka workload, the lines of VerifiableProducer or"
    " VerifiableConsumer), a run bundle, or what brokers kept (log folders, server.log, the text of kafka-dump-log)"
)

_LONE = ("history.jsonl", "history.jsonl.gz", "history.jsonl.zst", "history.parquet", "history.edn")
LARGE_BYTES = 256 << 20  # of all segments of a run; the variable LOGJUDGE_LARGE_BYTES overrides it
SEVEN_DAYS_MS = 604_800_000  # Kafka's own retention.ms
ROLES = ("producer", "consumer", "producer+consumer", "final", "admin")
UNDATED = "1970-01-01T00:00:00+00:00"


@dataclass(frozen=True)
class Settings:
    """What run.json says, in the words of Kafka's configuration. Shipped to every worker as JSON."""

    name: str = ""
    dialect: str = "native"  # whose rules judge: "jepsen" for Jepsen's own histories
    config: dict[str, Any] = field(default_factory=dict)
    allow: tuple[str, ...] = ()  # rule, or rule:acks=1: breaches that the user accepts
    rules: tuple[str, ...] = ()  # the rules to judge; empty: all
    strict: bool = False  # what the configuration permits is a breach too

    @cached_property
    def processes(self) -> dict[str, dict[str, Any]]:
        return {name: about for name, about in _object(self.config, "processes").items() if isinstance(about, dict)}

    @property
    def final(self) -> bool:
        """Whether the run claims to end with reads of everything (format.md)."""
        return self.config.get("final") is True

    @property
    def undated(self) -> bool:
        """Whether times are since 1970, as no history says when the run began."""
        return self.config.get("started_at") == UNDATED

    def role(self, process: str) -> str:
        return str(self.processes.get(process, {}).get("role", ""))

    def final_processes(self) -> list[str]:
        return [name for name in self.processes if self.role(name) == "final"]

    def producers(self) -> list[str]:
        return [name for name in self.processes if self.role(name) in ("producer", "producer+consumer")]

    def odd_roles(self) -> list[str]:
        """Processes with a role that means nothing, each with it."""
        return [f"{name}: {self.role(name)}" for name in self.processes if self.role(name) not in ("", *ROLES)]

    def acks(self, process: str) -> str:
        """Kafka's default since 3.0 is all; -1 is the same."""
        acks = str(self.processes.get(process, {}).get("acks", "all"))
        return "all" if acks == "-1" else acks

    def reads_uncommitted(self, process: str) -> bool:
        """Kafka's own default is read_uncommitted, but a run that says nothing is judged strictly."""
        return bool(self.processes.get(process, {}).get("isolation.level") == "read_uncommitted")

    def group_of(self, process: str) -> str:
        return str(self.processes.get(process, {}).get("group.id", ""))

    def topic(self, name: str) -> dict[str, Any]:
        return _object(_object(self.config, "topics"), name)

    def compacted(self, topic: str) -> bool:
        return "compact" in str(self.topic(topic).get("cleanup.policy", ""))

    def retention_ms(self, topic: str) -> int | None:
        """After how long records of the topic may be deleted; None: never. What is no number may be anything."""
        about = self.topic(topic)
        if "delete" not in str(about.get("cleanup.policy", "delete")):
            return None
        told = str(about.get("retention.ms", SEVEN_DAYS_MS))
        return None if told == "-1" else int(told) if re.fullmatch(r"[0-9]{1,18}", told) else 0

    def limited_in_size(self, topic: str) -> bool:
        """Whether records of the topic may be deleted because its log is large."""
        about = self.topic(topic)
        deletes = "delete" in str(about.get("cleanup.policy", "delete"))
        return deletes and str(about.get("retention.bytes", "-1")) != "-1"

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in self.__dataclass_fields__})

    @staticmethod
    def from_json(text: str) -> Settings:
        told = json.loads(text)
        return Settings(**{**told, "allow": tuple(told["allow"]), "rules": tuple(told["rules"])})


def idempotence(producer: Mapping[str, Any], acks: str) -> bool | None:
    """Whether a process of run.json is an idempotent producer; None where nobody told.

    Where it is not configured, acks 0 and 1 turn it off, as it needs acks=all (KIP-98).
    """
    told = producer.get("enable.idempotence")
    if told is not None:
        return str(told).lower() == "true"
    return None if acks in ("all", "-1") else False


def _object(parent: dict[str, Any], name: str) -> dict[str, Any]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


class Stored(NamedTuple):
    """A file at a URI that a task needs whole."""

    name: str  # below the URI
    home: str  # what it is read as: itself, or the folder that holds it
    size: int  # bytes
    content: bytes | None = None  # where it is small, and read already


@dataclass(frozen=True)
class Run:
    """One run, opened but not read."""

    path: Path
    settings: Settings
    splits: tuple[Split, ...]
    files: tuple[str, ...]  # as shown to the user, in the order of their splits
    bytes: int
    evidence: tuple[Part, ...] = ()  # what brokers kept, in parts that a task reads
    uri: str = ""  # where Spark reads it, if it is no local path; the paths of its evidence are relative to it
    stored: tuple[Stored, ...] = ()  # at a URI: brokers' files and Parquet

    def source_of(self, split: int) -> str:
        return self.shown[split]

    @cached_property
    def shown(self) -> list[str]:
        if self.uri:
            return [path_below(self.uri, split.path) or split.path.rsplit("/", 1)[-1] for split in self.splits]
        root = self.path if self.path.is_dir() else self.path.parent
        return [_shown_path(Path(split.path), root) for split in self.splits]


def _shown_path(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def path_below(root: str, uri: str) -> str:
    """The part of a URI below the root; nothing for the root itself. One of both may leave out the host."""
    here, there = (told.partition("://")[2].partition("/")[2].strip("/") for told in (root, uri))
    return there.removeprefix(here).lstrip("/")


def open_run(
    path: Path,
    reader: str | None = None,
    split_bytes: int = SPLIT_BYTES,
    pieces: Callable[[Part], list[Part]] = split_part,
) -> Run:
    """Finds the parts of a bundle, or takes a lone file as a history. Raises InputError if there is nothing to read.

    `pieces` makes of a broker's file what single tasks read.
    """
    try:
        return _open_run(path, reader, split_bytes, pieces)
    except OSError as error:
        raise InputError(str(error.filename or path), reason_of(error), EXPECTED, "check the path") from error


def _open_run(path: Path, reader: str | None, split_bytes: int, pieces: Callable[[Part], list[Part]]) -> Run:
    check_path(path, EXPECTED)
    _refuse_no_run(path)
    evidence = _evidence(path, reader, pieces)
    if path.is_dir():
        kept = {part.path for part in evidence}  # a segment and a server.log end as a history may
        files = [file for file in _history_files(path) if not kept & {file, file.parent}]
    else:
        files = [] if evidence else [path]
    for file in files:
        check_path(file, EXPECTED)
        _check_text(file)
    if not files and not evidence:
        raise InputError(str(path), "no history and no broker's files in it", EXPECTED)
    config, config_name = _read_config(path)
    splits: list[Split] = []
    readers = set()
    size = 0
    for file in files:
        size += file.stat().st_size
        if magic_of(file) == PARQUET_MAGIC:
            groups, dialect = opened(file)
            readers.add(dialect)
            first = len(splits)
            splits += [Split(first + group, str(file), "parquet", "", group, group + 1) for group in range(groups)]
            continue
        name = reader or reader_of(head_of(file), str(file))
        readers.add(name)
        splits.extend(_splits_of(file, name, len(splits), split_bytes))
    dialect = "jepsen" if "jepsen" in readers else "native"
    name = str(config.get("name") or config_name)
    if not files and "started_at" not in config:
        # Without a history nothing says when the run began: times then count from 1970.
        config = {**config, "started_at": UNDATED}
    settings = Settings(name, dialect, config)
    run = Run(path, settings, tuple(splits), (), size, evidence)
    return replace(run, files=tuple(dict.fromkeys(run.shown)))


def _check_text(path: Path) -> None:
    """Neither Parquet nor Spark opens a path whose bytes are no text, and no finding can name it. Raises InputError."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise InputError(str(path), "a name that is not UTF-8", "one that is", "rename it") from error


def _refuse_no_run(path: Path) -> None:
    """A result is no run, and runs of different clusters must not be judged as one. Raises InputError."""
    if not path.is_dir() or (path / "run.json").exists():
        return
    if (path / "verdict.json").is_file() and (path / "findings.parquet").is_file():
        hint = f"name the run itself, or write its report again with `logjudge report {path}`"
        raise InputError(str(path), "the result of an earlier check", EXPECTED, hint)
    bundles = sorted(each.name for each in path.iterdir() if (each / "run.json").is_file())
    if len(bundles) > 1:
        found = f"{len(bundles)} run bundles in it ({', '.join(bundles[:3])}{', …' * (len(bundles) > 3)})"
        raise InputError(str(path), found, "one run", f"name them all: $(dirname {path}/*/run.json)")


def _evidence(path: Path, reader: str | None, pieces: Callable[[Part], list[Part]]) -> tuple[Part, ...]:
    """Brokers' files of a bundle or of a folder of them, or a lone log or dump; none beside a lone history."""
    if path.is_file() and (reader or magic_of(path) == PARQUET_MAGIC or recognise(head_of(path))):
        return ()
    found = [piece for part in find_parts(path) for piece in pieces(part)]
    return tuple(with_headers_first(found, _large_bytes()))


def _large_bytes() -> int:
    told = os.environ.get("LOGJUDGE_LARGE_BYTES", str(LARGE_BYTES))
    if not told.isdecimal():
        raise UsageError(f"found LOGJUDGE_LARGE_BYTES={told[:40]}, expected a number of bytes")
    return int(told)


def _history_files(folder: Path) -> list[Path]:
    inside = [folder, *([folder / "history"] if (folder / "history").is_dir() else [])]
    names = [str(path.relative_to(folder)) + "/" * path.is_dir() for each in inside for path in sorted(each.iterdir())]
    return [folder / name for name in history_names(names)]


def history_names(names: Sequence[str]) -> list[str]:
    """The histories of a bundle among the paths in it; those of folders end with a slash."""
    found = [name for name in _LONE if name in names]
    found += sorted(name for name in names if name.startswith("history/") and _looks_like_history(name[8:]))
    parts = {name.split("/", 1)[0] for name in names}
    if not found and not parts & {"run.json", "brokers", "snapshots"}:
        # A folder of histories, as VerifiableProducer and VerifiableConsumer leave them.
        found = sorted(name for name in names if _looks_like_history(name))
    return found


def _looks_like_history(name: str) -> bool:
    endings = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".edn", ".edn.gz", ".json", ".log", ".txt")
    return "/" not in name and not name.startswith(".") and name.endswith(endings)


def _read_config(path: Path) -> tuple[dict[str, Any], str]:
    """run.json beside the history, and the name that the run has without it."""
    file = path / "run.json" if path.is_dir() else path.parent / "run.json"
    name = Path(os.path.realpath(path)).name if path.is_dir() else path.name.split(".", 1)[0] or path.name
    if not os.path.lexists(file) or (not path.is_dir() and not path.name.startswith("history.")):
        return {}, name
    expected = "the run's JSON object"
    check_path(file, expected)
    try:
        return config_of(file.read_bytes(), str(file)), name
    except OSError as error:
        found = "a folder" if file.is_dir() else reason_of(error)
        raise InputError(str(file), found, expected) from error


def config_of(content: bytes, source: str) -> dict[str, Any]:
    """What run.json says. Raises InputError."""
    try:
        config = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(source, f"{error}", "the run's JSON object") from error
    if not isinstance(config, dict):
        raise InputError(source, "no object", "the run's JSON object")
    version = config.get("format", 1)
    if version != 1:
        raise InputError(source, f"format {version}", "format 1", "use a newer logjudge")
    return config


def reader_of(head: bytes, source: str) -> str:
    """The reader that recognises a file's first bytes. Raises InputError."""
    name = recognise(head)
    if name is None:
        seen = "an empty file" if not head else f"bytes like {head[:40]!r}"
        raise InputError(
            source, seen, EXPECTED, f"docs/format.md describes them, --from names one ({', '.join(READERS)})"
        )
    return name


def _splits_of(file: Path, reader: str, first: int, split_bytes: int) -> Sequence[Split]:
    compression = compression_of(file)
    size = file.stat().st_size
    if compression:
        return [Split(first, str(file), reader, compression, 0, size)]
    return plain_splits(str(file), size, reader, first, split_bytes)


def plain_splits(path: str, size: int, reader: str, first: int, split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """Byte ranges of a file that is not compressed, numbered from `first`."""
    starts = range(0, max(size, 1), split_bytes)
    return [
        Split(first + number, path, reader, "", start, min(start + split_bytes, size))
        for number, start in enumerate(starts)
    ]
