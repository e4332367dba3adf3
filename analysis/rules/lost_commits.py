"""Commits that succeeded and that `__consumer_offsets` lost, as it does by an unclean election of its leader."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.tables import Evidence, Finding
from ..partitions.group_evidence import committed_at_last
from ..partitions.partition import Partition
from ..timelines.facts import SECOND
from .findings import finding, seconds

REPLICAS = 3  # of `__consumer_offsets`, by default


def lost_commits(p: Partition, group: str, commits: pl.DataFrame) -> Iterator[Finding]:
    """One finding if the group's last recorded commit is above its last one in the brokers' final copies.

    Their record must be older than the commit: a later one is a commit that the history does not have. Commits of
    transactions are left out, as they count from a marker that follows.
    """
    stored = committed_at_last(p).filter(pl.col("dated").is_not_null(), group=group)
    plain = commits.filter(~pl.col("txn"))
    if not group or not len(stored) or not len(plain):
        return
    row, last = stored.row(0, named=True), plain.row(-1, named=True)
    is_older = row["dated"] < last["invoked"] - SECOND
    if not is_older or row["offset"] >= last["offset"] or last["auto"]:
        return
    if not _has_all_copies(p, group) or not _copied_after(p, last["completed"]):
        return
    yield finding(
        p,
        f"{last['process']} of group {group} committed {p.name}@{last['offset']} at {seconds(last['completed'])}, but"
        f" the last commit in __consumer_offsets is @{row['offset']}, of {seconds(row['dated'])}",
        (row["offset"], last["offset"] - 1),
        [
            (f"commit of {last['offset']}", last["at"]),
            Evidence(f"the last commit in the brokers' copies: {row['offset']}", source=row["file"], byte=row["byte"]),
        ],
        processes=[last["process"]],
    )


def _has_all_copies(p: Partition, group: str) -> bool:
    """Whether every replica of the group's log was collected: the default number, or one of each broker."""
    copies = {*p.groups.filter(snapshot=FINAL, group=group)["broker"]}
    events = p.timeline.events if p.timeline is not None else ()
    known = {event.broker for event in events if event.kind == "unfenced"}
    return len(copies) >= REPLICAS or (bool(known) and copies >= known)


def _copied_after(p: Partition, time: int) -> bool:
    """Whether the final copies have a record of this partition that was acknowledged after a time (ns)."""
    if p.replica_logs is None or p.replica_logs.last != FINAL:
        return False
    end = p.replica_logs.extents.filter(snapshot=FINAL)["end"].max()
    later = p.sends.filter(pl.col("acknowledged") & (pl.col("invoked") > time))["offset"].min()
    return isinstance(end, int) and isinstance(later, int) and later < end
