"""commits-lost: __consumer_offsets lost commits that a coordinator had acknowledged.

The committed offsets of a group are records in one partition of __consumer_offsets. If that log is truncated, or a
replica without its tail leads it, the coordinator returns an older committed offset, or none.

Needs: an acknowledged commit, and the brokers' final copies of __consumer_offsets, undamaged: they have an older commit
of the group for the partition, and none of that offset before the group went back. Compaction would have removed the
older one.
"""

from __future__ import annotations

import polars as pl

from ..timelines.facts import SECOND, ordered
from .cases import NOT_THE_CASE, Attempt, Regression, needs

CITATION = "offsets.topic.replication.factor, unclean.leader.election.enable; GroupMetadataManager"
REMEDY = "Three replicas of __consumer_offsets, min.insync.replicas=2, and no unclean elections of it."
PREVENTED_BY = [
    "offsets.topic.replication.factor=3 with min.insync.replicas=2 for __consumer_offsets",
    "unclean.leader.election.enable=false for __consumer_offsets",
]


def explain_regression(_: pl.DataFrame, regression: Regression) -> Attempt:
    """Whether the copies of __consumer_offsets lack the higher committed offset and have an older one."""
    lower = regression.lower
    if lower is not None and lower["f"] != "assign":
        return NOT_THE_CASE  # a member committed the lower offset
    by = f" by group {regression.group}" if regression.group else ""
    about = f"offset {regression.offset} of {regression.name}{by}"
    copies = regression.copies
    if not len(copies):
        # A copy that lost all commits of the partition is as silent as one that was not collected.
        return needs(
            f"a commit of {regression.name}{by} in the brokers' copies of __consumer_offsets, which would show whether"
            f" they lost that of offset {regression.offset}; no collected copy has one"
        )
    since = regression.higher["time"]
    # A group that went back commits the same offset again.
    is_again = pl.lit(False) if lower is None else (pl.col("dated") > lower["time"] + SECOND).fill_null(False)
    later = pl.col("dated") >= since - SECOND
    if lower is not None:
        # The last commit or removal before an assignment has its offset.
        is_lowering = (pl.col("kind") == "removed") | pl.col("offset").eq_missing(lower["first_offset"])
        later &= (pl.col("dated") <= lower["time"] + SECOND) & is_lowering
    if len(copies.filter(later)):
        return needs(f"which client removed or lowered the committed {about} after {since / 1e9:.3f} s")
    if len(copies.filter(~is_again, kind="committed", offset=regression.offset)):
        return needs(f"why the coordinator did not have the commit of {about}, which is in __consumer_offsets")
    if not copies["intact"].all():
        return needs(f"an undamaged copy of __consumer_offsets, as this one may lack the commit of {about}")
    older = copies.filter(kind="committed").filter(pl.col("dated") < since - SECOND)
    if not len(older):
        return needs(f"commits of __consumer_offsets from before the commit of {about}")
    last = older.row(-1, named=True)
    text = f"the brokers' copies of __consumer_offsets have an older commit of group {regression.group}, of offset"
    text += f" {last['offset']} of {regression.name}, and none of {regression.offset}"
    assigned = [] if lower is None else [regression.assigned_fact(lower)]
    facts = [regression.committed, regression.stored_fact(last, "committed", text), *assigned]
    return Attempt(True, ordered(facts), PREVENTED_BY)
