"""single-ack-failover: acknowledged under acks=1 by a leader that died before its followers fetched.

Needs: all lost records were acknowledged under acks=1; another broker was elected cleanly (it was in sync
before, or the configuration permits no other election) and its epoch began at or below the lost offsets; the
log knows leader epochs, and the new leader did not lose its own tail by a restart in between.
"""

from __future__ import annotations

import polars as pl

from .facts import NOT_THE_CASE, Attempt, Fact, Lost, lacks
from .succession import (
    acknowledgement,
    chain,
    clean_by_configuration,
    deaths,
    held_at_snapshot,
    returned,
    succession,
)
from .terms import Term
from .timeline import Timeline

NAME = "single-ack-failover"
CITATION = "Kafka's documentation of acks=1; KIP-679 (acks=all by default since 3.0)"


def explain(timeline: Timeline, lost: Lost) -> Attempt:
    if lost.acks and "1" not in lost.acks:
        return NOT_THE_CASE
    if lost.acks != {"1"}:
        return lacks("the acks under which the records were acknowledged")
    found = succession(timeline, lost)
    new = found.new
    if new is None or found.new_leader is None or found.old_leader is None:
        return lacks(*(found.missing or ["who led before and after"]))
    if found.old_leader == found.new_leader:
        return NOT_THE_CASE
    if new.elected_uncleanly:
        return NOT_THE_CASE
    clean = _clean(timeline, new)
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
    old = found.old_leader
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


def _clean(timeline: Timeline, new: Term) -> list[Fact]:
    """What shows that the new leader was in sync before its election."""
    if new.before and new.leader in new.before:
        known = ", ".join(sorted(new.before))
        return [Fact(f"broker {new.leader} was in sync before: [{known}]", new.time, *_source(new))]
    return clean_by_configuration(timeline)


def _source(term: Term) -> tuple[str | None, int | None, int | None]:
    return (term.facts[0].source, term.facts[0].line, term.facts[0].byte) if term.facts else (None, None, None)


def _restarted_between(timeline: Timeline, new: Term, lost: Lost) -> bool:
    since, until = lost.first_acked, new.time
    if since is None or until is None:
        return False
    own = timeline.kept.batches.filter(pl.col("broker") == new.leader)
    started = [
        e
        for e in timeline.events
        if e.broker == new.leader and e.kind == "started" and e.time is not None and since <= e.time <= until
    ]
    return bool(started) and own.height > 0
