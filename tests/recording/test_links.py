"""The lab's network: proxies that pass, hold, delay and discard."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from logjudge.histories.recording.lab.links import HOST, PASS, Link, Mode, Network

HOLD, DISCARD = Mode("hold"), Mode("discard")
Script = Callable[[Link, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def with_echo(script: Script, seen: list[bytes] | None = None) -> None:
    """Runs a script on a connection through a link to a server that echoes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if seen is not None:
                seen.append(data)
            writer.write(data)
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, HOST, 0)
        network = Network()
        port = await network.add("clients", "1", server.sockets[0].getsockname()[1])
        reader, writer = await asyncio.open_connection(HOST, port)
        await asyncio.wait_for(script(network.links["clients", "1"], reader, writer), 30)
        writer.close()
        server.close()

    asyncio.run(run())


async def silent(reader: asyncio.StreamReader, seconds: float = 0.2) -> bool:
    try:
        await asyncio.wait_for(reader.readexactly(1), seconds)
    except TimeoutError:
        return True
    return False


def test_bytes_pass_in_order() -> None:
    async def script(_: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = b"".join(number.to_bytes(4, "big") for number in range(500_000))  # more than the queues hold
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent

    with_echo(script)


@pytest.mark.parametrize(
    ("forward", "backward", "arrives"), [(HOLD, HOLD, False), (HOLD, PASS, False), (PASS, HOLD, True)]
)
def test_held_bytes_arrive_after_the_heal(forward: Mode, backward: Mode, arrives: bool) -> None:
    seen: list[bytes] = []

    async def script(link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link.set_modes(forward, backward)
        writer.write(b"one")
        assert await silent(reader)
        assert bool(seen) == arrives
        link.set_modes(PASS, PASS)
        assert await reader.readexactly(3) == b"one"

    with_echo(script, seen)


def test_a_held_request_arrives_though_its_sender_has_closed() -> None:
    seen: list[bytes] = []

    async def script(link: Link, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link.set_modes(HOLD, HOLD)
        writer.write(b"late")
        writer.close()
        await asyncio.sleep(0.2)
        assert not seen
        link.set_modes(PASS, PASS)
        await asyncio.sleep(0.2)
        assert seen == [b"late"]
        assert not link.connections

    with_echo(script, seen)


def test_discarded_responses_never_arrive_and_the_heal_closes_the_connection() -> None:
    seen: list[bytes] = []

    async def script(link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link.set_modes(PASS, DISCARD)
        writer.write(b"request")
        assert await silent(reader)
        assert seen == [b"request"]
        link.set_modes(PASS, PASS)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(1)

    with_echo(script, seen)


def test_a_delay_applies_to_each_direction_and_keeps_the_order() -> None:
    async def script(link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link.set_modes(Mode(delay_s=0.15), Mode(delay_s=0.15))
        started = time.monotonic()
        writer.write(b"a")
        await asyncio.sleep(0.01)
        writer.write(b"b")
        assert await reader.readexactly(2) == b"ab"
        assert time.monotonic() - started >= 0.3

    with_echo(script)


def test_a_connection_to_a_dead_node_is_closed() -> None:
    async def run() -> None:
        server = await asyncio.start_server(lambda *_: None, HOST, 0)
        unused_port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        network = Network()
        reader, _ = await asyncio.open_connection(HOST, await network.add("1", "2", unused_port))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asyncio.wait_for(reader.readexactly(1), 10)

    asyncio.run(run())


def test_the_links_around_a_node_leave_the_clients_out_unless_they_are_named() -> None:
    network = Network()
    network.links = {pair: Link(*pair, 0) for pair in (("clients", "1"), ("2", "1"), ("1", "2"), ("3", "2"))}
    assert {(link.source, link.target) for link in network.around("1", clients=False)} == {("2", "1"), ("1", "2")}
    assert len(list(network.around("1", clients=True))) == 3
