"""The nodes and the network of a lab, as its keeper has them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import subprocess
import uuid
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...errors import LogjudgeError
from . import settings
from .links import CLIENTS, Network
from .node import Node
from .releases import Kafka, cache_folder, java, release_of
from .settings import CONTROLLER, ZOOKEEPER

START_SECONDS = 240.0  # a loaded machine takes long
STOP_SECONDS = 30.0
ARCHIVE_SECONDS = 90.0  # to stop and to write the archive of classes
PLAN_FILE = "plan.json"
STATE_FILE = "lab.json"


@dataclass(frozen=True)
class Plan:
    """The configuration of a lab."""

    folder: str
    kafka: str  # the version
    jars: str
    brokers: int = 3
    heap_mb: int = 256
    settings: Mapping[str, object] = field(default_factory=dict)  # of every broker and controller
    broker_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # by broker
    features: Mapping[str, int] = field(default_factory=dict)  # of KRaft, at their format
    controllers: int = 1  # of KRaft


def write_plan(plan: Plan) -> None:
    """Store the plan in the lab's folder."""
    (Path(plan.folder) / PLAN_FILE).write_text(json.dumps(asdict(plan), indent=1) + "\n", encoding="utf-8")


def plan_of(folder: Path) -> Plan:
    """The plan in a lab's folder."""
    return Plan(**json.loads((folder / PLAN_FILE).read_text(encoding="utf-8")))


class Cluster:
    """The nodes of a lab by name: brokers 1, 2, …, and the controllers 100, 101, …, or ZooKeeper."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.folder = Path(plan.folder)
        self.kafka = Kafka(plan.kafka, release_of(plan.kafka)[1], Path(plan.jars))
        self.brokers = [str(number) for number in range(1, plan.brokers + 1)]
        has_quorum = not self.kafka.release.has_zookeeper
        self.controllers = [str(int(CONTROLLER) + number) for number in range(plan.controllers if has_quorum else 0)]
        self.identity = uuid.uuid4().hex
        self.cluster_id = _random_id()
        self.network = Network()
        self.ports = settings.Ports()
        self.nodes: dict[str, Node] = {}
        # Classes that Java loaded before: a node starts in half the time. Java ignores an archive that does not fit.
        self._archive = cache_folder() / f"{plan.kafka}-{zlib.crc32(str(Path(java()).resolve()).encode()):08x}.jsa"

    @property
    def _new_archive(self) -> Path:
        return self._archive.with_suffix(f".{self.identity}")

    @property
    def coordinators(self) -> list[str]:
        """The nodes that are no brokers."""
        return self.controllers or [ZOOKEEPER]

    @property
    def bootstrap(self) -> str:
        """The addresses for clients."""
        return ",".join(f"127.0.0.1:{self.ports.links[CLIENTS, broker]}" for broker in self.brokers)

    async def open_network(self) -> None:
        """Choose ports and open the links."""
        pairs = [(source, broker) for broker in self.brokers for source in (CLIENTS, *self.brokers)]
        pairs += [(source, node) for node in self.controllers for source in (*self.brokers, *self.controllers)]
        chosen = iter(settings.free_ports(len(pairs) + 1))
        self.ports.own = {pair: next(chosen) for pair in pairs}
        if not self.controllers:
            port = next(chosen)
            for broker in self.brokers:
                self.ports.links[broker, ZOOKEEPER] = await self.network.add(broker, ZOOKEEPER, port)
            self._add_zookeeper(port)
        for (source, target), port in self.ports.own.items():
            if source != target:
                self.ports.links[source, target] = await self.network.add(source, target, port)

    def _add_zookeeper(self, port: int) -> None:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        node = self._add_node(ZOOKEEPER, main)
        Path(node.arguments[0]).write_text(settings.zookeeper_properties(port, node.data), encoding="utf-8")

    def _add_node(self, name: str, main: str) -> Node:
        folder = self.folder / "brokers" / name
        (folder / "data").mkdir(parents=True, exist_ok=True)
        configs = self.folder / "configs"
        configs.mkdir(exist_ok=True)
        log_settings = configs / f"{name}-log4j.properties"
        log_settings.write_text(settings.log_properties(self.kafka, folder), encoding="utf-8")
        node = Node(
            name,
            main,
            [str(configs / f"{name}.properties")],
            folder,
            log_settings,
            self.kafka,
            self.identity,
            self.plan.heap_mb,
        )
        if self._archive.is_file():
            node.options.append(f"-XX:SharedArchiveFile={self._archive}")
        self.nodes[name] = node
        return node

    def write_settings(self) -> None:
        """Write the configuration of every node, and format the disks."""
        for broker in self.brokers:
            node = self._add_node(broker, "kafka.Kafka")
            own = {**self.plan.settings, **self.plan.broker_settings.get(broker, {})}
            text = settings.broker_properties(
                broker, self.brokers, self.controllers, self.kafka, self.ports, node.data, own
            )
            Path(node.arguments[0]).write_text(text, encoding="utf-8")
            if broker == self.brokers[0] and not self._archive.is_file():
                self._archive.parent.mkdir(parents=True, exist_ok=True)
                node.options.append(f"-XX:ArchiveClassesAtExit={self._new_archive}")
            if self.controllers:
                meta = settings.meta_properties(broker, self.cluster_id, _random_id())
                (node.data / "meta.properties").write_text(meta, encoding="utf-8")
        for name in self.controllers:
            node = self._add_node(name, "kafka.Kafka")
            text = settings.controller_properties(
                name, self.brokers, self.controllers, self.ports, node.data, self.plan.settings
            )
            Path(node.arguments[0]).write_text(text, encoding="utf-8")

    async def format_controller(self, name: str) -> None:
        """Run Kafka's StorageTool; brokers need only their meta.properties."""
        node = self.nodes[name]
        features = [part for name, level in self.plan.features.items() for part in ("--feature", f"{name}={level}")]
        command = [java(), "-XX:TieredStopAtLevel=1", *node.options, "-cp", f"{self.kafka.jars}/*"]
        command += ["kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", node.arguments[0], *features]
        process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            reason = out.decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
            raise LogjudgeError(f"Kafka's StorageTool could not format controller {name}: {reason[0][:300]}")

    async def wait_ready(self, nodes: Iterable[Node]) -> None:
        """Wait until the nodes serve. Raises LogjudgeError if one ended, takes too long, or has no controller."""
        loop = asyncio.get_running_loop()
        end = loop.time() + START_SECONDS
        for node in sorted(nodes, key=lambda node: node.name not in self.coordinators):  # brokers wait for it
            name = node.name
            while not node.is_ready():
                if not node.is_alive and node.is_still_registered():
                    node.start()
                if not node.is_alive:
                    raise LogjudgeError(f"node {name} ended at its start: {node.problem()} ({node.folder}/server.log)")
                dead = [node for node in self.coordinators if not self.nodes[node].is_alive]
                if 2 * len(dead) >= len(self.coordinators):
                    raise LogjudgeError(
                        f"node {name} was started, but is not ready; these nodes do not run: {', '.join(dead)};"
                        f" `logjudge lab start {' '.join(dead)}` starts them"
                    )
                if loop.time() > end:
                    raise LogjudgeError(
                        f"node {name} was not ready after {START_SECONDS:.0f} s ({node.folder}/server.log)"
                    )
                await asyncio.sleep(0.05)

    async def kill(self, nodes: Collection[Node]) -> None:
        """SIGKILL, and wait for the end of the processes."""
        for node in nodes:
            node.send(signal.SIGKILL)
        for node in nodes:
            while node.is_alive:
                await asyncio.sleep(0.01)

    async def stop(self, nodes: Collection[Node], seconds: float = STOP_SECONDS) -> None:
        """SIGTERM, and SIGKILL for those that take too long."""
        for node in nodes:
            node.send(signal.SIGTERM)
            node.send(signal.SIGCONT)
        end = asyncio.get_running_loop().time() + seconds
        while any(node.is_alive for node in nodes) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)
        await self.kill(nodes)

    async def end(self) -> None:
        """End every node. The first cluster of a version leaves an archive of classes for the next ones."""
        first = self.nodes.get(self.brokers[0])
        if first and first.state == "running" and first.is_ready() and not self._archive.is_file():
            await self.kill([node for node in self.nodes.values() if node.name not in (first.name, *self.coordinators)])
            await self.stop([first], ARCHIVE_SECONDS)
            with contextlib.suppress(OSError):
                self._new_archive.rename(self._archive)
        await self.kill(self.nodes.values())


async def start_cluster(cluster: Cluster) -> None:
    """Start all nodes and wait until they serve."""
    await cluster.open_network()
    cluster.write_settings()
    await asyncio.gather(*map(cluster.format_controller, cluster.controllers))
    for name in cluster.coordinators:
        cluster.nodes[name].start()
    if not cluster.controllers:
        controller = cluster.nodes[cluster.brokers[-1]]  # the first to start
        await cluster.wait_ready([cluster.nodes[ZOOKEEPER]])
        controller.start()
        await cluster.wait_ready([controller])
    for broker in cluster.brokers:
        if not cluster.nodes[broker].is_alive:
            cluster.nodes[broker].start()
    await cluster.wait_ready(cluster.nodes.values())


def _random_id() -> str:
    """A random Kafka UUID: 16 bytes in base64, which do not begin with a dash."""
    while (text := base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")).startswith("-"):
        pass
    return text
