"""The groups of a partition with their members, their commits, and the commits that `__consumer_offsets` lost."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.tables import MIN_INT64, Evidence, Finding
from ..extremes import greatest, least
from ..partitions.coordinators import committed_at_last
from ..partitions.marks import IS_COMMIT, IS_OF_GROUP
from ..partitions.partition import Partition
from ..timelines.facts import SECOND
from .rule import finding, seconds


def groups_of(p: Partition) -> dict[str, list[str]]:
    """Groups that committed here, or that this partition was assigned to or taken from, each with its members.

    Consumers without a group.id (name "") may share a group, so they are one: a record that any of them handled is
    handled.
    """
    active = p.marks.filter(IS_OF_GROUP)
    groups: dict[str, list[str]] = {}
    for process in sorted(active["process"].unique()):
        groups.setdefault(p.settings.group_of(process), []).append(process)
    for process in sorted(p.settings.processes):
        group = p.settings.group_of(process)
        if group and group in groups and process not in groups[group]:
            groups[group].append(process)
    return groups


def groups_or_clients(p: Partition) -> list[tuple[str, list[str]]]:
    """The groups with their members. For the order of commits, a consumer without a group.id is a group of its own."""
    known = groups_of(p)
    alone = [(process, [process]) for process in known.pop("", [])]
    return [*known.items(), *alone]


def commits_of(p: Partition, members: list[str]) -> pl.DataFrame:
    """The ok commits of these processes, as rows of `p.marks` with an offset, in the order of completion."""
    return p.marks.filter(IS_COMMIT & pl.col("process").is_in(members)).sort("completed", "at", "index")


def with_begin(commits: pl.DataFrame) -> pl.DataFrame:
    """Adds `begun`, the earliest time (ns) at which each commit may have happened.

    An automatic commit happened some time before its callback, but after its process's automatic one before it.
    """
    seen = pl.when("auto").then("completed").shift(1).forward_fill().over("process")
    return commits.with_columns(begun=pl.when("auto").then(seen.fill_null(MIN_INT64) + 1).otherwise("invoked"))


def latest_before(commits: pl.DataFrame, earlier: pl.DataFrame, time: str) -> pl.DataFrame:
    """Commits with their `begun`, each with the last row of `earlier` that is before it; `time` orders those rows."""
    return commits.sort("begun", "at", "index").join_asof(
        earlier, left_on="begun", right_on=time, allow_exact_matches=False, coalesce=False, check_sortedness=False
    )


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
    end = greatest(p.replica_logs.extents.filter(snapshot=FINAL)["end"], 0)
    return least(p.sends.filter(pl.col("acknowledged") & (pl.col("invoked") > time))["offset"], end) < end
