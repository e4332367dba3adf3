"""The rules that all protocols with ZooKeeper share."""

# ruff: noqa: ARG002  a rule gets everything that any variant of it may need

from __future__ import annotations

from ..config import Config
from ..eras import ERAS
from ..partition_state import PartitionState
from ..ports import FollowerView, ReplicaView
from ..requests import NONE
from ..rules import Rules


class Zookeeper(Rules):
    """Kafka before 2.1: leader epochs fence nothing, and a restart of a broker is not noticed while there is no
    controller (KAFKA-1120)."""

    era = ERAS["1.0"]

    def heartbeat_interval(self, config: Config) -> int:
        """ZooKeeper's client sends a ping after a third of the session timeout (ClientCnxn). A smaller
        broker.heartbeat.interval.ms, which these brokers do not have, makes pings more frequent."""
        return min(config.heartbeat, config.session_timeout // 3)

    def keeps_fetching(self, replica: ReplicaView, state: PartitionState) -> bool:
        """Always: Partition.makeFollower saw no change of the leader, so the follower did not truncate. Simplification:
        a follower starts anew after a time without a leader, of which these brokers were not informed."""
        return True

    def check_epoch(self, replica: ReplicaView, epoch: int) -> str:
        """A leader answers a fetch of any epoch."""
        return NONE

    def may_join_isr(self, replica: ReplicaView, follower: FollowerView) -> bool:
        """Whether the follower has reached the leader's high watermark, which may be below that of the last leader
        (KAFKA-7128)."""
        return follower.leo >= replica.hw
