"""Whether a replica still had the lost records when an election lost them."""

from __future__ import annotations

from ..timelines.timeline import Timeline
from .cases import Lost
from .leader_change import find_leader_change
from .log_ends import time_last_held
from .outages import ran_until
from .replica_history import isr_at, isr_at_acknowledgement, may_another_have_led, may_have_lost_tail, short_log_facts


def still_had_records(timeline: Timeline, broker: str, lost: Lost) -> bool:
    """Whether a log end proves that a broker had the lost records until the election that lost them, or after it."""
    change = find_leader_change(timeline, lost)
    until = change.successor.time if change.successor else None
    return time_last_held(timeline, broker, lost, change.old, until) is not None


def missing_if_failed_together(timeline: Timeline, lost: Lost, last_leader: str | None = None) -> list[str]:
    """The missing evidence if all in-sync replicas may have lost the records, so that no election lost them.

    Kafka guarantees nothing if they fail at once. last_leader: the broker that led last, and lost them. One of the
    others must provably have had them still, unless it lost neither its power nor its records. If the ISR is not
    recorded, each replica but the next leader may have been in it.
    """
    successor = find_leader_change(timeline, lost).successor
    next_leader = successor.leader if successor else None
    is_recorded = bool(isr_at(timeline, lost.last_acked))
    together = isr_at_acknowledgement(timeline, lost) if is_recorded else timeline.members - {next_leader}
    if len(together) < (2 if is_recorded else 1):
        return []
    if is_recorded and all(short_log_facts(timeline, member, lost, lost.last) for member in together):
        names = ", ".join(sorted(together))
        return [f"why brokers {names}, all in the ISR, started again without the records (a power failure?)"]
    others = sorted(together - {last_leader})
    until = successor.time if successor else None
    if last_leader not in together and not all(_may_have_failed(timeline, member, lost, until) for member in others):
        return []
    if any(still_had_records(timeline, member, lost) for member in others):
        return []
    names = " or ".join(f"broker {other}" for other in others)
    return [f"whether {names}, {'also' if is_recorded else 'perhaps'} in the ISR, still had the records"]


def _may_have_failed(timeline: Timeline, broker: str, lost: Lost, until: int | None) -> bool:
    """Whether a broker may have lost the tail of its log by a time. It may be down then, so its next start counts."""
    later = [] if until is None else timeline.starts_of(broker, until)
    return may_have_lost_tail(timeline, broker, lost.last_acked, later[0].when if later else until)


def stopped_alone_in_isr(timeline: Timeline, lost: Lost, broker: str | None) -> bool:
    """Whether a broker led with the records until its process stopped, and was alone in the ISR then.

    Others that had left the ISR by then do not matter: the broker still had the records.
    """
    change = find_leader_change(timeline, lost)
    if broker is None or lost.last_acked is None or change.old is None or broker != change.old_leader:
        return False
    since = max(lost.last_acked, change.old.time or 0)  # it may have begun to lead with what another acknowledged
    stopped = ran_until(timeline, broker, since)
    is_alone = stopped > since and isr_at(timeline, stopped) == {broker}
    return is_alone and not may_another_have_led(timeline, broker, since, stopped)
