"""unclean-election: an out-of-sync replica was elected, so the records that it had not fetched were lost.

Needs: the new leader was not among the in-sync or eligible replicas before its election (the metadata log, or the
controller's line). Its log lacked the lost records then (epoch file, segment, state-change.log, or the log when it was
loaded). The replicas that could have been elected instead had not all lost them, too: if all of these started again,
the log of one of them must be known from then. If all in-sync replicas may have lost the tails of their logs, one of
them must provably still have had the records. If KIP-966 elects the last known leader again, the cause is another one:
that leader does not lack records because it was out of sync. Where an unclean election would look the same,
unclean.leader.election.enable must be recorded. Since Kafka 4.0 the brokers' own lines do not name the eligible
replicas. They prove no unclean election if the ISR was smaller than min.insync.replicas, or that setting is not
recorded, unless the new leader logged that the partition was marked as RECOVERING.
"""

from __future__ import annotations

from itertools import takewhile

import polars as pl

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND, Fact, chain, dated
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from ..wording import brokers
from .cases import (
    NOT_THE_CASE,
    Attempt,
    Lost,
    acknowledgement_facts,
    needs,
    needs_isr_of,
    needs_setting_of,
    needs_start_of,
)
from .leader_change import (
    LeaderChange,
    clean_by_configuration,
    facts_without_records,
    find_leader_change,
    isr_before_election,
)
from .log_ends import had_others, was_above
from .outages import end_of_leader, is_dead_or_fenced, reasons_absent
from .prevention import last_down_first_up, more_replicas, no_unclean_election, setting_changes
from .replica_history import (
    facts_had_records,
    facts_log_vanished,
    isr_at,
    return_facts,
    short_log_facts,
    sole_isr_facts,
    truncates_by_epochs,
    truncations,
)
from .returned_records import followed_another
from .surviving_records import missing_if_failed_together, still_had_records
from .writing_term import epoch_at_offset, missing_if_replaced_leader_wrote

CITATION = "KIP-106 (unclean.leader.election.enable), KIP-966 (eligible leader replicas), KAFKA-1211"
REMEDY = "unclean.leader.election.enable=false; min.insync.replicas=2 with acks=all."


def explain_loss(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether the election of an out-of-sync replica lost the records."""
    change = find_leader_change(timeline, lost)
    new = change.new
    if new is None or new.leader is None:
        return needs(*change.missing)
    if change.new is change.old:
        return NOT_THE_CASE
    unclean = new.elected_uncleanly
    if unclean is False:
        return NOT_THE_CASE
    if new.was_last_known is None:
        return needs_setting_of(new)
    if unclean is None:
        return needs_isr_of(new)
    # If all in-sync replicas had already lost the records, no election lost them.
    if together := missing_if_failed_together(timeline, lost):
        return needs(*together)
    if of_others := _missing_of_electable(timeline, new, lost):
        return needs(of_others)
    in_sync = isr_at(timeline, lost.last_acked) - {new.leader}
    if _may_have_had(timeline, change, lost) and not any(still_had_records(timeline, other, lost) for other in in_sync):
        led = f"when broker {new.leader}, which once had them, led"
        return needs(f"evidence that another broker still had the records {led}")
    if back := _later_term_with_records(timeline, new, lost):
        return needs(f"why the records were lost after epoch {back.epoch}, in which broker {back.leader} led with them")
    if doubtful := missing_if_replaced_leader_wrote(timeline, change.old, lost):
        return needs(*doubtful)
    without = facts_without_records(timeline, change, lost)
    if not without:
        return needs_start_of(new.epoch)
    # The brokers that were in sync before do not include the new leader.
    old = change.old_leader or (next(iter(new.electable)) if new.electable and len(new.electable) == 1 else None)
    # Without acknowledgements, the ISR just before the election shows who could not fetch the records.
    just_before = None if new.time is None else new.time - SECOND - 1
    shrunk = sole_isr_facts(timeline, old, just_before if lost.first_acked is None else lost.first_acked) if old else []
    absent_at = next((fact.time for fact in shrunk), None) if lost.last_acked is None else lost.last_acked
    facts = chain(
        change.began,
        shrunk,
        reasons_absent(timeline, new.leader, absent_at),
        _reassignment_facts(timeline, new),
        acknowledgement_facts(lost),
        end_of_leader(timeline, old, change.old, new.time),
        clean_by_configuration(timeline, new.time),
        setting_changes(timeline, lost, new.time),
        new.facts[:1],
        [new.chosen_outside_isr] if new.chosen_outside_isr else [],
        isr_before_election(new),
        facts_log_vanished(timeline, new.leader, lost, new.time),
        without,
        return_facts(timeline, old, lost, new.time),
    )
    order = last_down_first_up(timeline, old, new, lost)
    return Attempt(True, facts, [*no_unclean_election(timeline, new.time), *order, *more_replicas(timeline, lost)])


def _may_have_had(timeline: Timeline, change: LeaderChange, lost: Lost) -> bool:
    """Whether the new leader may have had the records before its election."""
    new = change.new
    if new is None or new.leader is None:
        return False
    elected = new.time if _was_replaced_meanwhile(change, new, lost) else None
    if change.old_leader == new.leader or facts_had_records(timeline, new.leader, lost, elected):
        return True
    # Records that are older than the lost ones show that a long log never had these.
    now = epoch_at_offset(timeline, lost)
    has_older = now is not None and change.old is not None and now < change.old.epoch
    # From its election on, the leader's log may have its own records there.
    return not has_older and was_above(timeline, new.leader, lost, new.time)


def _was_replaced_meanwhile(change: LeaderChange, new: Term, lost: Lost) -> bool:
    """Whether the old leader acknowledged the records after the election of the new one, not knowing of it.

    The new leader began above them, or the first acknowledgement was after its election.
    """
    if change.old is None or new.time is None or lost.first_acked is None:
        return False
    return (new.start is not None and new.start > lost.last) or lost.first_acked >= new.time


def _reassignment_facts(timeline: Timeline, new: Term) -> list[Fact]:
    """The first fact of the reassignment that was adding the new leader when it was elected; empty without one."""
    until = None if new.time is None else new.time + SECOND
    moves = [] if until is None else dated(timeline.moves, until=until)
    return [move.fact for move in takewhile(lambda move: new.leader in move.adding, reversed(moves))][-1:]


def _missing_of_electable(timeline: Timeline, new: Term, lost: Lost) -> str | None:
    """The missing evidence of the replicas that could have been elected instead, if all of them had lost the records
    themselves, or started again and no evidence shows their logs then. None if one of them still had the records.
    """
    others = sorted((new.electable or frozenset()) - {new.leader})
    if not others or any(still_had_records(timeline, other, lost) for other in others):
        return None
    if all(
        short_log_facts(timeline, other, lost, lost.first) or _returned_without(timeline, other, new, lost)
        for other in others
    ):
        return _missing_of_lost_logs(timeline, new, others)
    if all(_started_unseen(timeline, other, new, lost) for other in others):
        return f"whether {brokers(others)}, which started again, still had the records (server.log)"
    return None


def _started_unseen(timeline: Timeline, broker: str, new: Term, lost: Lost) -> bool:
    """Whether a broker started after an election, and no evidence shows its log before it was in sync again."""
    at = new.time
    if at is None:
        return False
    starts = [start.when for start in timeline.starts_of(broker, at)]
    joined = [report.when for report in timeline.isr_between(at) if broker in report.isr]
    if not starts and not (joined and is_dead_or_fenced(timeline, broker, at, at)):
        return False
    # Its log has grown by the records of the new leader when it joins the ISR.
    until = min((time for time in joined if time > min(starts, default=at)), default=MAX_INT64)
    seen = timeline.dated_ends(broker, "loaded", "corruption", "followed", since=at - SECOND, until=until)
    cuts = truncations(timeline, broker, at, lost.last)
    return not seen and not any(cut.time is None or cut.time <= until for cut in cuts)


def _missing_of_lost_logs(timeline: Timeline, new: Term, electable: list[str]) -> str:
    """The missing evidence of replicas that lost the records and could have been elected instead."""
    failed = [b for b in electable if any(fact.kind == "disk-failed" for fact in reasons_absent(timeline, b, new.time))]
    if failed:
        directory = "the log directory" if len(failed) == 1 else "the log directories"
        return f"whether {directory} of {brokers(failed)}, failed before epoch {new.epoch}, still had the records"
    loads = {broker: timeline.dated_ends(broker, "loaded", since=new.time or 0)[:1] for broker in electable}
    if emptied := [broker for broker in electable if any(end.is_new for end in loads[broker])]:
        return f"whether {brokers(emptied)}, without a log at the next start, had lost it before epoch {new.epoch}"
    others = f"{brokers(electable)}, which could have been elected in epoch {new.epoch}"
    return f"why {others}, lacked the records (server.log)"


def _returned_without(timeline: Timeline, broker: str, new: Term, lost: Lost) -> bool:
    """Whether a broker was dead at the election, and its log ended at or below the records when it loaded it next, or
    began to follow, or had other records there.

    It may have started before with all records, so its first start after the acknowledgement proves nothing.
    """
    at = new.time
    if at is None or not is_dead_or_fenced(timeline, broker, at, at) or timeline.dated_ends(broker, "cut", since=at):
        return False
    ends = timeline.dated_ends(broker, "loaded", "followed", since=at)
    return bool(ends) and (ends[0].end <= lost.first or had_others(timeline, ends[0], lost))


def _later_term_with_records(timeline: Timeline, new: Term, lost: Lost) -> Term | None:
    """The first later term of a broker that may still have had the records, so that they returned; else None."""
    now = epoch_at_offset(timeline, lost)
    for term in timeline.terms.values():
        began = MAX_INT64 if term.start is None else term.start
        if term.epoch <= new.epoch or term.leader in (None, new.leader) or began <= lost.last:
            continue
        leader = str(term.leader)
        # Its log had other records then if a leader-epoch-checkpoint with this term's epoch also has one of the new
        # leader or later that begins at or below the lost records.
        epochs = timeline.replica_logs.epochs.filter(broker=leader)
        is_between = pl.col("leader_epoch").is_between(new.epoch, term.epoch - 1)
        others = epochs.filter(is_between, pl.col("start_offset") <= lost.first)
        had_others = epochs.filter(leader_epoch=term.epoch).join(others, on="snapshot", how="semi").height > 0
        had_others = had_others or followed_another(timeline, term, lost, now)
        had_others = had_others or _joined_isr_of(timeline, leader, new)
        was_truncated = bool(truncations(timeline, leader, lost.last_acked, lost.last))
        if not had_others and not was_truncated and was_above(timeline, leader, lost):
            return term
    return None


def _joined_isr_of(timeline: Timeline, broker: str, new: Term) -> bool:
    """Whether a broker joined the ISR while the leader of a term led, so that it had truncated what that one lacked.

    False for logs that are not truncated by leader epochs (KIP-101, KIP-279).
    """
    if new.time is None or new.isr is None or broker in new.isr or not truncates_by_epochs(timeline):
        return False
    later = [term for term in timeline.terms_after(new.epoch) if term.leader not in (None, new.leader)]
    if len(dated(later)) < len(later):
        return False
    until = min((term.when for term in later), default=MAX_INT64) - 1
    return any(broker in report.isr for report in timeline.isr_between(new.time, until))
