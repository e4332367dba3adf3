"""The rules of all protocols with ZooKeeper."""

# ruff: noqa: ARG002  a rule gets everything that any variant of it may need

from __future__ import annotations

from .. import errors
from ..config import Config
from ..eras import ERAS
from ..partition_state import PartitionState
from ..ports import FollowerView, ReplicaView
from ..rules import Rules


class Zookeeper(Rules):
    """Kafka before 2.1: leader epochs fence nothing, and without a controller a broker's restart is not noticed.

    The latter is KAFKA-1120.
    """

    era = ERAS["1.0"]

    def heartbeat_interval(self, config: Config) -> int:
        """A third of the session timeout, as in ZooKeeper's client (ClientCnxn).

        Or a smaller broker.heartbeat.interval.ms, which real brokers with ZooKeeper do not have.
        """
        return min(config.heartbeat, config.session_timeout // 3)

    def keeps_fetching(self, replica: ReplicaView, state: PartitionState) -> bool:
        """Always: Partition.makeFollower saw no change of the leader, so the follower did not truncate.

        Simplification: after a time without a leader a follower restarts, though these brokers were not informed of it.
        """
        return True

    def check_epoch(self, replica: ReplicaView, epoch: int) -> str:
        """A leader accepts a fetch of any epoch."""
        return errors.NONE

    def may_join_isr(self, replica: ReplicaView, follower: FollowerView) -> bool:
        """Whether the follower has reached the leader's high watermark.

        It may be below that of the last leader (KAFKA-7128).
        """
        return follower.leo >= replica.hw
