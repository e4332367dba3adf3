"""The term that acknowledged the lost records, and the term that lost them. All broker-side causes need both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...histories.evidence.tables import FINAL
from ...histories.tables import MAX_INT64
from ..cached import once
from ..replicas.replica_logs import is_of_copy
from ..timelines.facts import MS, SECOND, Fact, dated, listed
from ..timelines.terms import Term
from ..timelines.timeline import UNCLEAN, Timeline
from .cases import NOT_THE_CASE, Attempt, Lost, leader_files, needs
from .log_ends import time_last_held
from .outages import is_out_of_reach, is_paused, is_process_dead
from .replica_history import facts_had_records, facts_truncated_to, had_stopped, may_have_lost_tail, truncations
from .returned_records import began_with_older, brings_back, returned_term
from .writing_term import (
    began_after_acknowledgement,
    began_before_acknowledgement,
    epoch_at_offset,
    epoch_of_records,
    facts_lost_by_restart,
    late_term,
    led_until,
    replaced_leader,
    resumption_facts,
    writing_term,
)


@dataclass(frozen=True)
class LeaderChange:
    """The term that acknowledged the lost records, the first later term that began at or below them, and the missing
    evidence. Both are one term if a leader returned in its own epoch; `resumed` is the line in which it led on.
    """

    old: Term | None = None
    new: Term | None = None
    missing: tuple[str, ...] = ()
    resumed: tuple[Fact, ...] = ()

    @property
    def successor(self) -> Term | None:
        """The term that lost the records, if it is another one."""
        return self.new if self.new is not self.old else None

    @property
    def began(self) -> list[Fact]:
        """The first fact of the term that acknowledged the records."""
        return self.old.facts[:1] if self.old else []

    @property
    def succeeded(self) -> list[Fact]:
        """The first fact of the successor, or that of a leader that led on in its own epoch."""
        return self.successor.facts[:1] if self.successor else list(self.resumed)

    @property
    def lost_at(self) -> int | None:
        """The time (ns) at which a leader without the records began; None if it is not known."""
        led_on = next((fact.time for fact in self.resumed), None)
        return self.successor.time if self.successor else led_on

    @property
    def start_of_successor(self) -> list[Fact]:
        """The fact of the offset at which the successor's epoch began."""
        return self.successor.start_facts[:1] if self.successor else []

    @property
    def old_leader(self) -> str | None:
        """The broker that acknowledged the records; None if it is not known, or sources conflict."""
        return self.old.leader if self.old and not self.old.has_conflict else None

    @property
    def new_leader(self) -> str | None:
        """The leader of the term that lost the records; None if it is not known, or sources conflict."""
        return self.new.leader if self.new and not self.new.has_conflict else None


@once
def find_leader_change(timeline: Timeline, lost: Lost) -> LeaderChange:
    """The leader change that lost records, by the epochs of the lost record (`then`) and of the record there `now`,
    else by times.

    For example, if epoch 3 wrote the lost record of offset 5, and offset 5 now has a record of epoch 4: from 3 to 4.
    """
    then, now = epoch_of_records(timeline, lost), epoch_at_offset(timeline, lost)
    old = timeline.terms.get(then) if then is not None else writing_term(timeline, lost, now)
    # Records of a transaction were acknowledged at any time since the first.
    acked = lost if lost.committed is None else replace(lost, last_acked=lost.first_acked)
    if old is not None and (began_after_acknowledgement(old, lost) or had_stopped(timeline, old.leader, acked)):
        old = None  # another broker acknowledged them; a metadata log that came back from a backup does not show it
    then = old.epoch if old is not None and now is not None and now < old.epoch else then
    leader = f"the leader of {lost.name} when the records were acknowledged ({leader_files(timeline)})"
    missing = (leader,) if old is None or old.leader is None else ()
    if old is not None and (terms := _replaced_in_term(timeline, old, lost, then, now)):
        writer, replacing = terms
        resumed = resumption_facts(timeline, replacing, lost) if writer is replacing else []
        return LeaderChange(writer, replacing, missing, tuple(resumed))
    # The first epoch began with the partition, so that no record was lost by it.
    after = [term for term in timeline.led_terms if term.epoch > (0 if old is None else old.epoch)]
    new = _losing_term(timeline, LeaderChange(old), after, lost, then, now)
    if (new is None or old is None) and (late := _late_change(timeline, old, after, lost, now)).new:
        return late
    if new is not None and (resumed := facts_lost_by_restart(timeline, new, lost)):
        return LeaderChange(new, new, resumed=tuple(resumed))
    election = f"the election after which {lost.name} lacked offset {lost.first} ({leader_files(timeline)})"
    return LeaderChange(old, new, missing if new is not None else (*missing, election))


def _late_change(timeline: Timeline, old: Term | None, after: list[Term], lost: Lost, now: int | None) -> LeaderChange:
    """The term of a leader that acknowledged records until after its replacement, and the first later term (of `after`)
    that replaced it. If the leader at that time is not known (`old`), its log must have reached beyond the records.
    """
    for term in after:
        stale = late_term(timeline, lost, term, is_without=bool(_final_end_facts(timeline, term, lost)), now=now)
        ends = timeline.dated_ends(stale.leader, "followed", since=lost.first_acked or 0) if stale else []
        if stale and (old.leader == stale.leader if old else any(end.end > lost.last for end in ends)):
            return LeaderChange(stale, term)
    return LeaderChange(old)


def _replaced_in_term(
    timeline: Timeline, old: Term, lost: Lost, then: int | None, now: int | None
) -> tuple[Term, Term] | None:
    """The terms that wrote and replaced the records if no later election lost them; else None.

    The old leader led on without them, or that of an earlier term acknowledged them after it had been replaced.
    """
    if then is None and (replaced := replaced_leader(timeline, old, lost)) is not None:
        return replaced, _first_without(timeline, replaced, old, lost)
    # The epoch of the acknowledgement has other records there, or its leader led on without them.
    is_same_epoch = now == old.epoch or (now is None and bool(resumption_facts(timeline, old, lost)))
    # Only the epoch that has the offset now is known, and the leader of the acknowledgement led until then.
    led_on = then is None and now is not None and led_until(timeline, old, now)
    if not (is_same_epoch or led_on or then is now is None):
        return None
    replacing = timeline.terms[now] if now is not None and old.start is None else old
    is_without = now is not None or bool(_final_end_facts(timeline, old, lost))
    stale = late_term(timeline, lost, replacing, is_without=is_without, now=now)
    if stale is not None:
        return stale, _first_without(timeline, stale, replacing, lost)
    return (old, replacing) if is_same_epoch else None


def _first_without(timeline: Timeline, stale: Term, replacing: Term, lost: Lost) -> Term:
    """The first term after a replaced leader's that began without the records which that leader acknowledged: at or
    below them, or, from an unknown offset, before their acknowledgement.

    Without one it is `replacing`. Later elections lost nothing more: no log that they could choose had the records.
    """
    later = [t for t in timeline.terms_after(stale.epoch) if t.epoch < replacing.epoch and t.leader != stale.leader]
    for term in later:
        is_early = term.leader is not None and began_before_acknowledgement(term, lost)
        if is_early if term.start is None else term.start <= lost.first:
            return term
    return replacing


def _losing_term(
    timeline: Timeline, change: LeaderChange, after: list[Term], lost: Lost, then: int | None, now: int | None
) -> Term | None:
    """The first of the later terms (`after`) that can have lost the records; `change` has the old term.

    For example, epoch 2 wrote them, an out-of-sync leader of epoch 4 still had them, and epoch 6 has their offset now:
    epoch 5 or 6 lost them.
    """
    held_until = max((t.epoch for t in after if brings_back(timeline, t, change.old_leader, lost, now)), default=-1)
    following = [term for term in after if term.epoch > held_until]
    if now is None:
        candidates = [term for term in after if _began_after_records(term, lost, then)]
    elif now < max(held_until, -1 if then is None else then):
        # Records older than the lost ones are there again: their writer never had the lost ones.
        led = [t for t in following if t.start is not None or not _cannot_have_lost(timeline, change, t, lost)]
        return returned_term(timeline, now, led, change.old_leader, lost)
    else:
        candidates = [term for term in following if term.epoch <= now]
    # Their leaders began at or below the records, or at an unknown offset; or the old leader truncated to their logs.
    candidates = [
        term
        for term in candidates
        if term.start is None
        or term.start <= lost.first
        or resumption_facts(timeline, term, lost)
        or facts_truncated_to(timeline, change.old_leader, term, lost)
    ]
    if not candidates:
        return None
    # A term without a known start offset may have had no leader: its leader had already died.
    losing = (t for t in candidates if t.start is not None or not _cannot_have_lost(timeline, change, t, lost))
    return _first_with_start(timeline, next(losing, candidates[0]), candidates)


def _began_after_records(term: Term, lost: Lost, epoch: int | None) -> bool:
    """Whether a later term may have lost the records, by its time, as their offset has no epoch now.

    A term that began before the last acknowledgement did not lose that record (with a second of tolerance, as brokers
    log a little late). If the epoch of the records is known, a later epoch that began at or below them did, even if
    their leader acknowledged them after it was replaced.
    """
    acknowledged = lost.last_acked or lost.written
    if acknowledged is None or (epoch is not None and term.start is not None and term.start <= lost.first):
        return True
    return term.time is not None and term.time > acknowledged - SECOND


def _first_with_start(timeline: Timeline, term: Term, after: list[Term]) -> Term:
    """A term, or the next term of the same leader with a known start offset.

    An out-of-sync leader that is elected again, as when a reassignment completes, lost the records by its first
    election: its log was not longer then. If it restarted in between, it may have had them.
    """
    for later in after[after.index(term) :]:
        if later.leader != term.leader or later.has_conflict:
            return term
        if later.start is not None:
            if later is term or not term.elected_uncleanly:
                return later
            since, until = term.time or 0, later.time or MAX_INT64
            died = any(since < time <= until for time in timeline.ends_of_process(str(term.leader)))
            has_restarted = died or timeline.starts_and_loads(term.leader, since, until)
            return term if has_restarted else replace(term, start=later.start, start_facts=later.start_facts)
    return term


def _cannot_have_lost(timeline: Timeline, change: LeaderChange, term: Term, lost: Lost) -> bool:
    """Whether a later term cannot have lost the records, whatever its start offset: its leader had them and did not
    restart, or began the next term above the first of them; or it was dead, paused, or replaced within a millisecond.
    """
    if term.leader is None or term.time is None or term.has_conflict:
        return False
    following = next(iter(timeline.terms_after(term.epoch)), None)
    goes_on = following is not None and term.leader == change.old_leader == following.leader
    if following is not None and goes_on and not following.has_conflict and (following.start or 0) > lost.first:
        return True
    ends = [time for time in (term.ended, following.time if following else None) if time is not None]
    until = min(ends, default=term.time)
    if ends and until - term.time < MS:
        return True
    since = lost.written if lost.first_acked is None else lost.first_acked
    if since is None:
        return False
    loaded = timeline.ends_of(term.leader, "loaded")
    cut = truncations(timeline, term.leader, since, lost.last)
    changed = timeline.starts_and_loads(term.leader, since, until) or dated(cut, since, until)
    held = time_last_held(timeline, term.leader, lost, change.old, until)
    if held is not None and not any(end.time is None or held < end.time <= until for end in cut):
        return True
    had = term.leader == change.old_leader or facts_had_records(timeline, term.leader, lost)
    if had and loaded and not changed:  # without a line of a load, the broker's starts are not known
        return True
    # Only the history has exact times of deaths: the controller did not know of this one when it elected the broker.
    is_down = is_process_dead(timeline, term.leader, term.time, until)
    return is_down or is_paused(timeline, term.leader, term.time, until)


def facts_without_records(timeline: Timeline, change: LeaderChange, lost: Lost) -> list[Fact]:
    """The facts that the new leader lacked the lost records when it was elected; empty without proof.

    Its epoch began at or below them, or before an earlier leader acknowledged them; or the old leader truncated them to
    its log; or another record was acknowledged there while it led; or it had other records of an older epoch there; or
    its log ended below them, and no broker that responded had them to fetch.
    """
    new = change.new
    if new is None or new.leader is None:
        return []
    if new.start is not None and new.start <= lost.first:
        return new.start_facts[:1]
    if new.start is None and change.old is not None and began_before_acknowledgement(new, lost):
        return new.facts[:1]
    # Restarts of the new leader would be recorded, as a start before its term is.
    is_run_known = new.start is not None or (new.time is not None and timeline.starts_of(new.leader, until=new.time))
    if is_run_known and (cut := facts_truncated_to(timeline, change.old_leader, new, lost)):
        return cut
    if new.start is None and (replaced := _replacement_facts(timeline, new, lost)):
        return replaced
    now = epoch_at_offset(timeline, lost)
    if now is not None and now < new.epoch and began_with_older(timeline, new, lost, now):
        older = timeline.terms[now]
        return [*older.facts[:1], *older.start_facts[:1], *new.start_facts[:1]]
    return [] if new.start is not None else _short_end_facts(timeline, change, new, lost)


def _replacement_facts(timeline: Timeline, new: Term, lost: Lost) -> list[Fact]:
    """The fact that another record was acknowledged at the first lost offset in a term, before any restart."""
    if lost.replaced is None or new.time is None or lost.replaced <= new.time - SECOND:
        return []
    later = [term.time for term in timeline.terms_after(new.epoch) if term.leader not in (None, new.leader)]
    was_replaced = any(time is not None and new.time < time <= lost.replaced for time in later)
    if was_replaced or timeline.starts_and_loads(new.leader, new.time, lost.replaced):
        return []
    text = f"another record was acknowledged at offset {lost.first} of {lost.name}"
    place = lost.replaced_place
    return [Fact(text, "acknowledged", lost.replaced, place=place, partition=lost.name, offset=lost.first)]


def _short_end_facts(timeline: Timeline, change: LeaderChange, new: Term, lost: Lost) -> list[Fact]:
    """The fact that the new leader's log ended at or below the lost records at its election; empty without proof.

    It did so before, and all leaders since were dead or paused, so that it could not fetch them again; or it still did
    at the next known log end, or when it refused a fetch, as a leader's log only grows.
    """
    until, since, broker = new.time, lost.last_acked or lost.written, new.leader or ""
    if until is None or since is None or change.old is None:
        return []
    ends = timeline.dated_ends(broker, "loaded", "truncated", "followed", "snapshot", "corruption", since=since - 1)
    before, after = dated(ends, until=until), dated(ends, until)
    terms = [term for term in timeline.terms.values() if change.old.epoch <= term.epoch < new.epoch]
    others = ({term.leader for term in terms} | (new.electable or frozenset())) - {None, broker}
    if before and others:
        end = before[-1]
        alone = all(is_out_of_reach(timeline, other or "", end.when, until) for other in others)
        if alone and end.kind in ("loaded", "truncated") and end.end <= lost.first:
            return [end.fact]
    if after:
        end = after[0]
        # A load has the same time as the start that it belongs to.
        cut = end.kind in ("truncated", "corruption") or may_have_lost_tail(timeline, broker, until, end.when + SECOND)
        if not cut and end.end <= lost.first:
            return [end.fact]
    if refused := _refusal_facts(timeline, new, lost):
        return refused
    is_logged = any(end.kind in ("loaded", "truncated") for end in before)  # its server.log is at hand since then
    return _final_end_facts(timeline, new, lost) if is_logged else []


def _refusal_facts(timeline: Timeline, new: Term, lost: Lost) -> list[Fact]:
    """The fact that the new leader refused a fetch in its term, as its log ended at or below the lost records.

    Empty without proof. A leader's log only grows, so it ended there at the election, unless a restart lost its tail.
    """
    broker, began = new.leader or "", new.time or 0
    others = [term for term in timeline.terms_after(new.epoch) if term.leader != broker]
    if any(term.time is None for term in others):
        return []
    over = min((term.when for term in others), default=MAX_INT64)
    # The followers' clocks may be behind, but a refusal before the election would be of an earlier term.
    led = any(term.leader == broker and term.epoch < new.epoch for term in timeline.terms.values())
    since = began + 1 if led else began - SECOND
    for end in timeline.dated_ends(broker, "refused", since=since - 1, until=over - 1):
        if end.end <= lost.first:
            return [] if may_have_lost_tail(timeline, broker, began, end.when + SECOND) else [end.fact]
    return []


def _final_end_facts(timeline: Timeline, new: Term, lost: Lost) -> list[Fact]:
    """The fact that the new leader's log ended at or below the lost records at the end of the run; empty without proof.

    It led until then, so its log only grew. For a leader with a server.log, which would show a truncation.
    """
    broker, since, logs = new.leader or "", new.time or 0, timeline.replica_logs
    others = any(term.leader != broker for term in timeline.terms_after(new.epoch))
    kinds = ("truncated", "corruption", "loaded", "followed")
    changed = any(end.time is None or end.time > since for end in timeline.ends_of(broker, *kinds))
    damaged = logs.damage.filter(is_of_copy(FINAL, broker)).height > 0
    if others or changed or timeline.was_deleted or damaged or may_have_lost_tail(timeline, broker, since, None):
        return []
    ends = [end for end in timeline.ends_of(broker, "snapshot") if end.snapshot == FINAL]
    return [end.fact for end in ends if end.end <= lost.first]


def clean_by_configuration(timeline: Timeline, at: int | None) -> list[Fact]:
    """The fact that the topic's configuration permitted no unclean election at a time (ns; None: at any time).

    Empty if it did, or is not recorded.
    """
    settings = timeline.settings_between(UNCLEAN, at, at) if timeline.allows_only_clean_elections(at) else []
    return [setting.fact for setting in settings][:1]


def isr_before_election(new: Term) -> list[Fact]:
    """The fact with the ISR or the eligible brokers just before an election, and whether the new leader was one."""
    if not new.electable:
        return []
    if isr_fact := new.electable_fact:
        isr, leader = isr_fact.isr or frozenset(), new.leader
        text = f"broker {leader} was {'' if leader in isr else 'not '}in the ISR before its election: {listed(isr)}"
        if leader in new.eligible:
            text = f"broker {leader} was an eligible leader replica before its election; the ISR was {listed(isr)}"
        elif leader in new.electable - isr:
            text = f"broker {leader} joined the ISR {listed(isr)} at its election, as a reassignment ended"
        source = (new.time, isr_fact.source, isr_fact.line, isr_fact.byte)
        return [Fact(text, "in-sync-before", *source, broker=new.leader, brokers=new.electable)]
    return [election.fact for election in new.elections if election.electable == new.electable]


def in_isr_before_election(new: Term) -> list[Fact]:
    """The fact that the new leader was in the ISR or eligible just before its election; empty without proof."""
    return isr_before_election(new) if new.electable and new.leader in new.electable else []


def clean_leader_change(timeline: Timeline, lost: Lost) -> tuple[LeaderChange, Term] | Attempt:
    """The leader change to another broker by an election that was not unclean; otherwise the attempt to return."""
    change = find_leader_change(timeline, lost)
    if change.new is None or change.new_leader is None:
        return needs(*change.missing)
    if change.old_leader == change.new_leader or change.new.elected_uncleanly:
        return NOT_THE_CASE
    return change, change.new
