"""The lives of brokers: when they were dead or out of reach, and whether a restart may have cost records."""

from __future__ import annotations

from collections import Counter

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND, Fact
from ..timelines.timeline import DEATHS, DISK_FAULTS, OF_ADMINISTRATORS, Timeline

# Faults without a duration; deaths are facts of their own.
INSTANT_FAULTS = (*DEATHS, *DISK_FAULTS, *OF_ADMINISTRATORS, "delete-records", "preferred-election")


def death_facts(timeline: Timeline, broker: str | None, until: int | None) -> list[Fact]:
    """The last death of a broker before a time, from every source that reports it."""
    known = [e for e in timeline.died(broker) if e.time is None or until is None or e.time <= until + SECOND]
    dated = [e for e in known if e.time is not None]
    if not dated:
        return [e.fact for e in known[:1]]
    latest = max(e.time or 0 for e in dated)
    # The controller notices a kill some seconds later, when the session ends: one death in several sources.
    return [e.fact for e in dated if (e.time or 0) > latest - 20 * SECOND][-3:]


def reasons_absent(timeline: Timeline, broker: str | None, at: int | None) -> list[Fact]:
    """The facts that prove a broker absent at a time: its death, or a fault on it that had not ended."""
    if broker is None or at is None:
        return []
    lives = [e for time, e in timeline.life_of(broker) if time <= at]
    died = death_facts(timeline, broker, at) if lives and lives[-1].kind == "died" else []
    hit = [
        (fault, fact)
        for fault, fact in zip(timeline.faults, timeline.fault_facts, strict=True)
        if broker in fault.nodes and fault.completed <= at
    ]
    lasting = [fact for fault, fact in hit[-1:] if fault.type == "fault" and fault.kind not in INSTANT_FAULTS]
    return [*died, *lasting]


def is_dead(timeline: Timeline, broker: str, since: int, until: int, *, exactly: bool = False) -> bool:
    """Whether a broker was dead from one time to another. `exactly`: count only deaths that the history records."""
    lives = [(time, e) for time, e in timeline.life_of(broker) if time <= until]
    started = max((time for time, e in lives if e.kind != "died"), default=-MAX_INT64)
    died = [time for time, e in lives if e.kind == "died" and (e.fact.place is not None or not exactly)]
    return any(started < time <= since for time in died)


def is_out_of_reach(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether a broker was dead or paused from one time to another, so that no replica could fetch from it."""
    if is_dead(timeline, broker, since, until):
        return True
    hits = [fault for fault in timeline.faults if broker in fault.nodes]
    before = [fault for fault in hits if fault.completed <= since][-1:]
    is_paused = any((fault.type, fault.kind, fault.outcome) == ("fault", "pause", "ok") for fault in before)
    resumed = any(fault.type == "heal" and since <= fault.completed and fault.invoked <= until for fault in hits)
    starts = [time for time, e in timeline.life_of(broker) if e.kind != "died"]
    return is_paused and not resumed and not any(since <= time <= until for time in starts)


def may_have_lost_tail(timeline: Timeline, broker: str, since: int | None, until: int | None) -> bool:
    """Whether a broker restarted between two times and may have lost the tail of its log.

    The page cache keeps the writes of a killed process, but a restart without a kill in the history may follow a power
    failure. If the later time is not known, any restart counts.
    """
    if since is None:
        return False
    until = MAX_INT64 if until is None else until
    starts = [(time, e.fact.source) for time, e in timeline.life_of(broker) if e.kind == "started"]
    between = Counter(source for time, source in starts if since <= time <= until)
    before = max((time for time, _ in starts if time < since), default=-MAX_INT64)
    faults = [f for f in timeline.faults if broker in f.nodes and before < f.completed <= until]
    kills = sum(fault.kind == "kill" for fault in faults if fault.type == "fault")
    harmless = all(fault.kind in ("kill", "restart", "pause") for fault in faults)
    return any(count > kills or not harmless for count in between.values())


def may_have_followed(timeline: Timeline, broker: str, since: int, until: int) -> bool:
    """Whether another broker may have led between two times while this one was alive and may have truncated."""
    if is_dead(timeline, broker, until, until, exactly=True):
        return False
    led = [term for term in timeline.terms.values() if term.time is None or term.time <= until]
    then = [term for term in led if term.time is not None and term.time <= since][-1:]
    others = [t for t in led if t.leader not in (None, broker) and (t in then or t.time is None or t.time > since)]
    return not all(is_dead(timeline, t.leader or "", since, until, exactly=True) for t in others)
