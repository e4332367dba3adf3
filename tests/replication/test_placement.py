"""The assignment of replicas: Kafka's own figures, and how a dead broker's load spreads."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from logjudge.models.exploration.load_spread import spread, table
from logjudge.models.replication.config import Config
from logjudge.models.replication.controllers.controller import Controller
from logjudge.models.replication.options import configure
from logjudge.models.replication.partition_state import PartitionState
from logjudge.models.replication.placement import ASSIGNMENTS, kafka, round_robin, shifted
from logjudge.models.replication.variants import VARIANTS

# The tables in the comment of AdminUtils.assignReplicasToBrokers: 10 partitions on 5 brokers, and 12 on 3 racks.
ON_FIVE = ["012", "123", "234", "340", "401", "023", "134", "240", "301", "412"]
RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
ON_RACKS = ["031", "315", "154", "542", "420", "203", "042"]


def digits(assignment: list[tuple[int, ...]]) -> list[str]:
    return ["".join(map(str, replicas)) for replicas in assignment]


def test_kafka_s_assignment_has_the_figures_of_its_own_documentation() -> None:
    assert digits(kafka(range(5), 10, 3)) == ON_FIVE
    assert digits(kafka(range(6), 7, 3, racks=RACKS)) == ON_RACKS


def test_a_start_moves_leaders_and_followers() -> None:
    assert digits(kafka(range(5), 2, 3, start=2)) == ["201", "312"]


def test_replicas_are_on_as_many_racks_as_there_are() -> None:
    for replication_factor in (2, 3, 4):
        for replicas in kafka(range(6), 60, replication_factor, racks=RACKS):
            assert len(set(replicas)) == replication_factor
            assert len({RACKS[broker] for broker in replicas}) == min(replication_factor, 3)


def test_the_design_s_formula_is_followed_where_it_gives_another_broker() -> None:
    # Its figure: p0, p1 and p2 of broker 0 can be served by all four others.
    own = [replicas for replicas in shifted(range(5), 15, 3) if replicas[0] == 0]
    assert digits(own) == ["012", "023", "034"]
    for replicas in shifted(range(5), 50, 3):
        assert len(set(replicas)) == 3


@pytest.mark.parametrize("name", ASSIGNMENTS)
@pytest.mark.parametrize("brokers", [3, 5, 8])
def test_every_assignment_is_even(name: str, brokers: int) -> None:
    found = ASSIGNMENTS[name](range(brokers), 4 * brokers, 3, 0)
    assert set(Counter(replicas[0] for replicas in found).values()) == {4}
    held = Counter(broker for replicas in found for broker in replicas)
    assert max(held.values()) - min(held.values()) <= 2
    assert all(len(set(replicas)) == 3 for replicas in found)


def test_only_plain_round_robin_moves_a_broker_s_load_to_one_neighbour() -> None:
    def heirs(assignment: list[tuple[int, ...]]) -> list[int]:
        return sorted(Counter(replicas[1] for replicas in assignment if replicas[0] == 0).values())

    assert heirs(round_robin(range(5), 40, 3)) == [8]
    assert heirs(kafka(range(5), 40, 3)) == [2, 2, 2, 2]
    assert heirs(shifted(range(5), 20, 3)) == [1, 1, 1, 1]


def test_the_load_of_a_dead_broker_spreads_unless_the_assignment_repeats_itself() -> None:
    plain, designed = spread("round-robin"), spread("kafka")
    assert (plain.before, plain.after) == ({1: 4, 2: 4, 3: 4, 4: 4, 5: 4}, {2: 8, 3: 4, 4: 4, 5: 4})
    assert designed.after == {2: 5, 3: 5, 4: 5, 5: 5}
    assert plain.busiest > 1.4
    assert designed.busiest < 1.15
    assert "4 → 8" in table([plain, designed])


@pytest.mark.parametrize(
    ("variant", "percentage", "elsewhere", "moves"),
    [("kip-279", 10, 1, 0), ("kip-279", 10, 2, 2), ("kip-279", 9, 1, 1), ("kip-279", 0, 1, 1), ("kraft", 10, 1, 1)],
)
def test_leaders_move_back_above_the_percentage(variant: str, percentage: int, elsewhere: int, moves: int) -> None:
    """Broker 1 is preferred by ten partitions. KRaft's controller has no such percentage."""
    written: list[int] = []

    def write(_: object, partition: int, __: PartitionState) -> bool:
        written.append(partition)
        return True

    store = SimpleNamespace(leaving=[], incarnations={}, write=write)
    brokers = {broker: SimpleNamespace(apply=None) for broker in (1, 2)}
    network = SimpleNamespace(send_reliably=lambda *_: None)
    config = configure(Config(), {"leader.imbalance.per.broker.percentage": percentage})
    controller = Controller(101, store, network, brokers, VARIANTS[variant](), config, lambda *_: None)  # type: ignore[arg-type]
    controller.live = [1, 2]
    controller.view = [PartitionState((1, 2), 2 if p < elsewhere else 1, 0, (1, 2), 0) for p in range(10)]
    controller.rebalance_leaders()
    assert written == list(range(moves))
