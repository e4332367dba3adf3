"""commit-regression: a group's committed offset only grows."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.references import SEMANTICS
from ...histories.tables import Evidence, Finding
from ..extremes import greatest, least
from ..partitions.coordinators import committed_at_last
from ..partitions.marks import IS_COMMITTED
from ..partitions.partition import Partition
from ..timelines.facts import SECOND
from ..wording import plural, some
from .consumer_groups import (
    Group,
    commits_of,
    committing_producers,
    groups_of,
    groups_or_clients,
    latest_before,
    truncated_meanwhile,
    with_begin,
)
from .rule import EvidenceLike, MissingSetting, Result, Row, Rule, finding, seconds, where

REPLICAS = 3  # of `__consumer_offsets`, by default


@Rule(
    "commit-regression",
    group="consumers",
    summary="A group's committed offset went back",
    example="p:a@0 p:b@1 c:<a@0,b@1 c:commit=2 c:commit=1",
    source=SEMANTICS,
    needs=("commits",),
    assumes=("process clock",),
    follows="value",
    explained_as="regression",
).judged_by
def commit_regression(p: Partition) -> Iterator[Result]:
    """Commits below an earlier one of the group, if no member moved back by seek or assign in between.

    Breach: A later commit of the group is below an earlier one. The offset that the group assigns proves a commit, too.
    After a truncation it follows from the loss, also if the earlier one is automatic and its callback came later. Or a
    commit succeeded, and all copies of __consumer_offsets at the end have only an older and lower one. A note: two
    committed transactions of the group polled a record and committed an offset after it, so the application processed
    it twice.
    Not a breach: A member called seek with a lower offset in between, or the application assigned it one. Of two
    commits that overlap in time, either may be the earlier. An assignment soon after the commit of a transaction, whose
    marker may follow.
    Unknown when: run.json does not set group.id of a producer that commits in transactions, or of two consumers that
    would break the rule if they were of one group.
    """
    for group in groups_or_clients(p):
        recorded = commits_of(p, group)
        yield from _lost_commits(p, group, recorded)
        yield from _handled_twice(p, group)
        for row in _steps_back(p, group):
            if row["process"] in committing_producers(p, group):
                yield MissingSetting(f"group.id of {row['process']}")
                continue
            yield finding(
                p,
                _went_back(p, group, row),
                (row["offset"], row["previous_offset"] - 1),
                [_proof_of_commit(row, prefix) for prefix in ("previous_", "")],
                values=truncated_meanwhile(p, group, row),
                processes=[row["process"]],
            )
    for group in groups_of(p):
        if not group.id:
            together = [row for row in _steps_back(p, group) if row["process"] != row["previous_process"]]
            members = {row[name] for row in together for name in ("process", "previous_process")}
            yield from (MissingSetting(f"group.id of {name}") for name in sorted(members))


def _steps_back(p: Partition, group: Group) -> Iterator[Row]:
    """The commits of a group below an earlier one, if no member had moved back by seek or assign in between."""
    commits = _with_previous(p, p.marks.filter(IS_COMMITTED & group.is_member))
    is_set_by_application = (pl.col("kind") == "seek") | ((pl.col("kind") == "assign") & ~pl.col("group"))
    moves = p.marks.filter(group.is_member & is_set_by_application & (pl.col("outcome") != "fail"))
    for row in commits.filter(pl.col("offset") < pl.col("previous_offset")).iter_rows(named=True):
        back = moves.filter(
            pl.col("completed").is_between(row["previous_invoked"], row["completed"])
            & (pl.col("offset") <= row["offset"])
        )
        if not len(back) and not (row["kind"] == "assign" and row["previous_txn"]):
            yield row


def _proof_of_commit(row: Row, prefix: str) -> EvidenceLike:
    offset, at = row[f"{prefix}offset"], row[f"{prefix}at"]
    if row[f"{prefix}kind"] == "assign":
        return f"{row[f'{prefix}process']} is assigned the committed offset {offset}", at
    return f"commit of {offset}", at


def _went_back(p: Partition, group: Group, row: Row) -> str:
    is_assigned, was_assigned = row["kind"] == "assign", row["previous_kind"] == "assign"
    before = f"{row['previous_process']} had committed @{row['previous_offset']}"
    if was_assigned:
        who = "it" if is_assigned else group.id
        before = f"{who} had assigned @{row['previous_offset']} to {row['previous_process']}"
    before += f" at {seconds(row['previous_completed'])}"
    at = f"{p.name}@{row['offset']}"
    if is_assigned:
        return f"{group} assigned {at} to {row['process']} at {seconds(row['completed'])}, although {before}"
    return f"{row['process']} of {group} committed {at} at {seconds(row['completed'])} after {before}"


def _with_previous(p: Partition, commits: pl.DataFrame) -> pl.DataFrame:
    """Each commit with the latest one that completed before it began: of two that overlap, either may be first.

    The automatic commits of a process happened in the order of their callbacks, so the one before counts, too, if it is
    greater, or surely the later of the two.
    """
    commits = with_begin(p, commits.sort("completed", "at", "index"))
    columns = ("offset", "invoked", "completed", "begun", "at", "process", "kind", "txn", "auto")
    previous = commits.select(pl.col(columns).name.prefix("previous_"))
    latest = latest_before(commits, previous, "previous_completed").sort("completed", "at", "index")
    if not commits["auto"].any():
        return latest
    own = commits.select(pl.when("auto").then(pl.col(columns).shift(1).over("auto", "process")).name.prefix("own_"))
    is_own = (pl.col("own_offset") > pl.col("offset")) | (pl.col("own_begun") > pl.col("previous_completed"))
    return pl.concat([latest, own], how="horizontal").with_columns(
        pl.when(is_own).then(f"own_{name}").otherwise(f"previous_{name}").alias(f"previous_{name}") for name in columns
    )


def _handled_twice(p: Partition, group: Group) -> Iterator[Finding]:
    """A note if two committed transactions of a group each polled a record and committed an offset after it."""
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


def _lost_commits(p: Partition, group: Group, commits: pl.DataFrame) -> Iterator[Finding]:
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
