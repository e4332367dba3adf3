"""Applications that wait for each record, and for room in the producer's buffer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.ports import History
from logjudge.models.replication.producer_batch import ProducerBatch
from logjudge.models.replication.scenario import Scenario

ORDER = ("no-reordering", "no-acknowledged-loss", "no-divergence")


class Refusals(History):
    """Counts the sends by outcome, and the records that send() refused by partition."""

    def __init__(self) -> None:
        self.outcomes: dict[str, int] = {}
        self.refused: set[int] = set()
        self.sizes: set[int] = set()

    def sent(self, time: int, process: str, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:  # noqa: ARG002
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + batch.count
        self.sizes.add(batch.count)
        if error == "BUFFER_EXHAUSTED":
            self.refused.add(batch.partition)


def ran(name: str, **settings: Any) -> tuple[Cluster, Refusals]:
    scenario, history = load(name), Refusals()
    return replace(scenario, options={**scenario.options, **settings}).run(history), history


def test_synchronous_sends_are_never_reordered() -> None:
    asynchronous, _ = ran("retry-reordering")
    assert "no-reordering" in breaches(asynchronous, ORDER)
    synchronous, history = ran("synchronous-sends")
    assert breaches(synchronous, ORDER) == {}
    assert history.sizes == {1}
    assert history.outcomes == {"ok": 3000}


@pytest.mark.parametrize("seed", range(6))
def test_order_holds_under_many_losses(seed: int) -> None:
    scenario = replace(load("synchronous-sends"), seed=seed)
    noisy = tuple(replace(fault, amount=100) for fault in scenario.faults)
    assert breaches(replace(scenario, faults=noisy).run(), ORDER) == {}


def test_a_full_buffer_refuses_records_of_every_partition_and_a_large_one_none() -> None:
    small, history = ran("buffer-full")
    assert breaches(small, (*ORDER, "no-duplicates")) == {}
    assert history.outcomes["fail"] == 3000 - history.outcomes["ok"] > 0
    _, unlimited = ran("buffer-full", **{"buffer.memory": 33_554_432})
    assert unlimited.outcomes == {"ok": 3000}
    patient, waited = ran("buffer-full", **{"max.block.ms": 60_000})
    assert waited.outcomes == {"ok": 3000}
    assert patient.final


def test_the_records_of_a_healthy_partition_are_refused_too() -> None:
    assert ran("buffer-full", **{"max.block.ms": 200})[1].refused == {0, 1}


def test_a_large_buffer_changes_nothing() -> None:
    options = {"simulation.ops": 400, "simulation.burst.records": 4, "num.partitions": 3}

    def logs(**more: Any) -> list[list[tuple[int, int, int]]]:
        cluster = Scenario("", "kraft", 3, {**options, **more}).run()
        found = (cluster.leader_log(partition) for partition in range(3))
        return [[(b.base, b.producer, b.first) for b in log.batches()] for log in found if log is not None]

    assert logs(**{"buffer.memory": 1 << 40}) == logs()
