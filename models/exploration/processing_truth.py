"""Counts the copies that a group made of its topic's records in a finished run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..replication.cluster import Cluster
from .processing_invariants import committed_offsets, dated_copies, visible_copies


def processing_truth(cluster: Cluster) -> dict[str, Any] | None:
    """The numbers of records below the committed offsets, and of committed copies; None: the group copies nothing."""
    if cluster.config.processing == "none":
        return None
    handled = sum((committed_offsets(cluster) or {}).values())
    copies = visible_copies(cluster)
    return {
        "handled": handled,
        "copied": len(copies),
        "copied_twice": sum(number > 1 for number in copies.values()),
        "copies": copies.total(),
    }


@dataclass(frozen=True, slots=True)
class Copied:
    """Neighbouring sources of a partition that were copied at one time, for the first time or again."""

    partition: int
    low: int  # offsets of the sources, `high` included
    high: int
    time: int  # microseconds
    is_repeated: bool


def copied_ranges(cluster: Cluster) -> list[Copied]:
    """The committed copies of a finished run in order of time, as few ranges."""
    found: list[Copied] = []
    seen: set[tuple[int, int]] = set()
    for time, (partition, offset) in sorted(dated_copies(cluster)):
        is_repeated = (partition, offset) in seen
        seen.add((partition, offset))
        last = found[-1] if found else None
        if last is not None and last == Copied(partition, last.low, offset - 1, time, is_repeated):
            found[-1] = replace(last, high=offset)
        else:
            found.append(Copied(partition, offset, offset, time, is_repeated))
    return found


INTRODUCTION = """\
The same application copies the same records from topic to topic under the same faults, exactly once and at least once.
Handled: records below the group's committed offset. Copied once, copied more than once: records with one committed
copy, and with several."""


def table(clusters: Mapping[str, Cluster]) -> str:
    """Finished runs side by side, in Markdown, by what they are called."""
    lines = ["| run | handled | copied once | copied more than once |", "|---|--:|--:|--:|"]
    for name, cluster in clusters.items():
        known = processing_truth(cluster)
        assert known is not None
        once = known["copied"] - known["copied_twice"]
        lines.append(f"| {name} | {known['handled']} | {once} | {known['copied_twice']} |")
    return "\n".join(lines)
