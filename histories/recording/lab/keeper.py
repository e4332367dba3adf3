"""The keeper: the one process of a lab that starts, faults and ends its nodes, and runs its network.

`python -m logjudge.histories.recording.lab.keeper FOLDER` reads FOLDER/plan.json and starts the cluster. Standard input
belongs to the command that started it: when that ends without the line `keep`, the keeper ends the cluster. So nothing
is left behind, however the command ends; and the nodes die with the keeper. Requests are JSON lines on a port of the
loopback, with the token of FOLDER/lab.json, which only its owner can read.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from ...errors import LogjudgeError, UsageError
from . import disks
from .cluster import STATE_FILE, Cluster, plan_of, start_cluster
from .links import HOST, Link, Mode
from .node import Node

Request = dict[str, Any]


class Keeper:
    """Serves the requests of `logjudge lab` and `logjudge record --lab`."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.folder, self.cluster = folder, cluster
        self.token = secrets.token_hex(16)
        self.ended = asyncio.Event()
        self._request_lock = asyncio.Lock()
        self._requests: dict[str, Callable[[Request], Awaitable[Any]]] = {
            "status": self._status,
            "start": self._start,
            "stop": lambda request: cluster.stop(self._nodes(request["nodes"])),
            "kill": lambda request: cluster.kill(self._nodes(request["nodes"])),
            "pause": lambda request: self._send(request, signal.SIGSTOP),
            "resume": lambda request: self._send(request, signal.SIGCONT),
            "links": self._links,
            "heal": self._heal,
            "truncate": self._truncate,
            "backup": self._backup,
            "restore": self._restore,
            "fill-disk": self._fill_disk,
            "down": self._down,
        }

    async def respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to one request: {"ok": …} or {"error": …}."""
        try:
            request = json.loads(await reader.readline() or b"{}")
            if secrets.compare_digest(str(request.get("token")), self.token):
                done = await self._done(request)
                writer.write(json.dumps(done).encode() + b"\n")
        except (ValueError, AttributeError, OSError):
            pass  # no request of ours
        finally:
            writer.close()

    async def _done(self, request: Request) -> Request:
        try:
            async with self._request_lock:  # one at a time
                done = await self._requests[request["do"]](request)
            if request["do"] == "start":  # which may take minutes
                await self.cluster.wait_ready(self._nodes(request["nodes"]))
            return {"ok": done}
        except LogjudgeError as error:
            return {"error": str(error)}
        except (ValueError, KeyError, TypeError, OSError) as error:
            return {"error": f"the lab could not do this ({type(error).__name__}: {error})"}

    async def _status(self, _: Request) -> Request:
        return {
            "nodes": {
                name: {"state": node.state, "pid": node.process.pid if node.process else None, "ready": node.is_ready()}
                for name, node in self.cluster.nodes.items()
            },
            "links": {
                f"{link.source} -> {link.target}": text
                for link in self.cluster.network.links.values()
                if (text := link.described())
            },
        }

    async def _start(self, request: Request) -> None:
        nodes = self._nodes(request["nodes"])
        for node in nodes:
            if node.is_alive:
                raise UsageError(f"found node {node.name} running, expected one that is stopped or was killed")
        for node in nodes:
            node.start()

    async def _send(self, request: Request, number: signal.Signals) -> None:
        for node in self._nodes(request["nodes"]):
            node.send(number)

    async def _links(self, request: Request) -> None:
        forward, backward = Mode(**request["forward"]), Mode(**request["backward"])
        for link in self._chosen_links(request):
            link.set_modes(forward, backward)

    def _chosen_links(self, request: Request) -> list[Link]:
        network = self.cluster.network
        if "around" in request:
            return [
                link
                for node in self._nodes(request["around"])
                for link in network.around(node.name, bool(request.get("clients")))
            ]
        source, target = str(request["source"]), str(request["target"])
        link = network.links.get((source, target))
        if link is None:
            known = ", ".join(f"{a} {b}" for a, b in network.links)
            raise UsageError(f"found no link from {source} to {target}, expected one of: {known}")
        return [link]

    async def _heal(self, _: Request) -> None:
        self.cluster.network.heal()
        for node in self.cluster.nodes.values():
            if node.state == "paused":
                node.send(signal.SIGCONT)
            node.limit_files(None)

    async def _truncate(self, request: Request) -> Request:
        folder = disks.partition_folder(self._still_disk(request["node"]), request["partition"])
        return disks.cut_tail(folder, int(request["records"]))

    async def _backup(self, request: Request) -> None:
        (node,) = self._nodes([request["node"]])
        disks.back_up(node.data, self.folder / "backups" / request["node"], list(request["partitions"]))

    async def _restore(self, request: Request) -> list[str]:
        return disks.restore(self._still_disk(request["node"]), self.folder / "backups" / request["node"])

    def _still_disk(self, name: str) -> Path:
        """The disk of a node that does not run."""
        (node,) = self._nodes([name])
        if node.is_alive:
            raise UsageError(f"found node {name} running, expected a stopped one; `logjudge lab kill {name}` first")
        return node.data

    async def _fill_disk(self, request: Request) -> None:
        for node in self._nodes(request["nodes"]):
            node.limit_files(int(request["bytes"]))

    async def _down(self, _: Request) -> None:
        self.ended.set()

    def _nodes(self, names: Sequence[Any]) -> list[Node]:
        nodes = self.cluster.nodes
        for name in map(str, names):
            if name not in nodes:
                raise UsageError(f"found no node {name}, expected one of: {', '.join(nodes)}")
        return [nodes[str(name)] for name in names]


async def _watch_owner(keeper: Keeper, reader: asyncio.StreamReader) -> None:
    """End the cluster when the command that started it ends, unless that wrote `keep`."""
    while line := await reader.readline():
        if line.strip() == b"keep":
            return
    keeper.ended.set()


def _describe(keeper: Keeper, port: int) -> Request:
    cluster = keeper.cluster
    return {
        "id": cluster.identity,
        "kafka": cluster.kafka.version,
        "bootstrap": cluster.bootstrap,
        "brokers": cluster.brokers,
        "keeper": {"port": port, "token": keeper.token},
    }


async def keep(folder: Path) -> None:
    """Start the cluster of FOLDER/plan.json, serve until it is to end, and end it."""
    loop = asyncio.get_running_loop()
    owner = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(owner), sys.stdin)
    cluster = Cluster(plan_of(folder))
    keeper = Keeper(folder, cluster)
    watching = loop.create_task(_watch_owner(keeper, owner))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, keeper.ended.set)
    try:
        starting = loop.create_task(start_cluster(cluster))
        ending = loop.create_task(keeper.ended.wait())
        await asyncio.wait((starting, ending), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return
        starting.result()
        server = await asyncio.start_server(keeper.respond, HOST, 0)
        state = _describe(keeper, server.sockets[0].getsockname()[1])
        file = folder / STATE_FILE
        scratch = file.with_suffix(".new")
        scratch.touch(mode=0o600)
        scratch.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
        scratch.replace(file)
        print(json.dumps({"ok": state}), flush=True)
        await keeper.ended.wait()
        server.close()
    finally:
        watching.cancel()
        await cluster.end()
        (folder / STATE_FILE).unlink(missing_ok=True)


def main() -> None:
    """Run the keeper; an error is a line on standard output, for the command that started it."""
    folder = Path(sys.argv[1])
    try:
        asyncio.run(keep(folder))
    except LogjudgeError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
