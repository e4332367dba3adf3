"""The facts of a run in the words of Kafka's own logs: those of 4.1, and of 0.10 for the oldest protocol.

Only the lines that say what happened to partitions, processes and controllers are written. The wording is
that of real brokers; between 0.11 and 3.x it differed in details that nobody should rest on.
"""

# ruff: noqa: ARG002  a fact has all that any era's wording needs

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from ...models.replication.cluster import Cluster
from ...models.replication.network import FIRST_CONTROLLER, QUORUM
from ...models.replication.state import Fact, PartitionState
from .names import stamp, uuid

PARTITION = "kafka.cluster.Partition"
FETCHER = "kafka.server.ReplicaFetcherThread"
LOG = "org.apache.kafka.storage.internals.log.UnifiedLog"
LOADER = "org.apache.kafka.storage.internals.log.LogLoader"
STATE = "state.change.logger"
CONTROL = "org.apache.kafka.controller.ReplicationControlManager"
MANAGER = "kafka.server.ReplicaFetcherManager"

Line = tuple[str, str, str, str]  # file, level, text, logger


def _ids(nodes: tuple[int, ...]) -> str:
    return ",".join(str(node) for node in nodes)


class Wording:
    """Kafka 4.1's lines, one method a fact; a fact without a method is not logged."""

    def __init__(self, cluster: Cluster) -> None:
        self.topic = cluster.config.topic
        self.topic_id = uuid(cluster.seed, self.topic)
        self.cluster = cluster

    def name(self, partition: int) -> str:
        return f"{self.topic}-{partition}"

    def folder(self, node: int) -> str:
        return f"/var/lib/kafka/{node}/data"

    def start(self, node: int) -> list[Line]:
        text = f"[BrokerServer id={node}] Transition from SHUTDOWN to STARTING"
        return [("server", "INFO", text, "kafka.server.BrokerServer")]

    def ready(self, node: int) -> list[Line]:
        return [
            (
                "server",
                "INFO",
                f"[KafkaRaftServer nodeId={node}] Kafka Server started",
                "kafka.server.KafkaRaftServer",
            )
        ]

    def stop(self, node: int, reason: str) -> list[Line]:
        """A killed process says nothing any more."""
        if reason == "shutdown":
            text = f"[BrokerServer id={node}] Transition from STARTED to SHUTTING_DOWN"
            return [("server", "INFO", text, "kafka.server.BrokerServer")]
        if reason == "disk-full":
            folder = self.folder(node)
            return [
                (
                    "server",
                    "ERROR",
                    f"Shutdown broker because all log dirs in {folder} have failed",
                    "kafka.log.LogManager",
                )
            ]
        return []

    def loaded(self, node: int, partition: int, end: int, mark: int, clean: bool) -> list[Line]:
        name, folder = self.name(partition), self.folder(node)
        lines: list[Line] = []
        if not clean:
            text = f"[LogLoader partition={name}, dir={folder}] Recovering unflushed segment 0. 0 recovered for {name}."
            lines.append(("server", "INFO", text, LOADER))
        start = self.cluster.brokers[node].replicas[partition].log.start
        text = (
            f"Completed load of Log(dir={folder}/{name}, topicId={self.topic_id}, topic={self.topic}, "
            f"partition={partition}, highWatermark=0, lastStableOffset=0, logStartOffset={start}, "
            f"logEndOffset={end}) with 1 segments, local-log-start-offset {start} and log-end-offset {end} "
            f"in 10ms (1/1 completed in {folder})"
        )
        lines.append(("server", "INFO", text, "kafka.log.LogManager"))
        text = (
            f"[Partition {name} broker={node}] Log loaded for partition {name} with initial high watermark "
            f"{min(mark, end)}"
        )
        lines.append(("server", "INFO", text, PARTITION))
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
        lines: list[Line] = []
        if unclean:
            text = (
                f"[Broker id={node}] The topic partition {name} was marked as RECOVERING. "
                "Marking the topic partition as RECOVERED."
            )
            lines.append(("state-change", "INFO", text, STATE))
        text = f"[ReplicaFetcherManager on broker {node}] Removed fetcher for partitions Set({name})"
        lines.append(("server", "INFO", text, MANAGER))
        text = (
            f"[Broker id={node}] Leader {name} with topic id Some({self.topic_id}) starts at leader epoch "
            f"{epoch} from offset {end} with partition epoch {version}, high watermark {mark}, ISR "
            f"[{_ids(isr)}], adding replicas [] and removing replicas [] . Previous leader "
            f"{_some(previous[0])} and previous leader epoch was {previous[1]}."
        )
        lines.append(("state-change", "INFO", text, STATE))
        return lines

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
        text = (
            f"[Broker id={node}] Follower {name} starts at leader epoch {epoch} from offset {end} with "
            f"partition epoch {version} and high watermark {mark}. Current leader is {leader}. Previous "
            f"leader {_some(previous[0])} and previous leader epoch was {previous[1]}."
        )
        lines: list[Line] = [("state-change", "INFO", text, STATE)]
        if leader > 0:
            text = (
                f"[ReplicaFetcherManager on broker {node}] Added fetcher to broker {leader} for partitions "
                f"HashMap({name} -> InitialFetchState(Some({self.topic_id}),BrokerEndPoint[id={leader}, "
                f"host=127.0.0.1, port={19090 + leader}],{epoch},{end}))"
            )
            lines.append(("server", "INFO", text, MANAGER))
        return lines

    def truncate(
        self, node: int, partition: int, before: int, after: int, reason: str, detail: Any, leader: int
    ) -> list[Line]:
        name = self.name(partition)
        where = f"partition={name}, dir={self.folder(node)}"
        if reason == "unclean-disk":
            if after == before:
                return []
            text = f"[LogLoader {where}] Corruption found in segment 0, truncating to offset {after}"
            return [("server", "WARN", text, LOADER)]
        fetcher = f"[ReplicaFetcher replicaId={node}, leaderId={leader}, fetcherId=0]"
        if reason == "epoch":
            why = (
                f"leader epoch and offset EpochEndOffset(errorCode=0, partition={partition}, "
                f"leaderEpoch={detail[0]}, endOffset={detail[1]})"
            )
        else:
            why = f"local high watermark {after}"
        text = (
            f"{fetcher} Truncating partition {name} with TruncationState(offset={after}, completed=true) due to {why}"
        )
        if reason == "out-of-range":
            text = (
                f"{fetcher} Reset fetch offset for partition {name} from {before} to current leader's "
                f"latest offset {detail[0]}"
            )
        if after < before:
            cut = f"[UnifiedLog {where}] Truncating to offset {after}"
        else:
            cut = (
                f"[UnifiedLog {where}] Truncating to {after} has no effect as the largest offset in the log "
                f"is {before - 1}"
            )
        level = "WARN" if reason == "out-of-range" else "INFO"
        return [("server", level, text, FETCHER), ("server", "INFO", cut, LOG)]

    def isr_shrink(self, node: int, partition: int, old: Any, new: Any, mark: int, end: int, out: Any) -> list[Line]:
        behind = " ".join(f"(brokerId: {b}, endOffset: {leo})." for b, leo in out)
        text = (
            f"[Partition {self.name(partition)} broker={node}] Shrinking ISR from {_ids(old)} to "
            f"{_ids(new)}. Leader: (highWatermark: {mark}, endOffset: {end}). Out of sync replicas: {behind}"
        )
        return [("server", "INFO", text, PARTITION)]

    def isr_expand(self, node: int, partition: int, old: Any, new: Any, mark: int, end: int) -> list[Line]:
        """Only at DEBUG since 2.8."""
        return []

    def isr_updated(self, node: int, partition: int, isr: Any, version: int) -> list[Line]:
        text = (
            f"[Partition {self.name(partition)} broker={node}] ISR updated to {_ids(isr)}  "
            f"and version updated to {version}"
        )
        return [("server", "INFO", text, PARTITION)]

    def elected(self, node: int, partition: int, old: PartitionState, new: PartitionState) -> list[Line]:
        """Clean elections are logged at TRACE only."""
        if not new.unclean or new.leader < 0:
            return []
        changes = [
            f"isr: [{_ids(old.isr)}] -> [{_ids(new.isr)}]",
            f"leader: {old.leader} -> {new.leader}",
            "leaderRecoveryState: RECOVERED -> RECOVERING",
            f"leaderEpoch: {old.epoch} -> {new.epoch}",
        ]
        if old.elr != new.elr:
            changes.append(f"elr: [{_ids(old.elr)}] -> [{_ids(new.elr)}]")
        if old.last_known != new.last_known:
            changes.append(f"lastKnownElr: [{old.last_known}] -> []")
        changes.append(f"partitionEpoch: {old.version} -> {new.version}")
        text = (
            f"[QuorumController id={node}] UNCLEAN partition change for {self.name(partition)} with topic ID "
            f"{self.topic_id}: {', '.join(changes)}"
        )
        return [("server", "INFO", text, CONTROL)]

    def fenced(self, node: int, broker: int) -> list[Line]:
        text = (
            f"[QuorumController id={node}] Fencing broker {broker} at epoch {broker} because its session has timed out."
        )
        return [("server", "INFO", text, CONTROL)]

    def registered(self, node: int, broker: int) -> list[Line]:
        text = (
            f"[QuorumController id={node}] The request from broker {broker} to unfence has been granted "
            f"because it has caught up with the offset of its register broker record {broker}."
        )
        return [("server", "INFO", text, "org.apache.kafka.controller.BrokerHeartbeatManager")]

    def controller(self, node: int, epoch: int) -> list[Line]:
        text = (
            f"[QuorumController id={node}] Becoming the active controller at epoch {epoch}, next write offset {epoch}."
        )
        return [("server", "INFO", text, "org.apache.kafka.controller.QuorumController")]

    def out_of_order(self, node: int, partition: int, pid: int, end: int, sequence: int, last: int) -> list[Line]:
        name = self.name(partition)
        text = f"[ReplicaManager broker={node}] Error processing append operation on partition {self.topic_id}:{name}"
        cause = (
            f"org.apache.kafka.common.errors.OutOfOrderSequenceException: Out of order sequence number for "
            f"producer {pid} at offset {end} in partition {name}: {sequence} (incoming seq. number), "
            f"{last} (current end sequence number)"
        )
        return [("server", "ERROR", text, "kafka.server.ReplicaManager"), ("server", "", cause, "")]


def _some(leader: int) -> str:
    return "None" if leader < 0 else f"Some({leader})"


class LogWriter:
    """Receives facts and appends their lines to brokers/<id>/*.log, as they happen."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[tuple[int, str], TextIO] = {}
        self._wording: Wording | None = None
        self._cluster: Cluster | None = None

    def attach(self, cluster: Cluster, wording: Wording) -> None:
        """The cluster exists only once it was given this writer."""
        self._cluster, self._wording = cluster, wording

    def tell(self, fact: Fact) -> None:
        time, node, kind, details = fact
        assert self._cluster is not None
        method: Callable[..., list[Line]] | None = getattr(self._wording, kind.replace("-", "_"), None)
        if method is None or kind in ("name", "folder"):
            return
        if node == QUORUM:
            controller = self._cluster.quorum.controller
            node = FIRST_CONTROLLER if controller is None else controller.id
        if node in self._cluster.brokers:
            time += self._cluster.brokers[node].skew
        for file, level, text, logger in method(node, *details):
            line = f"[{stamp(time)}] {level} {text} ({logger})\n" if level else f"{text}\n"
            self._open(node, file).write(line)

    def _open(self, node: int, file: str) -> TextIO:
        key = (node, file)
        if key not in self._files:
            folder = self._folder / str(node)
            folder.mkdir(parents=True, exist_ok=True)
            self._files[key] = (folder / f"{file}.log").open("w", encoding="utf-8", newline="\n")
        return self._files[key]

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}
