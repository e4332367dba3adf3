"""The term in which a lost record was written: by its leader epoch in a log, else by its acknowledgement."""

from __future__ import annotations

import polars as pl

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND, Fact, dated
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from .cases import Lost
from .outages import is_paused, is_process_dead
from .replica_history import facts_had_records, truncations


def epoch_of_records(timeline: Timeline, lost: Lost) -> int | None:
    """The leader epoch of the lost records; None if neither a truncation nor a log with the first one shows it."""
    if lost.epoch is not None:
        return lost.epoch
    is_first = pl.col("value").is_in(list(lost.values))
    return _only_epoch(timeline.replica_logs.records.filter(is_first, offset=lost.first))


def epoch_at_offset(timeline: Timeline, lost: Lost) -> int | None:
    """The leader epoch of the record that is at the first lost offset now."""
    logs = timeline.replica_logs
    now = logs.last_records.filter(is_another(lost), offset=lost.first)
    of_leader = now.filter(broker=logs.leader or "")
    return _only_epoch(of_leader if len(of_leader) else now)


def is_another(lost: Lost) -> pl.Expr:
    """An expression on records at the first lost offset: whether one is not among the lost ones.

    A tombstone is named by its offset, and logs do not name it.
    """
    names = {value.partition("#")[0] for value in lost.values}
    is_tombstone = pl.col("value").is_null() & pl.col("control").is_null() & pl.lit(f"tombstone@{lost.first}" in names)
    return ~(pl.col("value").is_in(list(lost.values)).fill_null(False) | is_tombstone)


def _only_epoch(records: pl.DataFrame) -> int | None:
    """The leader epoch of records; None if they have none or several."""
    epochs = records["leader_epoch"].drop_nulls().unique()
    return int(epochs[0]) if len(epochs) == 1 else None


def writing_term(timeline: Timeline, lost: Lost, now: int | None) -> Term | None:
    """The term that wrote the first lost record, by its acknowledgement; None if it is not certain.

    now: the epoch of the record that is at the offset now. It may be older than the term: its leader may have been dead
    when the lost records were acknowledged, or may have had its own record there all the time. A leader that continues
    in a new epoch wrote the records at or above its start in that epoch, also those that the client sent before.
    """
    term = _term_at(timeline, lost.first_acked or lost.written, now)
    if newer := _newer_term(timeline, term, lost, now):
        term, now = newer, None
    if term is None:
        return None
    later = [t for t in timeline.led_terms if t.epoch > term.epoch and (now is None or t.epoch < now)]
    for following in later:
        if not _goes_on(timeline, term, following, lost):
            break
        term = following
    return term


def began_after_acknowledgement(term: Term, lost: Lost) -> bool:
    """Whether the recorded leader of a term cannot have acknowledged the records, as it was elected later.

    With a second of tolerance, as brokers log a little late.
    """
    return term.time is not None and lost.first_acked is not None and lost.first_acked < term.time - SECOND


def began_before_acknowledgement(term: Term, lost: Lost) -> bool:
    """Whether the leader of a term was elected before the records were acknowledged, with the same tolerance."""
    return term.time is not None and lost.first_acked is not None and term.time < lost.first_acked - SECOND


def late_term(timeline: Timeline, lost: Lost, new: Term, *, is_without: bool, now: int | None) -> Term | None:
    """The only term before `new` in which a leader acknowledged the records after its replacement; else None.

    is_without: whether the new leader's log has another record of its epoch at the first lost offset, or ends there.
    now: the epoch of the record that is at the offset now. If it is that of `new`, its leader wrote that record before
    the next term, so its later starts do not matter.
    """
    if new.start is None or new.start > lost.first:
        return None
    earlier = [term for term in timeline.terms.values() if term.epoch < new.epoch]
    following = [term.when for term in dated(timeline.terms_after(new.epoch))]
    until = min(following, default=MAX_INT64) if now == new.epoch else MAX_INT64
    stale = [term for term in earlier if _acknowledged_late(timeline, term, lost, new, is_without, until)]
    return stale[-1] if len({term.leader for term in stale}) == 1 else None


def replaced_leader(timeline: Timeline, term: Term, lost: Lost) -> Term | None:
    """The `late_term` if an earlier copy of a log has another record of `term` at the first lost offset; else None.

    Later epochs may have replaced that record, too.
    """
    at = timeline.replica_logs.records.filter(offset=lost.first, leader_epoch=term.epoch)
    has_others = at.filter(is_another(lost)).height > 0
    return late_term(timeline, lost, term, is_without=True, now=term.epoch) if has_others else None


def _acknowledged_late(timeline: Timeline, stale: Term, lost: Lost, new: Term, is_without: bool, until: int) -> bool:
    """Whether the leader of a term acknowledged the records in the time of a later term, and truncated them later.

    Without that truncation, the log of the new leader proves that the new leader did not acknowledge them. False if the
    new leader may have lost records of its own by a start before `until` (ns).
    """
    if lost.last_acked is None or stale.has_conflict or stale.leader in (None, new.leader):
        return False
    if _appended_another(timeline, stale, new, lost):
        return False
    cuts = truncations(timeline, stale.leader, lost.last_acked, lost.first)
    until = min([until, *(cut.when for cut in dated(cuts))])
    # Whether the evidence has the starts of the new leader.
    is_known = bool(cuts) or (is_without and bool(timeline.starts_of(new.leader)))
    since = lost.last_acked - SECOND if new.time is None else max(lost.last_acked - SECOND, new.time)
    if not is_known or timeline.starts_of(new.leader, since, until):
        return False
    # A broker that begins to follow has not truncated yet what it acknowledged as leader.
    followed = timeline.dated_ends(stale.leader, "followed", until=until - 1)
    later = [end for end in followed if (end.fact.epoch or 0) > stale.epoch]
    began = [end.end for end in later if cuts or end.fact.epoch == stale.epoch + 1]
    return (not began or began[0] > lost.first) and _may_have_led_on(timeline, stale, new, lost)


def _appended_another(timeline: Timeline, stale: Term, new: Term, lost: Lost) -> bool:
    """Whether the leader of a term acknowledged another record at the first lost offset before a later term began."""
    until = MAX_INT64 if new.time is None else new.time
    return _held_another(timeline, stale, [at for _, at in lost.earlier if (stale.time or 0) <= at < until], lost)


def _held_another(timeline: Timeline, term: Term, acknowledged: list[int], lost: Lost) -> bool:
    """Whether the leader of a term acknowledged another record at the first lost offset, at the first of these times
    (ns), and did not start again.

    A leader appends each offset once, so it did not acknowledge the lost record.
    """
    return bool(acknowledged) and not timeline.starts_and_loads(term.leader, acknowledged[0], lost.last_acked or 0)


def _may_have_led_on(timeline: Timeline, stale: Term, new: Term, lost: Lost) -> bool:
    """Whether a replaced leader may have led, unaware of its replacement, until the records were acknowledged."""
    acknowledged = lost.last_acked or 0
    # The client may have had the acknowledgement a second after the leader sent it.
    sent = (acknowledged if lost.first_acked is None else lost.first_acked) - SECOND
    followed = timeline.dated_ends(stale.leader, "followed", until=sent)
    has_learned = any((end.fact.epoch or 0) > stale.epoch for end in followed)
    # A process that starts after the new election does not lead in the earlier term. A start in the second after it may
    # be from before, unless the process was dead at the election.
    since = MAX_INT64 if new.time is None else new.time + SECOND
    if new.time is not None and is_process_dead(timeline, stale.leader or "", new.time, new.time):
        since = new.time
    started = timeline.starts_and_loads(stale.leader, since, acknowledged)
    over = min([acknowledged, *(time - 1 for time in started)])
    return sent <= over and not has_learned and not _is_stopped(timeline, stale.leader or "", sent, over)


def _is_stopped(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether the process of a broker was dead or paused from one time to another (ns).

    Without a recorded end of the pause, the broker may have resumed before.
    """
    resumed = [fault.invoked for fault, _ in timeline.faults_and_heals(broker) if fault.type == "heal"]
    is_asleep = is_paused(timeline, broker, since, until) and max(resumed, default=until) > until
    return is_asleep or is_process_dead(timeline, broker, since, until)


def _goes_on(timeline: Timeline, term: Term, following: Term, lost: Lost) -> bool:
    """Whether the process that led a term began the next one before the last acknowledgement, at or below the lost
    records or from an unknown offset.
    """
    if term.leader != following.leader or term.has_conflict or following.has_conflict:
        return False
    if term.time is None or following.time is None or following.time > lost.stored_at:
        return False
    is_below = following.start is None or following.start <= lost.first
    return is_below and not timeline.starts_of(term.leader, term.time, following.time)


def _term_at(timeline: Timeline, time: int | None, now: int | None) -> Term | None:
    """The term at a time (ns), at most epoch `now`; None if it is not certain."""
    if time is None:
        return None
    known = [term for term in dated(timeline.led_terms, until=time) if now is None or term.epoch <= now]
    if known:
        return known[-1]
    # No term has such a time. Epoch 0 led then for certain if it is the only one before `now`.
    up_to_now = [term for term in timeline.led_terms if now is not None and term.epoch <= now]
    return up_to_now[0] if len(up_to_now) == 2 and up_to_now[0].epoch == 0 else None


def _newer_term(timeline: Timeline, term: Term | None, lost: Lost, now: int | None) -> Term | None:
    """The term after epoch `now` that acknowledged the lost records, if no leader of another term can have; else None.

    Another leader cannot have if it was dead then. Or it was dead when the term began and has not led since: a broker
    that starts later leads no earlier term.
    """
    if term is None or now is None or lost.first_acked is None or lost.last_acked is None:
        return None
    led = dated(timeline.led_terms, until=lost.first_acked)
    newer = [t for t in led if t.epoch > now and not _begins_above(t, lost)]
    if not newer or newer[-1].has_conflict:
        return None
    newest, until = newer[-1], lost.last_acked
    begun = [t for t in timeline.led_terms if (t.time is None or t.time <= until) and not _begins_above(t, lost)]
    others = {t.leader or "" for t in begun} - {newest.leader}
    have_led_since = {t.leader for t in begun if t.epoch > newest.epoch}
    # The client may have had the acknowledgement a second after the leader sent it.
    since = lost.first_acked - SECOND

    def is_out(broker: str) -> bool:
        was_dead_at_election = is_process_dead(timeline, broker, newest.when - SECOND, newest.when)
        return (
            _is_stopped(timeline, broker, since, until)
            or (was_dead_at_election and broker not in have_led_since)
            or (broker == term.leader and _had_present_record(timeline, term, newest, lost))
        )

    return newest if term.leader in others and all(map(is_out, others)) else None


def _had_present_record(timeline: Timeline, term: Term, newest: Term, lost: Lost) -> bool:
    """Whether the leader of a term had, all the time, the record that is at the first lost offset now.

    It wrote one record there if it did not start again before a later term began. No process leads after that in a term
    that began before it started.
    """
    present = timeline.replica_logs.last_records.filter(offset=lost.first, leader_epoch=term.epoch)["value"]
    acknowledged = [time for value, time in lost.earlier if value in present]
    began = term.claims.get(term.leader or "")
    if not timeline.starts_and_loads(term.leader):
        return False
    if len(present) and began is not None and not timeline.starts_and_loads(term.leader, began, newest.when + SECOND):
        return True
    return _held_another(timeline, term, acknowledged, lost)


def _begins_above(term: Term, lost: Lost) -> bool:
    """Whether a term began above the lost records, so that its leader did not write them in it."""
    return term.start is not None and term.start > lost.last


def resumption_facts(timeline: Timeline, term: Term, lost: Lost) -> list[Fact]:
    """The line in which the leader of a term led again from at or below the records, after a restart that followed
    their acknowledgement; empty without one.

    The controller keeps the epoch of the only broker in the ISR if that restarts before its session ends.
    """
    ends = timeline.dated_ends(term.leader, "loaded", since=lost.stored_at)
    below = [end.fact for end in ends if end.end <= lost.first]
    return [fact for fact in below if (fact.kind, fact.epoch) == ("begins", term.epoch)][:1]


def led_until(timeline: Timeline, term: Term, epoch: int) -> bool:
    """Whether the leader of a term also led in all known epochs after it up to this one."""
    led = [t for t in timeline.terms.values() if term.epoch <= t.epoch <= epoch]
    return epoch in timeline.terms and all(t.leader == term.leader and not t.has_conflict for t in led)


def facts_lost_by_restart(timeline: Timeline, term: Term, lost: Lost) -> list[Fact]:
    """The line in which a leader led on without records of an earlier term, with which it had begun; empty without."""
    had_them = (term.start or 0) > lost.last and facts_had_records(timeline, term.leader or "", lost)
    return resumption_facts(timeline, term, lost) if had_them else []


def missing_if_replaced_leader_wrote(timeline: Timeline, term: Term | None, lost: Lost) -> list[str]:
    """The missing evidence for records that a replaced leader may have acknowledged, and truncated later: the previous
    one just after an election, or one that may not have learned of its replacement.

    With acks=all only a leader that was alone in the ISR acknowledges records that no other broker has.
    """
    if term is None or lost.first_acked is None or epoch_of_records(timeline, lost) is not None:
        return []
    if lost.acks != {"1"} and not _may_have_replaced_only_member(timeline, term):
        return []
    first = lost.first_acked
    previous = _previous_term(timeline, term)
    while previous is not None and previous.leader == term.leader:
        term, previous = previous, _previous_term(timeline, previous)
    is_out = previous is not None and (
        is_process_dead(timeline, previous.leader or "", first, first)
        or _appended_another(timeline, previous, term, lost)
    )
    if term.epoch > 0 and term.time is not None and first - term.time < SECOND and not is_out:
        return [f"whether broker {term.leader}, which had just been elected, acknowledged the records"]
    earlier = [t for t in timeline.led_terms if t.epoch < term.epoch and t.leader != term.leader]
    replaced = next((t for t in earlier if _may_have_written(timeline, t, term, lost)), None)
    if replaced is None:
        return []
    return [f"whether broker {term.leader} acknowledged the records, or broker {replaced.leader}, its predecessor"]


def _may_have_replaced_only_member(timeline: Timeline, term: Term) -> bool:
    """Whether a term's leader came from outside of an ISR that may have had only the leader before it."""
    previous = _previous_term(timeline, term)
    if previous is not None and previous.leader == term.leader:
        return False
    alone = term.electable if previous is None else {previous.leader}
    was_alone = term.electable is None or (len(term.electable) == 1 and term.electable == alone)
    return was_alone and term.elected_uncleanly is True


def _previous_term(timeline: Timeline, term: Term) -> Term | None:
    """The term of the last epoch before this one that had a leader; None if it is not recorded."""
    without_leader = {fact.epoch for fact in timeline.isr_reports if fact.kind == "leaderless"}
    without_leader = (without_leader | timeline.leaderless_epochs) - timeline.terms.keys()
    epoch = term.epoch - 1
    while epoch in without_leader:
        epoch -= 1
    return timeline.terms.get(epoch)


def _may_have_written(timeline: Timeline, stale: Term, new: Term, lost: Lost) -> bool:
    """Whether a replaced leader may have had the lost records of its own: by the next known end of its log, or as it
    had left the ISR when the next leader began.
    """
    if lost.last_acked is None or stale.has_conflict or not _may_have_led_on(timeline, stale, new, lost):
        return False
    if _appended_another(timeline, stale, new, lost):
        return False
    ends = timeline.dated_ends(stale.leader, "loaded", "followed", since=lost.last_acked - SECOND)
    return ends[0].end > lost.first if ends else stale.leader not in (new.isr or {stale.leader})
