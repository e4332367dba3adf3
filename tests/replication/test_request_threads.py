"""Requests wait for a place in the queue and for a handler thread, in order."""

from __future__ import annotations

from typing import Any

import pytest
from logjudge.models.exploration.invariants import INVARIANTS
from logjudge.models.replication.brokers.process import DOWN, RUNNING, Process
from logjudge.models.replication.brokers.request_threads import RequestThreads
from logjudge.models.replication.config import SECOND, Config
from logjudge.models.replication.event_loop import EventLoop
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.requests import ApiVersionsRequest
from logjudge.models.replication.scenario import Scenario


class Broker:
    """Threads of a running process, and when each request reached its handler."""

    def __init__(self, **settings: int) -> None:
        self.loop = EventLoop()
        self.process = Process(1, self.loop, None)
        self.process.state = RUNNING
        self.threads = RequestThreads(self.process, Config(request_time=10, **settings))
        self.served: list[tuple[int, int]] = []  # requester, time
        self.receive = self.threads.serving(lambda request: self.served.append((request.node, self.loop.now)))

    def receive_from(self, *nodes: int) -> None:
        for node in nodes:
            self.receive(ApiVersionsRequest(node, 1, self.loop.now, _ignore, _ignore, None))


def _ignore(_: Any) -> None:
    pass


@pytest.mark.parametrize(("handlers", "served"), [(1, [(5, 10), (6, 20), (7, 30)]), (2, [(5, 10), (6, 10), (7, 20)])])
def test_a_handler_serves_one_request_after_the_other(handlers: int, served: list[tuple[int, int]]) -> None:
    broker = Broker(handler_threads=handlers)
    broker.receive_from(5, 6, 7)
    broker.loop.run(SECOND)
    assert broker.served == served


def test_a_full_queue_blocks_the_connections_of_a_network_thread() -> None:
    broker = Broker(handler_threads=1, queued_max_requests=1, network_threads=2)
    broker.receive_from(2, 2, 4, 4, 3)  # thread 0 reads from 2 and 4, thread 1 from 3
    broker.loop.run(SECOND)
    assert broker.served == [(2, 10), (2, 20), (4, 30), (3, 40), (4, 50)]


def test_a_paused_process_responds_when_it_resumes() -> None:
    broker = Broker(handler_threads=1)
    broker.receive_from(5)
    broker.process.is_paused = True
    broker.loop.run(50)
    assert broker.served == []
    broker.process.is_paused = False
    [(action, message)] = broker.process.backlog
    action(message)
    assert broker.served == [(5, 10)]


def test_a_new_process_has_no_requests_of_the_last() -> None:
    broker = Broker(handler_threads=1, queued_max_requests=1)
    broker.receive_from(5, 6, 7)
    broker.process.state = DOWN
    assert [request.node for request in broker.threads.waiting()] == [5, 6, 7]
    broker.process.state, broker.process.incarnation = RUNNING, 2
    broker.threads.restart()
    broker.receive_from(8)
    broker.loop.run(SECOND)
    assert broker.served == [(8, 10)]


@pytest.mark.parametrize("seed", range(3))
def test_threads_do_not_change_what_replication_promises(seed: int) -> None:
    options = {
        "num.io.threads": 1,
        "queued.max.requests": 2,
        "simulation.request.us": 400,
        "simulation.ops": 400,
        "min.insync.replicas": 2,
    }
    faults = (Fault(1 * SECOND + 100_000, "crash", (1,), 5 * SECOND), Fault(2 * SECOND, "pause", (2,), SECOND))
    cluster = Scenario("threads", "kip-966", seed, options, {}, faults).run()
    assert cluster.final
    assert cluster.ledger.acknowledged_end[0] >= 400
    assert [found for invariant in INVARIANTS.values() if (found := invariant.check(cluster))] == []
