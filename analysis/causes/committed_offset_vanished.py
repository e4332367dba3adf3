"""committed-offset-vanished: the group's committed offset was gone when it came back, so a reset moved the group.

A group coordinator deletes the offsets of a group that has had no member for offsets.retention.minutes. A group that
returns later starts like a new group. Deleting a group, or losing records of __consumer_offsets, also removes offsets.
auto.offset.reset then moves the group: to the end, so that it skips records, or to the beginning, so that it reads them
again.

Needs: a commit of the group, and a later assignment without a committed offset. For skipped records, the commit at or
below them, auto.offset.reset=latest of that member, and that the group then started to read after the records. For a
committed offset that went back, that this member read records below it again and committed the lower offset; and that
`__consumer_offsets` does not have both commits without a removal in between.
"""

from __future__ import annotations

import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ..extremes import greatest, least
from ..timelines.facts import SECOND, Fact, ordered
from .cases import NOT_THE_CASE, Attempt, Event, Missed, Processes, Regression, needs
from .commits_lost import PREVENTED_BY as AGAINST_LOST_COMMITS
from .consumer_reset import PREVENTED_BY, find_reset

CITATION = "KIP-211 (expiration of committed offsets, offsets.retention.minutes), KIP-186; GroupMetadataManager"
REMEDY = (
    "offsets.retention.minutes above the longest absence of a group; three replicas of __consumer_offsets, and no"
    " unclean elections of it; auto.offset.reset=earliest or none."
)
RETENTION = "offsets.retention.minutes longer than the group is ever without members"
DELETION = "deleting the offsets of a group, or the group, only if it is not to continue"
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
    vanished, measures = _vanished(missed, commit, reset.assigned)
    facts = [missed.committed_fact(commit), *vanished, reset.configured, reset.began]
    return Attempt(True, ordered(facts), [*measures, *PREVENTED_BY])


def explain_regression(events: pl.DataFrame, regression: Regression) -> Attempt:
    """Whether a member was assigned the partition without a committed offset, and then committed the lower one."""
    higher, lower, copies = regression.higher, regression.lower, regression.copies
    if lower is None or lower["f"] != "commit":
        return NOT_THE_CASE
    is_between = pl.col("time").is_between(higher["time"], lower["time"], closed="none")
    own = events.filter(is_between, process=lower["process"])
    assignments = own.filter(f="assign")
    if not len(assignments) or assignments["first_offset"][-1] is not None:
        return NOT_THE_CASE
    assigned = assignments.row(-1, named=True)
    # Polls of other offsets are left out of large partitions (screening/condense.py).
    polls = own.filter(pl.col("time") > assigned["time"], f="poll")
    polls = polls.filter(pl.col("first_offset") < regression.offset)
    if not len(polls):
        return NOT_THE_CASE
    if _still_has(copies, regression.offset, lower["first_offset"]):
        about = f"the committed offset {regression.offset} of {regression.name}"
        return needs(f"why the coordinator did not return {about}, which is in __consumer_offsets")
    began = polls.row(0, named=True)
    text = f"{began['process']} read {regression.name} from offset {began['first_offset']} on"
    vanished, measures = _vanished(regression, higher, assigned)
    return Attempt(True, ordered([regression.committed, *vanished, regression.fact(began, "polled", text)]), measures)


def _still_has(copies: pl.DataFrame, higher: int, lower: int) -> bool:
    """Whether the copies of __consumer_offsets have a commit of the higher offset, no removal, and then the lower."""
    commits = copies.filter(kind="committed")
    first = least(commits.filter(offset=higher)["at"], MAX_INT64)
    last = greatest(commits.filter(offset=lower)["at"], MIN_INT64)
    return first <= last and not len(copies.filter(pl.col("at").is_between(first, last), kind="removed"))


def _vanished(about: Missed | Regression, commit: Event, assigned: Event) -> tuple[list[Fact], list[str]]:
    """The facts that the committed offset had disappeared at an assignment, and the measures against it."""
    seconds = (assigned["time"] - commit["time"]) / 1e9
    reason, removed, measures = _reason(about, commit, assigned, seconds)
    text = f"{assigned['process']} was assigned {about.name} without a committed offset: the offset of group"
    text += f" {about.group} had disappeared within {seconds:.0f} s ({reason})"
    return [*removed, about.fact(assigned, "assigned", text)], measures


def _reason(
    about: Missed | Regression, commit: Event, assigned: Event, seconds: float
) -> tuple[str, list[Fact], list[str]]:
    """Why the offset disappeared, the fact of its removal if it is recorded, and the measures against it."""
    copies = about.copies
    between = pl.col("dated").is_between(commit["time"] - SECOND, assigned["time"] + SECOND)
    removals = copies.filter(between, kind="removed")
    if len(removals):
        row = removals.row(-1, named=True)
        text = f"the coordinator removed the committed offset of group {about.group} for {about.name}"
        removed = about.stored_fact(row, "removed", text)
        if row["dated"] - commit["time"] < (MIN_RETENTION_SECONDS - 1) * SECOND:
            return "a client deleted it: too soon for offsets.retention.minutes", [removed], [DELETION]
        return "it had expired, or was deleted", [removed], [RETENTION]
    lost = "__consumer_offsets lost the commit"
    if seconds < MIN_RETENTION_SECONDS:
        reason = f"too soon for offsets.retention.minutes: {lost}, or it was deleted"
        return reason, _next_commit(about, commit), AGAINST_LOST_COMMITS
    if len(copies) and not len(copies.filter(kind="committed", offset=commit["first_offset"])):
        reason = f"the brokers' copies have neither that commit nor its removal: {lost}, or compaction removed both"
        return reason, [], [*AGAINST_LOST_COMMITS, f"{RETENTION}, if it had expired"]
    return "offsets.retention.minutes, or the group was deleted", [], [RETENTION]


def _next_commit(about: Missed | Regression, commit: Event) -> list[Fact]:
    """The fact of the next commit in the copies of __consumer_offsets, if these are undamaged and lack this commit."""
    commits = about.copies.filter(kind="committed")
    later = commits.filter(pl.col("dated") >= commit["time"] - SECOND)
    if not about.copies["intact"].all() or len(commits.filter(offset=commit["first_offset"])) or not len(later):
        return []
    row = later.row(0, named=True)
    text = f"the next commit of group {about.group} for {about.name} in the brokers' copies of __consumer_offsets is"
    text += f" of offset {row['offset']}"
    return [about.stored_fact(row, "committed", text)]
