"""What shows that events of a group's members are missing from the history, as where a client's file was cut."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...models.arrays import Mask
from ..partitions.indeterminate_polls import lacks_lines, may_lack_operations
from ..partitions.marks import IS_COMMITTED
from ..partitions.partition import Offsets, Partition
from ..partitions.ranges import union_of
from ..wording import some
from .consumer_groups import Group


def reason_for_missing_events(p: Partition, group: Group) -> str:
    """The sign that events of the members are missing, as a clause; empty without one."""
    if reason := lacks_lines(p):
        return f"{reason}, so lines of {group} may be missing"
    if may_lack_operations(p):
        return f"lines that may be of {group} could not be read"
    if late := _polled_before_assignment(p, group) if group.id else []:
        return f"{some(late)} of {group} polled {p.name} before any recorded assignment: were earlier lines lost?"
    return ""


def _polled_before_assignment(p: Partition, group: Group) -> list[str]:
    """The members whose first poll is before their first recorded assignment, if another member recorded one.

    A group assigns partitions before it returns records, so the lines before that poll are missing.
    """
    moves = p.context.filter(group.is_member, pl.col("kind").is_in(["subscribe", "assign"]))
    assigned = moves.group_by("process").agg(assigned=pl.col("completed").min())
    polled = p.reads.filter(group.is_member).group_by("process").agg(polled=pl.col("completed").min())
    is_late = pl.col("assigned").is_null() | (pl.col("assigned") > pl.col("polled"))
    late = {*polled.join(assigned, on="process", how="left").filter(is_late)["process"]}
    return sorted(late) if {*assigned["process"]} - late else []


def below_unrecorded_commits(p: Partition, group: Group, commits: pl.DataFrame, missed: Offsets) -> tuple[Mask, str]:
    """A mask of missed records below a commit that no member recorded, and what shows this commit.

    A client records automatic and asynchronous commits at their callback, and all others before the call. If members
    only make such calls, and an assignment or __consumer_offsets shows an offset that none of them committed, events
    of a member are missing, or a tool reset the offset.
    """
    settings = [p.settings.processes.get(name, {}) for name in group.members]
    calls = p.marks.filter(group.is_member, pl.col("outcome") != "fail", pl.col("offset").is_not_null(), kind="commit")
    may_commit_later = any(str(own.get("enable.auto.commit")).lower() != "false" for own in settings)
    if may_commit_later or not len(calls) or calls["auto"].fill_null(False).any():
        return np.zeros(len(missed), bool), ""
    assigned = p.marks.filter(IS_COMMITTED & group.is_member, kind="assign")["offset"]
    shown = pl.concat([assigned, commits.filter(kind="stored")["offset"]]).unique()
    unrecorded = shown.filter(~shown.is_in(calls["offset"].implode())).sort()
    known = np.append(0, calls["offset"].sort().to_numpy())
    since = known[np.searchsorted(known, unrecorded.to_numpy(), "right") - 1]
    offsets = some([f"{p.name}@{offset}" for offset in unrecorded.to_list()])
    reason = f"{group} has a commit of {offsets} that no member recorded, though enable.auto.commit is false"
    return (
        union_of(since, unrecorded.to_numpy() - 1).hold(missed),
        f"{reason}: were lines of a member lost, or the offsets reset?",
    )
