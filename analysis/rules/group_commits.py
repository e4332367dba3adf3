"""The groups of a partition with their members, their commits, and the commits that `__consumer_offsets` lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.tables import MIN_INT64, Evidence, Finding
from ...models.arrays import Mask
from ..extremes import greatest, least
from ..partitions.coordinators import committed_at_last
from ..partitions.marks import IS_COMMIT, IS_COMMITTED, IS_OF_GROUP
from ..partitions.partition import Offsets, Partition, once
from ..timelines.facts import SECOND
from ..wording import plural, some
from .rule import finding, seconds, where


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


def handled_twice(p: Partition, group: Group) -> Iterator[Finding]:
    """A note if two committed transactions of a group each polled a record and committed an offset behind it."""
    committed = commits_of(p, group).filter("txn").group_by("at").agg(until=pl.col("offset").max())
    if len(committed) < 2:
        return
    polled = p.reads.filter(group.is_member & pl.col("txn"), outcome="ok").join(
        committed, on="at", maintain_order="left"
    )
    handled = polled.filter(pl.col("offset") < pl.col("until")).unique(["at", "offset", "value"], maintain_order=True)
    polls = handled.group_by("offset", "value", maintain_order=True).agg("process", "at")
    again = polls.filter(pl.col("at").list.len() > 1).sort("offset", maintain_order=True)
    if not len(again):
        return
    first, last = int(again["offset"][0]), int(again["offset"][-1])
    them = "it" if len(again) == 1 else "them"
    members = again["process"].explode().unique().sort().to_list()
    of_group = f" of {group}" if p.settings.group_of(group.members[0]) else ""
    yield finding(
        p,
        f"several committed transactions of {some(members)}{of_group} polled {where(p, first, last)}"
        f" ({plural(len(again), 'record')}), and each committed an offset behind {them}: the application processed"
        f" {them} more than once",
        (first, last),
        [
            (f"{process} reads offset {first}", at)
            for process, at in zip(again["process"][0][:2], again["at"][0][:2], strict=True)
        ],
        count=len(again),
        processes=members,
        severity="note",
    )


def handled_in_doubt(p: Partition, group: Group, missed: Offsets) -> tuple[Mask, Mask]:
    """Masks of missed records that a transaction of unknown outcome handled: surely, or if it committed.

    A transaction handles what members polled since the group's last commit before it, up to the offset that it commits.
    It committed if the group assigns this offset and no other commit of it is recorded.
    """
    is_open = (pl.col("kind") == "commit") & (pl.col("outcome") == "info") & pl.col("txn")
    in_doubt = p.marks.filter(is_open & group.is_member, pl.col("offset").is_not_null())
    surely, perhaps = np.zeros(len(missed), bool), np.zeros(len(missed), bool)
    if not len(in_doubt):
        return surely, perhaps
    known = p.marks.filter(IS_COMMITTED & group.is_member).sort("completed", "at", "index")
    own, assigned = known.filter(kind="commit")["offset"], known.filter(kind="assign")["offset"]
    since = latest_before(with_begin(p, in_doubt), known.select(since="offset", known_at="completed"), "known_at")
    polled = p.reads.filter(group.is_member, pl.col("offset").is_in(pl.Series(missed).implode()))
    for row in since.iter_rows(named=True):
        before = polled.filter(pl.col("completed") <= row["completed"])["offset"]
        within = np.isin(missed, before) & (missed >= (row["since"] or 0)) & (missed < row["offset"])
        did_commit = row["offset"] in assigned and row["offset"] not in own
        (surely if did_commit else perhaps)[within] = True
    return surely, perhaps


REPLICAS = 3  # of `__consumer_offsets`, by default


def lost_commits(p: Partition, group: Group, commits: pl.DataFrame) -> Iterator[Finding]:
    """One finding if the group's last recorded commit is above its last one in the brokers' final copies.

    Their record must be older than the commit: a later one is a commit that the history does not have. Commits of
    transactions are left out, as they count from a marker that follows.
    """
    stored = committed_at_last(p).filter(pl.col("dated").is_not_null(), group=group.id)
    plain = commits.filter(~pl.col("txn"))
    if not group.id or not len(stored) or not len(plain):
        return
    row, last = stored.row(0, named=True), plain.row(-1, named=True)
    is_older = row["dated"] < last["invoked"] - SECOND
    if not is_older or row["offset"] >= last["offset"] or last["auto"]:
        return
    if not _has_all_copies(p, group) or not _copied_after(p, last["completed"]):
        return
    yield finding(
        p,
        f"{last['process']} of {group} committed {p.name}@{last['offset']} at {seconds(last['completed'])}, but"
        f" the last commit in __consumer_offsets is @{row['offset']}, of {seconds(row['dated'])}",
        (row["offset"], last["offset"] - 1),
        [
            (f"commit of {last['offset']}", last["at"]),
            Evidence.in_file(f"the last commit in the brokers' copies: {row['offset']}", row),
        ],
        processes=[last["process"]],
    )


def _has_all_copies(p: Partition, group: Group) -> bool:
    """Whether every replica of the group's log was collected: the default number, or one of each broker."""
    copies = {*p.groups.filter(snapshot=FINAL, group=group.id)["broker"]}
    events = p.timeline.events if p.timeline is not None else ()
    known = {event.broker for event in events if event.kind == "unfenced"}
    return len(copies) >= REPLICAS or (bool(known) and copies >= known)


def _copied_after(p: Partition, time: int) -> bool:
    """Whether the final copies have a record of this partition that was acknowledged after a time (ns)."""
    if p.replica_logs is None or p.replica_logs.last != FINAL:
        return False
    end = greatest(p.replica_logs.extents.filter(snapshot=FINAL)["end"], 0)
    return least(p.sends.filter(pl.col("acknowledged") & (pl.col("invoked") > time))["offset"], end) < end
