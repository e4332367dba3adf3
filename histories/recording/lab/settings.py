"""The configuration files of a lab's nodes.

Each node reaches the others through links of its own, so every node has one listener for each source: `CLIENT`, and
`FROM2` for what broker 2 sends. `inter.broker.listener.name` and `controller.listener.names` are settings of a single
node, so broker 2 takes the address under FROM2 from the cluster's metadata.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import LogjudgeError
from .links import HOST
from .releases import Kafka

CONTROLLER = "100"  # the first one, in KRaft
ZOOKEEPER = "zookeeper"
PORTS = range(20_000, 32_000)  # below those that systems give to outgoing connections

# For small machines. A scenario or a user overrides them.
COMMON: Mapping[str, object] = {
    "num.network.threads": 1,
    "num.io.threads": 4,
    "num.replica.fetchers": 1,
    "background.threads": 2,
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "log.cleaner.backoff.ms": 500,
    "log.index.size.max.bytes": 1_048_576,
    "log.segment.delete.delay.ms": 1000,
    "log.retention.check.interval.ms": 1000,
    "controlled.shutdown.enable": "true",
}
# broker.heartbeat.interval.ms stays 2 s: requests to register and heartbeats time out after it, and on a busy machine a
# shorter one keeps brokers out, or fences them without a fault.
KRAFT: Mapping[str, object] = {
    "broker.session.timeout.ms": 9000,
    "initial.broker.registration.timeout.ms": 240_000,
    "log.initial.task.delay.ms": 1000,
}
WITH_ZOOKEEPER: Mapping[str, object] = {"zookeeper.session.timeout.ms": 6000, "zookeeper.connection.timeout.ms": 20000}

_LOG_FILES = {"server": "", "controller": "org.apache.kafka.controller", "state-change": "state.change.logger"}


@dataclass
class Ports:
    """The ports of the nodes, and of their links: (source, target) -> port."""

    own: dict[tuple[str, str], int] = field(default_factory=dict)
    links: dict[tuple[str, str], int] = field(default_factory=dict)

    def listeners(self, node: str, which: Mapping[tuple[str, str], int]) -> str:
        """The listeners of a node in Kafka's syntax, with its own ports or those of the links."""
        return ",".join(
            f"{listener(source)}://{HOST}:{which.get((source, node), port)}"
            for (source, target), port in self.own.items()
            if target == node
        )


def listener(source: str) -> str:
    """The listener of a node that takes the connections from a source."""
    return f"FROM{source}" if source.isdigit() else "CLIENT"


def _voters(source: str, controllers: list[str], ports: Ports) -> str:
    """controller.quorum.voters with the addresses under which a node reaches the controllers."""
    reached = {node: ports.links.get((source, node), ports.own[source, node]) for node in controllers}
    return ",".join(f"{node}@{HOST}:{port}" for node, port in reached.items())


def free_ports(count: int) -> list[int]:
    """Ports on which no process listens."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise LogjudgeError(f"found no {count} free ports from {PORTS.start} to {PORTS.stop}, expected to start a cluster")


def broker_properties(
    node: str,
    brokers: list[str],
    controllers: list[str],
    kafka: Kafka,
    ports: Ports,
    data: Path,
    own: Mapping[str, object],
) -> str:
    """server.properties of a broker. `own` comes last, so it wins."""
    replicas = min(3, len(brokers))
    shared: dict[str, object] = {
        **COMMON,
        "log.dirs": data,
        "listeners": ports.listeners(node, ports.own),
        "advertised.listeners": ports.listeners(node, ports.links),
        "inter.broker.listener.name": listener(node),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
    }
    names = ["CLIENT", *(listener(broker) for broker in brokers)]
    if kafka.release.has_zookeeper:
        era: dict[str, object] = {
            **WITH_ZOOKEEPER,
            "broker.id": node,
            "zookeeper.connect": f"{HOST}:{ports.links[node, ZOOKEEPER]}",
            "listener.security.protocol.map": _plaintext(names),
        }
    else:
        own_controller = f"CONTROLLER{node}"
        era = {
            **KRAFT,
            "process.roles": "broker",
            "node.id": node,
            "controller.listener.names": own_controller,
            "controller.quorum.voters": _voters(node, controllers, ports),
            "listener.security.protocol.map": _plaintext([*names, own_controller]),
        }
    return _properties({**shared, **era, **own})


def controller_properties(
    node: str, brokers: list[str], controllers: list[str], ports: Ports, data: Path, own: Mapping[str, object]
) -> str:
    """server.properties of a KRaft controller."""
    sources = [node, *(other for other in (*brokers, *controllers) if other != node)]  # its own listener comes first
    names = [f"CONTROLLER{source}" for source in sources]

    def addresses(which: Mapping[tuple[str, str], int]) -> str:
        reached = (which.get((source, node), ports.own[source, node]) for source in sources)
        return ",".join(f"{name}://{HOST}:{port}" for name, port in zip(names, reached, strict=True))

    return _properties(
        {
            "process.roles": "controller",
            "node.id": node,
            "log.dirs": data,
            "listeners": addresses(ports.own),
            "advertised.listeners": addresses(ports.links),
            "controller.listener.names": ",".join(names),
            "controller.quorum.voters": _voters(node, controllers, ports),
            "listener.security.protocol.map": _plaintext(names),
            "num.network.threads": 1,
            "num.io.threads": 2,
            "broker.session.timeout.ms": KRAFT["broker.session.timeout.ms"],
            **own,
        }
    )


def zookeeper_properties(port: int, data: Path) -> str:
    """zoo.cfg of a single server."""
    return _properties(
        {"dataDir": data, "clientPortAddress": HOST, "clientPort": port, "tickTime": 500, "maxClientCnxns": 0}
        | {"minSessionTimeout": 1000, "maxSessionTimeout": 120_000, "admin.enableServer": "false"}
    )


def meta_properties(node: str, cluster_id: str, directory_id: str) -> str:
    """meta.properties of a formatted disk in KRaft."""
    return _properties({"version": 1, "cluster.id": cluster_id, "node.id": node, "directory.id": directory_id})


def log_properties(kafka: Kafka, folder: Path) -> str:
    """log4j's configuration: the files that Kafka's own configuration writes, in one folder."""
    return _log4j_2(folder) if kafka.release.has_log4j_2 else _log4j_1(folder)


def _log4j_2(folder: Path) -> str:
    lines: dict[str, object] = {"rootLogger.level": "INFO", "rootLogger.appenderRef.a.ref": "server"}
    for name, logger in _LOG_FILES.items():
        lines |= {
            f"appender.{name}.type": "File",
            f"appender.{name}.name": name,
            f"appender.{name}.fileName": folder / f"{name}.log",
            f"appender.{name}.layout.type": "PatternLayout",
            f"appender.{name}.layout.pattern": "[%d] %p %m (%c)%n",
        }
        if logger:
            lines |= {
                f"logger.{name}.name": logger,
                f"logger.{name}.level": "INFO",
                f"logger.{name}.additivity": "false",
                f"logger.{name}.appenderRef.a.ref": name,
            }
    return _properties(lines)


def _log4j_1(folder: Path) -> str:
    lines: dict[str, object] = {"log4j.rootLogger": "INFO, server"}
    loggers = {
        "controller": ("kafka.controller", "org.apache.kafka.controller"),
        "state-change": ("state.change.logger",),
    }
    for name in _LOG_FILES:
        lines |= {
            f"log4j.appender.{name}": "org.apache.log4j.FileAppender",
            f"log4j.appender.{name}.File": folder / f"{name}.log",
            f"log4j.appender.{name}.layout": "org.apache.log4j.PatternLayout",
            f"log4j.appender.{name}.layout.ConversionPattern": "[%d] %p %m (%c)%n",
        }
        for logger in loggers.get(name, ()):
            # Kafka 0.10.2 ships both at TRACE.
            lines |= {f"log4j.logger.{logger}": f"TRACE, {name}", f"log4j.additivity.{logger}": "false"}
    return _properties(lines)


def _plaintext(names: list[str]) -> str:
    return ",".join(f"{name}:PLAINTEXT" for name in names)


def _properties(lines: Mapping[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in lines.items())
