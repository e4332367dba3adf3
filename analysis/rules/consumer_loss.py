"""consumer-loss: a group handles all records below its committed offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from ...histories.references import SEMANTICS
from ...histories.tables import MAX_INT64, MIN_INT64, Evidence, Finding
from ...models.arrays import Mask
from ..extremes import greatest, least
from ..partitions.adjacent_runs import adjacent_runs
from ..partitions.coordinators import committed_at_last, group_evidence
from ..partitions.indeterminate_polls import indeterminate_polls, within_polls
from ..partitions.marks import IS_COMMITTED, IS_HANDLED
from ..partitions.partition import Offsets, Partition
from ..timelines.facts import SECOND
from ..wording import definite, plural, short, some, some_values
from .consumer_groups import (
    Group,
    commits_of,
    committing_producers,
    compaction_reason,
    existing_for_group,
    groups_of,
    is_gone,
    latest_before,
    sent_after_the_end,
    with_begin,
)
from .missing_events import below_unrecorded_commits, reason_for_missing_events
from .rule import EvidenceLike, MissingSetting, Result, Rule, Unknown, finding, seconds, where


@Rule(
    "consumer-loss",
    group="consumers",
    summary="A group skipped records for good",
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
    group's first position, which auto.offset.reset chose. A record that replaced a lost one counts, too. It is
    a note if all members had left or crashed before it was sent: no member has skipped it yet.
    Not a breach: Without handle events a poll counts as handling, and a transaction handles what it polls and commits.
    A transaction of unknown outcome handled what members had polled, if the group then assigns the offset that it
    commits. A member handled the value at another offset. Where a seek or a committed offset chose the first position,
    nothing was skipped. Retention, delete-records or compaction had removed the record before the group passed it.
    Permitted: the skipped records are older than the group.
    Unknown when: One of these holds:
    - Only other groups recorded handle events.
    - A poll of a member without a known outcome may have returned the record.
    - A transaction of unknown outcome commits an offset after the record, which a member had polled.
    - A handle of a member has neither an outcome nor records, or two lines of the history could not be read.
    - The history lacks lines: it has completions without an invocation, no event of the final reader of run.json, or a
      poll of a member before its assignment, though other members recorded theirs.
    - No member recorded the commit that an assignment or __consumer_offsets shows, though all members have
      enable.auto.commit=false, and recorded no commit at its callback.
    - Only __consumer_offsets shows the commit, and a member of the group recorded nothing, or the history ends before.
    - run.json does not set group.id of a producer that commits in transactions, and some process handled the record.
    - Compaction may have removed the record: run.json does not set cleanup.policy, a later record has its key, and the
      final reads did not return it.
    """
    recorders = p.context.filter(kind="handles")["process"]
    offsets = p.entries["offset"].to_numpy()
    for group in groups_of(p):
        known = _with_unrecorded(p, group, commits_of(p, group))
        commits = _with_stored(p, group, known)
        polled = p.reads.filter(group.is_member)
        first, is_reset = _first_position(p, group, polled)
        existed, may_have_existed = existing_for_group(p, group, commits, first, polled)
        is_below = offsets < max(first, int(commits["offset"][-1]) if len(commits) else 0)
        is_passed = existed & is_below
        recorded = _handled_entries(p, group, commits)
        handled = recorded if recorders.is_in(group.members).any() else recorded | _polled_entries(p, group)
        handled = handled | _with_handled_value(p, handled)
        records = p.entries.filter(is_passed & ~handled)
        missed = np.unique(records["offset"].to_numpy())
        doubtful = np.unique(offsets[may_have_existed & is_below & ~handled])
        if len(doubtful):
            yield Unknown(compaction_reason(p, group, doubtful))
        handled_offsets = np.setdiff1d(offsets[is_passed], missed)
        if len(recorders) and np.isin(handled_offsets, offsets[existed & handled & ~recorded]).any():
            yield Unknown(f"no member of {group} recorded handle events of {p.name}, but other consumers did")
        is_doubtful = np.zeros(len(missed), bool)
        for is_in_doubt, reasons in _doubts(p, group, commits, missed) if len(missed) else ():
            if (is_in_doubt & ~is_doubtful).any():
                yield from reasons
            is_doubtful |= is_in_doubt
        missed = missed[~is_doubtful]
        # What a commit claims, and what the start of the group skipped, are separate findings.
        claimed, skipped = missed[missed >= first], missed[missed < first]
        is_only_stored = claimed >= greatest(known["offset"], 0)
        if is_only_stored.any() and (unrecorded := _unrecorded_commit(p, group, commits)):
            yield unrecorded
            claimed = claimed[~is_only_stored]
        ahead = np.isin(claimed, sent_after_the_end(p, group, claimed))
        for severity, part in (("violation", claimed[~ahead]), ("note", claimed[ahead])):
            yield from _claimed_findings(p, group, commits, records, part, handled_offsets, severity)
        if is_reset:
            yield from _skipped_findings(p, group, records, skipped, handled_offsets)


def _doubts(
    p: Partition, group: Group, commits: pl.DataFrame, missed: Offsets
) -> Iterator[tuple[Mask, Sequence[Result]]]:
    """Masks of the missed records that a member may have handled after all, each with the reasons for the doubt."""
    if producers := committing_producers(p, group):
        by_any = p.entries["offset"].to_numpy()[_handled_by_any(p, commits)]
        yield np.isin(missed, by_any), [MissingSetting(f"group.id of {name}") for name in producers]
    by_transaction, perhaps = _handled_in_doubt(p, group, missed)
    yield by_transaction, []
    yield perhaps, [Unknown(f"a transaction of {group} that commits offsets of {p.name} has no known outcome")]
    is_hidden = indeterminate_polls(p, group.members).hold(missed)
    yield is_hidden, [Unknown(f"a poll of {p.name} by {group} has no known outcome")]
    handling = p.context.filter(group.is_member, pl.col("kind") == "handle without records")["process"]
    polled = p.reads.filter(pl.col("process").is_in(handling.implode()))["offset"]
    who = some(sorted({*handling}))
    yield np.isin(missed, polled), [Unknown(f"what {who} of {group} handled of {p.name} is not recorded")]
    by_unrecorded, commit = below_unrecorded_commits(p, group, commits, missed)
    yield by_unrecorded, [Unknown(commit)]
    if reason := reason_for_missing_events(p, group):
        records_handles = len(p.context.filter(group.is_member, pl.col("kind") == "handles")) > 0
        is_known = within_polls(p, group.members).hold(missed) & (not records_handles)
        yield ~is_known, [Unknown(reason)]


def _handled_in_doubt(p: Partition, group: Group, missed: Offsets) -> tuple[Mask, Mask]:
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


def _first_position(p: Partition, group: Group, polled: pl.DataFrame) -> tuple[int, bool]:
    """The offset at which a group began, and whether auto.offset.reset chose it."""
    if not len(polled):
        return 0, False
    # Nothing was ever committed below a position that was set before the first poll.
    set_before = p.marks.filter(
        group.is_member
        & pl.col("kind").is_in(["assign", "seek"])
        & (pl.col("outcome") != "fail")
        & (pl.col("completed") <= polled["completed"].min())
        & pl.col("offset").is_not_null()
    )
    first, set_to = least(polled["offset"], 0), least(set_before["offset"], None)
    return (first, True) if set_to is None else (min(set_to, first), set_to > first)


def _claimed_findings(
    p: Partition,
    group: Group,
    commits: pl.DataFrame,
    records: pl.DataFrame,
    missed: Offsets,
    handled: Offsets,
    severity: str,
) -> Iterator[Result]:
    """The `records` at the `missed` offsets, below a committed offset, in runs without a handled one."""
    for run in _runs(missed, handled):
        covering = commits.filter(pl.col("offset") > int(run[-1]))
        covering = covering if len(covering) else commits.tail(1)
        # After a truncation, an earlier commit is of records that had these offsets before.
        sends = p.sends.filter(pl.col("outcome") != "fail", ~is_gone(p), offset=int(run[0]))
        since = covering.filter(pl.col("completed") >= least(sends["invoked"], MIN_INT64))
        row = (since if len(since) else covering).row(0, named=True)
        when = "at" if row["kind"] == "commit" else "before"
        proof: EvidenceLike = (f"{row['process']} commits {row['offset']}", row["at"])
        if row["kind"] == "assign":
            proof = (f"{row['process']} is assigned the committed offset {row['offset']}", row["at"])
        elif row["kind"] == "stored":
            proof = Evidence(f"commit of {row['offset']}", source=row["stored_in"], byte=row["stored_at"])
        yield _finding(
            p,
            group,
            records,
            run,
            f"{group} committed {p.name}@{row['offset']} {when} {seconds(row['completed'])}, but no member"
            f" handled {definite(len(run), 'record')} at {where(p, int(run[0]), int(run[-1]))}"
            + ("" if len(since) else f", {'which was' if len(run) == 1 else 'which were'} sent later")
            + (f"; {group} has had no member since" if severity == "note" else ""),
            severity,
            proof,
        )


def _skipped_findings(
    p: Partition, group: Group, records: pl.DataFrame, missed: Offsets, handled: Offsets
) -> Iterator[Result]:
    """The `records` at the `missed` offsets, before the group's first position. Permitted if older than the group.

    A group that starts late with auto.offset.reset=latest is configured to skip these.
    """
    old = np.isin(missed, _older(p, group, records))
    for severity, offsets in (("violation", missed[~old]), ("permitted", missed[old])):
        for run in _runs(offsets, handled):
            count = plural(len(run), "record")
            it, they_are = ("it", "it is") if len(run) == 1 else ("them", "they are")
            yield _finding(
                p,
                group,
                records,
                run,
                f"{group} began to read {p.name} behind {count} at {where(p, int(run[0]), int(run[-1]))} and never"
                f" handled {it}" + (f" ({they_are} older than the group)" if severity == "permitted" else ""),
                severity,
            )


def _older(p: Partition, group: Group, records: pl.DataFrame) -> Offsets:
    """The offsets at which all of these records were written before a member joined."""
    joining = group.is_member & pl.col("kind").is_in(["subscribe", "assign"])
    joined = least(p.context.filter(joining)["completed"], None)
    if joined is None:
        return records["offset"].to_numpy()[:0]
    written = records.select("offset", "value").join(p.sends.select("value", "completed"), on="value")
    last = written.group_by("offset").agg(pl.col("completed").fill_null(MAX_INT64).max())
    return last.filter(pl.col("completed") < joined)["offset"].to_numpy()


def _finding(
    p: Partition,
    group: Group,
    records: pl.DataFrame,
    run: Offsets,
    sentence: str,
    severity: str,
    *evidence: EvidenceLike,
) -> Finding:
    first, last = int(run[0]), int(run[-1])
    values = records.filter(pl.col("offset").is_in(pl.Series(run).implode()))["value"]
    sends = p.sends.filter(pl.col("value").is_in(values.implode()), offset=first).head(1).select("value", "at").rows()
    return finding(
        p,
        f"{sentence} ({some_values(values.to_list())})",
        (first, last),
        [*((f"{short(value)} acknowledged at offset {first}", at) for value, at in sends), *evidence],
        count=len(run),
        values=values,
        processes=[group.id] if group.id else [],
        severity=severity,
    )


def _with_unrecorded(p: Partition, group: Group, commits: pl.DataFrame) -> pl.DataFrame:
    """The commits, and group assignments after the last of them whose offset is greater.

    Such an offset was committed without a record: an automatic commit of a member that was killed before its callback.
    """
    assigned = p.marks.filter(
        IS_COMMITTED & group.is_member,
        pl.col("offset") > (commits["offset"][-1] if len(commits) else 0),
        pl.col("invoked") >= (commits["completed"][-1] if len(commits) else MIN_INT64),
        kind="assign",
    )
    return pl.concat([commits, assigned.sort("completed", "at", "index")])


def _with_stored(p: Partition, group: Group, commits: pl.DataFrame) -> pl.DataFrame:
    """The commits, and the group's last committed offset in `__consumer_offsets` if it is greater than all of them."""
    last = committed_at_last(p).filter(pl.col("dated").is_not_null(), group=group.id)
    if not group.id or not len(last) or last["offset"].item() <= greatest(commits["offset"], -1):
        return commits
    row = last.row(0, named=True)
    # The coordinator's clock has milliseconds. Later is safe: what is gone by then was not skipped.
    time = max(row["dated"] + SECOND, greatest(commits["completed"], MIN_INT64))
    stored = {"process": group.id, "kind": "stored", "offset": row["offset"], "invoked": time, "completed": time}
    stored |= {"stored_in": row["file"], "stored_at": row["byte"]}
    return pl.concat([commits, pl.DataFrame([stored])], how="diagonal_relaxed")


def _unrecorded_commit(p: Partition, group: Group, commits: pl.DataFrame) -> Unknown | None:
    """The reason that a commit in the files alone is unknown: a member without a record, or one after the history, may
    have made it. None without such a reason.
    """
    if silent := _unrecorded_members(p, group):
        return Unknown(f"members of {group} owned {p.name} and recorded nothing ({some(silent)})")
    times = [
        frame.select(pl.col("invoked", "completed").max()).row(0) for frame in (p.sends, p.reads, p.marks, p.context)
    ]
    ended = max((time for row in times for time in row if time is not None), default=MAX_INT64)
    row = commits.row(-1, named=True)
    # The time of a stored commit is at most a second late, and brokers' clocks may be another one ahead.
    if row["kind"] != "stored" or row["completed"] <= ended + 2 * SECOND:
        return None
    return Unknown(f"the history of {p.name} ends before the commit of @{row['offset']} by {group}")


def _unrecorded_members(p: Partition, group: Group) -> list[str]:
    """The member ids that own the partition by `__consumer_offsets`, and that no process recorded as its own."""
    known = [frame.filter(group.is_member)["member"] for frame in (p.marks, p.context)]
    assigned = group_evidence(p).filter(pl.col("kind").is_in(["assigned", "owned"]), group=group.id)
    return sorted({*assigned["member"]} - {*pl.concat(known).drop_nulls()})


def _handled_entries(p: Partition, group: Group, commits: pl.DataFrame) -> Mask:
    """Entries that a member finished with.

    A transaction that commits the offsets of the records that it polled has handled them. After a loss, another record
    may take the offset; it must be handled too.
    """
    reads = p.reads.select("at", "process", "txn").with_row_index("row").filter(group.is_member & pl.col("txn"))
    found = _entries_of_reads(p, reads.join(commits.select("at", "process"), on=["at", "process"], how="semi")["row"])
    done = p.marks.filter(IS_HANDLED & group.is_member)
    entries = p.entries.select("offset", "value").with_row_index("row")
    found[entries.join(done, on=["offset", "value"], how="semi")["row"].to_numpy()] = True
    return found | _entries_at(p, done.filter(pl.col("value").is_null())["offset"])


def _handled_by_any(p: Partition, commits: pl.DataFrame) -> Mask:
    """Entries that any process finished with, or polled if no process recorded handle events."""
    everyone = Group("", tuple(pl.concat([p.reads["process"], p.marks["process"]]).unique()))
    recorded = _handled_entries(p, everyone, commits)
    return recorded if len(p.context.filter(kind="handles")) else recorded | _polled_entries(p, everyone)


def _polled_entries(p: Partition, group: Group) -> Mask:
    """Entries that a member polled, but not in an aborted transaction: for groups without handle events."""
    is_aborted = pl.col("txn") & (pl.col("outcome") == "fail")
    return _entries_of_reads(p, p.reads.select(group.is_member & ~is_aborted).to_series().arg_true())


def _with_handled_value(p: Partition, handled: Mask) -> Mask:
    """Entries of a value that was sent once and handled at another offset: the group got the message."""
    sent = p.possible_sends["value"]
    values = p.entries["value"].filter(pl.Series(handled)).unique()
    is_handled = p.entries["value"].is_in(values.implode())
    return (is_handled & ~p.entries["value"].is_in(sent.filter(sent.is_duplicated()).implode())).to_numpy()


def _entries_of_reads(p: Partition, rows: pl.Series) -> Mask:
    """The entries of these rows of `reads`."""
    entry = p.entry_of_read[rows.to_numpy()]
    found = np.zeros(len(p.entries), bool)
    found[entry[entry >= 0]] = True
    return found | _entries_at(p, p.reads["offset"].gather(rows.filter(pl.Series(entry < 0))))


def _entries_at(p: Partition, offsets: pl.Series) -> Mask:
    """All entries at the offsets: without a recorded value any of them may be meant."""
    return np.asarray(p.entries["offset"].is_in(offsets.drop_nulls().unique().implode()).to_numpy())


def _runs(offsets: Offsets, between: Offsets) -> list[Offsets]:
    """Sorted offsets in runs without an offset of `between` inside."""
    return [run["offset"].to_numpy() for run in adjacent_runs(pl.DataFrame({"offset": offsets}), between)]
