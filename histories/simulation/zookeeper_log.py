"""The log lines of Kafka 0.10, which truncates to the high watermark, and of 1.0 for the events of a run."""

# ruff: noqa: ARG002  an event has everything that any era's log line needs

from __future__ import annotations

from typing import Any

from ...models.replication.events import Followed, Led, Shrunk, Truncated
from ...models.replication.partition_state import PartitionState
from .server_log import FETCHER, MANAGER, PARTITION, STATE, Line, Wording, ids

OLD_LOG = "kafka.log.Log"
SERVER = "kafka.server.KafkaServer"


class ZookeeperWording(Wording):
    """Lines of 0.10.2."""

    def old(self, partition: int) -> str:
        return "[{},{}]".format(*self.cluster.config.topic_of(partition))

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

    def leader(self, node: int, led: Led) -> list[Line]:
        text = f"[ReplicaFetcherManager on broker {node}] Removed fetcher for partitions {self.name(led.partition)}"
        return [self._received(node, node, led), ("server", "INFO", text, MANAGER)]

    def _received(self, node: int, leader: int, change: Led | Followed) -> Line:
        controller = self.cluster.quorum.controller
        sender = controller.id if controller is not None else -1
        known = self.cluster.brokers[node].leadership.controller_epoch
        replicas = self.cluster.quorum.states[change.partition].replicas
        text = (
            f"{self.received(node)} LeaderAndIsr request PartitionState(controllerEpoch={known}, "
            f"leader={leader}, leaderEpoch={change.epoch}, isr={self.listed(change.isr)}, zkVersion={change.version}, "
            f"replicas={self.listed(replicas)}) correlation id {change.version} from controller {sender} "
            f"epoch {known} for partition {self.old(change.partition)}"
        )
        return ("state-change", "TRACE", text, STATE)

    def received(self, node: int) -> str:
        return f"Broker {node} received"

    def listed(self, nodes: tuple[int, ...]) -> str:
        return f"[{', '.join(map(str, nodes))}]"

    def follower(self, node: int, followed: Followed) -> list[Line]:
        removed = (
            f"[ReplicaFetcherManager on broker {node}] Removed fetcher for partitions {self.name(followed.partition)}"
        )
        return [self._received(node, followed.leader, followed), ("server", "INFO", removed, MANAGER)]

    def follows_on(self, node: int, followed: Followed) -> list[Line]:
        """The leader and the fetcher stay."""
        return [self._received(node, followed.leader, followed)]

    def fetching(self, node: int, partition: int, leader: int, offset: int, epoch: int) -> list[Line]:
        text = (
            f"[ReplicaFetcherManager on broker {node}] Added fetcher for partitions "
            f"List([{self.name(partition)}, initOffset {offset} to broker "
            f"BrokerEndPoint({leader},127.0.0.1,{29090 + leader})] )"
        )
        return [("server", "INFO", text, MANAGER)]

    def truncate(self, node: int, cut: Truncated) -> list[Line]:
        name = self.name(cut.partition)
        if cut.reason == "unclean-disk":
            if cut.before == cut.after:
                return []
            text = f"Found invalid messages in log segment /{name}/{0:020d}.log at byte offset {cut.after}."
            return [("server", "WARN", text, OLD_LOG)]
        lines: list[Line] = []
        if cut.reason == "out-of-range":
            text = (
                f"[ReplicaFetcherThread-0-{cut.leader}], Replica {node} for partition {self.old(cut.partition)} "
                f"reset its fetch offset from {cut.before} to current leader {cut.leader}'s latest offset {cut.after}"
            )
            lines.append(("server", "WARN", text, "kafka.server.ReplicaFetcherThread"))
        lines.append(("server", "INFO", f"Truncating log {name} to offset {cut.after}.", OLD_LOG))
        if cut.reason == "out-of-range":
            lines.append(self.out_of_range(f"[ReplicaFetcherThread-0-{cut.leader}],", cut))
        return lines

    def out_of_range(self, fetcher: str, cut: Truncated) -> Line:
        """The last line of a fetcher that fetched beyond its leader's log (AbstractFetcherThread)."""
        what = f"Current offset {cut.before} for partition {self.old(cut.partition)} out of range"
        return ("server", "ERROR", f"{fetcher} {what}; reset offset to {cut.after}", FETCHER)

    def isr_shrink(self, node: int, shrunk: Shrunk) -> list[Line]:
        about = f"for partition {self.old(shrunk.partition)} "
        return self._isr(node, shrunk.partition, f"Shrinking ISR {about}from {ids(shrunk.old)} to {ids(shrunk.new)}")

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

    def leaving(self, node: int, broker: int) -> list[Line]:
        text = f"[Controller {node}]: Shutting down broker {broker}"
        return [("controller", "INFO", text, "kafka.controller.KafkaController")]

    def left(self, node: int, broker: int) -> list[Line]:
        """The controller only sees that the session is closed, as for any broker that stops."""
        return self.fenced(node, broker)

    def registered(self, node: int, broker: int) -> list[Line]:
        text = f"[Controller {node}]: New broker startup callback for {broker}"
        return [("controller", "INFO", text, "kafka.controller.KafkaController")]

    def controller(self, node: int, epoch: int) -> list[Line]:
        text = f"[Controller {node}]: Controller {node} incremented epoch to {epoch}"
        return [("controller", "INFO", text, "kafka.controller.KafkaController")]


class EpochWording(ZookeeperWording):
    """Lines of 1.0, which truncates by leader epochs and prefixes most lines with brackets."""

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

    def retention(self, node: int, partition: int, first: int, start: int, reason: str) -> list[Line]:
        text = f"{self.log(node, partition)} Incrementing log start offset to {start}"
        return [("server", "INFO", text, OLD_LOG)]

    def leader(self, node: int, led: Led) -> list[Line]:
        name = self.name(led.partition)
        text = (
            f"[Partition {name} broker={node}] {name} starts at Leader Epoch {led.epoch} from offset {led.end}. "
            f"Previous Leader Epoch was: {led.previous[1]}"
        )
        lines = super().leader(node, led)
        return [*lines, ("server", "INFO", text, PARTITION)]

    def received(self, node: int) -> str:
        return f"[Broker id={node}] Received"

    def listed(self, nodes: tuple[int, ...]) -> str:
        return ids(nodes)

    def truncate(self, node: int, cut: Truncated) -> list[Line]:
        log, name = self.log(node, cut.partition), self.name(cut.partition)
        if cut.reason == "unclean-disk":
            return super().truncate(node, cut)
        fetcher = f"[ReplicaFetcher replicaId={node}, leaderId={cut.leader}, fetcherId=0]"
        if cut.reason == "out-of-range":
            text = (
                f"{fetcher} Reset fetch offset for partition {name} from {cut.before} to current leader's latest "
                f"offset {cut.after}"
            )
            cut_line = self._cut(log, cut.before, cut.after)
            return [("server", "WARN", text, FETCHER), cut_line, self.out_of_range(fetcher, cut)]
        if cut.reason == "high-watermark":
            why = f"Truncating partition {name} to local high watermark {cut.after}"
        elif cut.detail[1] >= cut.before:
            why = (
                f"Based on follower's leader epoch, leader replied with an offset {cut.detail[1]} >= the follower's "
                f"log end offset {cut.before} in {name}. No truncation needed."
            )
        else:
            why = (
                f"Based on follower's leader epoch, leader replied with an offset {cut.detail[1]} < the follower's "
                f"log end offset {cut.before} in {name}. Truncating to {cut.after}."
            )
        return [("server", "INFO", f"{fetcher} {why}", FETCHER), self._cut(log, cut.before, cut.after)]

    def _cut(self, log: str, before: int, after: int) -> Line:
        if after < before:
            return ("server", "INFO", f"{log} Truncating to offset {after}", OLD_LOG)
        text = f"{log} Truncating to {after} has no effect as the largest offset in the log is {before - 1}"
        return ("server", "INFO", text, OLD_LOG)

    def isr_shrink(self, node: int, shrunk: Shrunk) -> list[Line]:
        return self._isr(node, shrunk.partition, f"Shrinking ISR from {ids(shrunk.old)} to {ids(shrunk.new)}")

    def isr_expand(self, node: int, partition: int, old: Any, new: Any, mark: int, end: int) -> list[Line]:
        return self._isr(node, partition, f"Expanding ISR from {ids(old)} to {ids(new)}")

    def _isr(self, node: int, partition: int, text: str) -> list[Line]:
        return [("server", "INFO", f"[Partition {self.name(partition)} broker={node}] {text}", PARTITION)]
