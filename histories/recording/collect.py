"""Copies what brokers stored into a run bundle: log folders, checkpoints, metadata and logs. Only reads the brokers'
files, also while they run."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath
from typing import NamedTuple

from ...models.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_internal
from ..errors import LogjudgeError, UsageError
from ..evidence.checkpoints import OFFSET_CHECKPOINTS
from ..evidence.layout import (
    MAX_DEPTH,
    PARTITION_FOLDER,
    TEXT,
    UNKNOWN_BROKER,
    is_dump_file,
    is_stored_evidence,
)
from ..evidence.leftover_folders import SUFFIX, leftover_of
from ..evidence.missing_segments import SEGMENT
from .batch_bounds import cut_to_whole_batches
from .broker_logs import META, by_number, find_logs, is_log, may_be_log_by_content
from .remote_copy import fetch, place_of

BROKER = re.compile(r"\w[\w.\-]*")
_FOLDER = re.compile(rf"{PARTITION_FOLDER.pattern}(?:{SUFFIX})?")
_DUMP = "a text of kafka-dump-log; where its segments are missing, copy it to RUN/brokers/ID/ID-TOPIC-PARTITION.txt"
_NO_EVIDENCE = "{}: found no segments, checkpoints or logs, expected those of a broker; archives must be unpacked"
_NAMELESS = "{0}: found no meta.properties, so its broker is not known; name it: ID={0}"


class Source(NamedTuple):
    """A folder of a broker: its disk, its logs, or both."""

    broker: str  # empty for a folder that only has logs, whose lines have the id
    folder: Path
    is_copy: bool = False  # of our own, on the disk of the bundle
    given: Path = Path()  # the folder of the command line, which may have the logs of several brokers
    is_named: bool = False  # by ID=: also the broker of the logs
    shown: str = ""  # the given folder in messages


def sources_of(arguments: Iterable[str]) -> list[Source]:
    """Folders as FOLDER or BROKER=FOLDER; the broker of a FOLDER is that of its meta.properties, else of its logs.

    Raises UsageError if a folder is missing, or its broker is not known.
    """
    found: list[Source] = []
    for argument in arguments:
        broker, equals, path = argument.partition("=")
        if equals and not Path(argument).exists():
            if not path or not BROKER.fullmatch(broker):
                raise UsageError(f"found {argument}, expected ID=FOLDER with a broker's id, such as 1=/var/log/kafka")
            _need_folder(Path(path))
            found.append(Source(broker, Path(path), given=Path(path), is_named=True, shown=path))
        else:
            _need_folder(Path(argument))
            found += _folders_below(Path(argument), argument)
    return found


def _folders_below(given: Path, shown: str) -> list[Source]:
    """The brokers' folders below one. Raises UsageError if it has neither a disk with an id nor a log with one."""
    disks = sorted(_files(given, lambda name: name == META))
    by_broker: dict[str, set[Path]] = {}
    for file in disks:
        by_broker.setdefault(_broker_of(file), set()).add(file.parent)
    source = Source("", given, given=given, shown=shown)
    if len(by_broker) > 1:
        folders = ((name, folder) for name, dirs in by_broker.items() for folder in _broker_folders(dirs, disks))
        return [source._replace(broker=name, folder=folder) for name, folder in folders]
    if by_broker:
        return [source._replace(broker=next(iter(by_broker)))]
    files = list(_files(given, may_be_log_by_content))
    writers = {broker for log in find_logs(given, files) for broker in log.brokers} - {UNKNOWN_BROKER}
    has_disk = any(_files(given, is_stored_evidence))
    if not writers and not has_disk and not files:
        raise UsageError(_NO_EVIDENCE.format(shown))
    if not writers or (has_disk and len(writers) > 1):
        raise UsageError(_NAMELESS.format(shown))
    return [source._replace(broker=writers.pop() if has_disk else "")]


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
            shown = f"{place.host}:{place.folder}"
            found.append(Source(place.broker, copy, True, copy, True, shown))
        else:
            found += [source._replace(is_copy=True) for source in _folders_below(copy, argument)]
    return found, problems


def collect(
    sources: Iterable[Source], target: Path, topics: Iterable[str] = (), internal: bool = False, logs: bool = True
) -> Collected:
    """Copy the evidence in `sources` to target/brokers/<id>, and logs of several or unknown brokers to target.

    `topics`: only these, beside those of coordinators; `internal`: Kafka's other ones too; `logs`: server.log and the
    like, not only disks.

    Files that vanish meanwhile, as brokers delete and rename segments, are left out. Raises LogjudgeError if nothing
    was copied.
    """
    sources = sorted(sources, key=lambda source: not source.is_named)  # stable: a name decides for its files
    collected = Collected(target)
    for source in sources:
        if source.broker:
            _copy_disks(source, collected, frozenset(topics), internal)
    for source in {source.given: source for source in sources}.values():
        dumps = filter(is_dump_file, _files(source.given, lambda name: bool(TEXT.fullmatch(name))))
        collected.left_out += [f"{_shown_path(source, file)}: {_DUMP}" for file in sorted(dumps)]
    if logs:
        nameless = {source.given: source for source in sources if not source.is_named}
        for source in [*(source for source in sources if source.is_named), *nameless.values()]:
            _copy_logs(source, collected)
        known = [source.folder for source in sources if source.broker]
        for folder, source in nameless.items():
            disks = _disks_outside(folder, known)
            collected.left_out += [_NAMELESS.format(_shown_path(source, disk)) for disk in disks]
    if not collected.files:
        raise LogjudgeError("found no segments, checkpoints or logs in the given folders, expected those of a broker")
    return collected


def _disks_outside(folder: Path, known: Iterable[Path]) -> list[Path]:
    """The disks with segments below a folder, without those in the `known` folders of brokers."""
    segments = _files(folder, lambda name: bool(SEGMENT.fullmatch(name)))
    unknown = [file.parent for file in segments if not any(file.is_relative_to(one) for one in known)]
    return sorted({place.parent if _FOLDER.fullmatch(place.name) else place for place in unknown})


@dataclass
class Collected:
    """The result of a copy: each file once."""

    target: Path
    ids: set[str] = field(default_factory=set)  # of the brokers with copied files
    files: int = 0
    bytes: int = 0
    unreadable: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)  # each copied log and its broker, and segments of leftover folders
    left_out: list[str] = field(default_factory=list)  # each other file that may be evidence, and the reason
    _copied: set[str] = field(default_factory=set)

    @property
    def brokers(self) -> list[str]:
        """Their ids in order."""
        return sorted(self.ids, key=by_number)

    def put(self, source: Source, file: Path, place: Path) -> bool:
        """Whether the file was copied to the place in the target, which must be free."""
        real = os.path.realpath(file)
        if real in self._copied:
            return False
        try:
            self.bytes += (_link if source.is_copy else _copy)(file, self.target / place)
        except FileNotFoundError:
            return False
        except PermissionError:
            self.unreadable.append(str(file))
            return False
        self._copied.add(real)
        self.files += 1
        return True


def _copy_disks(source: Source, collected: Collected, topics: frozenset[str], internal: bool) -> None:
    collected.ids.add(source.broker)
    folder = Path("brokers") / source.broker
    files = sorted(_files(source.folder, is_stored_evidence))
    # Checkpoints before logs: brokers write meanwhile, and a checkpoint that is ahead of its log would be a breach.
    for file in sorted(files, key=lambda file: file.name not in OFFSET_CHECKPOINTS):
        place = _place(source, file)
        if not _is_wanted(place, topics, internal):
            continue
        # Another folder of this broker has the same file: `check` chooses between them.
        if (collected.target / folder / place).exists():
            place = _free_path(collected.target / folder, file.relative_to(source.folder))
        meaning = leftover_of(file.parent.name)
        if collected.put(source, file, folder / place) and meaning and SEGMENT.fullmatch(file.name):
            collected.logs.append(f"{_shown_path(source, file)}: of {meaning}, which `check` does not judge")


def _copy_logs(source: Source, collected: Collected) -> None:
    """Copies the logs below the given folder for the brokers that `check` would name."""
    files = _files(source.given, lambda name: may_be_log_by_content(name) or name == META)
    for log in find_logs(source.given, (file for file in files if not is_dump_file(file))):
        shown = _shown_path(source, log.path)
        if log.reason:
            collected.left_out.append(f"{shown}: {log.reason}")
            continue
        brokers = [source.broker] if source.is_named else log.brokers
        if len(brokers) == 1 and brokers != [UNKNOWN_BROKER]:
            folder = Path("brokers") / brokers[0]
            place = folder / log.path.name
            if (collected.target / place).exists():
                place = folder / _free_path(collected.target / folder, log.path.relative_to(source.given))
        else:  # its lines decide
            place = _free_name(collected.target, log.path.name)
        if collected.put(source, log.path, place):
            collected.ids.update(set(brokers) - {UNKNOWN_BROKER})
            collected.logs.append(f"{shown}: {_of_brokers(brokers)}")


def _of_brokers(brokers: list[str]) -> str:
    if brokers == [UNKNOWN_BROKER]:
        return "of an unknown broker, as no line has its id; name it: ID=FOLDER"
    return f"of broker{'s' if len(brokers) > 1 else ''} {', '.join(brokers)}"


def _shown_path(source: Source, file: Path) -> str:
    return (PurePosixPath(source.shown) / file.relative_to(source.given).as_posix()).as_posix()


def _need_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder, expected a broker's log.dirs or its folder of logs")


def _broker_folders(folders: set[Path], disks: list[Path]) -> list[Path]:
    """The folders of one broker of several: each of its disks, with the folders around it that hold no other disk."""
    others = [file.parent for file in disks if file.parent not in folders]
    found: set[Path] = set()
    for disk in folders:
        folder = disk
        while not any(other.is_relative_to(folder.parent) for other in others):
            folder = folder.parent
        found.add(folder)
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


def _place(source: Source, file: Path) -> Path:
    """The path of a file of a disk in the folder of its broker."""
    # A disk may have a name such as my-cluster-broker-1, which looks like a partition's.
    disk = file.parent if _is_of_disk(file) or (file.parent / META).exists() else file.parent.parent
    # A broker with several disks has several folders.
    is_nested = source.folder != disk and not (disk.parent / META).exists()
    several = is_nested and len(list(disk.parent.glob(f"*/{META}"))) > 1
    return Path("data" if not several else f"data-{disk.name}") / file.relative_to(disk)


def _is_of_disk(file: PurePath) -> bool:
    """Whether a file of this name is directly in a disk, not in the folder of a partition."""
    is_named_as_partition = _FOLDER.fullmatch(file.parent.name)
    return file.name in (META, *OFFSET_CHECKPOINTS) or not is_named_as_partition


def _free_path(folder: Path, file: Path) -> Path:
    """A free path for a file in a folder `more-N` of its broker's folder."""
    numbered = (Path(f"more-{n}") / file for n in itertools.count(1))
    return next(place for place in numbered if not (folder / place).exists())


def _free_name(folder: Path, name: str) -> Path:
    """A name for a log that no other file has, with a number as rotated logs have it."""
    stem, packed, _ = name.rpartition(".gz") if name.endswith(".gz") else (name, "", "")
    numbered = (Path(f"{stem}.{n}{packed}" if n else name) for n in itertools.count())
    return next(place for place in numbered if not (folder / place).exists())


def _is_evidence(file: PurePath) -> bool:
    return is_stored_evidence(file.name) or is_log(file.name)


def _is_wanted(place: PurePath, topics: frozenset[str], internal: bool) -> bool:
    found = None if _is_of_disk(place) or is_log(place.name) else _FOLDER.fullmatch(place.parent.name)
    if not found or found["topic"] == METADATA_TOPIC:
        return True
    topic = found["topic"]
    # Commits of groups and outcomes of transactions are evidence for every topic.
    if topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC) or (internal and is_internal(topic)):
        return True
    return topic in topics if topics else not is_internal(topic)


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
