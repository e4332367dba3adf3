"""The log lines of Kafka 0.10, which truncates to the high watermark, and of 1.0 for the events of a run."""

# ruff: noqa: ARG002  an event has everything that any era's log line needs

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...models.replication.events import Followed, Led, Shrunk, Truncated
from ...models.replication.partition_state import PartitionState
from .server_log import FETCHER, MANAGER, PARTITION, REGISTERED, STATE, Line, Wording, ids, truncation_text

OLD_LOG = "kafka.log.Log"
SERVER = "kafka.server.KafkaServer"
CONTROLLER = "kafka.controller.KafkaController"
SELECTOR = "kafka.controller.OfflinePartitionLeaderSelector"


class ZookeeperWording(Wording):
    """Lines of 0.10.2."""

    def shown_name(self, partition: int) -> str:
        return "[{},{}]".format(*self.cluster.config.topic_of(partition))

    def start(self, node: int) -> Iterator[Line]:
        yield Line("KafkaConfig values: ", "kafka.server.KafkaConfig")
        yield Line("starting", SERVER)

    def ready(self, node: int) -> Iterator[Line]:
        yield Line(f"[Kafka Server {node}], started", SERVER)

    def stop(self, node: int, reason: str) -> Iterator[Line]:
        if reason == "shutdown":
            yield Line(f"[Kafka Server {node}], shutting down", SERVER)
        if reason == "disk-full":
            text = (
                f"[Replica Manager on Broker {node}]: Halting due to unrecoverable I/O error while handling "
                "produce request: "
            )
            yield Line(text, "kafka.server.ReplicaManager", "FATAL")

    def loaded(self, node: int, partition: int, end: int, mark: int, was_clean: bool) -> Iterator[Line]:
        name = self.name(partition)
        if not was_clean:
            yield Line(f"Recovering unflushed segment 0 in log {name}.", OLD_LOG)
        yield from self.invalid_tail(node, partition)
        yield Line(f"Completed load of log {name} with 1 log segments and log end offset {end} in 10 ms", OLD_LOG)

    def invalid_tail(self, node: int, partition: int) -> Iterator[Line]:
        """The line about a lost tail in a log that is being loaded."""
        lost = self.found_tail(node, partition)
        if lost is not None:
            text = f"Found invalid messages in log segment /{self.name(partition)}/{0:020d}.log at byte offset {lost}."
            yield Line(text, OLD_LOG, "WARN")

    def leader(self, node: int, led: Led) -> Iterator[Line]:
        yield self._received(node, node, led)
        yield self._fetcher_removed(node, led.partition)

    def _fetcher_removed(self, node: int, partition: int) -> Line:
        text = f"[ReplicaFetcherManager on broker {node}] Removed fetcher for partitions {self.name(partition)}"
        return Line(text, MANAGER)

    def _received(self, node: int, leader: int, change: Led | Followed) -> Line:
        controller = self.cluster.quorum.controller
        sender = controller.id if controller is not None else -1
        known = self.cluster.brokers[node].leadership.controller_epoch
        replicas = self.cluster.quorum.states[change.partition].replicas
        text = (
            f"{self.received(node)} LeaderAndIsr request PartitionState(controllerEpoch={known}, "
            f"leader={leader}, leaderEpoch={change.epoch}, isr={self.listed(change.isr)}, zkVersion={change.version}, "
            f"replicas={self.listed(replicas)}) correlation id {change.version} from controller {sender} "
            f"epoch {known} for partition {self.shown_name(change.partition)}"
        )
        return Line(text, STATE, "TRACE", file="state-change")

    def received(self, node: int) -> str:
        return f"Broker {node} received"

    def listed(self, nodes: tuple[int, ...]) -> str:
        return f"[{', '.join(map(str, nodes))}]"

    def follower(self, node: int, followed: Followed) -> Iterator[Line]:
        yield from self.follows_on(node, followed)
        yield self._fetcher_removed(node, followed.partition)

    def follows_on(self, node: int, followed: Followed) -> Iterator[Line]:
        """The leader and the fetcher stay."""
        yield self._received(node, followed.leader, followed)

    def fetching(self, node: int, partition: int, leader: int, offset: int, epoch: int) -> Iterator[Line]:
        text = (
            f"[ReplicaFetcherManager on broker {node}] Added fetcher for partitions "
            f"List([{self.name(partition)}, initOffset {offset} to broker "
            f"BrokerEndPoint({leader},127.0.0.1,{29090 + leader})] )"
        )
        yield Line(text, MANAGER)

    def truncation(self, node: int, cut: Truncated) -> Iterator[Line]:
        name = self.name(cut.partition)
        if cut.reason == "out-of-range":
            text = (
                f"[ReplicaFetcherThread-0-{cut.leader}], Replica {node} for partition {self.shown_name(cut.partition)} "
                f"reset its fetch offset from {cut.before} to current leader {cut.leader}'s latest offset {cut.after}"
            )
            yield Line(text, "kafka.server.ReplicaFetcherThread", "WARN")
        yield Line(f"Truncating log {name} to offset {cut.after}.", OLD_LOG)
        if cut.reason == "out-of-range":
            yield self.out_of_range(f"[ReplicaFetcherThread-0-{cut.leader}],", cut)

    def out_of_range(self, fetcher: str, cut: Truncated) -> Line:
        """The last line of a fetcher that fetched beyond its leader's log (AbstractFetcherThread)."""
        what = f"Current offset {cut.before} for partition {self.shown_name(cut.partition)} out of range"
        return Line(f"{fetcher} {what}; reset offset to {cut.after}", FETCHER, "ERROR")

    def isr_shrink(self, node: int, shrunk: Shrunk) -> Iterator[Line]:
        name = self.shown_name(shrunk.partition)
        return self._isr(node, shrunk.partition, "Shrinking", name, shrunk.old, shrunk.new)

    def isr_expand(self, node: int, partition: int, old: Any, new: Any, mark: int, end: int) -> Iterator[Line]:
        return self._isr(node, partition, "Expanding", self.name(partition), old, new)

    def _isr(self, node: int, partition: int, change: str, name: str, old: Any, new: Any) -> Iterator[Line]:
        text = f"{change} ISR for partition {name} from {ids(old)} to {ids(new)}"
        yield Line(f"Partition {self.shown_name(partition)} on broker {node}: {text}", PARTITION)

    def elected(self, node: int, partition: int, old: PartitionState, new: PartitionState) -> Iterator[Line]:
        if new.leader < 0:
            text = (
                f"[Controller {node}]: New leader and ISR for partition {self.shown_name(partition)} is "
                f'{{"leader":-1,"leader_epoch":{new.epoch},"isr":[{ids(new.isr)}]}}'
            )
            yield Line(text, CONTROLLER, file="controller")
            return
        if new.is_unclean:
            text = (
                f"[OfflinePartitionLeaderSelector]: No broker in ISR is alive for {self.shown_name(partition)}. "
                f"Elect leader {new.leader} from live brokers {ids(tuple(self.cluster.quorum.live))}. "
                "There's potential data loss."
            )
            yield Line(text, SELECTOR, "WARN", file="controller")
        text = (
            f'[OfflinePartitionLeaderSelector]: Selected new leader and ISR {{"leader":{new.leader},'
            f'"leader_epoch":{new.epoch},"isr":[{ids(new.isr)}]}} for offline partition '
            f"{self.shown_name(partition)}"
        )
        yield Line(text, SELECTOR, file="controller")

    def fenced(self, node: int, broker: int) -> Iterator[Line]:
        yield Line(f"[Controller {node}]: Broker failure callback for {broker}", CONTROLLER, file="controller")

    def leaving(self, node: int, broker: int) -> Iterator[Line]:
        yield Line(f"[Controller {node}]: Shutting down broker {broker}", CONTROLLER, file="controller")

    def left(self, node: int, broker: int) -> Iterator[Line]:
        """The controller only sees that the session is closed, as for any broker that stops."""
        return self.fenced(node, broker)

    def registered(self, node: int, broker: int) -> Iterator[Line]:
        yield Line(f"[Controller {node}]: New broker startup callback for {broker}", CONTROLLER, file="controller")

    def controller(self, node: int, epoch: int) -> Iterator[Line]:
        text = f"[Controller {node}]: Controller {node} incremented epoch to {epoch}"
        yield Line(text, CONTROLLER, file="controller")


class EpochWording(ZookeeperWording):
    """Lines of 1.0, which truncates by leader epochs and prefixes most lines with brackets."""

    def shown_name(self, partition: int) -> str:
        return self.name(partition)

    def log(self, node: int, partition: int) -> str:
        return f"[Log partition={self.name(partition)}, dir={self.folder(node)}]"

    def start(self, node: int) -> Iterator[Line]:
        yield REGISTERED
        yield Line("starting", SERVER)

    def ready(self, node: int) -> Iterator[Line]:
        yield Line(f"[KafkaServer id={node}] started", SERVER)

    def stop(self, node: int, reason: str) -> Iterator[Line]:
        if reason == "shutdown":
            yield Line(f"[KafkaServer id={node}] shutting down", SERVER)
        if reason == "disk-full":
            text = f"Shutdown broker because all log dirs in {self.folder(node)} have failed"
            yield Line(text, "kafka.log.LogManager", "FATAL")

    def loaded(self, node: int, partition: int, end: int, mark: int, was_clean: bool) -> Iterator[Line]:
        log, start = self.log(node, partition), self.cluster.brokers[node].replicas[partition].log.start
        if not was_clean:
            yield Line(f"{log} Recovering unflushed segment 0", OLD_LOG)
        yield from self.invalid_tail(node, partition)
        text = (
            f"{log} Completed load of log with 1 segments, log start offset {start} and log end offset {end} in 10 ms"
        )
        yield Line(text, OLD_LOG)

    def retention(self, node: int, partition: int, first: int, start: int, reason: str) -> Iterator[Line]:
        yield Line(f"{self.log(node, partition)} Incrementing log start offset to {start}", OLD_LOG)

    def leader(self, node: int, led: Led) -> Iterator[Line]:
        name = self.name(led.partition)
        text = (
            f"[Partition {name} broker={node}] {name} starts at Leader Epoch {led.epoch} from offset {led.end}. "
            f"Previous Leader Epoch was: {led.previous.epoch}"
        )
        yield from super().leader(node, led)
        yield Line(text, PARTITION)

    def received(self, node: int) -> str:
        return f"[Broker id={node}] Received"

    def listed(self, nodes: tuple[int, ...]) -> str:
        return ids(nodes)

    def truncation(self, node: int, cut: Truncated) -> Iterator[Line]:
        log, name = self.log(node, cut.partition), self.name(cut.partition)
        fetcher = f"[ReplicaFetcher replicaId={node}, leaderId={cut.leader}, fetcherId=0]"
        if cut.reason == "out-of-range":
            text = (
                f"{fetcher} Reset fetch offset for partition {name} from {cut.before} to current leader's latest "
                f"offset {cut.after}"
            )
            yield Line(text, FETCHER, "WARN")
            yield Line(truncation_text(log, cut), OLD_LOG)
            yield self.out_of_range(fetcher, cut)
            return
        if cut.reason == "high-watermark":
            truncation = f"Truncating partition {name} to local high watermark {cut.after}"
        else:
            is_within = cut.detail[1] >= cut.before
            truncation = (
                f"Based on follower's leader epoch, leader replied with an offset {cut.detail[1]} "
                f"{'>=' if is_within else '<'} the follower's log end offset {cut.before} in {name}. "
                + ("No truncation needed." if is_within else f"Truncating to {cut.after}.")
            )
        yield Line(f"{fetcher} {truncation}", FETCHER)
        yield Line(truncation_text(log, cut), OLD_LOG)

    def _isr(self, node: int, partition: int, change: str, name: str, old: Any, new: Any) -> Iterator[Line]:
        text = f"{change} ISR from {ids(old)} to {ids(new)}"
        yield Line(f"[Partition {name} broker={node}] {text}", PARTITION)
