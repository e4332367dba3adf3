"""Refuses copies of partitions' folders under names of their own, such as orders-0-b1 and broker1-orders-0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from .duplicate_copies import topic_ids
from .parts import IN_PARTITION, Part


def refuse_misplaced_folders(path: Path, parts: Sequence[Part]) -> None:
    """Raises InputError for files at a path with names that hide their broker or partition.

    That is for segments without a partition's folder, and nothing else to judge, and for folders of several topics with
    one topic id, if all topics are so: no topic is ever renamed.
    """
    misplaced = [part.name for part in parts if part.kind == "misplaced"]
    if misplaced and all(part.kind in ("misplaced", "properties") for part in parts):
        raise InputError(str(path), f"segments in no partition's folder ({_first(misplaced)})", IN_PARTITION)
    names: dict[str, set[str]] = defaultdict(set)
    for _, topic, topic_id in topic_ids(parts):
        names[topic_id].add(topic)
    if names and all(len(found) > 1 for found in names.values()):
        topic_id, found = min(names.items())
        raise InputError(str(path), f"one topic id ({topic_id}) in folders of {_first(sorted(found))}", IN_PARTITION)


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + ", …" * (len(names) > 3)
