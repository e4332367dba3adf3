"""Folders of replicas beside the current ones: deleted soon, unassigned, or on their way to another disk.

Kafka names them `<topic>-<partition>.<32 hex digits>-delete`, `-stray` (KIP-858) and `-future` (KIP-113). They are not
the broker's log of the partition, so they are not judged, but they may have the only copy of a lost record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .missing_segments import SEGMENT, Folders
from .parts import Part
from .tables import FINAL

SUFFIX = r"\.[0-9a-f]{32}-(?P<leftover>delete|future|stray)"
_LEFTOVER = re.compile(rf".+-\d{{1,9}}{SUFFIX}")
MEANING = {
    "delete": "a replica that Kafka has deleted",
    "stray": "a replica that was no longer assigned to the broker",
    "future": "a copy on its way to another disk",
}


def leftover_of(folder: str) -> str:
    """What a folder of this name has, in words; empty for another folder."""
    found = _LEFTOVER.fullmatch(folder)
    return MEANING[found["leftover"]] if found else ""


def leftovers(folders: Folders) -> Iterator[Part]:
    """A part for each such folder with a segment, to report it."""
    for folder, (relative, names) in sorted(folders.items()):
        if (meaning := leftover_of(folder.name)) and any(map(SEGMENT.fullmatch, names)):
            yield Part(FINAL, "", "leftover", folder, relative.as_posix(), reason=f"is not judged: it is {meaning}")
