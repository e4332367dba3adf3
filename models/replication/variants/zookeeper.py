"""What all protocols of ZooKeeper's time share; each variant of that time replaces one rule on top of it."""

# ruff: noqa: ARG002  a rule is asked with all that any variant of it may need

from __future__ import annotations

from ..config import Config
from ..protocol import Protocol
from ..replica import Remote, Replica
from ..requests import NONE
from ..state import PartitionState


class Zookeeper(Protocol):
    """Kafka before 2.1: no fencing by leader epoch, and a broker's restart goes unnoticed while there is no controller
    (KAFKA-1120)."""

    zookeeper = True
    fences_together = True  # KafkaController.onBrokerFailure
    consumers_validate = False
    hides_lagging_mark = False

    def heartbeat(self, config: Config) -> int:
        """ZooKeeper's client pings after a third of the session timeout (ClientCnxn), whatever else is configured;
        broker.heartbeat.interval.ms, which those brokers do not have, only makes it more often."""
        return min(config.heartbeat, config.session_timeout // 3)

    def keeps_fetching(self, replica: Replica, state: PartitionState) -> bool:
        """Yes: Partition.makeFollower said that nothing changed, so nothing was truncated. Simplification: after a
        time without any leader a follower begins anew, though brokers then did not hear of that time."""
        return True

    def check_epoch(self, replica: Replica, epoch: int) -> str:
        """Whoever believes to lead answers any fetch."""
        return NONE

    def may_join(self, replica: Replica, remote: Remote) -> bool:
        """At the leader's high watermark, which may lag behind its predecessor's (KAFKA-7128)."""
        return remote.leo >= replica.hw
