"""commit-beyond-end: a group commits offsets up to the log's end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.references import SEMANTICS
from ...histories.tables import MAX_INT64, Evidence, Finding
from ..partitions.coordinators import committed_at_last
from ..partitions.foreign_clock import foreign_clock
from ..partitions.indeterminate_polls import indeterminate_polls
from ..partitions.log_start import highest_end
from ..partitions.partition import Partition, once
from ..replicas.resolved_outcomes import is_leader_collected
from .consumer_groups import Group, commits_of, groups_or_clients
from .gone_sends import gone_sends
from .loss import outcomes_of_sends
from .rule import EvidenceLike, Result, Rule, Unknown, finding, seconds, where


class KnownEnd(NamedTuple):
    """An end of the log that is certain: it was read between `since` and `until` (ns)."""

    offset: int
    since: int
    until: int
    evidence: str
    place: int | None = None


@Rule(
    "commit-beyond-end",
    group="consumers",
    summary="A group's committed offset is beyond the log's end",
    example="p:a@0 c:<a@0 c:commit=3 end=1",
    source=SEMANTICS,
    needs=("commits",),
    assumes=("clock", "order", "partitions"),
    follows="offset",
).judged_by
def commit_beyond_end(p: Partition) -> Iterator[Result]:
    """One finding for each group: its last commit that a later log end contradicts.

    Breach: A group committed an offset greater than the log's end. The end was read after the commit: from a later end
    offset, from final reads that reach the end, or from the log of the last leader. The last committed offset in the
    brokers' copies of __consumer_offsets counts, too. A group that starts there is reset, or skips all records
    until then. Where the log was truncated after the commit, the finding follows from the loss.
    Not a breach: The commit is at the end. The group committed a lower offset before the end was read. Later reads or
    the final reads contradict the end offset.
    Unknown when: The commit is beyond everything known of the log, and nothing later shows the log's end. A last stable
    offset shows none, nor do final reads that return nothing or that read a log with transactions.
    """
    judged = []
    for group in groups_or_clients(p):
        commits = commits_of(p, group)
        if not len(commits):
            continue
        contradicted = _last_contradicted(commits, _certain_ends(p))
        if contradicted is None:
            yield from _unknowns(p, group, commits)
        elif clock := foreign_clock(p):
            yield Unknown(clock)
        else:
            row, end = contradicted
            commit = f"{_committer(group, row)} committed {p.name}@{row['offset']} at {seconds(row['completed'])}"
            proof = (f"{row['process']} commits {row['offset']}", row["at"])
            yield _beyond_end(p, commit, row["offset"], end, proof, row["process"])
            judged.append(group.id)
    yield from _commits_in_broker_files(p, judged)


def _commits_in_broker_files(p: Partition, judged: list[str]) -> Iterator[Result]:
    """The last committed offset of other groups in `__consumer_offsets`, beyond the log of the last leader."""
    if not p.replica_logs or p.replica_logs.last != FINAL:
        return
    last = committed_at_last(p).filter(~pl.col("group").is_in(judged))
    for end in _leader_log_end(p) if len(last) else ():
        for row in last.filter(pl.col("offset") > end.offset).rows(named=True):
            commit = f"group {row['group']} committed {p.name}@{row['offset']}, its last committed offset"
            proof = Evidence.in_file(f"commit of {row['offset']}", row)
            yield _beyond_end(p, commit, row["offset"], end, proof)


def _last_contradicted(commits: pl.DataFrame, ends: list[KnownEnd]) -> tuple[dict[str, Any], KnownEnd] | None:
    """The last commit with the least end below it that was read after it and before the group went back."""
    beyond = commits.filter(pl.col("offset") > min((end.offset for end in ends), default=MAX_INT64))
    for row in reversed(beyond.rows(named=True)):
        later = commits.filter((pl.col("completed") >= row["invoked"]) & (pl.col("at") != row["at"]))
        contradicting = [
            end
            for end in ends
            if end.since > row["completed"]
            and end.offset < row["offset"]
            and not len(later.filter((pl.col("offset") <= end.offset) & (pl.col("invoked") <= end.until)))
        ]
        if contradicting:
            return row, min(contradicting, key=lambda end: (end.offset, end.since))
    return None


def _unknowns(p: Partition, group: Group, commits: pl.DataFrame) -> Iterator[Unknown]:
    """The group's last commit beyond every known offset, if no later end of the log confirms or contradicts it."""
    # Each transaction may add a marker after the last record.
    markers = p.sends.filter("txn")["at"].n_unique()
    reached = max([highest_end(p) + markers, *(end.offset for end in _certain_ends(p))])
    beyond = commits.filter(pl.col("offset") > reached)
    if len(beyond):
        row = beyond.row(-1, named=True)
        yield Unknown(
            f"{_committer(group, row)} committed {p.name}@{row['offset']}, but no later record, end offset, final read"
            " or broker's log shows where the log ended"
        )


@once
def _certain_ends(p: Partition) -> list[KnownEnd]:
    """The certain ends of the log: from end offsets, from final reads, and from the last leader's log."""
    returned = p.log_ends.select("offset", "invoked", "completed", "at").rows()
    ends = (KnownEnd(offset, begun, done, f"end offset {offset}", at) for offset, begun, done, at in returned)
    return [*(end for end in ends if not _is_refuted(p, end)), *_final_read_end(p), *_leader_log_end(p)]


def _is_refuted(p: Partition, end: KnownEnd) -> bool:
    """Whether an end offset was stale: a record at or beyond it was known before the request, and not lost.

    It was read after the response, or by the final reads.
    """
    is_there = pl.col("in_final") | (pl.col("last_read") > end.until)
    behind = p.entries.filter((pl.col("offset") >= end.offset) & is_there)
    if not len(behind):
        return False
    acknowledged = pl.when(pl.col("acknowledged")).then("completed")
    known = behind.with_columns(known=p.sends.select(acknowledged).to_series().gather(behind["send"]))
    return bool((known.select(pl.min_horizontal("known", "first_read")).to_series() < end.since).any())


def _final_read_end(p: Partition) -> Iterator[KnownEnd]:
    """The end of final reads, which is the log end unless markers follow or a poll without an outcome read further."""
    final = p.final
    if final is None or not final.complete or p.has_transactions or not _is_empty_behind(p, final.end):
        return
    read = p.reads.filter(pl.col("process").is_in(final.processes) & (pl.col("completed") >= final.since))
    # Final reads without records show no end: retention may have deleted all records.
    if len(read) and not len(indeterminate_polls(p, final.processes).first):
        yield KnownEnd(
            final.end, final.since, final.until, f"the final reads end at offset {final.end}", read["at"][-1]
        )


def _leader_log_end(p: Partition) -> Iterator[KnownEnd]:
    """The end of the last leader's log, if the log is undamaged and no client read further."""
    logs = p.replica_logs
    if logs is None or not is_leader_collected(logs) or not logs.last_is_dated or not logs.at_rest:
        return
    end = logs.extents.filter(logs.is_of_leader)["end"].item()
    if end is None or logs.is_leader_damaged or (p.final is not None and p.final.end > end):
        return
    if not _is_empty_behind(p, end):
        return
    time = logs.times.get(logs.last, MAX_INT64)
    yield KnownEnd(end, time, time, f"the log of broker {logs.leader} ends at offset {end}")


def _is_empty_behind(p: Partition, end: int) -> bool:
    """Whether all records at or beyond an end are gone."""
    if highest_end(p) <= end:
        return True
    last = np.append(p.entries.filter(pl.col("sent_ok"))["offset"].to_numpy(), -1).max()
    beyond = outcomes_of_sends(p).filter(pl.col("offset") >= end)
    return bool(last < end or not len(beyond.join(gone_sends(p), on="value", how="anti")))


def _committer(group: Group, row: dict[str, Any]) -> str:
    return f"{row['process']} of {group}" if group.id not in ("", row["process"]) else row["process"]


def _beyond_end(p: Partition, commit: str, offset: int, end: KnownEnd, proof: EvidenceLike, *processes: str) -> Finding:
    return finding(
        p,
        f"{commit}, but the log ends at {end.offset} ({where(p, end.offset, offset - 1)} does not exist)",
        (end.offset, offset - 1),
        [proof, (end.evidence, end.place)],
        processes=processes,
    )
