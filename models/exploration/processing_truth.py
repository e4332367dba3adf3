"""Counts the copies that a group made of its topic's records in a finished run."""

from __future__ import annotations

from typing import Any

from ..replication.cluster import Cluster
from .processing_invariants import committed_offsets, visible_copies


def processing_truth(cluster: Cluster) -> dict[str, Any] | None:
    """The numbers of records below the committed offsets, and of committed copies; None: the group copies nothing."""
    if not cluster.config.copies:
        return None
    handled = sum((committed_offsets(cluster) or {}).values())
    copies = visible_copies(cluster)
    return {
        "handled": handled,
        "copied": len(copies),
        "copied_twice": sum(number > 1 for number in copies.values()),
        "copies": copies.total(),
    }
