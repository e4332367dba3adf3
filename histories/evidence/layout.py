"""Finds the brokers' files below a folder, and reads each part of them into blocks.

Accepts a bundle (`brokers/<id>/…`, `snapshots/<name>/brokers/<id>/…`), a lone `brokers/` folder, one broker's folder or
log.dirs, a lone partition folder, a lone server.log or dump. Other files are ignored. Odd names, unreadable folders and
circular links are no errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import polars as pl

from ..errors import InputError
from ..files import file_type_of, reason_of
from ..tables import MAX_OFFSET
from .checkpoints import (
    EPOCH_CHECKPOINT,
    OFFSET_CHECKPOINTS,
    PROPERTY_FILES,
    read_epoch_checkpoint,
    read_offset_checkpoint,
    read_properties,
)
from .cluster_metadata import read_cluster_metadata
from .dump_text import is_dump, read_dump
from .duplicate_copies import nodes_of
from .foreign_files import without_foreign_files
from .group_log import read_group_log
from .parts import Part
from .server_log import read_server_log, split_log
from .tables import DAMAGE, FINAL, SEGMENTS, Block, damage_row, located

if TYPE_CHECKING:
    from .segments import Segment

# segments.py is imported where a segment is read: its compiled loops and codecs take a third of a second to load.
PARTITION_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._\-]+)-(?P<partition>\d{1,9})")
SEGMENT = re.compile(r"[0-9]{20}\.log")
_LOGS = "server|controller|state-change|log-cleaner|kafkaServer|kafka"
BROKER_LOG = re.compile(rf"({_LOGS})(\.log|\.out)(\.[\d.\-]+)?(\.gz)?")
METADATA_TOPIC = "__cluster_metadata"
OFFSETS_TOPIC = "__consumer_offsets"
UNKNOWN_BROKER = "?"
MAX_DEPTH = 12  # of folders below the opened one
MAX_ENTRIES = 1_000_000  # files and folders of a run
SMALL_FILES = (EPOCH_CHECKPOINT, *OFFSET_CHECKPOINTS, *PROPERTY_FILES)


def may_be_evidence(name: str) -> bool:
    """Whether a file may be evidence by its name. Indexes of segments and other files of brokers are not."""
    path = PurePosixPath(name)
    is_known = path.name in SMALL_FILES or SEGMENT.fullmatch(path.name) or path.suffix == ".checkpoint"
    return bool(is_known) or is_text(name)


def is_text(name: str) -> bool:
    """Whether a file is text whose first lines identify it: brokers' logs, and possible dumps."""
    path = PurePosixPath(name)
    return bool(BROKER_LOG.fullmatch(path.name)) or path.suffix in (".txt", ".dump")


def find_parts(root: Path) -> list[Part]:
    """All evidence at or below root, ordered by kind and name."""
    if root.is_file():
        part = _classify(root, root.name, Path(root.parent.name))
        return [part] if part else []
    parts: dict[tuple[str, str], Part] = {}
    for path, relative, reason in _walk(root):
        folders = Path(root.name) / relative.parent
        if reason:
            part = _unreadable(path, relative.as_posix(), folders, reason)
        else:
            part = _classify(path, relative.as_posix(), folders)
        if part is not None:
            parts.setdefault((part.kind, part.name), part)
    return _with_broker_ids(root, [parts[key] for key in sorted(parts)])


def _walk(root: Path) -> Iterator[tuple[Path, Path, str]]:
    """Files below root, their relative paths, and why one cannot be read. Each folder is visited once, despite links.

    Folders without permission, pipes, devices and broken links cannot be read. Raises InputError where a link leads to
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
            yield folder, relative, f"found {reason_of(error)}, expected a folder"
            continue
        found_entries += len(entries)
        if found_entries > MAX_ENTRIES:
            raise InputError(
                str(root),
                f"more than {MAX_ENTRIES:,} files and folders",
                "brokers' files",
                "check where its links lead",
            )
        for entry in entries:
            # Kafka writes no names that are not UTF-8, and a report could not contain them.
            if any("\ud800" <= char <= "\udfff" for char in entry.name):
                continue
            try:
                if entry.is_dir():
                    if depth < MAX_DEPTH:
                        pending.append((Path(entry.path), relative / entry.name, depth + 1))
                elif entry.is_file():
                    yield Path(entry.path), relative / entry.name, ""
                else:
                    found = file_type_of(entry.stat().st_mode)
                    yield Path(entry.path), relative / entry.name, f"found {found}, expected a file"
            except OSError as error:
                found = "a broken link" if isinstance(error, FileNotFoundError) else reason_of(error)
                yield Path(entry.path), relative / entry.name, f"found {found}, expected a file"


def _unreadable(path: Path, name: str, folders: Path, reason: str) -> Part | None:
    """The part of an unreadable file that is evidence by its name, to report it; None for other files."""
    is_folder = path.is_dir()
    if not is_folder and (not may_be_evidence(path.name) or path.suffix in (".txt", ".dump")):
        return None
    snapshot, broker = _place((*folders.parts, path.name) if is_folder else folders.parts)
    found = PARTITION_FOLDER.fullmatch((path if is_folder else path.parent).name)
    topic, partition = (found["topic"], int(found["partition"])) if found else (None, None)
    if topic == METADATA_TOPIC:
        topic = partition = None
    return Part(snapshot, broker, "unreadable", path, name, topic, partition, reason=reason)


def _classify(path: Path, name: str, folders: Path) -> Part | None:
    """The part of a file, by its name and its folders; None for a file that is not evidence."""
    snapshot, broker = _place(folders.parts)
    found = PARTITION_FOLDER.fullmatch(path.parent.name)
    topic, partition = (found["topic"], int(found["partition"])) if found else (None, None)
    if topic == METADATA_TOPIC:
        if SEGMENT.fullmatch(path.name) or path.suffix == ".checkpoint":
            # The folder is one part: replaying it needs its snapshot and all segments in order.
            folder_name = str(Path(name).parent.as_posix())
            return Part(snapshot, broker, "metadata", path.parent, folder_name)
        return None
    if SEGMENT.fullmatch(path.name) and found:
        if int(path.stem) > MAX_OFFSET:
            reason = f"found the base offset {path.stem} as its name, expected at most {MAX_OFFSET}"
            return Part(snapshot, broker, "left-out", path, name, topic, partition, reason=reason)
        return Part(snapshot, broker, "segment", path, name, topic, partition)
    if path.name in OFFSET_CHECKPOINTS:
        return Part(snapshot, broker, "offsets", path, name)
    if path.name == EPOCH_CHECKPOINT and found:
        return Part(snapshot, broker, "epochs", path, name, topic, partition)
    if path.name in PROPERTY_FILES:
        return Part(snapshot, broker, "properties", path, name, topic, partition)
    if BROKER_LOG.fullmatch(path.name):
        return Part(snapshot, broker, "log", path, name)
    if path.suffix in (".txt", ".dump") and _head_is_dump(path):
        # A name such as 1-orders-0.txt has the broker and the partition.
        stem = re.match(r"(\d+)-(.+)-(\d{1,9})$", path.stem)
        if stem:
            return Part(snapshot, stem[1], "dump", path, name, stem[2], int(stem[3]))
        return Part(snapshot, broker, "dump", path, name)
    return None


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


def _head_is_dump(path: Path) -> bool:
    try:
        with path.open("rb") as opened:
            return is_dump(opened.read(200).decode("utf-8", "replace"))
    except OSError:
        return False


def _with_broker_ids(root: Path, parts: list[Part]) -> list[Part]:
    """The parts with the broker's id of meta.properties (node.id, which the controller uses), else of the folder."""
    unreadable = [part for part in parts if part.kind == "unreadable"]
    parts = [part for part in parts if part.kind != "unreadable"]
    nodes = nodes_of(parts)
    by_folder = {folder: node.id for folder, node in nodes.items() if node.id}
    by_name: dict[str, set[str]] = {}
    for node in nodes.values():
        if node.id:
            by_name.setdefault(node.named, set()).add(node.id)
    # A folder with two ids keeps its name; two folders with one id are one broker (duplicate_copies.py).
    renamed = {name: next(iter(ids)) for name, ids in by_name.items() if name != UNKNOWN_BROKER and len(ids) == 1}
    # The folder of one broker has its server.log beside its log.dirs.
    only_id = next(iter(by_folder.values())) if len(set(by_folder.values())) == 1 else None
    out = []
    for part in (*parts, *unreadable):
        if part.broker == UNKNOWN_BROKER:
            above = [part.path, *part.path.parents]
            known = next((by_folder[folder] for folder in above if folder in by_folder), only_id)
            out.append(replace(part, broker=known or _folder_name(root, part.path)))
        else:
            out.append(replace(part, broker=renamed.get(part.broker, part.broker)))
    readable = [part for part in out if part.kind != "unreadable"]
    left = [part for part in out if part.kind == "unreadable"]
    found = without_foreign_files(_without_dumps_of_segments(readable), nodes)
    return [*found, *_group_logs(found), *left]


def _group_logs(parts: list[Part]) -> list[Part]:
    """A part for each folder of `__consumer_offsets`: its records are decoded beside what every segment is read for."""
    folders = {part.path.parent: part for part in parts if part.kind == "segment" and part.topic == OFFSETS_TOPIC}
    return [
        replace(part, kind="groups", path=folder, name=str(PurePosixPath(part.name).parent))
        for folder, part in sorted(folders.items())
    ]


def _without_dumps_of_segments(parts: list[Part]) -> list[Part]:
    """The parts without dumps of logs whose segments are present: these would count every record twice."""
    segments = {(p.snapshot, p.broker, p.topic, p.partition) for p in parts if p.kind == "segment"}
    return [p for p in parts if p.kind != "dump" or (p.snapshot, p.broker, p.topic, p.partition) not in segments]


def _folder_name(root: Path, path: Path) -> str:
    relative = path.relative_to(root).parts[:-1]
    outer = [name for name in relative if not PARTITION_FOLDER.fullmatch(name)]
    return outer[0] if outer else UNKNOWN_BROKER


def split_part(part: Part, target_bytes: int = 64 << 20) -> list[Part]:
    """The part as ranges for several tasks. Only segments and logs are split."""
    try:
        if part.kind in ("segment", "headers"):
            from .segments import split_segment

            ranges = split_segment(part.path, target_bytes)
            return [replace(part, start=start, end=end) for start, end in ranges] or [
                part
            ]  # an empty segment is a part, too
        if part.kind == "log" and part.path.suffix != ".gz":
            return [
                replace(part, start=start, end=end, first_line=line)
                for start, end, line in split_log(part.path, target_bytes)
            ]
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
    is_large = [part.kind == "segment" and (part.topic, part.partition) not in dumped for part in parts]
    return [replace(part, kind="headers") if large_ else part for part, large_ in zip(parts, is_large, strict=True)]


def read_part(part: Part) -> list[Block]:
    """The blocks of a part, by topic-partition: tables of tables.py with their location."""
    return list(_READERS[part.kind](part))


def _block(table: str, part: Part, frame: pl.DataFrame) -> Iterator[Block]:
    if frame.height:
        frame = located(frame, part.snapshot, part.broker, part.name)
        yield Block(table, part.topic, part.partition, frame)


def _grouped(table: str, part: Part, frame: pl.DataFrame) -> Iterator[Block]:
    """A frame with columns topic and partition, as blocks of one topic-partition each."""
    if not frame.height:
        return
    if "file" in frame.columns:
        frame = frame.with_columns(pl.concat_str(pl.lit(part.name + "/"), "file").alias("file"))
        order = ["snapshot", "broker", "file", *(c for c in frame.columns if c != "file")]
        located_ = frame.with_columns(snapshot=pl.lit(part.snapshot), broker=pl.lit(part.broker))
        frame = located_.select(order)
    else:
        frame = located(frame, part.snapshot, part.broker, part.name)
    for group in frame.partition_by("topic", "partition", maintain_order=True):
        yield Block(table, group["topic"][0], group["partition"][0], group)


def _read_segment(part: Part) -> Iterator[Block]:
    from .segments import read_segment

    segment = read_segment(part.path, part.start, part.end)
    yield from _empty_segment(part, segment)
    yield from _block("batches", part, segment.batches)
    yield from _block("records", part, segment.records)
    yield from _block("damage", part, segment.damage)


def _empty_segment(part: Part, segment: Segment) -> Iterator[Block]:
    if not segment.batches.height and not segment.damage.height and part.start == 0:
        yield from _block("segments", part, pl.DataFrame({"base_offset": [int(part.path.stem)]}, schema=SEGMENTS))


def _read_headers(part: Part) -> Iterator[Block]:
    from .segments import read_headers

    segment = read_headers(part.path, part.start, part.end)
    yield from _empty_segment(part, segment)
    yield from _block("headers", part, segment.batches.with_columns(pl.lit(str(part.path)).alias("path")))
    yield from _block("damage", part, segment.damage)


def _read_metadata(part: Part) -> Iterator[Block]:
    yield from _of_folder("metadata", part, *read_cluster_metadata(part.path))


def _read_groups(part: Part) -> Iterator[Block]:
    yield from _of_folder("groups", part, *read_group_log(part.path))


def _of_folder(table: str, part: Part, frame: pl.DataFrame, damage: pl.DataFrame) -> Iterator[Block]:
    """The blocks of a part that is a folder: its frames name the file of each row."""
    yield from _grouped(table, part, frame)
    if damage.height:
        named = pl.concat_str(pl.lit(part.name + "/"), pl.col("file").fill_null("")).alias("file")
        located_ = located(damage.drop("file"), part.snapshot, part.broker, part.name)
        yield Block("damage", None, None, located_.with_columns(damage.select(named)["file"]))


def _read_offsets(part: Part) -> Iterator[Block]:
    frame, damage = read_offset_checkpoint(part.path)
    yield from _grouped("checkpoints", part, frame)
    yield from _block("damage", part, damage)


def _read_epochs(part: Part) -> Iterator[Block]:
    frame, damage = read_epoch_checkpoint(part.path)
    yield from _block("epochs", part, frame)
    yield from _block("damage", part, damage)


def _read_properties(part: Part) -> Iterator[Block]:
    frame, damage = read_properties(part.path)
    yield from _block("properties", part, frame)
    yield from _block("damage", part, damage)


def _read_log(part: Part) -> Iterator[Block]:
    frame, damage = read_server_log(part.path, part.start, part.end, part.first_line)
    yield from _grouped("log_events", part, frame)
    yield from _block("damage", part, damage)


def _read_dump(part: Part) -> Iterator[Block]:
    for dump in read_dump(part.path):
        topic, partition = dump.topic or part.topic, dump.partition
        here = replace(part, topic=topic, partition=part.partition if partition is None else partition)
        yield from _block("batches", here, dump.batches)
        yield from _block("records", here, dump.records)
        yield from _grouped("metadata", part, dump.metadata)
        yield from _block("damage", here, dump.damage)


def _read_nothing(part: Part) -> Iterator[Block]:
    """The reason of a part that is left out or unreadable, as damage."""
    yield from _block("damage", part, pl.DataFrame([damage_row(part.kind, part.reason)], schema=DAMAGE))


_READERS = {
    "segment": _read_segment,
    "headers": _read_headers,
    "metadata": _read_metadata,
    "groups": _read_groups,
    "offsets": _read_offsets,
    "epochs": _read_epochs,
    "properties": _read_properties,
    "log": _read_log,
    "dump": _read_dump,
    "left-out": _read_nothing,
    "unreadable": _read_nothing,
}
