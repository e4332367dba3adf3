"""Writes the brokers' own logs: server.log, state-change.log, controller.log.

Only lines about partitions, processes and controllers are written, in the wording of real brokers: kraft_log.py has
that of 4.1, zookeeper_log.py those of 0.10 and of 1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from ...models.replication.cluster import Cluster
from ...models.replication.events import ClusterEvent, Truncated
from ...models.replication.network import FIRST_CONTROLLER, QUORUM
from .names import stamp, uuid

PARTITION = "kafka.cluster.Partition"
FETCHER = "kafka.server.ReplicaFetcherThread"
MANAGER = "kafka.server.ReplicaFetcherManager"
STATE = "state.change.logger"
CLEANER = "kafka.log.LogCleaner"


class Line(NamedTuple):
    """A line of a broker's log; without a level it is a line of the stack trace before it."""

    text: str
    logger: str
    level: str = "INFO"
    file: str = "server"


# The first line of a process, since 1.0.
REGISTERED = Line("Registered `kafka:type=kafka.Log4jController` MBean", "kafka.utils.Log4jControllerRegistration$")


def ids(nodes: tuple[int, ...]) -> str:
    """Broker ids as Kafka joins them."""
    return ",".join(str(node) for node in nodes)


def truncation_text(log: str, cut: Truncated) -> str:
    """The text of a log's line about its truncation, since 1.0."""
    if cut.after < cut.before:
        return f"{log} Truncating to offset {cut.after}"
    return f"{log} Truncating to {cut.after} has no effect as the largest offset in the log is {cut.before - 1}"


class Wording:
    """An era's lines, one method a kind of event; an event without a method is not logged."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        # The new ends of logs that lost their tails with the power, by broker and partition, until they are loaded.
        self._lost_tails: dict[tuple[int, int], int] = {}

    def truncate(self, node: int, cut: Truncated) -> Iterator[Line]:
        """The lines of a truncation. A broker that lost a tail only finds that out when it starts again."""
        if cut.reason != "unclean-disk":
            yield from self.truncation(node, cut)
        elif cut.after != cut.before:
            self._lost_tails[node, cut.partition] = cut.after

    def truncation(self, node: int, cut: Truncated) -> Iterator[Line]:
        """The lines of a follower that truncates its log."""
        raise NotImplementedError

    def found_tail(self, node: int, partition: int) -> int | None:
        """The end of a log that is being loaded, if its tail was lost."""
        return self._lost_tails.pop((node, partition), None)

    def topic_id(self, partition: int) -> str:
        """The id of the partition's topic."""
        return uuid(self.cluster.seed, self.cluster.config.topic_of(partition)[0])

    def name(self, partition: int) -> str:
        """The topic-partition."""
        return self.cluster.config.log_name(partition)

    def folder(self, node: int) -> str:
        """log.dirs of a broker."""
        return f"/var/lib/kafka/{node}/data"

    def cleaned(self, node: int, partition: int, first: int, end: int, count: int) -> Iterator[Line]:  # noqa: ARG002
        """The first lines of a cleaning."""
        name = self.name(partition)
        section = f"for 1 segments in offset range [{first}, {end})"
        yield Line(f"Cleaner 0: Beginning cleaning of log {name}", CLEANER, file="log-cleaner")
        yield Line(f"Cleaner 0: Building offset map for log {name} {section}.", CLEANER, file="log-cleaner")


class LogWriter:
    """Listens to events and appends their lines to brokers/<id>/*.log."""

    def __init__(self, folder: Path, wording: Wording) -> None:
        self._folder, self._wording, self._cluster = folder, wording, wording.cluster
        self._files: dict[tuple[int, str], TextIO] = {}

    def on_event(self, event: ClusterEvent) -> None:
        """Append the lines of an event."""
        time, node, kind, details = event
        method: Callable[..., Iterator[Line]] | None = getattr(self._wording, kind.replace("-", "_"), None)
        if method is None:
            return
        if node == QUORUM:
            controller = self._cluster.quorum.controller
            node = FIRST_CONTROLLER if controller is None else controller.id
        if node in self._cluster.brokers:
            time += self._cluster.brokers[node].process.clock_skew
        for text, logger, level, file in method(node, *details):
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
        """Close all files."""
        for file in self._files.values():
            file.close()
        self._files = {}
