"""Messages that are lost with a broken connection, and how a producer notices."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import INVARIANTS, breaches
from logjudge.models.exploration.matrix import space
from logjudge.models.replication.clients.producer import Producer
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import MS, SECOND
from logjudge.models.replication.event_loop import EventLoop
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.network import Connection, Network
from logjudge.models.replication.requests import ProduceRequest
from logjudge.models.replication.scenario import Scenario

ONE_BY_ONE = {
    "enable.idempotence": False,
    "acks": "1",
    "simulation.producers": 1,
    "linger.ms": 0,
    "simulation.batch.records": 1,
    "simulation.ops": 400,
    "simulation.send.interval.us": 2000,
    "simulation.latency.us": 5000,
}
LOSS = Fault(1200 * MS, "loss", (), 300 * MS, 60)


def run(options: dict[str, Any], *faults: Fault, seed: int = 1) -> Cluster:
    return Scenario("test", "kraft", seed, options, {}, faults).run()


class Message:
    """A message that records whether its connection closed."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.was_closed = False

    def on_closed(self, _: object) -> None:
        self.was_closed = True


def test_messages_after_a_lost_one_do_not_arrive() -> None:
    loop = EventLoop()
    network = Network(loop, Random(1), 1000, 0)
    old, other = Connection(201), Connection(202)
    lost, later, response, elsewhere = Message(old), Message(old), Message(old), Message(other)
    arrived: list[object] = []
    network.set_error_rates(1.0, 0.0)
    network.send(201, 1, arrived.append, lost)
    network.set_error_rates(0.0, 0.0)
    network.send(201, 1, arrived.append, later)
    network.send(1, 201, arrived.append, response)
    network.send(201, 1, arrived.append, elsewhere)
    loop.run(SECOND)
    assert arrived == [response, elsewhere]
    assert (lost.was_closed, later.was_closed) == (True, False)
    assert network.is_faulty  # until the requester opens another connection
    network.abandon(old)
    assert not network.is_faulty
    network.send(201, 1, arrived.append, again := Message(Connection(201)))
    loop.run(SECOND)
    assert arrived[2:] == [again]


def test_messages_after_one_lost_to_a_partition_do_not_arrive() -> None:
    loop = EventLoop()
    network = Network(loop, Random(1), 1000, 0)
    connection = Connection(201)
    arrived: list[object] = []
    network.cut(201, 1)
    network.send(201, 1, arrived.append, Message(connection))
    network.heal(201, 1)
    network.send(201, 1, arrived.append, Message(connection))
    loop.run(SECOND)
    assert arrived == []


def test_all_requests_of_a_broken_connection_fail_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request that was lost, and those sent after it: none of them gets a response on that connection."""
    closed: list[tuple[int, int, list[int]]] = []  # when, sent when, values still in flight afterwards
    produced: list[tuple[int, int]] = []
    on_closed, on_produced = Producer.on_closed, Producer.on_produced

    def watch_closed(self: Producer, request: ProduceRequest) -> None:
        current = not request.is_closed
        on_closed(self, request)
        if current:
            flying = [r.batches[0].first for r in self._in_flight[request.broker] if r.sent < self.loop.now]
            closed.append((self.loop.now, request.sent, flying))

    def watch_produced(self: Producer, request: ProduceRequest) -> None:
        if not request.is_closed:
            produced.append((self.loop.now, request.sent))
        on_produced(self, request)

    monkeypatch.setattr(Producer, "on_closed", watch_closed)
    monkeypatch.setattr(Producer, "on_produced", watch_produced)
    run(ONE_BY_ONE, LOSS)
    assert closed
    for when, sent, flying in closed:
        assert flying == []
        assert [one for one in produced if one[0] > when and sent <= one[1] < when] == []


def test_a_request_without_a_waiting_client_does_not_hold_up_the_next() -> None:
    """The request was under way when its connection broke, and is written nevertheless."""
    cluster = run(ONE_BY_ONE, LOSS)
    assert max(cluster.ledger.latencies) < SECOND


def test_batches_of_a_broken_connection_are_retried_in_reverse() -> None:
    """InFlightRequests.clearAll gives the oldest first, RecordAccumulator.reenqueue puts each at the front."""
    options = {**ONE_BY_ONE, "simulation.ops": 3, "simulation.burst.records": 3}

    def order(**more: Any) -> list[int]:
        cluster = Scenario("test", "kraft", 1, {**options, **more}).run(prepare=_lose_the_first_request)
        log = cluster.leader_log(0)
        assert log is not None
        return [batch.first for batch in log.batches()]

    assert order() == [2, 1, 0]
    assert order(**{"enable.idempotence": True, "acks": "all"}) == [0, 1, 2]


def _lose_the_first_request(cluster: Cluster) -> None:
    lost: list[ProduceRequest] = []

    class LosingNetwork(Network):
        __slots__ = ()

        def send(self, source: int, target: int, action: Any, message: Any) -> None:
            if isinstance(message, ProduceRequest) and not lost:
                lost.append(message)
                self.drop(source, message)
                self.reset(message)
            else:
                super().send(source, target, action, message)

    cluster.network.__class__ = LosingNetwork


@pytest.mark.parametrize(
    ("fault", "min_records"),
    [
        (Fault(5 * SECOND, "crash", (1,), 60 * SECOND), 2990),
        (Fault(5 * SECOND, "shutdown", (1,), 4 * SECOND), 2990),
        (Fault(5 * SECOND, "loss", (), 4 * SECOND, 20), 2900),
        # For request.timeout.ms everything goes to a host, or over a link, that swallows it.
        (Fault(5 * SECOND, "power-loss", (1,), 60 * SECOND), 2000),
        (Fault(5 * SECOND, "partition", (201,), 4 * SECOND), 2000),
    ],
)
def test_a_broken_connection_makes_a_producer_with_acks_0_refresh_its_metadata(fault: Fault, min_records: int) -> None:
    """KafkaApis.handleProduceRequest closes the connection over an error, as no client waits for a response."""
    options = {
        "acks": "0",
        "enable.idempotence": False,
        "simulation.ops": 3000,
        "simulation.send.interval.us": 20000,
        "request.timeout.ms": 3000,
    }
    cluster = run(options, fault)
    log = cluster.leader_log(0)
    assert log is not None
    assert sum(batch.end - batch.base for batch in log.batches()) > min_records
    assert cluster.final


def test_no_request_overtakes_another_on_its_connection() -> None:
    """This holds for requests after a lost one, and for one that arrives when another gets its response."""
    events: list[ClusterEvent] = []
    load("idempotence").run(listener=events.append)
    assert [event for event in events if event.kind == "out-of-order"] == []


def test_fetchers_share_the_partitions_of_a_leader_and_survive_faults() -> None:
    options = {"num.partitions": 6, "num.replica.fetchers": 2, "simulation.ops": 400, "min.insync.replicas": 2}
    cluster = run(options, Fault(1100 * MS, "crash", (1,), SECOND), Fault(1500 * MS, "pause", (2,), SECOND))
    assert cluster.final
    assert sorted(cluster.brokers[3].fetchers.fetchers) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert [found for invariant in INVARIANTS.values() if (found := invariant.check(cluster))] == []


def test_a_broker_that_does_not_know_the_producer_takes_a_later_batch_first() -> None:
    """It refuses the batches before that one (KAFKA-15591), and the producer sends them after it (KIP-360)."""
    scenario = space("kraft", "static-members").scenario(34_002_271)
    assert breaches(scenario.run(), ["no-reordering"])
    one_by_one = {**scenario.options, "max.in.flight.requests.per.connection": 1}
    assert not breaches(replace(scenario, options=one_by_one).run(), ["no-reordering"])
