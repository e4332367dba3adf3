"""single-ack-failover: a leader acknowledged records with acks=1 and was replaced before its followers fetched them.

Needs: all lost records were acknowledged with acks=1, and no consumer had read them (the replicas in the ISR have what
consumers read). Another broker was elected cleanly: it was in the ISR before; or the configuration permits no unclean
election, no report shows that it had left the ISR, and it ran at the last acknowledgement. Its epoch began at or below
the lost offsets or before they were acknowledged, or the old leader truncated them to its log. The new leader neither
led with them before nor lost its own tail by a restart in between. In a log without leader epochs, a record that was
acknowledged at the first lost offset shows that the new leader lacked the lost ones, and its server.log shows that it
had not truncated them.
"""

from __future__ import annotations

from ..timelines.facts import SECOND, chain
from ..timelines.timeline import Timeline
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs, needs_isr_of, needs_start_of
from .leader_change import (
    LeaderChange,
    clean_by_configuration,
    clean_leader_change,
    facts_without_records,
    in_isr_before_election,
)
from .outages import end_of_leader, reasons_absent
from .prevention import acks_all_measures
from .replica_history import facts_never_truncated, had_stopped, isr_at, may_have_lost_tail, return_facts

CITATION = "Kafka's documentation of acks=1; KIP-679 (acks=all by default since 3.0)"
REMEDY = "acks=all with min.insync.replicas=2."


def explain_loss(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether a clean election lost records that the old leader acknowledged with acks=1 before others had them."""
    if lost.acks and lost.acks != {"1"}:
        return NOT_THE_CASE
    if not lost.acks:
        source = "a client history, or acks=1 of all producers in run.json"
        return needs(f"the acks setting with which the records were acknowledged ({source})")
    succeeded = clean_leader_change(timeline, lost)
    if isinstance(succeeded, Attempt):
        return succeeded
    change, new = succeeded
    old = change.old_leader
    if old is not None and _led_with_records(timeline, change, lost):
        return NOT_THE_CASE  # the new leader had the records, and lost them itself
    if old is None:
        return needs(*(change.missing or ["the leaders before and after the loss"]))
    clean = in_isr_before_election(new)
    # Where it had left the ISR, as a broker does that has stopped, an operator may have elected it:
    # kafka-leader-election.sh ignores the topic's configuration (KIP-460).
    reported = isr_at(timeline, None if new.time is None else new.time - SECOND)
    may_have_left = had_stopped(timeline, new.leader, lost) or (bool(reported) and new.leader not in reported)
    if not clean and not may_have_left:
        clean = clean_by_configuration(timeline, new.time)
    if not clean:
        return needs_isr_of(new)
    if lost.read:
        have = "although all replicas in the ISR have what consumers read"
        return needs(f"why broker {new.leader} lacked records that consumers had read, {have}")
    without = facts_without_records(timeline, change, lost)
    if not without:
        return needs_start_of(new.epoch)
    batches = timeline.replica_logs.batches
    if not batches.height or (batches["magic"] < 2).any():
        uncut = facts_never_truncated(timeline, new.leader or "", lost, new.time)
        if not uncut:
            return needs(
                "leader epochs in the log, or the server.log of broker"
                f" {new.leader} from before the first acknowledgement, which shows that it truncated nothing"
            )
        without = [*uncut, *without]
    if may_have_lost_tail(timeline, new.leader or "", lost.first_acked, new.time):
        return needs(f"whether broker {new.leader}, which restarted before its election, had lost its own tail")
    facts = chain(
        change.began,
        reasons_absent(timeline, new.leader, lost.last_acked),
        acknowledgement_facts(lost),
        end_of_leader(timeline, old, change.old, new.time),
        clean,
        new.facts[:1],
        without,
        return_facts(timeline, old, lost, new.time),
    )
    return Attempt(True, facts, acks_all_measures(timeline, lost))


def _led_with_records(timeline: Timeline, change: LeaderChange, lost: Lost) -> bool:
    """Whether the new leader had led a term between the two that began above the lost records, so that it had them.

    False if one of the terms between began uncleanly: its leader may have had other records at these offsets.
    """
    if change.old is None or change.new is None:
        return False
    between = [term for term in timeline.led_terms if change.old.epoch < term.epoch < change.new.epoch]
    was_clean = all(term.elected_uncleanly is False for term in between)
    return was_clean and any(term.leader == change.new_leader and (term.start or 0) > lost.last for term in between)
