"""consumer-loss and commit-regression: a group handles what is below its committed offset, which only grows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ...histories.references import SEMANTICS
from ...histories.tables import MAX_INT64, MIN_INT64, Evidence, Finding
from ..extremes import greatest, least
from ..partitions.absences import existing, existing_uncommitted
from ..partitions.adjacent_runs import adjacent_runs
from ..partitions.coordinators import committed_at_last, group_evidence
from ..partitions.entries import Mask
from ..partitions.indeterminate_polls import indeterminate_polls
from ..partitions.marks import IS_HANDLED
from ..partitions.partition import Offsets, Partition
from ..timelines.facts import SECOND
from ..wording import plural, short, some, some_values
from .group_commits import commits_of, groups_of, groups_or_clients, latest_before, lost_commits, with_begin
from .loss import lost_sends
from .rule import Proof, Result, Row, Rule, Unknown, finding, seconds, where


@Rule(
    "consumer-loss",
    group="consumers",
    summary="A group passed over records for good",
    example="p:a@0 p:b@1 c:<a@0 c:commit=2",
    source=SEMANTICS,
    needs=("groups",),
    assumes=("process clock",),
    explained_as="missed",
).judged_by
def consumer_loss(p: Partition) -> Iterator[Result]:
    """Records below the group's last committed offset, or below its first position, that no member handled.

    Breach: A record is below the group's last committed offset, and no member handled it by the end of the run. The
    offset that the group assigns proves a commit, too, and so does __consumer_offsets. Or the record is below the
    group's first position, which auto.offset.reset chose. A record that took the offset of a lost one counts too.
    Not a breach: Without handle events a poll counts as handling, and a transaction handles what it polls and commits.
    Where a seek or a committed offset chose the first position, nothing was skipped. Retention, delete-records or
    compaction had removed the record before the group passed it. Permitted: the skipped records are older than the
    group.
    Unknown when: Only other groups recorded handle events. A poll of a member without a known outcome may have returned
    the record. Only __consumer_offsets shows the commit, and a member of the group recorded nothing.
    """
    recorders = p.context.filter(kind="handles")["process"]
    for group, members in groups_of(p).items():
        commits = _with_unrecorded(p, members, commits_of(p, members))
        recorded_end = greatest(commits["offset"], 0)
        commits = _with_stored(p, group, commits)
        polled = p.reads.filter(pl.col("process").is_in(members))
        first, reset = _first_position(p, members, polled)
        existing_here = _existing_for_group(p, members, commits, first, polled)
        recorded = _handled(p, members, commits)
        handled = recorded if recorders.is_in(members).any() else recorded | _polled(p, members)
        # Missed: an entry that existed, below the last commit or the first position, that no member handled.
        offsets = p.entries["offset"].to_numpy()
        committed = int(commits["offset"][-1]) if len(commits) else 0
        is_passed = existing_here & (offsets < max(committed, first))
        missed = np.unique(offsets[is_passed & ~handled])
        done = np.setdiff1d(offsets[is_passed], missed)
        if len(recorders) and np.isin(done, offsets[existing_here & handled & ~recorded]).any():
            yield Unknown(f"no member of {_name_of(group)} recorded handle events of {p.name}, but other consumers did")
        hidden = indeterminate_polls(p, members).hold(missed)
        if hidden.any():
            yield Unknown(f"a poll of {p.name} by {_name_of(group)} has no known outcome")
            missed = missed[~hidden]
        # Records that a commit claims and records that the start skipped are separate findings. Where a seek or a
        # committed offset chose the start, nothing was skipped.
        skipped = missed[missed < first] if reset else missed[:0]
        claimed = missed[missed >= first]
        if (claimed >= recorded_end).any() and (silent := _unrecorded_members(p, group, members)):
            yield Unknown(f"members of {_name_of(group)} owned {p.name} and recorded nothing ({some(silent)})")
            claimed = claimed[claimed < recorded_end]
        yield from _claimed(p, group, commits, claimed, done)
        yield from _skipped(p, group, members, skipped, done)


def _first_position(p: Partition, members: list[str], polled: pl.DataFrame) -> tuple[int, bool]:
    """The offset at which the group began here, and whether auto.offset.reset chose it."""
    if not len(polled):
        return 0, False
    # Nothing was ever committed below a position that was set before the first poll.
    set_before = p.marks.filter(
        pl.col("process").is_in(members)
        & pl.col("kind").is_in(["assign", "seek"])
        & (pl.col("outcome") != "fail")
        & (pl.col("completed") <= polled["completed"].min())
        & pl.col("offset").is_not_null()
    )
    first = least(polled["offset"], 0)
    set_to = least(set_before["offset"], None)
    return (first, True) if set_to is None else (min(set_to, first), set_to > first)


def _claimed(p: Partition, group: str, commits: pl.DataFrame, missed: Offsets, done: Offsets) -> Iterator[Result]:
    for run in _runs(missed, done):
        covering = commits.filter(pl.col("offset") > int(run[-1]))
        covering = covering if len(covering) else commits.tail(1)
        # After a truncation, an earlier commit is of records that had these offsets before.
        sent = _sent_at(p, int(run[0]))
        since = covering if sent is None else covering.filter(pl.col("completed") >= sent)
        row = (since if len(since) else covering).row(0, named=True)
        is_recorded = row["kind"] == "commit"
        when = f"at {seconds(row['completed'])}" if is_recorded else f"before {seconds(row['completed'])}"
        proof: Proof = (f"{row['process']} commits {row['offset']}", row["at"])
        if row["kind"] == "assign":
            proof = (f"{row['process']} is assigned the committed offset {row['offset']}", row["at"])
        elif not is_recorded:
            proof = Evidence(f"commit of {row['offset']}", source=row["stored_in"], byte=row["stored_at"])
        yield _finding(
            p,
            group,
            run,
            f"{_name_of(group)} committed {p.name}@{row['offset']} {when}, but no member"
            f" handled the {plural(len(run), 'record')} at {where(p, int(run[0]), int(run[-1]))}"
            + ("" if len(since) else f", {'which was' if len(run) == 1 else 'which were'} sent later"),
            "violation",
            proof,
        )


def _sent_at(p: Partition, offset: int) -> int | None:
    """The time (ns) at which the send of the record now at an offset was invoked; None if not recorded."""
    held = p.sends.filter(pl.col("outcome") != "fail", offset=offset)
    return least(held.filter(~pl.col("value").is_in(lost_sends(p)["value"].implode()))["invoked"], None)


def _skipped(p: Partition, group: str, members: list[str], missed: Offsets, done: Offsets) -> Iterator[Result]:
    # A group that starts late with auto.offset.reset=latest is configured to skip older records.
    old = np.isin(missed, _older(p, members, missed))
    runs = [(run, older) for older in (False, True) for run in _runs(missed[old == older], done)]
    for run, older in runs:
        yield _finding(
            p,
            group,
            run,
            f"{_name_of(group)} began to read {p.name} behind {plural(len(run), 'record')} at"
            f" {where(p, int(run[0]), int(run[-1]))} and never handled "
            + ("it" if len(run) == 1 else "them")
            + (f" ({'it is' if len(run) == 1 else 'they are'} older than the group)" if older else ""),
            "permitted" if older else "violation",
        )


def _older(p: Partition, members: list[str], offsets: Offsets) -> Offsets:
    """The offsets with only records that were written before a member joined."""
    joining = pl.col("process").is_in(members) & pl.col("kind").is_in(["subscribe", "assign"])
    joined = least(p.context.filter(joining)["completed"], None)
    if joined is None:
        return offsets[:0]
    held = p.entries.filter(pl.col("offset").is_in(pl.Series(offsets).implode())).select("offset", "value")
    written = held.join(p.sends.select("value", "completed"), on="value")
    last = written.group_by("offset").agg(pl.col("completed").fill_null(MAX_INT64).max())
    return last.filter(pl.col("completed") < joined)["offset"].to_numpy()


def _name_of(group: str) -> str:
    return f"group {group}" if group else "a group (group.id is not set)"


def _finding(p: Partition, group: str, run: Offsets, sentence: str, severity: str, *evidence: Proof) -> Finding:
    first, last = int(run[0]), int(run[-1])
    lost = lost_sends(p)["value"]
    held = p.entries_between(first, last).filter(
        pl.col("offset").is_in(pl.Series(run).implode()) & ~pl.col("value").is_in(lost.implode())
    )
    sent = (
        p.sends.filter(pl.col("value").is_in(held["value"].implode()), offset=first)
        .head(1)
        .select("value", "at")
        .rows()
    )
    return finding(
        p,
        sentence + f" ({some_values(held['value'].to_list())})",
        (first, last),
        [*((f"{short(value)} acknowledged at offset {first}", at) for value, at in sent), *evidence],
        count=len(run),
        values=held["value"],
        processes=[group] if group else [],
        severity=severity,
    )


@Rule(
    "commit-regression",
    group="consumers",
    summary="A group's committed offset went back",
    example="p:a@0 p:b@1 c:<a@0,b@1 c:commit=2 c:commit=1",
    source=SEMANTICS,
    needs=("commits",),
    assumes=("process clock",),
    follows="value",
).judged_by
def commit_regression(p: Partition) -> Iterator[Result]:
    """Commits below an earlier one of the group, if no member moved back by seek or assign in between.

    Breach: A later commit of the group is below an earlier one. The offset that the group assigns proves a commit, too.
    After a truncation it follows from the loss. Or a commit succeeded, and all copies of __consumer_offsets at the end
    have only an older and lower one.
    Not a breach: A member called seek with a lower offset in between, or the application assigned it one. Of two
    commits that overlap in time, either may be the earlier. An assignment soon after the commit of a transaction, whose
    marker may follow.
    """
    for group, members in groups_or_clients(p):
        recorded = commits_of(p, members)
        yield from lost_commits(p, group, recorded)
        commits = _with_previous(pl.concat([recorded, _assigned_offsets(p, members)]))
        moves = p.marks.filter(
            pl.col("process").is_in(members)
            & ((pl.col("kind") == "seek") | ((pl.col("kind") == "assign") & ~pl.col("group")))
            & (pl.col("outcome") != "fail")
        )
        for row in commits.filter(pl.col("offset") < pl.col("previous_offset")).iter_rows(named=True):
            back = moves.filter(
                (pl.col("completed") >= row["previous_invoked"])
                & (pl.col("completed") <= row["completed"])
                & (pl.col("offset") <= row["offset"])
            )
            if len(back) or (row["kind"] == "assign" and row["previous_txn"]):
                continue
            yield finding(
                p,
                _went_back(p, group, row),
                (row["offset"], row["previous_offset"] - 1),
                [_proof_of_commit(row, which) for which in ("previous_", "")],
                values=_replaced_meanwhile(p, members, row["previous_completed"], row["completed"]),
                processes=[row["process"]],
            )


def _replaced_meanwhile(p: Partition, members: list[str], since: int, until: int) -> list[str]:
    """The first lost record at an offset where a member read another record between two commits (ns)."""
    again = p.reads.filter(pl.col("process").is_in(members), pl.col("completed").is_between(since, until))
    lost = p.entries.filter(pl.col("value").is_in(lost_sends(p)["value"].implode())).select("offset", "value")
    both = lost.join(again.select("offset", other="value"), on="offset").filter(pl.col("value") != pl.col("other"))
    return both.sort("offset")["value"].head(1).to_list()


def _proof_of_commit(row: Row, which: str) -> Proof:
    offset, at = row[f"{which}offset"], row[f"{which}at"]
    if row[f"{which}kind"] == "assign":
        return f"{row[f'{which}process']} is assigned the committed offset {offset}", at
    return f"commit of {offset}", at


def _went_back(p: Partition, group: str, row: Row) -> str:
    is_assigned, was_assigned = row["kind"] == "assign", row["previous_kind"] == "assign"
    if was_assigned:
        who = "it" if is_assigned else group
        before = f"{who} had assigned @{row['previous_offset']} to {row['previous_process']}"
    else:
        before = f"{row['previous_process']} had committed @{row['previous_offset']}"
    before += f" at {seconds(row['previous_completed'])}"
    at = f"{p.name}@{row['offset']}"
    if is_assigned:
        return f"group {group} assigned {at} to {row['process']} at {seconds(row['completed'])}, although {before}"
    return f"{row['process']} of group {group} committed {at} at {seconds(row['completed'])} after {before}"


def _assigned_offsets(p: Partition, members: list[str]) -> pl.DataFrame:
    """The assignments by the group from a committed offset, as rows of `p.marks`."""
    is_member = pl.col("process").is_in(members)
    return p.marks.filter(pl.col("group"), is_member, pl.col("offset").is_not_null(), kind="assign", outcome="ok")


def _with_previous(commits: pl.DataFrame) -> pl.DataFrame:
    """Each commit with the latest one that completed before it began: of two that overlap, either may be first."""
    previous = commits.sort("completed", "at", "index").select(
        pl.col("offset", "invoked", "completed", "at", "process", "kind", "txn").name.prefix("previous_")
    )
    return latest_before(with_begin(commits), previous, "previous_completed").sort("completed", "at", "index")


def _with_unrecorded(p: Partition, members: list[str], commits: pl.DataFrame) -> pl.DataFrame:
    """The commits, and group assignments after the last of them whose offset is greater.

    Such an offset was committed without a record: an automatic commit of a member that was killed before its callback.
    """
    assigned = _assigned_offsets(p, members).filter(
        pl.col("offset") > (commits["offset"][-1] if len(commits) else 0),
        pl.col("invoked") >= (commits["completed"][-1] if len(commits) else MIN_INT64),
    )
    return pl.concat([commits, assigned.sort("completed", "at", "index")])


def _with_stored(p: Partition, group: str, commits: pl.DataFrame) -> pl.DataFrame:
    """The commits, and the group's last committed offset in `__consumer_offsets` if it is greater than all of them."""
    last = committed_at_last(p).filter(pl.col("dated").is_not_null(), group=group)
    if not group or not len(last) or last["offset"].item() <= greatest(commits["offset"], -1):
        return commits
    row = last.row(0, named=True)
    # The coordinator's clock has milliseconds. Later is safe: what is gone by then was not skipped.
    time = max(row["dated"] + SECOND, greatest(commits["completed"], MIN_INT64))
    stored = {"process": group, "kind": "stored", "offset": row["offset"], "invoked": time, "completed": time}
    stored |= {"stored_in": row["file"], "stored_at": row["byte"]}
    return pl.concat([commits, pl.DataFrame([stored])], how="diagonal_relaxed")


def _unrecorded_members(p: Partition, group: str, members: list[str]) -> list[str]:
    """The member ids that own the partition by `__consumer_offsets`, and that no process recorded as its own."""
    known = [frame.filter(pl.col("process").is_in(members))["member"] for frame in (p.marks, p.context)]
    assigned = group_evidence(p).filter(pl.col("kind").is_in(["assigned", "owned"]), group=group)
    return sorted({*assigned["member"]} - {*pl.concat(known).drop_nulls()})


def _handled(p: Partition, members: list[str], commits: pl.DataFrame) -> Mask:
    """Entries that a member finished with.

    A transaction that commits the offsets of the records that it polled has handled them. After a loss, another record
    may take the offset; it must be handled too.
    """
    own = p.reads.select("at", "process").with_row_index("row").filter(_is_read_by(p, members) & p.reads["txn"])
    found = _at_rows(p, own.join(commits.select("at", "process"), on=["at", "process"], how="semi")["row"])
    done = p.marks.filter(IS_HANDLED & pl.col("process").is_in(members))
    entries = p.entries.select("offset", "value").with_row_index("row")
    found[entries.join(done, on=["offset", "value"], how="semi")["row"].to_numpy()] = True
    return found | _anything_at(p, done.filter(pl.col("value").is_null())["offset"])


def _polled(p: Partition, members: list[str]) -> Mask:
    """Entries that a member polled, but not in an aborted transaction: for groups without handle events."""
    return _at_rows(p, (_is_read_by(p, members) & ~(p.reads["txn"] & (p.reads["outcome"] == "fail"))).arg_true())


def _is_read_by(p: Partition, members: list[str]) -> pl.Series:
    return p.reads["process"].is_in(members)


def _at_rows(p: Partition, rows: pl.Series) -> Mask:
    """The entries of these rows of `reads`."""
    entry = p.entry_of_read[rows.to_numpy()]
    found = np.zeros(len(p.entries), bool)
    found[entry[entry >= 0]] = True
    return found | _anything_at(p, p.reads["offset"].gather(rows.filter(pl.Series(entry < 0))))


def _anything_at(p: Partition, offsets: pl.Series) -> Mask:
    """All entries at the offsets: without a recorded value any of them may be meant."""
    return np.asarray(p.entries["offset"].is_in(offsets.drop_nulls().unique().implode()).to_numpy())


def _existing_for_group(
    p: Partition, members: list[str], commits: pl.DataFrame, first: int, polled: pl.DataFrame
) -> Mask:
    """Entries that were visible to the group when it passed them, and that the log did not lose."""
    uncommitted = any(p.settings.reads_uncommitted(name) for name in members)
    held = existing_uncommitted(p) if uncommitted else existing(p)
    there = held.offsets[held.until > _passed(held.offsets, commits, first, polled)]
    visible = pl.lit(True) if uncommitted else p.committed
    lost = lost_sends(p)["value"]
    present = p.entries.select(visible & ~pl.col("value").is_in(lost.implode())).to_series().to_numpy()
    return np.asarray(present & np.isin(p.entries["offset"].to_numpy(), there))


def _passed(offsets: Offsets, commits: pl.DataFrame, first: int, polled: pl.DataFrame) -> Offsets:
    """The time (ns) when the group passed each offset: by a commit, or by its first poll, which began at `first`."""
    done = np.append(commits["completed"].to_numpy(), MAX_INT64)
    covered = np.searchsorted(np.maximum.accumulate(commits["offset"].to_numpy()), offsets, "right")
    skipped = np.where(offsets < first, least(polled["completed"], MAX_INT64), MAX_INT64)
    return np.asarray(np.minimum(done[covered], skipped))


def _runs(offsets: Offsets, between: Offsets) -> list[Offsets]:
    """Sorted offsets in runs without an offset of `between` inside."""
    return [run["offset"].to_numpy() for run in adjacent_runs(pl.DataFrame({"offset": offsets}), between)]
