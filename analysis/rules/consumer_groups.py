"""The groups of a partition: their members, their commits, and the records that they passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ...models.arrays import Mask
from ..extremes import greatest, least
from ..partitions.absences import Existing, existing, maybe_compacted
from ..partitions.marks import IS_COMMIT, IS_OF_GROUP, IS_REVOCATION_OF_ALL
from ..partitions.partition import Offsets, Partition, once
from ..wording import plural
from .gone_sends import gone_sends
from .rule import where

# Entries that the log lost: the final reads returned another value at the offset.
_IS_REPLACED = ~pl.col("in_final") & pl.col("in_final").any().over("offset")


@dataclass(frozen=True)
class Group:
    """A consumer group."""

    id: str  # group.id; empty: consumers without one
    members: tuple[str, ...]  # processes

    @property
    def is_member(self) -> pl.Expr:
        """Selects the rows of its members."""
        return pl.col("process").is_in(self.members)

    def __str__(self) -> str:
        return f"group {self.id}" if self.id else "a group (group.id is not set)"


@once
def groups_of(p: Partition) -> list[Group]:
    """Groups that committed here, or that this partition was assigned to or taken from.

    Consumers without a group.id may share a group, so they are one: a record that any of them handled is handled.
    """
    groups: dict[str, list[str]] = {}
    for process in sorted(p.marks.filter(IS_OF_GROUP)["process"].unique()):
        groups.setdefault(p.settings.group_of(process), []).append(process)
    for process in sorted(p.settings.processes):
        group = p.settings.group_of(process)
        if group and group in groups and process not in groups[group]:
            groups[group].append(process)
    return [Group(name, tuple(members)) for name, members in groups.items()]


def groups_or_clients(p: Partition) -> list[Group]:
    """The groups. For the order of commits, a consumer without a group.id is a group of its own."""
    groups = groups_of(p)
    alone = [Group(process, (process,)) for group in groups if not group.id for process in group.members]
    return [*(group for group in groups if group.id), *alone]


@once
def commits_of(p: Partition, group: Group) -> pl.DataFrame:
    """The ok commits of a group, as rows of `p.marks` with an offset, in the order of completion."""
    return p.marks.filter(IS_COMMIT & group.is_member).sort("completed", "at", "index")


def committing_producers(p: Partition, group: Group) -> list[str]:
    """Members without a group.id that commit in transactions and poll nothing here, so their group is not known.

    Offsets that a producer commits are of the group of its consumer, another process.
    """
    committing = p.marks.filter(IS_COMMIT & group.is_member & pl.col("txn"))["process"].unique()
    reading = {*p.reads["process"].unique()} if len(committing) else set()
    return sorted(name for name in {*committing} - reading if not p.settings.group_of(name))


def with_begin(p: Partition, commits: pl.DataFrame) -> pl.DataFrame:
    """Adds `begun`: the earliest time (ns) at which each commit may have happened.

    An automatic commit may have happened as soon as its process had polled the record below it. For example, the
    callbacks of 10 and of 20 both come at 30 s, but offset 19 was polled at 9 s: the commit of 20 counts from 9 s.
    """
    automatic = commits.filter("auto").select("process", pl.col("offset") - 1).unique()
    if not len(automatic):
        return commits.with_columns(begun="invoked")
    polls = p.reads.join(automatic, on=["process", "offset"], how="semi")
    polled = polls.group_by("process", pl.col("offset") + 1).agg(polled=pl.col("completed").min())
    commits = commits.join(polled, on=["process", "offset"], how="left", maintain_order="left")
    begun = pl.when("auto").then(pl.col("polled").fill_null(MIN_INT64)).otherwise("invoked")
    return commits.with_columns(begun=begun).drop("polled")


def latest_before(commits: pl.DataFrame, earlier: pl.DataFrame, time: str) -> pl.DataFrame:
    """Commits with their `begun`, each with the last row of `earlier` that is before it; `time` orders those rows."""
    return commits.sort("begun", "at", "index").join_asof(
        earlier, left_on="begun", right_on=time, allow_exact_matches=False, coalesce=False, check_sortedness=False
    )


def is_gone(p: Partition) -> pl.Expr:
    """Selects rows of values that are in `gone_sends`."""
    return pl.col("value").is_in(gone_sends(p)["value"].implode())


def existing_for_group(
    p: Partition, group: Group, commits: pl.DataFrame, first: int, polled: pl.DataFrame
) -> tuple[Mask, Mask]:
    """Entries that were visible to the group when it passed them, and that the log did not lose.

    The second mask has those that compaction may have removed before.
    """
    reads_uncommitted = any(p.settings.reads_uncommitted(name) for name in group.members)
    visible = pl.lit(True) if reads_uncommitted else p.committed
    present = p.entries.select(visible & ~is_gone(p) & ~_IS_REPLACED).to_series().to_numpy()

    def still_there(held: Existing) -> Mask:
        there = held.offsets[held.until > _passed(held.offsets, commits, first, polled)]
        return np.asarray(present & np.isin(p.entries["offset"].to_numpy(), there))

    existed = still_there(existing(p, reads_uncommitted))
    if not len(maybe_compacted(p)):
        return existed, np.zeros_like(existed)
    return existed, still_there(existing(p, reads_uncommitted, unless_compacted=True)) & ~existed


def truncated_meanwhile(p: Partition, group: Group, row: Mapping[str, Any]) -> list[str]:
    """The first lost record of a truncation that took a group back between two commits; empty without one.

    A member read another record at its offset. Or the log was cut below the earlier commit, so that the client's
    position was beyond the log's end, and a member read again what is below the later commit. An automatic commit
    happened some time before its callback: if the earlier one is automatic, a member may have read the other record
    before that, and a record between the two commits must be lost.
    """
    since, until = row["previous_completed"], row["completed"]
    again = p.reads.filter(group.is_member, pl.col("completed").is_between(since, until))
    lost = p.entries.filter(is_gone(p)).select("offset", "value")
    both = _replaced(lost, again)
    if not len(both) and row["previous_auto"]:
        below = lost.filter(pl.col("offset") < row["previous_offset"])
        if (below["offset"] >= row["offset"]).any():
            both = _replaced(below, p.reads.filter(group.is_member, pl.col("completed") <= until))
    if not len(both) and (again["offset"] < row["offset"]).any():
        is_cut_meanwhile = pl.min_horizontal("other_known", "later_end_done").is_between(since, until)
        both = gone_sends(p).filter(pl.col("offset") < row["previous_offset"], is_cut_meanwhile)
    return both.sort("offset")["value"].head(1).to_list()


def _replaced(lost: pl.DataFrame, reads: pl.DataFrame) -> pl.DataFrame:
    """The lost records (offset, value) with another record read at the same offset."""
    return lost.join(reads.select("offset", other="value"), on="offset").filter(pl.col("value") != pl.col("other"))


def sent_after_the_end(p: Partition, group: Group, offsets: Offsets) -> Offsets:
    """The offsets of records that were sent after all members of a group had left, or crashed, without a return.

    A member without a recorded move or commit may still be there.
    """
    if not len(offsets):
        return offsets
    is_move = pl.col("kind").is_in(["assign", "seek", "revoke", "commit"])  # plain handled records may be left out
    moves = p.marks.filter(group.is_member, is_move).select("process", "completed", "at", "kind")
    of_all = pl.col("kind").is_in(["assign", "subscribe", "crash"]) | IS_REVOCATION_OF_ALL
    context = p.context.filter(group.is_member, of_all)
    events = pl.concat([moves, context.select("process", "completed", "at", "kind")]).sort("completed", "at")
    last = events.group_by("process").last()
    if len(last) < len(group.members) or not last["kind"].is_in(["revoke", "crash"]).all():
        return offsets[:0]
    sends = p.sends.filter(
        pl.col("outcome") != "fail", ~is_gone(p), pl.col("offset").is_in(pl.Series(offsets).implode())
    )
    first = sends.group_by("offset").agg(pl.col("invoked").min())
    return first.filter(pl.col("invoked") > greatest(last["completed"], MIN_INT64))["offset"].to_numpy()


def compaction_reason(p: Partition, group: Group, offsets: Offsets) -> str:
    """The clause that compaction may have removed the records at these offsets before the group passed them."""
    records = f"{plural(len(offsets), 'record')} at {where(p, int(offsets[0]), int(offsets[-1]))}"
    reason = f"compaction may have removed {records} before {group} passed {'it' if len(offsets) == 1 else 'them'}"
    has_policy = "cleanup.policy" in p.settings.topic(p.topic)
    return reason if has_policy else f"{reason}, and run.json does not set cleanup.policy of {p.topic}"


def _passed(offsets: Offsets, commits: pl.DataFrame, first: int, polled: pl.DataFrame) -> Offsets:
    """The time (ns) when the group passed each offset: by a commit, or by its first poll, which began at `first`."""
    done = np.append(commits["completed"].to_numpy(), MAX_INT64)
    covered = np.searchsorted(np.maximum.accumulate(commits["offset"].to_numpy()), offsets, "right")
    skipped = np.where(offsets < first, least(polled["completed"], MAX_INT64), MAX_INT64)
    return np.asarray(np.minimum(done[covered], skipped))
