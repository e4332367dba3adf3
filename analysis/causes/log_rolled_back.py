"""log-rolled-back: a broker had the records on disk, and returned with an older log, a shorter one, or none.

Kafka trusts a member of the ISR to have every committed record when it starts again. If its log is restored from an
older copy, or cut, or its disk is replaced by an empty one, while the broker is down, it can still be elected cleanly,
and the others truncate to it. A power failure does not explain this: flushed records, and records in the files of a
stopped broker, are on the disk.

Needs: proof that the broker that leads afterwards had the records on disk. Either a log of it, copied while it was
down, has them. Or it was in sync when or after they were acknowledged, or acknowledged them itself, and there is one of
these: a recovery point above them (everything below it was flushed); a copy of its log that another broker loaded,
which had been down while they were written; a fault in the history that replaced its log, or cut it after a shutdown,
and no power failure; a fault in the history that shut it down cleanly, if its next start recovered no logs, or a line
of that start which shows that it had been (all logs were flushed); a line that it found no log and created one, if its
process had been killed or shut down, or the log was a minute old; or a registration without the log.dir of its replica,
or with none of those that it had before (directory.id, since Kafka 3.7). Also, a later log of the same broker ended at
or below them without a truncation: in the files, by the fault that cut it, or where the broker led again. And its
election was not unclean. A cut after a kill is no such evidence: it may stand for a tail that had not been flushed.
"""

from __future__ import annotations

from itertools import dropwhile

import polars as pl

from ..replicas.replica_logs import in_snapshot, is_of_copy
from ..timelines.changes import LogEnd
from ..timelines.facts import SECOND, Fact, chain, dated, fact_of
from ..timelines.fault_kinds import DEATHS, DISK_FAULTS
from ..timelines.timeline import Timeline
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs
from .leader_change import find_leader_change
from .log_ends import is_held
from .outages import death_facts, is_process_dead, last_stop, lost_power, ran_until, reasons_absent, recovered_logs
from .prevention import second_replica, setting_changes
from .replica_history import (
    facts_had_records,
    faults_on_records,
    is_committed,
    isr_at,
    lasting_cuts,
    leads_next,
    may_another_have_led,
    may_have_followed,
    may_have_lost_tail,
    return_facts,
    term_led_again,
    truncations,
)
from .surviving_records import still_had_records

CITATION = (
    "Kafka's documentation of replication (a member of the ISR has every committed record), KIP-966; LogManager,"
    " recovery-point-offset-checkpoint"
)
REMEDY = (
    "Start a broker with its own newest log, never with an older copy; start an in-sync replica that still has the"
    " records before it. With a replication factor of 1, a second replica."
)
RESTORED = ("fault-restore", "fault-restore-backup")
CUT = "fault-truncate"
IN_FLIGHT_NS = 5 * SECOND  # from the append of a record until its acknowledgement
FOLDER_FLUSH_NS = 60 * SECOND  # file systems write a new folder within half of that
PREVENTED_BY = ["starting the broker with its own newest log instead of an older copy or an empty disk"]
PREVENTED_CUT_BY = ["starting the broker with its own log as it was when it stopped, without cutting it"]


def explain_loss(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether the next leader's log lost the records although they were on its disk."""
    change = find_leader_change(timeline, lost)
    successor, broker = change.successor, change.new_leader
    if broker is None or (successor is not None and successor.elected_uncleanly):
        return NOT_THE_CASE
    disk_faults = faults_on_records(timeline, broker, DISK_FAULTS, lost, change.lost_at)
    rollback = rollback_facts(timeline, broker, lost)
    if not rollback:
        if not any(fact.kind in RESTORED for fact in disk_faults):
            return NOT_THE_CASE
        return needs(
            f"evidence that broker {broker} had the records before its log was replaced (a snapshot of it, or its"
            " recovery-point-offset-checkpoint)"
        )
    since = max((fact.time for fact in rollback if fact.time is not None), default=None)
    old = change.old_leader if change.old_leader != broker else None
    facts = chain(
        change.began,
        setting_changes(timeline, lost, None),
        acknowledgement_facts(lost),
        death_facts(timeline, broker, since),
        disk_faults,
        rollback,
        change.succeeded,
        change.start_of_successor,
        return_facts(timeline, old, lost, since),
    )
    was_cut = any(fact.kind == CUT for fact in rollback)
    in_sync = sorted(isr_at(timeline, since) - {broker})
    held = next((other for other in in_sync if still_had_records(timeline, other, lost)), None)
    first = [f"starting broker {held}, in sync and with the records, before broker {broker}"] if held else []
    measures = PREVENTED_CUT_BY if was_cut else PREVENTED_BY
    return Attempt(True, facts, [*measures, *first, *second_replica(timeline)])


def rollback_facts(timeline: Timeline, broker: str, lost: Lost) -> list[Fact]:
    """The facts that a broker had the lost records on disk, and that its log later ended at or below them; empty
    without proof.

    For example, a copy of its log has offset 5, it truncated nothing since, and its next start loaded a log that ends
    at offset 3.
    """
    ends = [*timeline.ends_of(broker, "snapshot", "loaded", "followed", "corruption"), *lasting_cuts(timeline, broker)]
    again = term_led_again(timeline, broker, lost)
    if again is not None and again.start is not None:
        ends.append(LogEnd(again.facts[0], broker, again.start, "led"))
    short_ends = [end for end in dated(ends, lost.stored_at) if end.end <= lost.first]
    for short in short_ends:
        # Its log was as short before, and it has fetched nothing since: this start lost nothing.
        loads = [end.when for end in short_ends if end.kind == "loaded" and end.when < short.when]
        if loads and not may_another_have_led(timeline, broker, loads[0], short.when):
            continue
        copied = _copied_facts(timeline, broker, lost, ends, short.when)
        if held := copied or _held_on_disk_facts(timeline, broker, lost, short):
            return [*held, short.fact]
    return []


def _copied_facts(timeline: Timeline, broker: str, lost: Lost, ends: list[LogEnd], until: int) -> list[Fact]:
    """The fact of the last copy of the broker's disk with the records, unless it truncated them since; else empty.

    A snapshot shows what was on the disk if the broker was down, and no power failure followed.
    """
    copies = [end for end in dated(ends, lost.stored_at - 1, until - 1) if end.kind == "snapshot"]
    held = [end for end in copies if is_held(timeline, end, lost)]
    stopped = [end for end in held if reasons_absent(timeline, broker, end.when)]
    on_disk = [end for end in stopped if not lost_power(timeline, broker, end.when, until)]
    return [end.fact for end in on_disk[-1:] if not _is_cut(timeline, broker, lost, end.when, until)]


def _held_on_disk_facts(timeline: Timeline, broker: str, lost: Lost, short: LogEnd) -> list[Fact]:
    """The facts that a broker had the records in sync or as leader, and that they were on its disk; else empty."""
    in_sync, change = _in_sync_facts(timeline, broker, lost, short.when), find_leader_change(timeline, lost)
    if not in_sync and change.old_leader != broker:
        return []
    had = in_sync or change.began
    since = max([lost.stored_at, *(fact.time or 0 for fact in had)])
    # The ISR may still have a broker that is dead: its disk has been the same since its death.
    has_leader = all(fact.kind != "leaderless" for fact in had)
    since = max(lost.stored_at, _dead_since(timeline, broker, since, has_leader))
    followed = max(since, _death_while_following(timeline, broker, lost, short.when))
    if _is_cut(timeline, broker, lost, followed, short.when):
        return []
    known = _recovery_point_facts(timeline, short, lost) or _copy_facts(timeline, broker, lost)
    known = known or _replacement_facts(timeline, broker, lost, short, since)
    return [*had, *known] if known else []


def _is_cut(timeline: Timeline, broker: str, lost: Lost, since: int, until: int) -> bool:
    """Whether the broker may have truncated the records to a leader's log between two times."""
    cuts = truncations(timeline, broker, since, lost.first)
    if any(cut.time is None or since <= cut.time <= until for cut in cuts):
        return True
    since = _led_on_until(timeline, broker, since, until)
    return (
        since < until
        and not reasons_absent(timeline, broker, until)
        and may_have_followed(timeline, broker, since, until)
    )


def _led_on_until(timeline: Timeline, broker: str, at: int, until: int) -> int:
    """The time (ns) at which the term that another broker led at `at` ended without a next leader, or `until` if none
    is known to have ended it before; else `at`.

    A broker that follows a leader in sync truncates no record that both have until that leader starts again.
    """
    led = dated(timeline.terms.values(), until=at)[-1:]
    if not led or led[0].leader in (None, broker):
        return at
    ended, is_last = led[0].ended, not dated(timeline.terms.values(), at, until)
    end = ended if ended is not None and ended > at else until if is_last else at
    return at if timeline.starts_of(led[0].leader, at, end) else end


def _in_sync_facts(timeline: Timeline, broker: str, lost: Lost, until: int) -> list[Fact]:
    """The last fact that the broker was in the ISR after the records were acknowledged, or else when they were.

    A follower in the ISR may lack records that are not committed, such as unread ones of acks=1. It has them if it
    joined the ISR since, or led with them. Once a leader began at or below the records, or was elected uncleanly, no
    ISR shows who has them.
    """
    later_terms = dated(timeline.terms.values(), lost.stored_at)
    without = [t for t in later_terms if t.elected_uncleanly or (t.start is not None and t.start <= lost.first)]
    until = min([until, *(term.when for term in without)])
    later = timeline.isr_between(lost.stored_at, until - 1)
    if not is_committed(lost):
        earlier = timeline.isr_between(until=lost.stored_at)
        if earlier and broker in earlier[-1].isr:
            later = list(dropwhile(lambda report: broker in report.isr, later))
        if not later:  # it may have led since from above the records, by a clean election
            led = [t for t in dated(timeline.led_terms, lost.stored_at) if t.leader == broker]
            clean = [t for t in led if (t.start or 0) > lost.last and t.elected_uncleanly is False]
            later = timeline.isr_between(clean[0].when - 1, until - 1) if clean else []
    return [report.fact for report in later if broker in report.isr][-1:] or facts_had_records(timeline, broker, lost)


def _death_while_following(timeline: Timeline, broker: str, lost: Lost, until: int) -> int:
    """The time (ns) of a broker's last death before `until`; 0 without one, or if the leader that acknowledged the
    records was replaced before it or may have lost its tail.

    Until then the broker followed that leader, and kept the records.
    """
    died = [event.when for event in timeline.life_of(broker, until=until - 1) if event.kind == "died"]
    if not died or any(lost.stored_at < (term.time or 0) < died[-1] for term in timeline.terms.values()):
        return 0
    led = dated(timeline.terms.values(), until=lost.stored_at)[-1:]
    is_unsure = any(may_have_lost_tail(timeline, term.leader or "", lost.stored_at, died[-1]) for term in led)
    return 0 if is_unsure else died[-1]


def _dead_since(timeline: Timeline, broker: str, at: int, has_leader: bool) -> int:
    """The time (ns) at which the broker's process had ended, if it was dead at `at`; else `at`.

    While a partition has no leader, no broker of its ISR serves, also if one has started since and failed.
    """
    is_down = not has_leader or is_process_dead(timeline, broker, at, at)
    return max((time for time in timeline.ends_of_process(broker) if time <= at), default=at) if is_down else at


def _replacement_facts(timeline: Timeline, broker: str, lost: Lost, short: LogEnd, since: int) -> list[Fact]:
    """The facts that the log which a broker started with is not the one that it left; empty after a power failure."""
    # What came after it led without the records did not lose them.
    led = [term for term in dated(timeline.led_terms, lost.stored_at) if term.leader == broker]
    led_without = [term.when for term in led if term.start is not None and term.start <= lost.first]
    until = min([short.when, *led_without])
    if lost_power(timeline, broker, lost.stored_at, until):
        return []
    changed = dated(faults_on_records(timeline, broker, DISK_FAULTS, lost, None), since - 1, until)
    restored = [fact for fact in changed if fact.kind in RESTORED]
    cut = [step for fact in changed for step in _cut_facts(timeline, broker, lost, fact)][:2]
    # A broker that was shut down cleanly had flushed its logs, so a log that is short after the next start is another.
    clean_starts = [fact for fact in dated(timeline.clean_starts, since, until) if fact.broker == broker][:1]
    clean_starts = [fact for fact in clean_starts if _is_first_start(timeline, broker, fact, since)]
    clean_stops = clean_starts or _shutdown_facts(timeline, broker, since, until)
    new_disks = [fact for fact in timeline.new_disks if _is_of_start(timeline, fact, short, since)][:1]
    return restored or cut or clean_stops or new_disks or _empty_disk_facts(timeline, lost, short)


def _is_first_start(timeline: Timeline, broker: str, clean_start: Fact, since: int) -> bool:
    """Whether the start with this line is the first one since a time (ns), by the broker's log, which has its start."""
    sources = {start.fact.source for start in timeline.starts_of(broker, since, clean_start.when)}
    return clean_start.source in sources and timeline.starts_once(broker, since, clean_start.when)


def _copy_facts(timeline: Timeline, broker: str, lost: Lost) -> list[Fact]:
    """The facts that another broker loaded a log with the records, though it had been down while they were written.

    If that log is longer than all others, it is a copy of this broker's log, so this broker's disk had the records. The
    other broker had followed in sync, so that it had no later records of its own. Empty without proof.
    """
    first, last = lost.first_acked, lost.last_acked
    if first is None or last is None:
        return []
    later = [timeline.dated_ends(other, "loaded", since=last)[:1] for other in sorted(timeline.members - {broker})]
    longest = max((end.end for ends in later for end in ends), default=0)
    copies = [end for ends in later for end in ends if end.end == longest > lost.last]
    if len(copies) != 1 or not all(later):
        return []
    [copy] = copies
    other = copy.broker
    if not is_process_dead(timeline, other, first, last):
        return []
    died = max(time for time in timeline.ends_of_process(other) if time <= first)
    led = [term.leader for term in dated(timeline.terms.values(), until=died)]
    left = [report.when for report in timeline.isr_between(died, last) if other not in report.isr]
    # What it may have fetched was acknowledged when it left the ISR.
    missed_some = bool(left) and last > left[0] + IN_FLIGHT_NS
    had_followed = bool(led) and led[-1] != other and other in isr_at(timeline, died - 1)
    return [*death_facts(timeline, other, first)[:1], copy.fact] if missed_some and had_followed else []


def _is_of_start(timeline: Timeline, registered: Fact, short: LogEnd, since: int) -> bool:
    """Whether a registration is of the process that had a short log, or of one before it since a time (ns).

    A broker loads its logs before it registers.
    """
    time, until = registered.time or 0, short.time or 0
    if registered.broker != short.broker or time < since:
        return False
    return time <= until or (short.kind == "loaded" and not timeline.starts_of(short.broker, until, time - 1))


def _empty_disk_facts(timeline: Timeline, lost: Lost, short: LogEnd) -> list[Fact]:
    """The fact that a broker had a log on disk, if it found none at its next start and then led; else empty.

    A power failure may take an unflushed tail, but no folder that is older than a minute; the end of a process takes
    nothing.
    """
    broker, time = short.broker, short.time
    if not short.is_new or time is None or not leads_next(timeline, broker, time):
        return []
    ended = [event.fact for event in timeline.events if event.broker == broker and event.fact.kind == "kill"]
    ended += [fact for fault, fact in timeline.faults_on(broker, ("shutdown",)) if fault.outcome == "ok"]
    stops = dated(ended, lost.stored_at - 1, time - 1)
    first = dated(end for end in timeline.ends if end.broker == broker)[:1]
    ran = ran_until(timeline, broker, lost.stored_at)
    return stops[-1:] or [end.fact for end in dated(first, until=ran - FOLDER_FLUSH_NS)]


def _cut_facts(timeline: Timeline, broker: str, lost: Lost, fact: Fact) -> list[Fact]:
    """A broker's shutdown and the fault that then cut the records off the partition's log; empty for other faults."""
    stop = last_stop(timeline, broker, fact.when)
    if fact.kind != CUT or fact.partition != lost.name or stop is None or stop.kind != "fault-shutdown":
        return []
    return [stop, fact] if fact.offset is None or fact.offset <= lost.first else []


def _shutdown_facts(timeline: Timeline, broker: str, since: int, until: int) -> list[Fact]:
    """The fault that shut a broker down cleanly before its only start between two times; else empty."""
    stops = timeline.faults_on(broker, (*DEATHS, "shutdown"))
    last = [(fault, fact) for fault, fact in stops if since <= fault.completed < until][-1:]
    clean_stops = [(fault.completed, fact) for fault, fact in last if (fault.kind, fault.outcome) == ("shutdown", "ok")]
    # Without any recorded start, there may have been several. One that recovered logs did not follow a clean stop.
    clean_stops = [
        (stopped, fact)
        for stopped, fact in clean_stops
        if timeline.starts_of(broker, stopped) and not recovered_logs(timeline, broker, stopped, until)
    ]
    return [fact for stopped, fact in clean_stops if timeline.starts_once(broker, stopped, until)]


def _recovery_point_facts(timeline: Timeline, short: LogEnd, lost: Lost) -> list[Fact]:
    """The fact that the recovery point of a short log is above the lost records."""
    if short.snapshot is None:
        return []
    logs, own = timeline.replica_logs, is_of_copy(short.snapshot, short.broker)
    points = logs.checkpoints.filter(own, pl.col("offset") > lost.last, name="recovery-point")
    if not points.height:
        return []
    point = points.row(0, named=True)
    text = f"{in_snapshot(short.snapshot)} broker {short.broker}'s checkpointed recovery point of {logs.name} was"
    text += f" {point['offset']}: all records below it had been flushed to disk"
    return [fact_of(logs, text, "recovery-point", point, offset=point["offset"], snapshot=short.snapshot)]
