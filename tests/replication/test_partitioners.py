"""Partitioners choose as Kafka's do, and sticky ones make fuller batches."""

from __future__ import annotations

from random import Random

import pytest
from logjudge.models.replication import config
from logjudge.models.replication.clients.partitioners import PARTITIONERS
from logjudge.models.replication.keys import murmur2
from logjudge.models.replication.scenario import Scenario


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"abc", 479470107),
    ],
)
def test_the_hash_of_a_key_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % (1 << 32)


def test_a_sticky_producer_changes_the_partition_when_its_batch_is_closed() -> None:
    choose = PARTITIONERS["sticky"](Random(1), 3, 0)
    first = choose(lambda _: None)
    assert [choose(lambda _: object()) for _ in range(5)] == [first] * 5
    others = {choose(lambda partition: None if partition == first else object()) for _ in range(5)}
    assert len(others) == 1
    assert first not in others


def test_round_robin_takes_the_partitions_in_turn() -> None:
    choose = PARTITIONERS["round-robin"](Random(1), 3, 0)
    assert [choose(lambda _: None) for _ in range(4)] == [0, 1, 2, 0]


def test_one_key_has_one_partition() -> None:
    choose = PARTITIONERS["key"](Random(1), 12, 1)
    assert {choose(lambda _: None) for _ in range(20)} == {(murmur2(b"k0") & 0x7FFFFFFF) % 12}


def test_every_partitioner_can_be_configured() -> None:
    assert tuple(PARTITIONERS) == config.PARTITIONERS


def test_sticky_producers_send_fuller_batches() -> None:
    batches = {}
    for name in ("round-robin", "sticky"):
        options = {"partitioner.class": name, "num.partitions": 12, "simulation.ops": 500}
        logs = Scenario("batches", "kraft", 1, options).run().leader_log
        batches[name] = sum(len([*log.batches()]) for log in map(logs, range(12)) if log is not None)
    assert batches["sticky"] * 2 < batches["round-robin"]
