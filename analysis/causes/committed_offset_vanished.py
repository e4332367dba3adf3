"""committed-offset-vanished: the group's committed offset was gone when it came back, and a reset skipped records.

A group coordinator deletes the offsets of a group that has had no member for offsets.retention.minutes. A group that
returns later starts like a new group. Deleting a group, or losing records of __consumer_offsets, also removes offsets.

Needs: a commit of the group at or below the records; a later assignment without a committed offset;
auto.offset.reset=latest of that member; and the group then started to read after the records.
"""

from __future__ import annotations

import polars as pl

from ..extremes import greatest
from ..timelines.facts import ordered
from .cases import NOT_THE_CASE, Attempt, Missed, Processes, needs
from .consumer_reset import PREVENTION, find_reset

CITATION = "KIP-211 (expiration of committed offsets, offsets.retention.minutes), KIP-186; GroupMetadataManager"
REMEDY = "offsets.retention.minutes above the longest absence of a group; auto.offset.reset=earliest or none."


def explain_missed(events: pl.DataFrame, missed: Missed, processes: Processes) -> Attempt:
    """Whether the group had committed an offset at or below the missed records, lost it, and was then reset."""
    reset = find_reset(events, missed, processes)
    if isinstance(reset, Attempt):
        # consumer-reset needs the same evidence.
        return NOT_THE_CASE
    commits = reset.commits.filter(f="commit")
    if not commits.height:
        return NOT_THE_CASE
    if reset.assigned["f"] == "assign-own":
        # The history records the committed offset only where the group assigns.
        return needs(f"the committed offset of group {missed.group} when {reset.assigned['process']} assigned itself")
    commit = commits.row(-1, named=True)
    if commit["first_offset"] is None or commit["first_offset"] > missed.first:
        return needs(f"why no member of {missed.group} handled records below its commit of {commit['first_offset']}")
    read = events.filter(pl.col("time") < reset.assigned["time"], f="poll")
    if greatest(read["last_offset"], missed.last) > missed.last:
        return NOT_THE_CASE
    text = f"{commit['process']} committed offset {commit['first_offset']} of {missed.name}"
    committed = missed.fact(commit, "committed", text)
    seconds = (reset.assigned["time"] - commit["time"]) / 1e9
    text = (
        f"{reset.assigned['process']} was assigned {missed.name} without a committed offset: the offset of group"
        f" {missed.group} had disappeared within {seconds:.0f} s (offsets.retention.minutes, or the group was deleted)"
    )
    vanished = missed.fact(reset.assigned, "assigned", text)
    retention = "offsets.retention.minutes longer than the group is ever without members"
    return Attempt(True, ordered([committed, vanished, reset.configured, reset.began]), [retention, *PREVENTION])
