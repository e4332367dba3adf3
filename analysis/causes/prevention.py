"""Measures that would have prevented a loss: each one alone suffices, and none was already configured."""

from __future__ import annotations

from ...histories.tables import MAX_INT64
from ..timelines.facts import SECOND, Fact
from ..timelines.fault_kinds import DEATHS
from ..timelines.terms import Term
from ..timelines.timeline import LEAST, UNCLEAN, Timeline
from .cases import Lost
from .outages import reports_of_death
from .replica_history import had_sole_isr_at_acknowledgement, isr_at_acknowledgement, isr_at_first_acknowledgement
from .surviving_records import still_had_records

ELIGIBLE = "eligible leader replicas (KIP-966: Kafka 4.0 or later, with min.insync.replicas=2)"
SEPARATE = "replicas that do not fail together (broker.rack)"
ALL = "acks=all"
ALL_OF_TWO = "acks=all together with min.insync.replicas=2"
INCLUDED = {ALL_OF_TWO: ALL}  # measure -> what it is where the rest of it is configured

CHECKSUMS = "file systems or disks that verify checksums"


def requires_followers(timeline: Timeline, lost: Lost) -> bool:
    """Whether min.insync.replicas required a follower at all acknowledgements; if it is not recorded it did not."""
    values = [setting.value for setting in timeline.settings_between(LEAST, lost.first_acked, lost.last_acked)]
    return bool(values) and all(value.isdecimal() and int(value) > 1 for value in values)


def setting_changes(timeline: Timeline, lost: Lost, elected: int | None) -> list[Fact]:
    """The changes to settings that count for a loss: those in effect at its acknowledgements, and at an election."""
    counting = [
        *timeline.settings_between(LEAST, lost.first_acked, lost.last_acked),
        *(timeline.settings_between(UNCLEAN, elected, elected) if elected is not None else ()),
    ]
    return [setting.fact for setting in timeline.changed_settings if setting in counting]


def no_unclean_election(timeline: Timeline, at: int | None) -> list[str]:
    """No unclean election. If the topic's configuration permits none then, only an operator's tool causes one."""
    only_clean = timeline.allows_only_clean_elections(at)
    if only_clean:
        return ["no unclean election by an operator (unclean.leader.election.enable is already false)"]
    if only_clean is None:
        return ["unclean.leader.election.enable=false (where it already is, no unclean election by an operator)"]
    return ["unclean.leader.election.enable=false"]


def eligible_leader(timeline: Timeline, lost: Lost, broker: str, elected: int | None) -> list[str]:
    """Eligible leader replicas, by which another broker with the records would have led, unless all were killed.

    A broker that returns from an unclean shutdown leaves the ELR, as its disk may have lost records, too.
    """
    others = isr_at_acknowledgement(timeline, lost) - {broker}
    since, until = (lost.last_acked or 0) - 1, MAX_INT64 if elected is None else elected
    lives = [timeline.life_of(other, since, until) for other in others]
    killed = all(any(e.fact.kind in DEATHS for e in life) for life in lives)
    return [SEPARATE] if others and killed else [ELIGIBLE]


def last_down_first_up(timeline: Timeline, old: str | None, new: Term, lost: Lost) -> list[str]:
    """Starting the broker with the records first: it was dead when the new leader returned, and came back with them."""
    if old is None or new.time is None or new.leader in (None, old):
        return []
    died = reports_of_death(timeline.life_of(old, until=new.time + SECOND))
    if not died or not timeline.starts_of(new.leader, died[0].when, new.time + SECOND):
        return []
    if not still_had_records(timeline, old, lost):
        return []
    return [f"starting broker {old}, which still had the records, before broker {new.leader}"]


def more_replicas(timeline: Timeline, lost: Lost) -> list[str]:
    """min.insync.replicas=2, unless the topic had it, acks=1 ignored it, or the leader did not acknowledge all alone.

    With a replication factor of 1, a second replica instead."""
    if second := second_replica(timeline):
        return second
    ignores = requires_followers(timeline, lost) or "1" in lost.acks
    was_replicated = len(isr_at_first_acknowledgement(timeline, lost)) > 1
    if ignores or was_replicated or had_sole_isr_at_acknowledgement(timeline, lost) is False:
        return []
    is_pair = _replication(timeline) == 2
    price = "either of the two replicas is out of the ISR" if is_pair else "only one replica is in the ISR"
    return [f"min.insync.replicas=2 (then writes with acks=all fail while {price})"]


def second_replica(timeline: Timeline) -> list[str]:
    """A second replica, for a replication factor of 1."""
    return ["a second replica (replication.factor)"] if _replication(timeline) == 1 else []


def _replication(timeline: Timeline) -> int | None:
    factor = timeline.config.get("replication.factor")
    return len(timeline.replica_logs.replicas) or (factor if isinstance(factor, int) else None)


def acks_all_measures(timeline: Timeline, lost: Lost) -> list[str]:
    """acks=all, with min.insync.replicas=2 unless it is configured: without it the leader alone may acknowledge."""
    return [ALL if requires_followers(timeline, lost) else ALL_OF_TWO]


def flush_measures(timeline: Timeline) -> list[str]:
    """Flushing records before they are acknowledged."""
    at_once = str(timeline.config.get("flush.messages", "")) == "1"
    return [
        *([] if at_once else ["flush.messages=1, if the records had not been flushed (costs throughput)"]),
        "disks that keep flushed data on a power failure",
    ]
