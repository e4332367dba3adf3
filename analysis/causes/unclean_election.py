"""unclean-election: a replica out of sync was elected, and what it had not fetched is gone.

Needs: the new leader was not among the in-sync or eligible replicas before its election (the metadata log,
or the controller's line), and its log lacked the lost records then (epoch file, segment, state-change.log, or the
log as it was loaded). The last known leader that KIP-966 elects again is not of this kind: it never lacked
anything by being out of sync.
"""

from __future__ import annotations

from ...histories.tables import MAX_INT64
from ..timelines.facts import chain
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from .attempts import NOT_THE_CASE, Attempt, lacks
from .leader_change import clean_by_configuration, just_begun, lacked, succession, sync_before
from .losses import Lost, acknowledgement
from .prevention import clean_elections, more_in_sync
from .replica_history import (
    alone_in_sync,
    away,
    deaths,
    failed_together,
    had_them,
    held_at_snapshot,
    isr_at,
    kept_them,
    returned,
    truncations,
)

NAME = "unclean-election"
CITATION = "KIP-106 (unclean.leader.election.enable), KIP-966 (eligible leader replicas), KAFKA-1211"
REMEDY = "unclean.leader.election.enable=false; min.insync.replicas=2 with acks=all."


def explain(timeline: Timeline, lost: Lost) -> Attempt:
    found = succession(timeline, lost)
    new = found.new
    if new is None or new.leader is None:
        return lacks(*found.missing)
    if found.new is found.old:
        return NOT_THE_CASE
    unclean = new.elected_uncleanly
    if unclean is False:
        return NOT_THE_CASE
    if unclean is None:
        return lacks(
            f"whether broker {new.leader} was in the ISR when it was elected in epoch {new.epoch} "
            "(__cluster_metadata, or the controller's log)"
        )
    # What all that were in sync had lost by then, no election took.
    if together := failed_together(timeline, lost):
        return lacks(*together)
    had = had_them(timeline, new.leader, lost) or kept_them(timeline, new.leader, lost)
    own = found.old_leader == new.leader or had
    others = isr_at(timeline, lost.last_acked) - {new.leader}
    if own and not any(kept_them(timeline, other, lost) for other in others):
        return lacks(
            f"that another broker still had the records when broker {new.leader}, which had had them, was elected"
        )
    if back := _led_with_them(timeline, new, lost):
        return lacks(f"why the records were gone after epoch {back.epoch}, which broker {back.leader} led with them")
    if doubtful := just_begun(timeline, found, lost):
        return lacks(*doubtful)
    without = lacked(timeline, found, lost)
    if not without:
        return lacks(f"the offset at which epoch {new.epoch} began (leader-epoch-checkpoint or state-change.log)")
    # Whoever was in sync before is not the new leader.
    old = found.old_leader or (next(iter(new.before)) if new.before and len(new.before) == 1 else None)
    led = found.old.facts[:1] if found.old else []
    alone = alone_in_sync(timeline, old, lost.first_acked) if old else []
    facts = chain(
        led,
        alone,
        away(timeline, new.leader, lost.last_acked),
        acknowledgement(lost),
        deaths(timeline, old, new.time) if old else [],
        away(timeline, old, new.time),
        clean_by_configuration(timeline),
        new.facts[:1],
        [new.outsider] if new.outsider else [],
        sync_before(new),
        without,
        held_at_snapshot(timeline, old, lost) if old else [],
        returned(timeline, old, lost, new.time) if old else [],
    )
    return Attempt(True, facts, [*clean_elections(timeline), *more_in_sync(timeline, lost)])


def _led_with_them(timeline: Timeline, new: Term, lost: Lost) -> Term | None:
    """The first later term of a broker that still had the records: with it they came back."""
    for term in timeline.terms.values():
        began = MAX_INT64 if term.start is None else term.start
        if term.epoch <= new.epoch or term.leader in (None, new.leader) or began <= lost.last:
            continue
        leader = str(term.leader)
        if kept_them(timeline, leader, lost) and not truncations(timeline, leader, lost, lost.last_acked):
            return term
    return None
