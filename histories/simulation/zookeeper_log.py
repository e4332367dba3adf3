"""The facts of a run in the words of Kafka 0.10, where truncation went by the high watermark, and of 1.0."""

# ruff: noqa: ARG002  a fact has all that any era's wording needs

from __future__ import annotations

from typing import Any

from ...models.replication.state import PartitionState
from .server_log import FETCHER, MANAGER, PARTITION, STATE, Line, Wording, ids

OLD_LOG = "kafka.log.Log"
SERVER = "kafka.server.KafkaServer"


class ZookeeperWording(Wording):
    """Lines of 0.10.2."""

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
        text = f"[ReplicaFetcherManager on broker {node}] Removed fetcher for partitions {self.name(partition)}"
        return [self._received(node, partition, epoch, node, isr, version), ("server", "INFO", text, MANAGER)]

    def _received(self, node: int, partition: int, epoch: int, leader: int, isr: tuple[int, ...], version: int) -> Line:
        controller = self.cluster.quorum.controller
        sender = controller.id if controller is not None else -1
        known = self.cluster.brokers[node].controller_epoch
        replicas = self.cluster.quorum.states[partition].replicas
        text = (
            f"{self.received(node)} LeaderAndIsr request PartitionState(controllerEpoch={known}, "
            f"leader={leader}, leaderEpoch={epoch}, isr={self.listed(isr)}, zkVersion={version}, "
            f"replicas={self.listed(replicas)}) correlation id {version} from controller {sender} "
            f"epoch {known} for partition {self.old(partition)}"
        )
        return ("state-change", "TRACE", text, STATE)

    def received(self, node: int) -> str:
        return f"Broker {node} received"

    def listed(self, nodes: tuple[int, ...]) -> str:
        return f"[{', '.join(map(str, nodes))}]"

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
        isr: tuple[int, ...],
    ) -> list[Line]:
        received = self._received(node, partition, epoch, leader, isr, version)
        removed = f"[ReplicaFetcherManager on broker {node}] Removed fetcher for partitions {self.name(partition)}"
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

    def isr_shrink(self, node: int, partition: int, old: Any, new: Any, mark: int, end: int, out: Any) -> list[Line]:
        about = f"for partition {self.old(partition)} "
        return self._isr(node, partition, f"Shrinking ISR {about}from {ids(old)} to {ids(new)}")

    def isr_expand(self, node: int, partition: int, old: Any, new: Any, mark: int, end: int) -> list[Line]:
        about = f"for partition {self.name(partition)} "
        return self._isr(node, partition, f"Expanding ISR {about}from {ids(old)} to {ids(new)}")

    def _isr(self, node: int, partition: int, text: str) -> list[Line]:
        return [("server", "INFO", f"Partition {self.old(partition)} on broker {node}: {text}", PARTITION)]

    def isr_updated(self, node: int, partition: int, isr: Any, version: int) -> list[Line]:
        return []

    def elected(self, node: int, partition: int, old: PartitionState, new: PartitionState) -> list[Line]:
        if new.leader < 0:
            text = (
                f"[Controller {node}]: New leader and ISR for partition {self.old(partition)} is "
                f'{{"leader":-1,"leader_epoch":{new.epoch},"isr":[{ids(new.isr)}]}}'
            )
            return [("controller", "INFO", text, "kafka.controller.KafkaController")]
        lines: list[Line] = []
        if new.unclean:
            text = (
                f"[OfflinePartitionLeaderSelector]: No broker in ISR is alive for {self.old(partition)}. "
                f"Elect leader {new.leader} from live brokers {ids(tuple(self.cluster.quorum.live))}. "
                "There's potential data loss."
            )
            lines.append(("controller", "WARN", text, "kafka.controller.OfflinePartitionLeaderSelector"))
        text = (
            f'[OfflinePartitionLeaderSelector]: Selected new leader and ISR {{"leader":{new.leader},'
            f'"leader_epoch":{new.epoch},"isr":[{ids(new.isr)}]}} for offline partition '
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


class EpochWording(ZookeeperWording):
    """Lines of 1.0, where leader epochs decide and much is said with brackets before it."""

    def old(self, partition: int) -> str:
        return self.name(partition)

    def log(self, node: int, partition: int) -> str:
        return f"[Log partition={self.name(partition)}, dir={self.folder(node)}]"

    def ready(self, node: int) -> list[Line]:
        return [("server", "INFO", f"[KafkaServer id={node}] started", SERVER)]

    def stop(self, node: int, reason: str) -> list[Line]:
        if reason == "shutdown":
            return [("server", "INFO", f"[KafkaServer id={node}] shutting down", SERVER)]
        if reason == "disk-full":
            text = f"Shutdown broker because all log dirs in {self.folder(node)} have failed"
            return [("server", "FATAL", text, "kafka.log.LogManager")]
        return []

    def loaded(self, node: int, partition: int, end: int, mark: int, clean: bool) -> list[Line]:
        log, start = self.log(node, partition), self.cluster.brokers[node].replicas[partition].log.start
        lines: list[Line] = [] if clean else [("server", "INFO", f"{log} Recovering unflushed segment 0", OLD_LOG)]
        text = (
            f"{log} Completed load of log with 1 segments, log start offset {start} and log end offset {end} in 10 ms"
        )
        return [*lines, ("server", "INFO", text, OLD_LOG)]

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
        text = (
            f"[Partition {name} broker={node}] {name} starts at Leader Epoch {epoch} from offset {end}. "
            f"Previous Leader Epoch was: {previous[1]}"
        )
        lines = super().leader(node, partition, epoch, end, mark, isr, version, previous, unclean)
        return [*lines, ("server", "INFO", text, PARTITION)]

    def received(self, node: int) -> str:
        return f"[Broker id={node}] Received"

    def listed(self, nodes: tuple[int, ...]) -> str:
        return ids(nodes)

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
        log, name = self.log(node, partition), self.name(partition)
        if reason == "unclean-disk":
            return super().truncate(node, partition, before, after, reason, detail, leader)
        fetcher = f"[ReplicaFetcher replicaId={node}, leaderId={leader}, fetcherId=0]"
        if reason == "out-of-range":
            text = f"{fetcher} Reset fetch offset for partition {name} from {before} to current leader's latest offset"
            return [("server", "WARN", f"{text} {after}", FETCHER), self._cut(log, before, after)]
        if reason == "high-watermark":
            why = f"Truncating partition {name} to local high watermark {after}"
        elif detail[1] >= before:
            why = (
                f"Based on follower's leader epoch, leader replied with an offset {detail[1]} >= the follower's log "
                f"end offset {before} in {name}. No truncation needed."
            )
        else:
            why = (
                f"Based on follower's leader epoch, leader replied with an offset {detail[1]} < the follower's log "
                f"end offset {before} in {name}. Truncating to {after}."
            )
        return [("server", "INFO", f"{fetcher} {why}", FETCHER), self._cut(log, before, after)]

    def _cut(self, log: str, before: int, after: int) -> Line:
        if after < before:
            return ("server", "INFO", f"{log} Truncating to offset {after}", OLD_LOG)
        text = f"{log} Truncating to {after} has no effect as the largest offset in the log is {before - 1}"
        return ("server", "INFO", text, OLD_LOG)

    def isr_shrink(self, node: int, partition: int, old: Any, new: Any, mark: int, end: int, out: Any) -> list[Line]:
        return self._isr(node, partition, f"Shrinking ISR from {ids(old)} to {ids(new)}")

    def isr_expand(self, node: int, partition: int, old: Any, new: Any, mark: int, end: int) -> list[Line]:
        return self._isr(node, partition, f"Expanding ISR from {ids(old)} to {ids(new)}")

    def _isr(self, node: int, partition: int, text: str) -> list[Line]:
        return [("server", "INFO", f"[Partition {self.name(partition)} broker={node}] {text}", PARTITION)]
