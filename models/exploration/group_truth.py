"""Counts the generations, commits and repeated records of a group in a finished run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..replication.cluster import Cluster
from .processing_invariants import committed_offsets


def group_truth(cluster: Cluster) -> dict[str, Any] | None:
    """Numbers of generations, commits and records handled again, and the longest time without an owner.

    That time counts from a partition's first owner to the end of the run, in microseconds. None if there is no group.
    """
    if not cluster.config.has_group:
        return None
    group = cluster.group
    partitions = range(cluster.config.partitions)
    lag = {"behind": _lag(cluster)} if cluster.config.poison != "none" else {}
    return {
        "generations": len(group.generations),
        "commits": len(group.acknowledged),
        "handled_again": sum(map(count_repeats, group.handled.values())),
        "longest_without_owner": max((_longest_gap(cluster, partition) for partition in partitions), default=0),
        **lag,
    }


def _lag(cluster: Cluster) -> int:
    """The number of records from the committed offsets to the ends of the logs."""
    done = committed_offsets(cluster) or {}
    ends = enumerate(cluster.log_ranges()[: cluster.config.partitions])
    return sum(log.end - max(log.start, done.get(partition, 0)) for partition, log in ends if log is not None)


def count_repeats(ranges: Iterable[Sequence[int]]) -> int:
    """The number of times that offsets were handled again. Ranges: the first offset and that after the last."""
    known = [(base, end) for base, end in ranges]
    return sum(end - base for base, end in known) - len({o for base, end in known for o in range(base, end)})


def _longest_gap(cluster: Cluster, partition: int) -> int:
    ownerships = sorted(
        (owned.since, owned.until) for owned in cluster.group.ownerships if owned.partition == partition
    )
    longest, owned_until = 0, ownerships[0][0] if ownerships else cluster.loop.now
    for since, until in ownerships:
        longest = max(longest, since - owned_until)
        owned_until = max(owned_until, until)
    return max(longest, cluster.loop.now - owned_until)
