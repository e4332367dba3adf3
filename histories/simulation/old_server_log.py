"""The same facts in the words of Kafka 0.10, where truncation went by the high watermark."""

# ruff: noqa: ARG002  a fact has all that any era's wording needs

from __future__ import annotations

from typing import Any

from ...models.replication.state import PartitionState
from .server_log import PARTITION, STATE, Line, Wording, _ids

OLD_LOG = "kafka.log.Log"
SERVER = "kafka.server.KafkaServer"
MANAGER = "kafka.server.ReplicaFetcherManager"


class OldWording(Wording):
    """Lines of 0.10.2; what is not said again here was not said then."""

    def old(self, partition: int) -> str:
        return f"[{self.topic},{partition}]"

    def start(self, node: int) -> list[Line]:
        return [("server", "INFO", "starting", SERVER)]

    def ready(self, node: int) -> list[Line]:
        return [("server", "INFO", f"[Kafka Server {node}], started", SERVER)]

    def stop(self, node: int, reason: str) -> list[Line]:
        if reason == "shutdown":
            return [("server", "INFO", f"[Kafka Server {node}], shutting down", SERVER)]
        if reason == "disk-full":
            text = (
                f"[Replica Manager on Broker {node}]: Halting due to unrecoverable I/O error while handling "
                "produce request: "
            )
            return [("server", "FATAL", text, "kafka.server.ReplicaManager")]
        return []

    def loaded(self, node: int, partition: int, end: int, mark: int, clean: bool) -> list[Line]:
        name = self.name(partition)
        lines: list[Line] = []
        if not clean:
            lines.append(("server", "INFO", f"Recovering unflushed segment 0 in log {name}.", OLD_LOG))
        text = f"Completed load of log {name} with 1 log segments and log end offset {end} in 10 ms"
        lines.append(("server", "INFO", text, OLD_LOG))
        return lines

    def leader(
        self,
        node: int,
        partition: int,
        epoch: int,
        end: int,
        mark: int,
        isr: tuple[int, ...],
        version: int,
        previous: tuple[int, int],
        unclean: bool,
    ) -> list[Line]:
        name = self.name(partition)
        text = f"[ReplicaFetcherManager on broker {node}] Removed fetcher for partitions {name}"
        return [self._received(node, partition, epoch, node, isr, version), ("server", "INFO", text, MANAGER)]

    def _received(self, node: int, partition: int, epoch: int, leader: int, isr: tuple[int, ...], version: int) -> Line:
        controller = self.cluster.quorum.controller
        sender = controller.id if controller is not None else -1
        epoch_of_sender = self.cluster.quorum.epoch
        replicas = self.cluster.quorum.states[partition].replicas
        text = (
            f"Broker {node} received LeaderAndIsr request PartitionState(controllerEpoch={epoch_of_sender}, "
            f"leader={leader}, leaderEpoch={epoch}, isr=[{', '.join(map(str, isr))}], zkVersion={version}, "
            f"replicas=[{', '.join(map(str, replicas))}]) correlation id {version} from controller {sender} "
            f"epoch {epoch_of_sender} for partition {self.old(partition)}"
        )
        return ("state-change", "TRACE", text, STATE)

    def follower(
        self,
        node: int,
        partition: int,
        epoch: int,
        leader: int,
        end: int,
        mark: int,
        version: int,
        previous: tuple[int, int],
    ) -> list[Line]:
        name = self.name(partition)
        isr = self.cluster.quorum.states[partition].isr
        received = self._received(node, partition, epoch, leader, isr, version)
        removed = f"[ReplicaFetcherManager on broker {node}] Removed fetcher for partitions {name}"
        return [received, ("server", "INFO", removed, MANAGER)]

    def fetching(self, node: int, partition: int, leader: int, offset: int, epoch: int) -> list[Line]:
        text = (
            f"[ReplicaFetcherManager on broker {node}] Added fetcher for partitions "
            f"List([{self.name(partition)}, initOffset {offset} to broker "
            f"BrokerEndPoint({leader},127.0.0.1,{29090 + leader})] )"
        )
        return [("server", "INFO", text, MANAGER)]

    def truncate(
        self,
        node: int,
        partition: int,
        before: int,
        after: int,
        reason: str,
        detail: Any,
        leader: int,
    ) -> list[Line]:
        name = self.name(partition)
        if reason == "unclean-disk":
            if before == after:
                return []
            text = f"Found invalid messages in log segment /{name}/{0:020d}.log at byte offset {after}."
            return [("server", "WARN", text, OLD_LOG)]
        lines: list[Line] = []
        if reason == "out-of-range":
            text = (
                f"[ReplicaFetcherThread-0-{leader}], Replica {node} for partition {self.old(partition)} "
                f"reset its fetch offset from {before} to current leader {leader}'s latest offset {after}"
            )
            lines.append(("server", "WARN", text, "kafka.server.ReplicaFetcherThread"))
        lines.append(("server", "INFO", f"Truncating log {name} to offset {after}.", OLD_LOG))
        return lines

    def isr_shrink(
        self,
        node: int,
        partition: int,
        old: Any,
        new: Any,
        mark: int,
        end: int,
        out: Any,
    ) -> list[Line]:
        text = (
            f"Partition {self.old(partition)} on broker {node}: Shrinking ISR for partition "
            f"{self.old(partition)} from {_ids(old)} to {_ids(new)}"
        )
        return [("server", "INFO", text, PARTITION)]

    def isr_expand(
        self,
        node: int,
        partition: int,
        old: Any,
        new: Any,
        mark: int,
        end: int,
    ) -> list[Line]:
        text = (
            f"Partition {self.old(partition)} on broker {node}: Expanding ISR for partition "
            f"{self.name(partition)} from {_ids(old)} to {_ids(new)}"
        )
        return [("server", "INFO", text, PARTITION)]

    def isr_updated(self, node: int, partition: int, isr: Any, version: int) -> list[Line]:
        return []

    def elected(self, node: int, partition: int, old: PartitionState, new: PartitionState) -> list[Line]:
        if new.leader < 0:
            text = (
                f"[Controller {node}]: New leader and ISR for partition {self.old(partition)} is "
                f'{{"leader":-1,"leader_epoch":{new.epoch},"isr":[{_ids(new.isr)}]}}'
            )
            return [("controller", "INFO", text, "kafka.controller.KafkaController")]
        lines: list[Line] = []
        if new.unclean:
            text = (
                f"[OfflinePartitionLeaderSelector]: No broker in ISR is alive for {self.old(partition)}. "
                f"Elect leader {new.leader} from live brokers {_ids(tuple(self.cluster.quorum.live))}. "
                "There's potential data loss."
            )
            lines.append(("controller", "WARN", text, "kafka.controller.OfflinePartitionLeaderSelector"))
        text = (
            f'[OfflinePartitionLeaderSelector]: Selected new leader and ISR {{"leader":{new.leader},'
            f'"leader_epoch":{new.epoch},"isr":[{_ids(new.isr)}]}} for offline partition '
            f"{self.old(partition)}"
        )
        lines.append(("controller", "INFO", text, "kafka.controller.OfflinePartitionLeaderSelector"))
        return lines

    def fenced(self, node: int, broker: int) -> list[Line]:
        text = f"[Controller {node}]: Broker failure callback for {broker}"
        return [("controller", "INFO", text, "kafka.controller.KafkaController")]

    def registered(self, node: int, broker: int) -> list[Line]:
        text = f"[Controller {node}]: New broker startup callback for {broker}"
        return [("controller", "INFO", text, "kafka.controller.KafkaController")]

    def controller(self, node: int, epoch: int) -> list[Line]:
        text = f"[Controller {node}]: Controller {node} incremented epoch to {epoch}"
        return [("controller", "INFO", text, "kafka.controller.KafkaController")]
