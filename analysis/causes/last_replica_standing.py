"""last-replica-standing: the only in-sync replica lost the tail of its log, and then led again without it.

Kafka acknowledges records in the page cache. If the ISR has shrunk to one broker, a power failure of that broker loses
the records that were not on its disk. A log that was cut or replaced while the broker was down loses them, too; where
the evidence shows that the records were on disk, the cause is log-rolled-back. Recovery also cuts a log at a damaged
batch. Electing the broker again breaks no rule (with eligible leader replicas the controller calls this election
unclean, KIP-966).

Needs: the broker that leads afterwards had the records: it acknowledged them, or was in sync while they were
acknowledged. Later its log ended at or below them: when it was loaded, in a snapshot, or by the fault that cut it. Or
it led the next epoch from there, and no other broker led in between. The ISR was this broker alone: when it was
elected, when its process stopped that had led until then, or when it acknowledged them and led again in its own epoch.
No unclean election made it the leader in between. No other broker that was in sync at an acknowledgement lost its power
since then, and the records with it. The broker was not shut down cleanly, which flushes the log: the history has
its death, a power failure or a fault on its disk, or its server.log shows that it halted or had to recover its logs. If
it led again from offset 0 without a power failure or a fault on its disk in the history, its server.log shows that it
found a log.
"""

from __future__ import annotations

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND, Fact, chain, dated
from ..timelines.fault_kinds import DAMAGES, DISK_FAULTS
from ..timelines.timeline import Timeline
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs, needs_setting_of
from .leader_change import LeaderChange, find_leader_change
from .log_rolled_back import rollback_facts
from .outages import (
    death_facts,
    is_process_dead,
    lost_power,
    may_have_stopped_cleanly,
    ran_until,
    reasons_absent,
)
from .prevention import (
    CHECKSUMS,
    acks_all_measures,
    eligible_leader,
    flush_measures,
    more_replicas,
    requires_followers,
    setting_changes,
)
from .replica_history import (
    facts_had_records,
    faults_on_records,
    had_sole_isr_at_acknowledgement,
    isr_at,
    isr_at_acknowledgement,
    may_have_lost_tail,
    short_log_facts,
    sole_isr_facts,
)
from .surviving_records import missing_if_failed_together, still_had_records, stopped_alone_in_isr
from .writing_term import missing_if_replaced_leader_wrote

CITATION = "KIP-966 (the last replica standing), Kafka's documentation of replication and flush"
REMEDY = (
    "Eligible leader replicas (KIP-966). If the ISR was this broker alone when the records were acknowledged, also"
    " min.insync.replicas=2 with acks=all. If all in-sync replicas were killed together, replicas that do not fail"
    " together (broker.rack) instead. With a replication factor of 1, a second replica before either."
)


def explain_loss(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether the only in-sync replica lost the records in a power failure, and then led again."""
    change = find_leader_change(timeline, lost)
    broker, successor = change.new_leader, change.successor
    if broker is None or change.old_leader is None:
        return needs(*change.missing)
    # Another in-sync replica may have had the records.
    together = missing_if_failed_together(timeline, lost, broker)
    if together and (not stopped_alone_in_isr(timeline, lost, broker) or _another_lost_them(timeline, broker, lost)):
        return needs(*together)
    if successor is not None and successor.elected_uncleanly:
        return NOT_THE_CASE
    if successor is not None and successor.was_last_known is None:
        return needs_setting_of(successor)
    had = facts_had_records(timeline, broker, lost) if change.old_leader != broker else []
    if change.old_leader != broker and not had:
        return NOT_THE_CASE
    if rollback_facts(timeline, broker, lost):
        return NOT_THE_CASE  # the records were flushed, so no power failure lost them
    if lost.last_acked is None:
        return needs("when the records were acknowledged (a client history)")
    short = short_log_facts(timeline, broker, lost, lost.first)
    if not short:
        return needs(
            f"evidence that broker {broker}'s log ended at or below offset {lost.first} when it started again "
            "(its server.log, a snapshot, or the offset at which it led again)"
        )
    loaded = min((fact.when for fact in dated(short)), default=None)
    # A broker may be elected before it loads its log.
    started = min((fact.when for fact in dated(short) if fact.kind == "loaded"), default=loaded)
    if unknown := _missing_of_stop(timeline, broker, lost, short, MAX_INT64 if started is None else started):
        return needs(unknown)
    # An unclean election may have made it leader with its short log before, in an epoch without records: that leaves no
    # trace in leader-epoch-checkpoint.
    until = MAX_INT64 if successor is None or successor.time is None else successor.time - 1
    led = [] if loaded is None else dated(timeline.led_terms, loaded, until)
    if any(term.leader == broker and term.elected_uncleanly for term in led):
        return NOT_THE_CASE
    others = _others_in_isr(timeline, broker, lost.last_acked, loaded)
    if unsure := [other for other in others if not still_had_records(timeline, other, lost)]:
        return needs(f"whether {' or '.join(f'broker {other}' for other in unsure)}, then in the ISR, had the records")
    alone = _facts_alone_in_isr(timeline, change, broker, lost)
    if _lost_while_others_in_isr(timeline, broker, lost, successor.time if successor else None):
        return needs(f"whether another broker that was in the ISR when broker {broker} lost the records still had them")
    if not alone:
        isr = sorted(change.new.electable or ()) if change.new else []
        known = f"; its log lost the records, but the ISR was [{', '.join(isr)}]" if isr else ""
        sources = "__cluster_metadata, or the brokers' logs"
        return needs(f"evidence that broker {broker} was alone in the ISR ({sources}){known}")
    if doubtful := missing_if_replaced_leader_wrote(timeline, change.old, lost):
        return needs(*doubtful)
    return _proof(timeline, change, lost, had, alone, short)


def _another_lost_them(timeline: Timeline, broker: str, lost: Lost) -> bool:
    """Whether another broker, in sync at an acknowledgement, lost its power since then, and with it the records."""
    return lost.first_acked is not None and any(
        lost_power(timeline, other, lost.first_acked, MAX_INT64) and short_log_facts(timeline, other, lost, lost.first)
        for other in (isr_at_acknowledgement(timeline, lost) or timeline.members) - {broker}
    )


def _missing_of_stop(timeline: Timeline, broker: str, lost: Lost, short: list[Fact], until: int) -> str:
    """The missing evidence that the log lost a tail which was not on disk; empty if it is there.

    A broker that stopped cleanly had flushed its log. One that has no log at all may have another disk.
    """
    since = (lost.last_acked or 0) - SECOND
    if may_have_stopped_cleanly(timeline, broker, since, until):
        return f"how the process of broker {broker} that had the records ended (its server.log)"
    has_cause = bool(timeline.faults_on(broker, DISK_FAULTS)) or lost_power(timeline, broker, since, until)
    found_a_log = any(not end.is_new for end in timeline.dated_ends(broker, "loaded", since=since, until=until))
    if has_cause or found_a_log or all(fact.offset != 0 for fact in short):
        return ""
    return f"whether broker {broker} found a log when it started again (its server.log)"


def _proof(
    timeline: Timeline, change: LeaderChange, lost: Lost, had: list[Fact], alone: list[Fact], short: list[Fact]
) -> Attempt:
    """The chain with the facts that the broker had the records, was alone in the ISR, and has a short log now."""
    broker, successor, elected = change.new_leader or "", change.successor, change.lost_at
    shrunk = sole_isr_facts(timeline, broker, lost.last_acked)
    until = lost.last_acked if shrunk or successor is None else elected
    absent = [reasons_absent(timeline, other, until) for other in sorted(timeline.members - {broker})]
    changed = faults_on_records(timeline, broker, ("truncate", *DAMAGES), lost, elected)
    facts = chain(
        change.began,
        had,
        sole_isr_facts(timeline, broker, until),
        setting_changes(timeline, lost, None),
        alone,
        *absent,
        acknowledgement_facts(lost),
        death_facts(timeline, broker, elected),
        changed,
        short,
        change.succeeded or (change.new.facts[-1:] if change.new else []),
        change.start_of_successor,
    )
    was_damaged = any(fact.kind == f"fault-{kind}" for fact in changed for kind in DAMAGES)
    # A process that is killed leaves no torn batch: the page cache has what it wrote.
    is_corrupt = any(fact.kind == "corruption" for fact in short)
    was_damaged |= is_corrupt and not may_have_lost_tail(timeline, broker, lost.last_acked, elected)
    of_disk = [CHECKSUMS] if was_damaged else flush_measures(timeline)
    second = _measures_for_a_second_replica(timeline, lost, broker, elected, bool(shrunk))
    return Attempt(True, facts, [*second, *of_disk])


def _measures_for_a_second_replica(
    timeline: Timeline, lost: Lost, broker: str, elected: int | None, shrunk: bool
) -> list[str]:
    """Measures by which another broker would have had the records, or would have been elected with them."""
    alone = had_sole_isr_at_acknowledgement(timeline, lost)
    if alone or (alone is None and shrunk) or len(timeline.members) == 1:
        return more_replicas(timeline, lost) or (acks_all_measures(timeline, lost) if "1" in lost.acks else [])
    others = alone is False or (requires_followers(timeline, lost) and lost.acks == {"all"})
    return eligible_leader(timeline, lost, broker, elected) if others else []


def _facts_alone_in_isr(timeline: Timeline, change: LeaderChange, broker: str, lost: Lost) -> list[Fact]:
    """The facts that the ISR was the broker alone when the records were acknowledged, or when it was elected again.

    If no source has the ISR at its election: when it stopped, if it had led with the records until then.
    """
    successor = change.successor
    if successor is not None and successor.electable is not None:
        return successor.facts[:1] if successor.electable == {broker} else []
    if stopped_alone_in_isr(timeline, lost, broker):
        return sole_isr_facts(timeline, broker, ran_until(timeline, broker, lost.last_acked or 0))
    alone = sole_isr_facts(timeline, broker, lost.last_acked)
    if alone or successor is not None or lost.last_acked is None or len(isr_at_acknowledgement(timeline, lost)) > 1:
        return alone
    # It led again with itself as the ISR before any other could leave, so the ISR was the same when it died.
    return [report.fact for report in timeline.isr_between(lost.last_acked - 1) if report.isr == {broker}][:1]


def _lost_while_others_in_isr(timeline: Timeline, broker: str, lost: Lost, elected: int | None) -> bool:
    """Whether the log was already short at an earlier start than the one before the election, or may have been, when
    others were in the ISR that may have lost the records, too: then the broker was not alone when it lost them."""
    acked, until = lost.last_acked or 0, elected or 0
    ends = timeline.dated_ends(broker, "loaded", since=acked, until=until)
    loads = [end.when for end in ends if end.end <= lost.first]
    died_at = [time for time in timeline.ends_of_process(broker) if acked < time <= until] or [0]
    # It died several times, and no line shows its log in between.
    is_unseen = bool(timeline.starts_of(broker, died_at[0], died_at[-1])) and not dated(ends, died_at[0], died_at[-1])
    if len(loads) < 2 and not is_unseen:
        return False
    first = died_at[0] if is_unseen else loads[0]
    reported = timeline.isr_between(until=first)
    since, together = (reported[-1].when, reported[-1].isr) if reported else (0, frozenset({broker}))
    # Not every controller reports that the ISR shrank when a broker died.
    died = [e for e in dated(timeline.events, since - 1, first) if e.kind == "died"]
    together -= {e.broker for e in died if e.fact.place is None}
    return together > {broker} and not any(still_had_records(timeline, other, lost) for other in together - {broker})


def _others_in_isr(timeline: Timeline, broker: str, since: int | None, until: int | None) -> list[str]:
    """The other brokers that were in the ISR from the stop of the process that ran at `since` until a time (ns).

    If only the last line of the process is known, it may have stopped while the ISR was still that of this line.
    """
    if since is None or until is None:
        return []
    stopped = ran_until(timeline, broker, since)
    is_recorded = stopped == since or is_process_dead(timeline, broker, stopped, stopped)
    before = frozenset[str]() if is_recorded else isr_at(timeline, stopped)
    after = timeline.isr_between(stopped, until - 1)
    return sorted(before.union(*(report.isr for report in after)) - {broker})
