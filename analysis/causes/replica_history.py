"""The history of replicas: which were in the ISR, which logs held the records, and where the logs ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import islice, pairwise, takewhile

import polars as pl

from ...histories.tables import MAX_INT64
from ..timelines.changes import LogEnd
from ..timelines.facts import SECOND, Fact, dated
from ..timelines.fault_kinds import ENDS_OF_PROCESSES
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from .cases import Lost
from .outages import is_dead_or_fenced, is_process_dead, is_stopped, last_stop, lost_power


def may_have_lost_tail(timeline: Timeline, broker: str, since: int | None, until: int | None) -> bool:
    """Whether a broker lost power or restarted between two times and may have lost the tail of its log.

    The page cache keeps the writes of a process that ends, but a restart without such an end in the history may follow
    a power failure. If the later time is not known, any restart counts.
    """
    if since is None:
        return False
    until = MAX_INT64 if until is None else until
    starts = [(start.when, start.fact.source) for start in timeline.starts_of(broker)]
    # A log and a copy of the console's output record one load twice, at the same time.
    loads = {end.when for end in timeline.dated_ends(broker, "loaded") if end.fact.kind == "loaded"}
    starts += [(when, "loads") for when in loads]
    reported = Counter(source for time, source in starts if since <= time <= until)
    before = max((time for time, _ in starts if time < since), default=-MAX_INT64)
    faults = [f for f, _ in timeline.faults_and_heals(broker) if before < f.completed <= until]
    ends = sum(fault.kind in ENDS_OF_PROCESSES for fault in faults if fault.type == "fault")
    harmless = all(fault.kind in (*ENDS_OF_PROCESSES, "restart", "pause") for fault in faults)
    return lost_power(timeline, broker, since, until) or any(n > ends or not harmless for n in reported.values())


def faults_on_records(
    timeline: Timeline, broker: str, kinds: Collection[str], lost: Lost, until: int | None
) -> list[Fact]:
    """The faults in the history that may have taken the lost records from a broker's disk by a time (ns; None: ever).

    They hit the partition, or the whole disk, after the records had been stored. A cut behind the records took none.
    """
    limit = MAX_INT64 if until is None else until + SECOND
    hit = [fact for fault, fact in timeline.faults_on(broker, kinds) if lost.stored_at <= fault.completed <= limit]
    of_partition = [fact for fact in hit if fact.partition in (None, lost.name)]
    return [fact for fact in of_partition if fact.offset is None or fact.offset <= lost.last]


def may_have_followed(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether another broker may have led between two times while this one was alive and may have truncated."""
    return not is_process_dead(timeline, broker, until, until) and may_another_have_led(timeline, broker, since, until)


def may_another_have_led(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether another broker that was not dead may have led between two times."""
    terms = [term for term in timeline.terms.values() if term.time is None or term.time <= until]
    latest = dated(terms, until=since)[-1:]
    current = [term for term in latest if term.ended is None or term.ended > since]
    later = [term for term in terms if term.time is None or term.time > since]
    leaders = {term.leader for term in (*current, *later)} - {broker}
    return not all(is_process_dead(timeline, leader, since, until) for leader in leaders if leader is not None)


def isr_at_acknowledgement(timeline: Timeline, lost: Lost) -> frozenset[str]:
    """The ISR at the last acknowledgement, without brokers that had died before the first one; empty if not recorded.

    The death counts because not all evidence reports that the ISR shrank. A broker that lost power just before may have
    had the records, so it stays.
    """
    first, last = lost.first_acked, lost.last_acked
    if first is None or last is None:
        return frozenset()
    outages = [f for f in timeline.faults if f.kind == "power-loss" and first - SECOND < f.completed < first]
    just_lost_power = {broker for fault in outages for broker in fault.nodes}
    return isr_at(timeline, last) - (_dead_before(timeline, first) - just_lost_power)


def _dead_before(timeline: Timeline, at: int) -> set[str]:
    """The brokers that were dead or fenced just before a time (ns)."""
    return {name for name in {e.broker for e in timeline.events} if is_dead_or_fenced(timeline, name, at - 1, at - 1)}


def isr_at(timeline: Timeline, at: int | None) -> frozenset[str]:
    """The last ISR reported by a time, including brokers that had died; empty if not recorded.

    A partition without a leader may have an empty ISR (KIP-966). Then it is the ISR before: the brokers that may still
    acknowledge until they hear of it, and the last that had all committed records.
    """
    known = [] if at is None else timeline.isr_between(until=at)
    return next((report.isr for report in reversed(known) if report.isr), frozenset())


def had_sole_isr_at_acknowledgement(timeline: Timeline, lost: Lost) -> bool | None:
    """Whether the ISR was one broker at any acknowledgement of the records; None if not recorded."""
    if lost.first_acked is None or lost.last_acked is None:
        return None
    before = isr_at(timeline, lost.first_acked)
    during = [report.isr for report in timeline.isr_between(lost.first_acked, lost.last_acked)]
    if any(len(isr) == 1 for isr in (before, *during, isr_at_acknowledgement(timeline, lost))):
        return True
    return False if before else None


def isr_at_first_acknowledgement(timeline: Timeline, lost: Lost) -> frozenset[str]:
    """The ISR a second after the first acknowledgement, without brokers that had died before it; empty if not recorded.

    An acknowledgement waits for the ISR to shrink, and may be recorded just before the shrunk ISR is.
    """
    if lost.first_acked is None:
        return frozenset()
    return isr_at(timeline, lost.first_acked + SECOND) - _dead_before(timeline, lost.first_acked)


def facts_log_vanished(timeline: Timeline, broker: str, lost: Lost, until: int | None) -> list[Fact]:
    """The fact that a broker which had the first lost record later loaded its log without it, as from an empty disk.

    Empty without proof.
    """
    if until is None or lost.first_acked is None or broker not in isr_at_first_acknowledgement(timeline, lost):
        return []
    loads = timeline.dated_ends(broker, "loaded", since=lost.first_acked, until=until)
    return [end.fact for end in loads[-1:] if end.end <= lost.first]


def sole_isr_facts(timeline: Timeline, broker: str, until: int | None) -> list[Fact]:
    """The first report of the ISR that consisted of this broker alone at a time; empty if it had other members."""
    limit = MAX_INT64 if until is None else until + SECOND
    before = [report for report in timeline.isr_reports if report.time is None or report.time <= limit]
    # Later reports may repeat that ISR.
    return [*takewhile(lambda report: report.isr == frozenset({broker}), reversed(before))][-1:]


def truncations(timeline: Timeline, broker: str | None, after: int | None, max_end: int) -> list[LogEnd]:
    """Truncations of a broker after a time (ns; None: ever) to an offset of at most `max_end`."""
    cuts = [end for end in timeline.ends_of(broker, "truncated") if not end.is_noop and end.end <= max_end]
    return [cut for cut in cuts if after is None or cut.time is None or cut.time >= after - SECOND]


def truncates_by_epochs(timeline: Timeline) -> bool:
    """Whether followers truncate their logs to the ends of leader epochs (KIP-101, KIP-279)."""
    release = timeline.release()
    return release is not None and release >= (2, 0) and not (timeline.replica_logs.batches["magic"] < 2).any()


def facts_truncated_to(timeline: Timeline, broker: str | None, term: Term, lost: Lost) -> list[Fact]:
    """The fact that a broker truncated the records while it followed the leader of a term; empty without proof.

    By leader epochs a follower only truncates what its leader's log lacks (KIP-101, KIP-279), wherever that log ended.
    A leader that started again in between may have lost the records then.
    """
    if term.time is None or term.leader in (None, broker) or not lost.stored_at or not truncates_by_epochs(timeline):
        return []
    later = [t.time for t in timeline.terms_after(term.epoch) if t.leader not in (None, term.leader)]
    if any(time is None for time in later):
        return []
    restarted = [start.when for start in timeline.starts_of(term.leader, term.time)]
    until = min((*(time for time in later if time is not None), *restarted), default=MAX_INT64)
    cuts = truncations(timeline, broker, None, lost.first)
    return [cut.fact for cut in dated(cuts, max(term.time, lost.stored_at) - 1, until - 1)][:1]


def facts_never_truncated(timeline: Timeline, broker: str, lost: Lost, until: int | None) -> list[Fact]:
    """The fact that a broker loaded its log before the records were acknowledged.

    Empty if its server.log has another load or a truncation between the acknowledgement and `until`. One just before
    the acknowledgement counts, too, as clocks differ, unless it is the first one after a load that ended at or below
    the records: a follower truncates before it fetches.
    """
    if lost.first_acked is None or until is None:
        return []
    ends = timeline.dated_ends(broker, "loaded", "truncated")
    loads = [end.fact for end in dated(ends, until=until) if end.kind == "loaded"]
    since = max((load.when for load in loads), default=MAX_INT64)
    harmless = [end for load, end in pairwise(ends) if load.kind == "loaded" and load.end <= lost.first]
    cuts = truncations(timeline, broker, lost.first_acked, lost.last)
    doubtful = [end for end in cuts if end not in harmless or end.time is None or end.time > lost.first_acked]
    cut = any(end.time is None or end.time <= until + SECOND for end in doubtful)
    return [] if cut or since > lost.first_acked else loads[-1:]


def return_facts(timeline: Timeline, broker: str | None, lost: Lost, after: int | None) -> list[Fact]:
    """The facts that a broker still had the records, returned after a time (ns), and truncated them."""
    held = snapshots_with_records(timeline, broker, lost)
    cut = [end.fact for end in truncations(timeline, broker, after, lost.last)][:1]
    if after is None:
        return held + cut
    until = next((fact.when for fact in dated(cut)), MAX_INT64)
    return held + [start.fact for start in timeline.starts_of(broker, after - 1, until)][:1] + cut


def facts_had_records(timeline: Timeline, broker: str, lost: Lost, before: int | None = None) -> list[Fact]:
    """The fact that a follower had the lost records; empty without proof.

    It was in the ISR when the last of them was acknowledged, and they were below the high watermark: acks=all waits for
    the ISR, consumers read only below the high watermark, and a broker joins the ISR only with all that is below it.
    What acks=1 acknowledged passes the high watermark later: no ISR before the next term may lack the broker.

    before: the time (ns) of the next election, if it is known which term acknowledged them: a leader that has not heard
    of it waits for the ISR of its own term.
    """
    if not is_committed(lost) or lost.first_acked is None or lost.last_acked is None:
        return []
    until = lost.last_acked if before is None else min(lost.last_acked, before - 1)
    # An empty ISR acknowledges nothing: the leader that did had not heard of it.
    reported = [report for report in timeline.isr_between(until=until) if report.isr][-1:]
    later = [] if lost.acks == {"all"} else timeline.isr_until_next_term(lost.last_acked)
    if not reported or not all(broker in report.isr for report in (*reported, *later)):
        return []
    # The ISR keeps a dead broker until its session ends.
    return [] if had_stopped(timeline, broker, lost) else [report.fact for report in reported]


def had_stopped(timeline: Timeline, broker: str | None, lost: Lost) -> bool:
    """Whether a broker's process did not run just before the last acknowledgement of the records.

    The client may have had the acknowledgement a second after the leader sent it.
    """
    if broker is None or lost.first_acked is None or lost.last_acked is None:
        return False
    return is_stopped(timeline, broker, max(lost.first_acked, lost.last_acked - SECOND) - 1)


def is_committed(lost: Lost) -> bool:
    """Whether the lost records were below the high watermark: acknowledged with acks=all, or all read by consumers."""
    return lost.acks == {"all"} or (lost.read is not None and lost.read == lost.count)


def snapshots_with_records(timeline: Timeline, broker: str | None, lost: Lost) -> list[Fact]:
    """The first snapshot in which a broker's log still held the lost records."""
    if broker is None:
        return []
    is_lost = pl.col("value").is_in(list(lost.values[:1]))
    names = {*timeline.replica_logs.records.filter(is_lost, broker=broker, offset=lost.first)["snapshot"]}
    return [e.fact for e in timeline.ends_of(broker, "snapshot") if e.snapshot in names][:1]


def _first_restart(timeline: Timeline, broker: str, acknowledged: int) -> tuple[int, int, int]:
    """When a broker first died and started after an acknowledgement (ns), and since when it may load its log for that.

    By the history alone: a death that it does not record counts at the acknowledgement, a start at the death.
    """
    recorded = [e for e in timeline.life_of(broker) if e.fact.place is not None]
    died = min((e.when for e in recorded if e.kind == "died" and e.when >= acknowledged), default=acknowledged)
    starts = [e.when for e in recorded if e.kind == "started"]
    started = min((time for time in starts if time >= died), default=died)
    earlier = max((time for time in starts if time < died), default=-MAX_INT64)
    return died, started, max(started - SECOND, (earlier + started) // 2)


def short_log_facts(timeline: Timeline, broker: str, lost: Lost, max_end: int) -> list[Fact]:
    """The facts that a log ended at or below `max_end` after the records were acknowledged, without a truncation."""
    if lost.last_acked is None:
        return []
    died, started, loaded_after = _first_restart(timeline, broker, lost.last_acked)
    loaded = timeline.dated_ends(broker, "loaded", since=loaded_after)
    if loaded and loaded[0].end > max_end:
        return []  # it started with the records; later loads belong to later starts
    # Brokers' clocks may differ a little from the history's, which also dates snapshots.
    died -= SECOND
    found: list[LogEnd] = []
    copied_since = max(died, lost.last_acked)
    since_of = {"cut": died, "corruption": died, "loaded": loaded_after, "snapshot": copied_since}
    for kind, since in since_of.items():
        ends = lasting_cuts(timeline, broker) if kind == "cut" else timeline.ends_of(broker, kind)
        later = (end for end in dated(ends, since) if end.end <= max_end)
        short = (end for end in later if not _is_truncated(timeline, end, lost, max_end))
        if kind == "snapshot":
            short = (end for end in short if not may_have_followed(timeline, broker, started, end.when))
        found += islice(short, 1)
    copied = {end.snapshot for end in found if end.snapshot is not None}
    marks = timeline.ends_of(broker, "high-watermark")
    found += (mark for mark in marks if mark.snapshot in copied and mark.end > max_end)
    again = term_led_again(timeline, broker, lost)
    is_short = again is not None and again.start is not None and again.start <= max_end
    elected = [*again.facts[:1], *again.start_facts[:1]] if again is not None and is_short else []
    return [*(end.fact for end in found), *elected]


def lasting_cuts(timeline: Timeline, broker: str) -> list[LogEnd]:
    """The ends at which faults cut a stopped broker's log, if it led next and could not fetch the records again."""
    cuts = timeline.dated_ends(broker, "cut")
    return [cut for cut in cuts if last_stop(timeline, broker, cut.when) and leads_next(timeline, broker, cut.when)]


def leads_next(timeline: Timeline, broker: str, since: int) -> bool:
    """Whether no other broker may have led from a time until this one led, so that it fetched from no other leader."""
    led = (term.when for term in dated(timeline.led_terms, since) if term.leader == broker)
    until = min(led, default=MAX_INT64)
    return not may_another_have_led(timeline, broker, since, until)


def term_led_again(timeline: Timeline, broker: str, lost: Lost) -> Term | None:
    """The next term of a broker that led when the records were acknowledged, if no other broker led in between.

    A term starts at the log end of its leader. The broker was no follower in between, so if that is at or below the
    records, it lost them itself. None if any of this is not known.
    """
    if lost.first_acked is None or lost.last_acked is None or timeline.was_deleted:
        return None
    for old, new in pairwise(timeline.led_terms):
        if old.time is None or new.time is None or not old.time <= lost.first_acked <= lost.last_acked < new.time:
            continue
        are_its_own = old.leader == new.leader == broker and not old.has_conflict and not new.has_conflict
        is_known = new.start is not None and bool(new.facts)
        return new if are_its_own and is_known and not _may_have_had_other_leader(timeline, old, new, lost) else None
    return None


def _may_have_had_other_leader(timeline: Timeline, old: Term, new: Term, lost: Lost) -> bool:
    """Whether another broker may have led between two terms, or have acknowledged the records in an earlier one.

    A leader that was replaced before may have acknowledged records that the next one never had, unless it was dead.
    """
    led = {epoch: term.leader for epoch, term in timeline.terms.items() if term.leader is not None}
    without_leader = {fact.epoch for fact in timeline.isr_reports if fact.kind == "leaderless"}
    if set(range(new.epoch)) - led.keys() - without_leader:
        return True
    others = {leader for epoch, leader in led.items() if epoch < old.epoch} - {old.leader}
    acked = lost.first_acked or 0, lost.last_acked or 0
    return not all(is_process_dead(timeline, other, *acked) for other in others)


def _is_truncated(timeline: Timeline, short: LogEnd, lost: Lost, max_end: int) -> bool:
    """Whether a log is short because of a truncation: it has not grown above `max_end` again since."""
    cuts = dated(truncations(timeline, short.broker, lost.last_acked, max_end), until=short.when)
    grown = [end for end in timeline.ends if end.broker == short.broker and end.end > max_end]
    return any(not dated(grown, cut.when, short.when - 1) for cut in cuts)
