"""What would have prevented a loss: each measure alone, and none that the topic's configuration had already."""

from __future__ import annotations

from ..timelines.timeline import Timeline
from .leader_change import clean_by_configuration
from .losses import Lost
from .replica_history import is_acknowledged_alone

ELIGIBLE = "eligible leader replicas (KIP-966: Kafka 4.0 or later, with min.insync.replicas=2)"


def requires_followers(timeline: Timeline) -> bool:
    """Whether min.insync.replicas asks for more than the leader; without a word it does not."""
    replicas = str(timeline.config.get("min.insync.replicas", "1"))
    return replicas.isdecimal() and int(replicas) > 1


def no_unclean_election(timeline: Timeline) -> list[str]:
    """No unclean election; where the topic's configuration permits none, only an operator's tool makes one."""
    if clean_by_configuration(timeline):
        return ["no election forced by an operator (unclean.leader.election.enable is false already)"]
    return ["unclean.leader.election.enable=false"]


def more_replicas(timeline: Timeline, lost: Lost) -> list[str]:
    """min.insync.replicas=2, which only counts with acks=all, if the topic did not have it and the leader may have
    acknowledged alone; where there is one replica alone, it asks for none that could help."""
    if _replication(timeline) == 1:
        return ["a second replica (replication.factor)"]
    if requires_followers(timeline) or "1" in lost.acks or is_acknowledged_alone(timeline, lost) is False:
        return []
    price = "; with two replicas, none either while one is away" if _replication(timeline) == 2 else ""
    return [f"min.insync.replicas=2 (nothing is acknowledged while one replica is alone{price})"]


def _replication(timeline: Timeline) -> int | None:
    factor = timeline.config.get("replication.factor")
    return len(timeline.replica_logs.replicas) or (factor if isinstance(factor, int) else None)


def acks_all_measures(timeline: Timeline) -> list[str]:
    """acks=all, which alone means no more than the leader where nobody else must be in sync."""
    return ["acks=all" if requires_followers(timeline) else "acks=all together with min.insync.replicas=2"]


def flush_measures(timeline: Timeline) -> list[str]:
    """Disks that have what was acknowledged."""
    at_once = str(timeline.config.get("flush.messages", "")) == "1"
    return [*([] if at_once else ["flush.messages=1 (at its price)"]), "disks that keep what they acknowledge"]
