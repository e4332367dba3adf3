"""Finds segments that a partition's folder must have had: the files beside them prove it.

Kafka always keeps a segment in the folder of a partition, and for each segment its indexes. So these are copies that
lack a part: a folder without any segment, an index without its segment, a leader-epoch-checkpoint that begins below the
first segment of a log that was never compacted, and an empty log beside files about its records. An empty log without
such proof is honest: that of a new partition, or one that retention emptied, whose name is the log end offset.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...models.internal_topics import is_internal
from .checkpoints import (
    CLEANER_CHECKPOINT,
    EPOCH_CHECKPOINT,
    LOG_DIR_FILES,
    TOPIC_ID_FILE,
    read_epoch_checkpoint,
    read_offset_checkpoint,
)
from .parts import Part

SEGMENT = re.compile(r"[0-9]{20}\.log")
PRODUCER_SNAPSHOT = re.compile(r"[0-9]{20}\.snapshot")
INDEX = re.compile(r"[0-9]{20}\.(index|timeindex|txnindex)")
MAX_ENTRY_BYTES = 12  # of an entry of a .timeindex; one of an .index has 8

# The names in each folder of partitions and around, by the folder's path.
Folders = Mapping[Path, tuple[Path, list[str]]]


class FoundFile(NamedTuple):
    """A file or folder below a root."""

    path: Path
    relative: Path  # to the root
    reason: str  # why it cannot be read, or is missing; empty: it can be read


def missing_segments(partitions: Iterable[Path], folders: Folders) -> Iterator[FoundFile]:
    """Each segment, or folder without segments, that is missing.

    `folders` has the relative path and the names of each folder.
    """
    for folder in partitions:
        relative, names = folders[folder]
        bases = sorted(name[:20] for name in names if SEGMENT.match(name))  # also packed ones
        found = _without_segments(folder, folders) if not bases else _around_segments(folder, names, bases)
        for name, reason in found:
            yield FoundFile(folder / name, relative / name, reason)


def unreadable_parts(unreadable: Iterable[Part], found: list[Part], missing: Collection[Path]) -> Iterator[Part]:
    """The unreadable parts outside the folders that are left out, some as `missing` if no dump replaces them."""
    left_out = {part.path for part in found if part.kind == "left-out"}
    dumps = {(part.snapshot, part.broker, part.topic, part.partition) for part in found if part.kind == "dump"}
    for part in unreadable:
        place = (part.snapshot, part.broker)
        is_dumped = not dumps.isdisjoint({(*place, part.topic, part.partition), (*place, None, None)})
        if left_out.isdisjoint((part.path, *part.path.parents)) and not (is_dumped and part.path in missing):
            yield replace(part, kind="missing") if part.path in missing else part


def without_copies(coordinators: Iterable[Part], unreadable: Iterable[Part]) -> Iterator[Part]:
    """The folders of coordinators' topics, with the reason why a copy of the partition is missing or not whole, if so.

    The missing copy may have later records than the others.
    """
    reasons = {(part.snapshot, part.topic, part.partition): part.reason for part in unreadable}
    for part in coordinators:
        yield replace(part, reason=reasons.get((part.snapshot, part.topic, part.partition), ""))


def _without_segments(folder: Path, folders: Folders) -> Iterator[tuple[str, str]]:
    _, names = folders[folder]
    beside = [name for name in sorted(names) if _is_of_partition(name)]
    if beside:
        yield "", f"has no segment in its folder, though that has {beside[0]}"
    elif not names and _is_log_dir(folder.parent, folders):
        yield "", "has an empty folder, though Kafka keeps a segment of every partition"


def _is_of_partition(name: str) -> bool:
    return name in (EPOCH_CHECKPOINT, TOPIC_ID_FILE) or bool(INDEX.fullmatch(name) or PRODUCER_SNAPSHOT.fullmatch(name))


def _is_log_dir(folder: Path, folders: Folders) -> bool:
    """Whether a folder has checkpoints or meta.properties, or another partition's segments."""
    _, names = folders.get(folder, (Path(), []))
    if not LOG_DIR_FILES.isdisjoint(names):
        return True
    beside = (folders.get(folder / name, (Path(), []))[1] for name in names)
    return any(SEGMENT.fullmatch(name) for other in beside for name in other)


def _around_segments(folder: Path, names: list[str], bases: list[str]) -> Iterator[tuple[str, str]]:
    indexes = sorted(name for name in names if INDEX.fullmatch(name))
    lacking: dict[str, str] = {}
    for name in indexes:
        if name[:20] not in bases:
            lacking.setdefault(f"{name[:20]}.log", f"is missing, though its folder has {name}")
    yield from lacking.items()
    starts: list[int] = []
    if EPOCH_CHECKPOINT in names:
        epochs, _ = read_epoch_checkpoint(folder / EPOCH_CHECKPOINT)
        starts = sorted(epochs["start_offset"].to_list())
    first = f"{max(starts[0], 0):020d}" if starts else bases[0]
    if first < min([bases[0], *(name[:20] for name in lacking)]) and not _is_compacted(folder):
        begins = f"{EPOCH_CHECKPOINT} begins at offset {starts[0]}"
        yield f"{first}.log", f"is missing: {begins}, and the first segment at {int(bases[0])}"
    if not lacking and _is_empty(folder, bases):
        end = int(bases[-1])
        proof = _proof_of_records(folder, names, end)
        if starts and starts[-1] > end:
            proof = f"{EPOCH_CHECKPOINT} has an epoch that begins at offset {starts[-1]}"
        if proof:
            yield f"{bases[-1]}.log", f"is empty, though {proof}"


def _is_compacted(folder: Path) -> bool:
    """Whether the log cleaner may have removed whole segments: it has cleaned the log, or the topic is internal."""
    topic, _, partition = folder.name.rpartition("-")
    if is_internal(topic) or not partition.isdecimal():
        return True
    cleaned, _ = read_offset_checkpoint(folder.parent / CLEANER_CHECKPOINT)
    return len(cleaned.filter(topic=topic, partition=int(partition))) > 0


def _is_empty(folder: Path, bases: list[str]) -> bool:
    try:
        return all((folder / f"{base}.log").stat().st_size == 0 for base in bases)
    except OSError:
        return False


def _proof_of_records(folder: Path, names: list[str], end: int) -> str:
    """The file that proves that an empty log, whose name is `end`, had records; "" without one."""
    for name in sorted(names):
        if PRODUCER_SNAPSHOT.fullmatch(name) and int(name[:20]) > end:
            return f"{name} is a snapshot of its producers at offset {int(name[:20])}"
        if INDEX.fullmatch(name) and int(name[:20]) == end and _has_entry(folder / name):
            return f"{name} has entries"
    return ""


def _has_entry(path: Path) -> bool:
    """Whether an index has an entry. Kafka fills the file of an active segment with zeros in advance."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as opened:
            return any(opened.read(MAX_ENTRY_BYTES))
    except OSError:
        return False
