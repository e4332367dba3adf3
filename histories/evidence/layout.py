"""Finds the brokers' files below a folder, as parts for tasks (part_blocks.py reads them).

Accepts a bundle (`brokers/<id>/…`, `snapshots/<name>/brokers/<id>/…`), a lone `brokers/` folder, one broker's folder or
log.dirs, a lone partition folder, a lone server.log or dump. Other files are ignored. Odd names, unreadable folders and
circular links are no errors.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath

from ...models.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ..errors import InputError
from ..files import encoding_of, file_type_of, head_of, is_tar, reason_of
from ..tables import MAX_OFFSET
from .checkpoints import EPOCH_CHECKPOINT, OFFSET_CHECKPOINTS, PROPERTY_FILES, TOPIC_ID_FILE
from .dump_text import is_dump
from .duplicate_copies import Node, nodes_of, properties_of
from .foreign_files import dumps_to_judge, without_foreign_files
from .leftover_folders import leftover_of, leftovers
from .log_names import ARCHIVE, BROKER_LOG, PACKED_LOG, may_be_log
from .log_prefixes import is_undated, logs_in, writer_of, writers_without_prefix
from .missing_segments import SEGMENT, FoundFile, missing_segments, unreadable_parts, without_copies
from .parts import MISPLACED, Part
from .server_log import split_log
from .tables import FINAL

PARTITION_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._\-]+)-(?P<partition>0|[1-9]\d{0,8})")
# A file that has a broker's files once it is unpacked: a compressed segment, or an archive of a whole broker.
_PACKED = re.compile(rf"[0-9]{{20}}\.log\.(gz|zst|xz|bz2|lz4)|{ARCHIVE.pattern}")
TEXT = re.compile(r"stdin|.+\.(txt|dump)")  # maybe of kafka-dump-log
PRODUCER_FILE = re.compile(r"[0-9]{20}\.(txnindex|snapshot)")  # what a broker keeps of the producers of a partition
COORDINATORS = {OFFSETS_TOPIC: "groups", TRANSACTIONS_TOPIC: "transactions"}  # kinds of parts
FOLDERS = ("metadata", *COORDINATORS.values())  # kinds of parts that are a folder
UNDATED = "found no line with a time, expected lines such as `[2026-11-20 10:00:00,000] INFO started (kafka.Kafka)`"
MIXED = "found lines of brokers {} without prefixes, so their broker is not known; expected a file for each broker"
NOT_UTF8 = "found a name that is not UTF-8, expected one in UTF-8: rename it"
UNKNOWN_BROKER = "?"
MAX_DEPTH = 12  # of folders below the opened one
MAX_ENTRIES = 1_000_000  # files and folders of a run
SMALL_FILES = (EPOCH_CHECKPOINT, *OFFSET_CHECKPOINTS, *PROPERTY_FILES)


def may_be_evidence(name: str) -> bool:
    """Whether a file may be evidence by its name. Indexes of offsets and times, and other files of brokers, are not."""
    return is_stored_evidence(name) or is_text(name)


def is_stored_evidence(name: str) -> bool:
    """Whether a file may be evidence of a broker's disk: what it stores, without its texts."""
    path = PurePosixPath(name)
    is_segment_or_beside = SEGMENT.fullmatch(path.name) or PRODUCER_FILE.fullmatch(path.name)
    return path.name in SMALL_FILES or path.suffix == ".checkpoint" or bool(is_segment_or_beside) or is_packed(path)


def is_packed(path: PurePath) -> bool:
    """Whether a file must be unpacked to be evidence: a compressed segment, or an archive below brokers/."""
    return bool(_PACKED.fullmatch(path.name)) and (bool(SEGMENT.match(path.name)) or "brokers" in path.parts[:-1])


def is_text(name: str) -> bool:
    """Whether a file is text whose first lines identify it: brokers' logs, and possible dumps."""
    path = PurePosixPath(name)
    return bool(BROKER_LOG.fullmatch(path.name)) or bool(TEXT.fullmatch(path.name))


def find_parts(root: Path) -> list[Part]:
    """All evidence at or below root, ordered by kind and name."""
    if root.is_file():
        return _parts_with_broker_ids(root.parent, [FoundFile(root, Path(root.name), "")])[0]
    folders: dict[Path, tuple[Path, list[str]]] = {}
    walked = [*_walk(root, folders)]
    partitions = (folder for folder in folders if _topic_partition(folder)[0] not in (None, METADATA_TOPIC))
    missing = [*missing_segments(partitions, folders)]
    parts, nodes = _parts_with_broker_ids(root, [*walked, *missing])
    readable = [part for part in parts if part.kind != "unreadable"]
    found = without_foreign_files(dumps_to_judge(readable), nodes)
    rest = (part for part in parts if part.kind == "unreadable")
    concerned = [*unreadable_parts(rest, found, {path for path, _, _ in missing})]
    aside = leftovers(folders, [part for part in found if part.kind == "properties"])
    return [*found, *without_copies(_coordinators_logs(found), concerned), *concerned, *aside]


def logs_among(root: Path, files: Iterable[Path]) -> dict[Path, list[Part]]:
    """The logs among files below root, each with its parts: their brokers are those that `find_parts` names.

    The files that are no log have their broker's id for logs without one: meta.properties.
    """
    found: dict[Path, list[Part]] = {}
    parts, _ = _parts_with_broker_ids(root, (FoundFile(path, path.relative_to(root), "") for path in files))
    for part in parts:
        if not is_stored_evidence(part.name) and part.kind != "dump":
            found.setdefault(part.path, []).append(part)
    return found


def _parts_with_broker_ids(root: Path, files: Iterable[FoundFile]) -> tuple[list[Part], dict[Path, Node]]:
    """All evidence among files of `_walk`, ordered by kind and name, and the nodes."""
    parts: dict[tuple[str, str, str], Part] = {}
    for path, relative, reason in files:
        folders = Path(root.name) / relative.parent
        if reason:
            part = _unreadable(path, relative.as_posix(), folders, reason)
        else:
            part = _classify(path, relative.as_posix(), folders)
        for piece in _pieces(part) if part else ():
            parts.setdefault((piece.kind, piece.name, piece.source or ""), piece)
    return _with_broker_ids(root, [parts[key] for key in sorted(parts)])


def _pieces(part: Part) -> list[Part]:
    """A log as a part for each source of its lines. One without times, or of several brokers, is unreadable."""
    if part.kind != "log":
        return [part]
    try:
        if is_undated(part.path):
            return [replace(part, kind="unreadable", reason=UNDATED)]
        if len(writers := writers_without_prefix(part.path)) > 1:
            return [replace(part, kind="unreadable", reason=MIXED.format(" and ".join(writers)))]
        return logs_in(part)
    except (OSError, ValueError):
        return [part]  # reading it reports why


def _walk(root: Path, folders: dict[Path, tuple[Path, list[str]]]) -> Iterator[FoundFile]:
    """The files below root. Each folder is visited once, despite links.

    Adds the relative path and the names of each folder to `folders`.

    Folders without permission, pipes, devices and broken links cannot be read. Raises InputError if a link leads to
    a whole file system.
    """
    seen: set[tuple[int, int]] = set()
    found_entries = 0
    pending = [(root, Path(), 0)]
    while pending:
        folder, relative, depth = pending.pop()
        try:
            status = folder.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            yield FoundFile(folder, relative, f"found {reason_of(error)}, expected a folder")
            continue
        folders[folder] = (relative, [entry.name for entry in entries])
        found_entries += len(entries)
        if found_entries > MAX_ENTRIES:
            found = f"more than {MAX_ENTRIES:,} files and folders"
            raise InputError(str(root), found, "brokers' files", "check where its links lead")
        for entry in entries:
            path, name = Path(entry.path), relative / entry.name
            if entry.name != (shown := entry.name.encode(errors="backslashreplace").decode()):
                # A report cannot contain such a name. Kafka writes none, but who collected a broker's folder may have.
                yield FoundFile(path, relative / shown, NOT_UTF8)
                continue
            try:
                if not entry.is_dir():
                    found = "" if entry.is_file() else file_type_of(entry.stat().st_mode)
                elif SEGMENT.fullmatch(entry.name) and PARTITION_FOLDER.fullmatch(folder.name):
                    found = "a folder"
                else:
                    if depth < MAX_DEPTH:
                        pending.append((path, name, depth + 1))
                    continue
            except OSError as error:
                found = "a broken link" if isinstance(error, FileNotFoundError) else reason_of(error)
            yield FoundFile(path, name, f"found {found}, expected a file" if found else "")


def _unreadable(path: Path, name: str, folders: Path, reason: str) -> Part | None:
    """The part of an unreadable file that is evidence by its name, to report it; None for other files."""
    is_folder = path.is_dir() and not SEGMENT.fullmatch(path.name)
    if not is_folder and not is_stored_evidence(name) and not BROKER_LOG.fullmatch(path.name):
        return None
    snapshot, broker = _place((*folders.parts, path.name) if is_folder else folders.parts)
    topic, partition = _topic_partition(path if is_folder else path.parent)
    if topic == METADATA_TOPIC:
        topic = partition = None
    return Part(snapshot, broker, "unreadable", path, name, topic, partition, reason=reason)


def _classify(path: Path, name: str, folders: Path) -> Part | None:
    """The part of a file, by its name and its folders; None for a file that is not evidence."""
    snapshot, broker = _place(folders.parts)
    topic, partition = _topic_partition(path.parent)
    if is_packed(PurePath(name)):
        packed = "a compressed segment" if SEGMENT.match(path.name) else "an archive"
        return _unreadable(path, name, folders, f"found {packed}, expected files of a broker's disk: unpack it")
    if PACKED_LOG.fullmatch(path.name) and not topic:
        reason = f"found a log packed as {path.suffix}, expected text or .gz: unpack it"
        return Part(snapshot, broker, "unreadable", path, name, reason=reason)
    if topic == METADATA_TOPIC:
        if SEGMENT.fullmatch(path.name) or path.suffix == ".checkpoint":
            # The folder is one part: replaying it needs its snapshot and all segments in order.
            return Part(snapshot, broker, "metadata", path.parent, Path(name).parent.as_posix())
        return None
    if SEGMENT.fullmatch(path.name) and topic:
        if int(path.stem) > MAX_OFFSET:
            reason = f"found the base offset {path.stem} as its name, expected at most {MAX_OFFSET}"
            return Part(snapshot, broker, "left-out", path, name, topic, partition, reason=reason)
        return Part(snapshot, broker, "segment", path, name, topic, partition)
    if SEGMENT.fullmatch(path.name) and not leftover_of(path.parent.name):
        return Part(snapshot, broker, "misplaced", path, name, reason=MISPLACED.format(path.parent.name))
    if path.name in OFFSET_CHECKPOINTS:
        return Part(snapshot, broker, "offsets", path, name)
    if path.name == EPOCH_CHECKPOINT and topic:
        return Part(snapshot, broker, "epochs", path, name, topic, partition)
    if PRODUCER_FILE.fullmatch(path.name) and topic:
        return Part(snapshot, broker, path.suffix[1:], path, name, topic, partition)
    if path.name in PROPERTY_FILES:
        return Part(snapshot, broker, "properties", path, name, topic, partition)
    if not topic and (encoding := _encoding(path)):
        reason = f"found text in {encoding}, expected UTF-8: `iconv -f {encoding} -t UTF-8` converts it"
        return Part(snapshot, broker, "unreadable", path, name, reason=reason)
    log = Part(snapshot, broker, "log", path, name)
    if BROKER_LOG.fullmatch(path.name) or (not topic and may_be_log(path.name) and _has_writer(log)):
        return log
    if is_dump_file(path):
        # A name such as 1-orders-0.txt has the broker and the partition.
        if stem := re.match(r"(\d+)-(.+)-(\d{1,9})$", path.stem):
            return Part(snapshot, stem[1], "dump", path, name, stem[2], int(stem[3]))
        return Part(snapshot, broker, "dump", path, name)
    return None


def _has_writer(log: Part) -> bool:
    if is_tar(head_of(log.path)):
        return False
    return writer_of(log.path) is not None or len(logs_in(log)) > 1 or bool(writers_without_prefix(log.path))


def _topic_partition(folder: Path) -> tuple[str, int] | tuple[None, None]:
    """The topic and the partition that a folder's name has."""
    found = PARTITION_FOLDER.fullmatch(folder.name)
    return (found["topic"], int(found["partition"])) if found else (None, None)


def _place(folders: tuple[str, ...]) -> tuple[str, str]:
    """The snapshot and the broker, from the names of the folders."""
    snapshot, broker = FINAL, UNKNOWN_BROKER
    for i, folder in enumerate(folders[:-1]):
        if folder == "snapshots":
            snapshot = folders[i + 1]
        elif folder == "brokers":
            broker = folders[i + 1]
        elif folder == "dump" and broker == UNKNOWN_BROKER and i + 1 < len(folders):
            snapshot = folders[i + 1]
    return snapshot, broker


def is_dump_file(path: Path) -> bool:
    """Whether a file is a text of kafka-dump-log, by its name and its head."""
    return bool(TEXT.fullmatch(path.name)) and is_dump(_head(path).decode("utf-8-sig", "replace"))


def _encoding(path: Path) -> str | None:
    """The encoding of a broker's log or a dump in UTF-16, as PowerShell's `>` writes it; None for any other file."""
    head = _head(path) if is_text(path.name) else b""
    encoding = encoding_of(head)
    is_evidence = encoding and (BROKER_LOG.fullmatch(path.name) or is_dump(head.decode(encoding, "replace")))
    return encoding if is_evidence else None


def _head(path: Path) -> bytes:
    """The first bytes of a file; none if it cannot be read."""
    try:
        with path.open("rb") as opened:
            return opened.read(400)
    except OSError:
        return b""


def _with_broker_ids(root: Path, parts: list[Part]) -> tuple[list[Part], dict[Path, Node]]:
    """The parts with the broker's id (the controller's node.id) instead of its folder's name, if known, and the nodes.

    A log has the id of its own lines. Other files have that of meta.properties, else of the logs beside them.
    """
    sources = Counter(part.path for part in parts if part.kind == "log")
    writers = {path: writer for path, count in sources.items() if count == 1 and (writer := writer_of(path))}
    nodes = nodes_of((part for part in parts if part.kind != "unreadable"), writers)
    renamed = _ids_by_name(parts, nodes, writers)
    ids_at = _ids_by_folder(root, nodes, writers)

    def broker_of(part: Part) -> str:
        if part.path in writers:
            return writers[part.path]
        if sources[part.path] > 1:  # each has the id of its own lines
            return part.broker
        if part.broker != UNKNOWN_BROKER:
            return renamed.get(part.broker, part.broker)
        ids = next((ids_at[folder] for folder in (part.path, *part.path.parents) if folder in ids_at), set())
        outer = (name for name in part.path.relative_to(root).parts[:-1] if not PARTITION_FOLDER.fullmatch(name))
        return next(iter(ids)) if len(ids) == 1 else next(outer, UNKNOWN_BROKER)

    return [replace(part, broker=broker_of(part)) for part in parts], nodes


def _ids_by_name(parts: list[Part], nodes: Mapping[Path, Node], writers: Mapping[Path, str]) -> dict[str, str]:
    """The id of each broker, by its folder's name: that of meta.properties, else of its logs.

    A folder with two ids keeps its name; two folders with one id are one broker (duplicate_copies.py).
    """
    of_logs: dict[str, set[str]] = {}
    for part in parts:
        if part.path in writers:
            of_logs.setdefault(part.broker, set()).add(writers[part.path])
    of_nodes: dict[str, set[str]] = {}
    for node in nodes.values():
        if node.id:
            of_nodes.setdefault(node.named, set()).add(node.id)
    found = {**of_logs, **of_nodes}
    return {name: next(iter(ids)) for name, ids in found.items() if name != UNKNOWN_BROKER and len(ids) == 1}


def _ids_by_folder(root: Path, nodes: Mapping[Path, Node], writers: Mapping[Path, str]) -> dict[Path, set[str]]:
    """The brokers of each folder: of the log.dir that it is, else of the log.dirs below it, else of its logs."""
    dirs = {folder: {node.id} for folder, node in nodes.items() if node.id}
    above: dict[Path, set[str]] = {}
    for folder, ids in dirs.items():
        for outside in folder.parents:
            above.setdefault(outside, set()).update(ids)
    logs: dict[Path, set[str]] = {}
    for path, writer in writers.items():
        # The root has no broker of its own: its only server.log may belong to another broker than its only log.dir.
        for outside in (path.parent, *(folder for folder in path.parents[1:] if root in folder.parents)):
            logs.setdefault(outside, set()).add(writer)
    return {**logs, **above, **dirs}


def _coordinators_logs(parts: list[Part]) -> list[Part]:
    """A part for each folder of a coordinator's topic, whose segments are read like any others, too."""
    segments = [part for part in parts if part.kind == "segment" and part.topic in COORDINATORS]
    folders = {part.path.parent: part for part in segments}
    kinds = {folder: COORDINATORS[str(part.topic)] for folder, part in folders.items()}
    topics = _topic_ids(parts) if "groups" in kinds.values() else {}
    return [
        replace(
            part,
            kind=kinds[folder],
            path=folder,
            name=str(PurePosixPath(part.name).parent),
            topics=topics.get((part.snapshot, part.broker), ()) if kinds[folder] == "groups" else (),
        )
        for folder, part in sorted(folders.items())
    ]


def _topic_ids(parts: Iterable[Part]) -> dict[tuple[str, str], tuple[tuple[str, str], ...]]:
    """Ids and names of the topics of each snapshot and broker, from one partition.metadata of each topic."""
    files = {
        (part.snapshot, part.broker, part.topic): part.path
        for part in parts
        if part.kind == "properties" and part.topic and part.path.name == TOPIC_ID_FILE
    }
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (snapshot, broker, topic), path in sorted(files.items()):
        if topic_id := properties_of(path).get("topic_id"):
            found.setdefault((snapshot, broker), []).append((topic_id, topic))
    return {place: tuple(topics) for place, topics in found.items()}


def split_part(part: Part, target_bytes: int = 64 << 20) -> list[Part]:
    """The part as ranges for several tasks. Only segments and logs are split."""
    try:
        if part.kind in ("segment", "headers"):
            from .segments import split_segment

            ranges = split_segment(part.path, target_bytes)
            pieces = [replace(part, start=start, end=end) for start, end in ranges]
            return pieces or [part]  # an empty segment is a part, too
        if part.kind == "log" and part.path.suffix != ".gz":
            return [replace(part, **lines._asdict()) for lines in split_log(part.path, target_bytes)]
    except (OSError, ValueError):
        pass  # reading the part reports the error
    return [part]


def with_headers_first(parts: Iterable[Part], large: int) -> list[Part]:
    """The parts, with segments as `headers` if together they have more bytes than `large`.

    Their records are decoded later, and only those that matter. A log that is compared with a dump is decoded at once.
    """
    parts = list(parts)
    if sum((part.end or 0) - part.start for part in parts if part.kind == "segment") <= large:
        return parts
    dumped = {(part.topic, part.partition) for part in parts if part.kind == "dump"}
    if (None, None) in dumped:  # the partition of that dump is only in its text
        return parts
    return [
        replace(part, kind="headers") if part.kind == "segment" and (part.topic, part.partition) not in dumped else part
        for part in parts
    ]
