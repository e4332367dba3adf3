"""Folders of replicas beside the current ones: deleted soon, unassigned, or on their way to another disk.

Kafka names them `<topic>-<partition>.<32 hex digits>-delete`, `-stray` (KIP-858) and `-future` (KIP-113). They are not
the broker's log of the partition, so they are not judged, but they may have the only copy of a lost record: causes of
losses look for it in the table `leftovers`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from .missing_segments import SEGMENT, Folders
from .parts import Part
from .tables import FINAL

SUFFIX = r"\.[0-9a-f]{32}-(?P<leftover>delete|future|stray)"
_LEFTOVER = re.compile(rf"(?P<topic>.+)-(?P<partition>\d{{1,9}}){SUFFIX}")
MEANING = {
    "delete": "a replica that Kafka has deleted",
    "stray": "a replica that was no longer assigned to the broker",
    "future": "a copy on its way to another disk",
}
MAX_BYTES = 1 << 28  # of a folder whose records are read; a greater one is only reported


def leftover_of(folder: str) -> str:
    """What a folder of this name has, in words; empty for another folder."""
    found = _LEFTOVER.fullmatch(folder)
    return MEANING[found["leftover"]] if found else ""


def is_stray(folder: str) -> bool:
    """Whether a broker set this folder aside, as the metadata did not assign it."""
    found = _LEFTOVER.fullmatch(folder)
    return found is not None and found["leftover"] == "stray"


def leftovers(folders: Folders, properties: Collection[Part]) -> Iterator[Part]:
    """A part for each such folder with a segment, to report it, and one for each of its segments, to read it.

    `properties`: the parts of kind properties; a segment has the broker of the meta.properties beside its folder.
    """
    disks = {part.path.parent: part for part in properties if part.topic is None}
    for folder, (relative, names) in sorted(folders.items()):
        segments = sorted(filter(SEGMENT.fullmatch, names))
        found = _LEFTOVER.fullmatch(folder.name)
        if found is None or not segments:
            continue
        reason = f"is not judged: it is {MEANING[found['leftover']]}"
        yield Part(FINAL, "", "leftover", folder, relative.as_posix(), reason=reason)
        disk = disks.get(folder.parent)
        if disk is not None and _size(folder, segments) <= MAX_BYTES:
            topic, partition = found["topic"], int(found["partition"])
            for name in segments:
                path, cited = folder / name, (relative / name).as_posix()
                yield Part(disk.snapshot, disk.broker, "aside", path, cited, topic, partition)


def _size(folder: Path, names: list[str]) -> int:
    """The size of files in bytes; more than MAX_BYTES if one cannot be read."""
    try:
        return sum((folder / name).stat().st_size for name in names)
    except OSError:
        return MAX_BYTES + 1
