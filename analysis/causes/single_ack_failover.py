"""single-ack-failover: acknowledged under acks=1 by a leader that died before its followers fetched.

Needs: all lost records were acknowledged under acks=1; another broker was elected cleanly (it was in sync
before, or the configuration permits no other election) and its epoch began at or below the lost offsets; the
log knows leader epochs, and the new leader did not lose its own tail by a restart in between.
"""

from __future__ import annotations

from collections import Counter

import polars as pl

from ...histories.tables import BEYOND_ALL
from .facts import NOT_THE_CASE, Attempt, Lost, acknowledgement, chain, lacks
from .holdings import deaths, held_at_snapshot, returned
from .succession import clean_by_configuration, clean_succession, in_sync_before
from .terms import Term
from .timeline import Timeline

NAME = "single-ack-failover"
CITATION = "Kafka's documentation of acks=1; KIP-679 (acks=all by default since 3.0)"


def explain(timeline: Timeline, lost: Lost) -> Attempt:
    if lost.acks and "1" not in lost.acks:
        return NOT_THE_CASE
    if lost.acks != {"1"}:
        return lacks("the acks under which the records were acknowledged")
    succeeded = clean_succession(timeline, lost)
    if isinstance(succeeded, Attempt):
        return succeeded
    found, new = succeeded
    old = found.old_leader
    if old is None:
        return lacks(*(found.missing or ["who led before and after"]))
    clean = in_sync_before(new) or clean_by_configuration(timeline)
    if not clean:
        return lacks(
            f"whether broker {new.leader} was in the ISR when it was elected in epoch {new.epoch} "
            "(__cluster_metadata, state-change.log, or the topic's configuration)"
        )
    if new.start is None:
        return lacks(f"the offset at which epoch {new.epoch} began (leader-epoch-checkpoint or state-change.log)")
    batches = timeline.kept.batches
    if not batches.height or (batches["magic"] < 2).any():
        return lacks("leader epochs in the log, without which a follower may also have cut committed records")
    if _restarted_between(timeline, new, lost):
        return lacks(f"whether broker {new.leader}, which restarted before its election, had lost its own tail")
    facts = chain(
        found.old.facts[:1] if found.old else [],
        acknowledgement(lost),
        deaths(timeline, old, new.time),
        clean,
        new.facts[:1],
        new.start_facts[:1],
        held_at_snapshot(timeline, old, lost),
        returned(timeline, old, lost, new.time),
    )
    return Attempt(True, facts, ["acks=all", "min.insync.replicas=2"])


def _restarted_between(timeline: Timeline, new: Term, lost: Lost) -> bool:
    """Whether the new leader may have lost its own tail by starting again. What a killed process wrote stays in the
    page cache, but a restart that the history tells no kill for may have followed a failure of power.
    """
    since, until = lost.first_acked, new.time
    own = timeline.kept.batches.filter(pl.col("broker") == new.leader)
    if since is None or until is None or not own.height:
        return False
    starts = [e for e in timeline.events if e.broker == new.leader and e.kind == "started" and e.time is not None]
    between = Counter(e.fact.source for e in starts if since <= (e.time or 0) <= until)
    before = max((e.time or 0 for e in starts if (e.time or 0) < since), default=-BEYOND_ALL)
    faults = [f for f in timeline.faults if new.leader in f.nodes and before < f.completed <= until]
    kills = sum(fault.kind == "kill" for fault in faults if fault.type == "fault")
    harmless = all(fault.kind in ("kill", "restart", "pause") for fault in faults)
    return any(count > kills or not harmless for count in between.values())
