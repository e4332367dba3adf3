"""Measures that would have prevented a loss: each one alone suffices, and none was already configured."""

from __future__ import annotations

from ..timelines.facts import SECOND
from ..timelines.timeline import Term, Timeline
from .cases import Lost
from .leader_change import clean_by_configuration
from .replica_history import had_sole_isr_at_acknowledgement, still_had_records

ELIGIBLE = "eligible leader replicas (KIP-966: Kafka 4.0 or later, with min.insync.replicas=2)"

CHECKSUMS = "file systems or disks that verify checksums"


def requires_followers(timeline: Timeline) -> bool:
    """Whether min.insync.replicas requires a follower; if it is not recorded it does not."""
    replicas = str(timeline.config.get("min.insync.replicas", "1"))
    return replicas.isdecimal() and int(replicas) > 1


def no_unclean_election(timeline: Timeline) -> list[str]:
    """No unclean election. If the topic's configuration permits none, only an operator's tool causes one."""
    if clean_by_configuration(timeline):
        return ["no unclean election by an operator (unclean.leader.election.enable is already false)"]
    return ["unclean.leader.election.enable=false"]


def last_down_first_up(timeline: Timeline, old: str | None, new: Term, lost: Lost) -> list[str]:
    """Starting the broker with the records first: it was dead when the new leader returned, and came back with them."""
    if old is None or new.time is None or new.leader in (None, old):
        return []
    lives = [e for e in timeline.events if e.time is not None and e.time <= new.time + SECOND]
    last = [e for e in lives if e.broker == old][-1:]
    if [e.kind for e in last] != ["died"]:
        return []
    starts = [e.time or 0 for e in lives if (e.broker, e.kind) == (new.leader, "started")]
    if max(starts, default=0) <= (last[0].time or 0) or not still_had_records(timeline, old, lost):
        return []
    return [f"starting broker {old} before broker {new.leader} (the last broker to stop starts first)"]


def more_replicas(timeline: Timeline, lost: Lost) -> list[str]:
    """min.insync.replicas=2, unless the topic had it, acks=1 ignored it, or the leader did not acknowledge alone.

    With a replication factor of 1, a second replica instead."""
    if second := second_replica(timeline):
        return second
    if requires_followers(timeline) or "1" in lost.acks or had_sole_isr_at_acknowledgement(timeline, lost) is False:
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


def acks_all_measures(timeline: Timeline) -> list[str]:
    """acks=all, with min.insync.replicas=2 unless it is configured: without it the leader alone may acknowledge."""
    return ["acks=all" if requires_followers(timeline) else "acks=all together with min.insync.replicas=2"]


def flush_measures(timeline: Timeline) -> list[str]:
    """Flushing records before they are acknowledged."""
    at_once = str(timeline.config.get("flush.messages", "")) == "1"
    return [
        *([] if at_once else ["flush.messages=1, if the records had not been flushed (costs throughput)"]),
        "disks that keep flushed data on a power failure",
    ]
