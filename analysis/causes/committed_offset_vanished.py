"""committed-offset-vanished: the group's committed offset was gone when it came back, and a reset skipped records.

A group coordinator deletes the offsets of a group that has had no member for offsets.retention.minutes. A group that
returns later starts like a new group. Deleting a group, or losing records of __consumer_offsets, also removes offsets.

Needs: a commit of the group at or below the records; a later assignment without a committed offset;
auto.offset.reset=latest of that member; and the group then started to read after the records.
"""

from __future__ import annotations

import polars as pl

from ..extremes import greatest
from ..timelines.facts import SECOND, Fact, ordered
from .cases import NOT_THE_CASE, Attempt, Event, Missed, Processes, needs
from .commits_lost import PREVENTED_BY as AGAINST_LOST_COMMITS
from .consumer_reset import PREVENTED_BY, find_reset

CITATION = "KIP-211 (expiration of committed offsets, offsets.retention.minutes), KIP-186; GroupMetadataManager"
REMEDY = (
    "offsets.retention.minutes above the longest absence of a group; three replicas of __consumer_offsets, and no"
    " unclean elections of it; auto.offset.reset=earliest or none."
)
RETENTION = "offsets.retention.minutes longer than the group is ever without members"
MIN_RETENTION_SECONDS = 60  # the setting has whole minutes


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
    reason, removed, measures = _reason(missed, commit, reset.assigned, seconds)
    text = f"{reset.assigned['process']} was assigned {missed.name} without a committed offset: the offset of group"
    text += f" {missed.group} had disappeared within {seconds:.0f} s ({reason})"
    vanished = missed.fact(reset.assigned, "assigned", text)
    facts = [committed, *removed, vanished, reset.configured, reset.began]
    return Attempt(True, ordered(facts), [*measures, *PREVENTED_BY])


def _reason(missed: Missed, commit: Event, assigned: Event, seconds: float) -> tuple[str, list[Fact], list[str]]:
    """Why the offset disappeared, the fact of its removal if it is recorded, and the measures against it."""
    copies = missed.copies
    if len(copies):
        between = pl.col("dated").is_between(commit["time"] - SECOND, assigned["time"] + SECOND)
        removals = copies.filter(between, kind="removed")
        if len(removals):
            text = f"the coordinator removed the committed offset of group {missed.group} for {missed.name}"
            removed = missed.stored_fact(removals.row(-1, named=True), "removed", text)
            return "it had expired, or was deleted", [removed], [RETENTION]
    lost = "__consumer_offsets lost the commit"
    if seconds < MIN_RETENTION_SECONDS:
        reason = f"too soon for offsets.retention.minutes: {lost}, or it was deleted"
        return reason, _next_commit(missed, commit), AGAINST_LOST_COMMITS
    if len(copies) and not len(copies.filter(kind="committed", offset=commit["first_offset"])):
        reason = f"the brokers' copies have neither that commit nor its removal: {lost}, or compaction removed both"
        return reason, [], [*AGAINST_LOST_COMMITS, f"{RETENTION}, if it had expired"]
    return "offsets.retention.minutes, or the group was deleted", [], [RETENTION]


def _next_commit(missed: Missed, commit: Event) -> list[Fact]:
    """The fact of the next commit in the copies of __consumer_offsets, if these are undamaged and lack this commit."""
    copies = missed.copies
    if not len(copies):
        return []
    commits = copies.filter(kind="committed")
    later = commits.filter(pl.col("dated") >= commit["time"] - SECOND)
    if not copies["intact"].all() or len(commits.filter(offset=commit["first_offset"])) or not len(later):
        return []
    row = later.row(0, named=True)
    text = f"the next commit of group {missed.group} for {missed.name} in the brokers' copies of __consumer_offsets is"
    text += f" of offset {row['offset']}"
    return [missed.stored_fact(row, "committed", text)]
