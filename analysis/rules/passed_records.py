"""The records that a group passed: those that were still in the log then, and those that may have been compacted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ...models.arrays import Mask
from ..extremes import greatest, least
from ..partitions.absences import Existing, existing, maybe_compacted
from ..partitions.partition import Offsets, Partition
from ..wording import plural
from .gone_sends import gone_sends
from .group_commits import Group
from .rule import where


def is_gone(p: Partition) -> pl.Expr:
    """Selects rows of values that are in `gone_sends`."""
    return pl.col("value").is_in(gone_sends(p)["value"].implode())


# Entries that the log lost: the final reads returned another value at the offset.
_IS_REPLACED = ~pl.col("in_final") & pl.col("in_final").any().over("offset")


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
    is_of_others = (pl.col("kind") == "revoke") & (pl.col("detail").fill_null("0") != "0")
    context = p.context.filter(group.is_member, pl.col("kind").is_in(["assign", "subscribe", "revoke", "crash"]))
    context = context.filter(~is_of_others)
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
