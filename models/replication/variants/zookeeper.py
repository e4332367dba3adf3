"""What all protocols with ZooKeeper share."""

# ruff: noqa: ARG002  a rule gets everything that any variant of it may need

from __future__ import annotations

from ..config import Config
from ..eras import ERAS
from ..partition_state import PartitionState
from ..ports import FollowerView, ReplicaView
from ..requests import NONE
from ..rules import Rules


class Zookeeper(Rules):
    """Kafka before 2.1: no fencing by leader epoch, and a broker's restart goes unnoticed while there is no controller
    (KAFKA-1120)."""

    era = ERAS["1.0"]

    def heartbeat_interval(self, config: Config) -> int:
        """ZooKeeper's client pings after a third of the session timeout (ClientCnxn), whatever else is configured;
        broker.heartbeat.interval.ms, which those brokers do not have, only makes it more often."""
        return min(config.heartbeat, config.session_timeout // 3)

    def keeps_fetching(self, replica: ReplicaView, state: PartitionState) -> bool:
        """Always: for Partition.makeFollower nothing changed, so nothing was truncated. Simplification: after a time
        without any leader a follower starts again, though brokers then did not learn of that time."""
        return True

    def check_epoch(self, replica: ReplicaView, epoch: int) -> str:
        """A leader answers a fetch of any epoch."""
        return NONE

    def may_join_isr(self, replica: ReplicaView, follower: FollowerView) -> bool:
        """At the leader's high watermark, which may lag behind its predecessor's (KAFKA-7128)."""
        return follower.leo >= replica.hw
