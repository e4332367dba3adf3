"""The outages of a broker: a dead or paused process, a fenced session, a power failure, a failed log directory."""

from __future__ import annotations

from itertools import takewhile

from ...histories.tables import MAX_INT64, MIN_INT64
from ..timelines.changes import BrokerEvent
from ..timelines.facts import HALTED, SECOND, Fact, dated, is_end_of_process
from ..timelines.fault_kinds import AT_ONCE, DEATHS, DISK_FAULTS
from ..timelines.terms import Term
from ..timelines.timeline import Timeline

MAX_SESSION_NS = 20 * SECOND  # KRaft: broker.session.timeout.ms=9000, ZooKeeper: zookeeper.session.timeout.ms=18000


def death_facts(timeline: Timeline, broker: str | None, until: int | None) -> list[Fact]:
    """The first three reports of a broker's last death before a time, from every source."""
    events = timeline.life_of(broker, until=MAX_INT64 if until is None else until + SECOND)
    while events and events[-1].kind != "died":
        events.pop()
    if not events:
        return [e.fact for e in timeline.deaths_of(broker) if e.time is None][:1]
    died = [e.fact for e in reports_of_death(events)]
    if not any(map(is_end_of_process, died)):
        # If a broker restarts at once, the controller fences it later, when the session of its old process times out.
        earlier = [e.fact for e in dated(events, since=events[-1].when - MAX_SESSION_NS) if e.kind == "died"]
        died = [*filter(is_end_of_process, earlier), *died]
    return died[:3]


def end_of_leader(timeline: Timeline, leader: str | None, term: Term | None, until: int | None) -> list[Fact]:
    """The facts that a leader was gone at a time: its death, unless that was before its term began, or its absence."""
    died = death_facts(timeline, leader, until)
    if term is not None and term.time is not None and term.leader == leader:
        died = [fact for fact in died if fact.time is None or fact.time >= term.time - SECOND]
    return [*died, *reasons_absent(timeline, leader, until)]


def reports_of_death(events: list[BrokerEvent]) -> list[BrokerEvent]:
    """The deaths at the end of a broker's events: one death, which the controller may notice minutes after a kill."""
    return [*takewhile(lambda event: event.kind == "died", reversed(events))][::-1]


def reasons_absent(timeline: Timeline, broker: str | None, at: int | None) -> list[Fact]:
    """The facts that prove a replica absent: its broker died, a fault on it lasted, or its log directory had failed."""
    if broker is None or at is None:
        return []
    died = death_facts(timeline, broker, at) if is_dead_or_fenced(timeline, broker, at, at) else []
    before = [(fault, fact) for fault, fact in timeline.faults_and_heals(broker) if fault.completed <= at]
    lasting = [fact for fault, fact in before[-1:] if fault.type == "fault" and fault.kind not in AT_ONCE]
    started = max((start.when for start in timeline.starts_of(broker, until=at)), default=MIN_INT64)
    errors = dated(timeline.disk_errors, started - 1, at)
    offline = [fact for fact in errors if (fact.kind, fact.broker) == ("disk-failed", broker)]
    return [*died, *lasting, *offline[:1]]


def is_process_dead(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether the process of a broker had ended before `since` and did not start again until `until` (ns)."""
    return any(map(is_end_of_process, _lasting_deaths(timeline, broker, since, until)))


def is_dead_or_fenced(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether the process or the session of a broker had ended before `since` and did not begin again until `until`."""
    return bool(_lasting_deaths(timeline, broker, since, until))


def _lasting_deaths(timeline: Timeline, broker: str, since: int, until: int) -> list[Fact]:
    """The deaths of a broker before `since` that no start until `until` follows."""
    events = timeline.life_of(broker, until=until)
    started = max((e.when for e in events if e.kind != "died"), default=MIN_INT64)
    died = [e.fact for e in dated(events, since=started) if e.kind == "died"]
    # A broker dates its own halt, and its clock may be a second behind.
    return [fact for fact in died if fact.when <= (since - SECOND if fact.kind == HALTED else since)]


def is_out_of_reach(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether a broker was dead, fenced or paused from one time to another, so that no replica could fetch from it."""
    return is_dead_or_fenced(timeline, broker, since, until) or is_paused(timeline, broker, since, until)


def is_paused(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether the history records that a broker was paused from one time to another."""
    hits = [fault for fault, _ in timeline.faults_and_heals(broker)]
    before = [fault for fault in hits if fault.completed <= since][-1:]
    paused = any((fault.type, fault.kind, fault.outcome) == ("fault", "pause", "ok") for fault in before)
    resumed = any(fault.type == "heal" and since <= fault.completed and fault.invoked <= until for fault in hits)
    returned = any(e.kind != "died" for e in timeline.life_of(broker, since - 1, until))
    return paused and not resumed and not returned


def lost_power(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether a recorded power failure hit a broker between two times (ns)."""
    hits = timeline.faults_and_heals(broker)
    return any(fault.kind == "power-loss" and since <= fault.completed <= until for fault, _ in hits)


def may_have_stopped_cleanly(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether no evidence shows that a broker ended without a flush of its logs between two times (ns).

    Such evidence is a death or a fault on its disk in the history, the broker's own last line, or a line of its next
    start: it found no mark of a clean shutdown.
    """
    faults = [fault for fault, _ in timeline.faults_on(broker, (*DEATHS, *DISK_FAULTS, "disk-full"))]
    halted = [event for event in timeline.deaths_of(broker) if event.fact.kind == HALTED]
    times = [*(fault.completed for fault in faults), *(event.time for event in halted)]
    ended = any(time is None or since < time <= until for time in times)
    return not (ended or recovered_logs(timeline, broker, since, until))


def recovered_logs(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether a start of a broker between two times (ns), or at an unknown one, found no mark of a clean shutdown."""
    starts = [fact.time for fact in timeline.unclean_starts if fact.broker == broker]
    return any(time is None or since < time <= until for time in starts)


def last_stop(timeline: Timeline, broker: str, at: int) -> Fact | None:
    """The fault in the history that had stopped a broker's process before a time; None if it may have run then."""
    of_process = (*DEATHS, "shutdown", "restart")
    hits = timeline.faults_and_heals(broker)
    own = [(f, fact) for f, fact in hits if f.kind in of_process and f.completed <= at]
    return next((fact for f, fact in own[-1:] if (f.type, f.outcome) == ("fault", "ok")), None)


def is_stopped(timeline: Timeline, broker: str, at: int) -> bool:
    """Whether the process of a broker did not run at a time (ns), as it had ended, perhaps by a clean shutdown."""
    stop = last_stop(timeline, broker, at)
    is_shut_down = stop is not None and not timeline.starts_of(broker, stop.when, at)
    return is_shut_down or is_process_dead(timeline, broker, at, at)


def ran_until(timeline: Timeline, broker: str, since: int) -> int:
    """A time (ns) until which the process that ran at `since` still ran: its recorded death, or its last line in a log.

    A process that runs does not lose its log. Without evidence it is `since`.
    """
    later = timeline.life_of(broker, since)
    started = next((e.when for e in later if e.kind == "started"), MAX_INT64)
    died = [e.when for e in dated(later, until=started) if e.fact.kind in DEATHS]
    lines = [e.alive_until or since for e in later if e.when == started]
    return max([since, *died[:1], *lines])
