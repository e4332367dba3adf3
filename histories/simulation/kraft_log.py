"""The log lines of Kafka 4.1 for the events of a run. Those of 3.x differ in details."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...models.replication.events import Followed, Led, Shrunk, Truncated
from ...models.replication.partition_state import PartitionState
from .server_log import FETCHER, MANAGER, PARTITION, REGISTERED, STATE, Line, Wording, ids, truncation_text

LOG = "org.apache.kafka.storage.internals.log.UnifiedLog"
LOADER = "org.apache.kafka.storage.internals.log.LogLoader"
CONTROL = "org.apache.kafka.controller.ReplicationControlManager"
HEARTBEATS = "org.apache.kafka.controller.BrokerHeartbeatManager"


class KraftWording(Wording):
    """Kafka 4.1's lines."""

    def start(self, node: int) -> Iterator[Line]:
        yield REGISTERED
        yield Line(f"[BrokerServer id={node}] Transition from SHUTDOWN to STARTING", "kafka.server.BrokerServer")

    def ready(self, node: int) -> Iterator[Line]:
        yield Line(f"[KafkaRaftServer nodeId={node}] Kafka Server started", "kafka.server.KafkaRaftServer")

    def stop(self, node: int, reason: str) -> Iterator[Line]:
        """A killed process logs nothing."""
        if reason == "shutdown":
            text = f"[BrokerServer id={node}] Transition from STARTED to SHUTTING_DOWN"
            yield Line(text, "kafka.server.BrokerServer")
        if reason == "disk-full":
            folder = self.folder(node)
            yield Line(f"Shutdown broker because all log dirs in {folder} have failed", "kafka.log.LogManager", "ERROR")

    def loaded(self, node: int, partition: int, end: int, mark: int, was_clean: bool) -> Iterator[Line]:
        name, folder = self.name(partition), self.folder(node)
        topic, number = self.cluster.config.topic_of(partition)
        if not was_clean:
            text = f"[LogLoader partition={name}, dir={folder}] Recovering unflushed segment 0. 0 recovered for {name}."
            yield Line(text, LOADER)
        if (lost := self.found_tail(node, partition)) is not None:
            where = f"partition={name}, dir={folder}"
            yield Line(
                f"[LogLoader {where}] Corruption found in segment 0, truncating to offset {lost}", LOADER, "WARN"
            )
        start = self.cluster.brokers[node].replicas[partition].log.start
        text = (
            f"Completed load of Log(dir={folder}/{name}, topicId={self.topic_id(partition)}, topic={topic}, "
            f"partition={number}, highWatermark=0, lastStableOffset=0, logStartOffset={start}, "
            f"logEndOffset={end}) with 1 segments, local-log-start-offset {start} and log-end-offset {end} "
            f"in 10ms (1/1 completed in {folder})"
        )
        yield Line(text, "kafka.log.LogManager")
        text = (
            f"[Partition {name} broker={node}] Log loaded for partition {name} with initial high watermark "
            f"{min(mark, end)}"
        )
        yield Line(text, PARTITION)

    def leader(self, node: int, led: Led) -> Iterator[Line]:
        name = self.name(led.partition)
        if led.is_unclean:
            text = (
                f"[Broker id={node}] The topic partition {name} was marked as RECOVERING. "
                "Marking the topic partition as RECOVERED."
            )
            yield Line(text, STATE, file="state-change")
        yield Line(f"[ReplicaFetcherManager on broker {node}] Removed fetcher for partitions Set({name})", MANAGER)
        text = (
            f"[Broker id={node}] Leader {name} with topic id Some({self.topic_id(led.partition)}) starts at leader "
            f"epoch {led.epoch} from offset {led.end} with partition epoch {led.version}, high watermark {led.hw}, "
            f"ISR [{ids(led.isr)}], adding replicas [] and removing replicas [] . Previous leader "
            f"{_option(led.previous.leader)} and previous leader epoch was {led.previous.epoch}."
        )
        yield Line(text, STATE, file="state-change")

    def follower(self, node: int, followed: Followed) -> Iterator[Line]:
        name = self.name(followed.partition)
        text = (
            f"[Broker id={node}] Follower {name} starts at leader epoch {followed.epoch} from offset {followed.end} "
            f"with partition epoch {followed.version} and high watermark {followed.hw}. Current leader is "
            f"{followed.leader}. Previous leader {_option(followed.previous.leader)} and previous leader epoch was "
            f"{followed.previous.epoch}."
        )
        yield Line(text, STATE, file="state-change")
        if followed.leader > 0:
            text = (
                f"[ReplicaFetcherManager on broker {node}] Added fetcher to broker {followed.leader} for partitions "
                f"HashMap({name} -> InitialFetchState(Some({self.topic_id(followed.partition)}),"
                f"BrokerEndPoint[id={followed.leader}, host=127.0.0.1, port={19090 + followed.leader}],"
                f"{followed.epoch},{followed.end}))"
            )
            yield Line(text, MANAGER)

    def truncation(self, node: int, cut: Truncated) -> Iterator[Line]:
        name = self.name(cut.partition)
        where = f"partition={name}, dir={self.folder(node)}"
        fetcher = f"[ReplicaFetcher replicaId={node}, leaderId={cut.leader}, fetcherId=0]"
        if cut.reason == "out-of-range":
            text = (
                f"{fetcher} Reset fetch offset for partition {name} from {cut.before} to current leader's "
                f"latest offset {cut.detail[0]}"
            )
            yield Line(text, FETCHER, "WARN")
        else:
            reason = f"local high watermark {cut.after}"
            if cut.reason == "epoch":
                reason = (
                    f"leader epoch and offset EpochEndOffset(errorCode=0, partition={cut.partition}, "
                    f"leaderEpoch={cut.detail[0]}, endOffset={cut.detail[1]})"
                )
            state = f"TruncationState(offset={cut.after}, completed=true)"
            yield Line(f"{fetcher} Truncating partition {name} with {state} due to {reason}", FETCHER)
        yield Line(truncation_text(f"[UnifiedLog {where}]", cut), LOG)
        if cut.reason == "out-of-range":
            last = (
                f"{fetcher} Current offset {cut.before} for partition {name} is out of range, which typically implies "
                f"a leader change. Reset fetch offset to {cut.after}"
            )
            yield Line(last, FETCHER)

    def retention(self, node: int, partition: int, first: int, start: int, reason: str) -> Iterator[Line]:
        log = f"[UnifiedLog partition={self.name(partition)}, dir={self.folder(node)}]"
        by_time = " based on the largest record timestamp in the segment" if reason == "time" else ""
        breach = f"log retention {reason} breach{by_time}"
        yield Line(f"{log} Deleting segment LogSegment(baseOffset={first}) due to {breach}", LOG)
        yield Line(f"{log} Incremented log start offset to {start} due to segment deletion", LOG)

    def isr_shrink(self, node: int, shrunk: Shrunk) -> Iterator[Line]:
        behind = " ".join(f"(brokerId: {b}, endOffset: {leo})." for b, leo in shrunk.out)
        text = (
            f"[Partition {self.name(shrunk.partition)} broker={node}] Shrinking ISR from {ids(shrunk.old)} to "
            f"{ids(shrunk.new)}. Leader: (highWatermark: {shrunk.hw}, endOffset: {shrunk.end}). "
            f"Out of sync replicas: {behind}"
        )
        yield Line(text, PARTITION)

    def isr_updated(self, node: int, partition: int, isr: Any, version: int) -> Iterator[Line]:
        text = (
            f"[Partition {self.name(partition)} broker={node}] ISR updated to {ids(isr)}  "
            f"and version updated to {version}"
        )
        yield Line(text, PARTITION)

    def elected(self, node: int, partition: int, old: PartitionState, new: PartitionState) -> Iterator[Line]:
        """Only unclean elections are logged above TRACE."""
        if not new.is_unclean or new.leader < 0:
            return
        changes = [
            f"isr: [{ids(old.isr)}] -> [{ids(new.isr)}]",
            f"leader: {old.leader} -> {new.leader}",
            "leaderRecoveryState: RECOVERED -> RECOVERING",
            f"leaderEpoch: {old.epoch} -> {new.epoch}",
        ]
        if old.elr != new.elr:
            changes.append(f"elr: [{ids(old.elr)}] -> [{ids(new.elr)}]")
        if old.last_known != new.last_known:
            changes.append(f"lastKnownElr: [{old.last_known}] -> []")
        changes.append(f"partitionEpoch: {old.version} -> {new.version}")
        text = (
            f"UNCLEAN partition change for {self.name(partition)} with topic ID {self.topic_id(partition)}: "
            f"{', '.join(changes)}"
        )
        yield _of_controller(node, text)

    def fenced(self, node: int, broker: int) -> Iterator[Line]:
        yield _of_controller(node, f"Fencing broker {broker} at epoch {broker} because its session has timed out.")

    def leaving(self, node: int, broker: int) -> Iterator[Line]:
        """A broker that leads nothing may stop at once (BrokerHeartbeatManager.calculateNextBrokerState)."""
        leads = any(state.leader == broker for state in self.cluster.quorum.states)
        granted = "a controlled shutdown" if leads else "an immediate shutdown"
        yield _of_controller(node, f"Unfenced broker {broker} has requested and been granted {granted}.", HEARTBEATS)

    def registered(self, node: int, broker: int) -> Iterator[Line]:
        text = (
            f"The request from broker {broker} to unfence has been granted because it has caught up with the offset "
            f"of its register broker record {broker}."
        )
        yield _of_controller(node, text, HEARTBEATS)

    def controller(self, node: int, epoch: int) -> Iterator[Line]:
        text = f"Becoming the active controller at epoch {epoch}, next write offset {epoch}."
        yield _of_controller(node, text, "org.apache.kafka.controller.QuorumController")

    def out_of_order(self, node: int, partition: int, pid: int, end: int, sequence: int, last: int) -> Iterator[Line]:
        name = self.name(partition)
        where = f"{self.topic_id(partition)}:{name}"
        text = f"[ReplicaManager broker={node}] Error processing append operation on partition {where}"
        cause = (
            f"org.apache.kafka.common.errors.OutOfOrderSequenceException: Out of order sequence number for "
            f"producer {pid} at offset {end} in partition {name}: {sequence} (incoming seq. number), "
            f"{last} (current end sequence number)"
        )
        yield Line(text, "kafka.server.ReplicaManager", "ERROR")
        yield Line(cause, "", "")


def _of_controller(node: int, text: str, logger: str = CONTROL) -> Line:
    return Line(f"[QuorumController id={node}] {text}", logger)


def _option(leader: int) -> str:
    return "None" if leader < 0 else f"Some({leader})"
