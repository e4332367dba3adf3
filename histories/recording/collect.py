"""Copies what brokers stored into a run bundle: log folders, checkpoints, metadata and logs. Only reads the brokers'
files, also while they run."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from ..errors import LogjudgeError, UsageError
from ..evidence.layout import (
    BROKER_LOG,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    PARTITION_FOLDER,
    SEGMENT,
    TRANSACTIONS_TOPIC,
    is_stored_evidence,
)
from .batch_bounds import cut_to_whole_batches
from .remote_copy import fetch, place_of

META = "meta.properties"
BROKER = re.compile(r"\w[\w.\-]*")
MAX_DEPTH = 6  # of folders below one that is given
INTERNAL = "__"  # prefix of Kafka's own topics
_NAMELESS = "{0}: found no meta.properties, so its broker is not known; name it: ID={0}"


class Source(NamedTuple):
    """A folder of a broker: its disk, its logs, or both."""

    broker: str
    folder: Path
    is_copy: bool = False  # of our own, on the disk of the bundle


class Collected(NamedTuple):
    """The result of a copy."""

    brokers: list[str]
    files: int
    bytes: int
    unreadable: list[str]


def sources_of(arguments: Iterable[str]) -> list[Source]:
    """Folders as FOLDER or BROKER=FOLDER; the broker of a FOLDER is that of the meta.properties in it.

    Raises UsageError if a folder is missing, or its broker is not known.
    """
    found: list[Source] = []
    for argument in arguments:
        broker, equals, path = argument.partition("=")
        if equals and not Path(argument).exists():
            if not path or not BROKER.fullmatch(broker):
                raise UsageError(f"found {argument}, expected ID=FOLDER with a broker's id, such as 1=/var/log/kafka")
            _need_folder(Path(path))
            found.append(Source(broker, Path(path)))
            continue
        _need_folder(Path(argument))
        disks = sorted(_files(Path(argument), lambda name: name == META))
        by_broker: dict[str, set[Path]] = {}
        for file in disks:
            by_broker.setdefault(_broker_of(file), set()).add(file.parent)
        if not by_broker:
            raise UsageError(_NAMELESS.format(argument))
        if len(by_broker) == 1:
            found.append(Source(next(iter(by_broker)), Path(argument)))
        else:
            found += [Source(name, home) for name, dirs in by_broker.items() for home in _homes(dirs, disks)]
    return found


def fetch_sources(
    arguments: Iterable[str], scratch: Path, topics: Iterable[str] = (), internal: bool = False
) -> tuple[list[Source], list[str]]:
    """The same as `sources_of`, for places on other machines too, which are copied to `scratch`.

    Also returns what these machines could not read. Raises LogjudgeError.
    """
    wanted = frozenset(topics)
    found: list[Source] = []
    problems: list[str] = []
    for number, argument in enumerate(arguments):
        place = place_of(argument)
        if place is None:
            found += sources_of([argument])
            continue
        copy = scratch / f"{number}-{PurePosixPath(place.folder).name}"
        reported = fetch(place, copy, lambda name: _is_evidence(name) and _is_wanted(name, wanted, internal))
        problems += [f"{place.host}: {line}" for line in reported]
        if place.broker:
            found.append(Source(place.broker, copy, True))
        elif not next(_files(copy, lambda name: name == META), None):
            raise UsageError(_NAMELESS.format(argument))
        else:
            found += [source._replace(is_copy=True) for source in sources_of([str(copy)])]
    return found, problems


def collect(
    sources: Iterable[Source], target: Path, topics: Iterable[str] = (), internal: bool = False, logs: bool = True
) -> Collected:
    """Copy the evidence in `sources` to target/brokers/<id>.

    `topics`: only these; `internal`: Kafka's own ones too; `logs`: server.log and the like, not only disks.

    Files that vanish meanwhile, as brokers delete and rename segments, are left out.
    """
    wanted = frozenset(topics)
    brokers: list[str] = []
    files = copied = 0
    unreadable: list[str] = []
    for source in sources:
        brokers.append(source.broker)
        home, put = target / "brokers" / source.broker, _link if source.is_copy else _copy
        for file in sorted(_files(source.folder, lambda _: True)):
            place = _place(source, file)
            is_log = bool(place and BROKER_LOG.fullmatch(place.name))
            if place is None or (is_log and not logs) or not _is_wanted(place, wanted, internal):
                continue
            try:
                if (home / place).exists():  # of another folder of this broker: the judge chooses between them
                    place = _free(home, file.relative_to(source.folder))
                copied += put(file, home / place)
                files += 1
            except FileNotFoundError:
                continue
            except PermissionError:
                unreadable.append(str(file))
    if not files:
        raise LogjudgeError("found no segments, checkpoints or logs in the given folders, expected those of a broker")
    return Collected(sorted(set(brokers)), files, copied, unreadable)


def _need_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder, expected a broker's log.dirs or its folder of logs")


def _homes(own: set[Path], disks: list[Path]) -> list[Path]:
    """The folders of one broker of several: each of its disks, with the folders around it that hold no other disk."""
    others = [file.parent for file in disks if file.parent not in own]
    found: set[Path] = set()
    for disk in own:
        home = disk
        while not any(other.is_relative_to(home.parent) for other in others):
            home = home.parent
        found.add(home)
    return sorted(found)


def _broker_of(file: Path) -> str:
    found = re.search(r"^(?:node|broker)\.id=(\d+)\s*$", file.read_text(errors="replace"), re.MULTILINE)
    if not found:
        raise UsageError(f"{file}: found neither node.id nor broker.id, expected a formatted disk of a broker")
    return found[1]


def _files(folder: Path, is_wanted: Callable[[str], bool]) -> Iterator[Path]:
    depth = len(folder.parts)
    for path, folders, names in os.walk(folder):
        if len(Path(path).parts) - depth >= MAX_DEPTH:
            folders.clear()
        for name in names:
            # A pipe would be waited for.
            if is_wanted(name) and os.path.isfile(file := os.path.join(path, name)):  # noqa: PTH113, PTH118
                yield Path(file)


def _place(source: Source, file: Path) -> Path | None:
    """The path of a file in the folder of its broker; None for what is no evidence, as indexes are."""
    if BROKER_LOG.fullmatch(file.name) and not PARTITION_FOLDER.fullmatch(file.parent.name):
        return Path(file.name)
    disk = file.parent.parent if PARTITION_FOLDER.fullmatch(file.parent.name) else file.parent
    if not is_stored_evidence(file.name):
        return None
    # A broker with several disks has several folders.
    is_nested = source.folder != disk and not (disk.parent / META).exists()
    several = is_nested and len(list(disk.parent.glob(f"*/{META}"))) > 1
    return Path("data" if not several else f"data-{disk.name}") / file.relative_to(disk)


def _free(home: Path, file: Path) -> Path:
    """A path for a file in a folder of its own of its broker's folder."""
    return next(place for n in itertools.count(1) if not (home / (place := Path(f"more-{n}") / file)).exists())


def _is_evidence(file: PurePath) -> bool:
    return is_stored_evidence(file.name) or bool(BROKER_LOG.fullmatch(file.name))


def _is_wanted(place: PurePath, topics: frozenset[str], internal: bool) -> bool:
    found = PARTITION_FOLDER.fullmatch(place.parent.name)
    if not found or found["topic"] == METADATA_TOPIC:
        return True
    topic = found["topic"]
    # Commits of groups and outcomes of transactions are evidence for every topic.
    is_evidence = topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) or not topic.startswith(INTERNAL)
    return topic in topics if topics else internal or is_evidence


def _link(file: Path, target: Path) -> int:
    """Give a file of ours a second name on the same disk. Returns its size in bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(file, target)
    return target.stat().st_size


def _copy(file: Path, target: Path) -> int:
    """Copy a file as it is now; a segment that grows meanwhile ends with a whole batch. Returns its size in bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    size = file.stat().st_size
    with file.open("rb") as source, target.open("xb") as copy:
        left = size
        while left and (data := source.read(min(left, 1 << 20))):
            copy.write(data)
            left -= len(data)
    if SEGMENT.fullmatch(file.name) and file.exists() and file.stat().st_size != size:
        cut_to_whole_batches(target)
    return target.stat().st_size
