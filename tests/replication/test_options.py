"""Settings of a simulated run that are refused, each in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from logjudge.models.replication.config import MS, Config, ConfigError
from logjudge.models.replication.options import configure

GROUP = {"partition.assignment.strategy": "range"}
TRANSACTIONS = {"simulation.transactions": "own"}
RACK = {1: {"broker.rack": "a"}}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"no.such": 1}, "unknown configuration 'no.such'"),
    ({"acks": "1", "enable.idempotence": True}, "needs acks=all"),
    ({"retries": 0, "enable.idempotence": True}, "needs acks=all, retries"),
    ({"max.in.flight.requests.per.connection": 6}, "at most 5"),
    ({"acks": "1", "max.in.flight.requests.per.connection": 6}, "at most 5"),
    ({"delivery.timeout.ms": 30000}, "delivery.timeout.ms must be at least .*, 30005, not 30000"),
    ({"simulation.brokers": 2}, "needs as many brokers"),
    ({"min.insync.replicas": "two"}, "must be a whole number"),
    ({"auto.offset.reset": "middle"}, "must be earliest or latest"),
    ({"auto.offset.reset": "none"}, "must be earliest or latest, not 'none'"),
    ({"min.cleanable.dirty.ratio": 2}, "min.cleanable.dirty.ratio must be a number from 0 to 1, not 2"),
    ({"min.cleanable.dirty.ratio": True}, "min.cleanable.dirty.ratio must be a number from 0 to 1, not True"),
    # transactions
    ({"simulation.transactions": "all"}, "simulation.transactions must be none, own or shared"),
    ({**TRANSACTIONS, "acks": "1"}, "transactions need enable.idempotence"),
    ({**TRANSACTIONS, "buffer.memory": 10_000}, "together with transactions"),
    ({**TRANSACTIONS, "cleanup.policy": "compact"}, "cleanup.policy=compact is not simulated"),
    ({**TRANSACTIONS, "max.message.bytes": 500}, "not simulated together with transactions"),
    # groups and their members
    ({"partition.assignment.strategy": "random"}, "partition.assignment.strategy must be range"),
    ({"simulation.commit": "auto"}, "simulation.commit must be none, after, before, not"),
    ({"simulation.commit": "async"}, "must be none, after, before, not"),
    ({"simulation.commit.retry": True}, "needs simulation.commit=async"),
    ({"simulation.poison": "eat"}, "simulation.poison must be none, crash"),
    ({"simulation.poison": "crash"}, "needs a group"),
    ({"simulation.partitions.added": 1}, "must be less than num.partitions"),
    ({"simulation.partitions.added": 1, "num.partitions": 2}, "needs a group"),
    ({"simulation.processing": "twice"}, "simulation.processing must be none, exactly-once"),
    ({"simulation.processing": "exactly-once"}, "needs a group: set partition.assignment.strategy"),
    ({**GROUP, "simulation.processing": "at-least-once"}, "set simulation.commit to 'after', not 'none'"),
    ({**GROUP, "simulation.processing": "exactly-once", "simulation.commit": "auto"}, "to 'none', not 'auto'"),
    ({**GROUP, "simulation.processing": "exactly-once", "batch.size": 500}, "together with topics that a group writes"),
    # the placement of replicas
    ({"simulation.assignment": "best"}, "must be round-robin, shifted or kafka"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_settings_that_contradict_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configure(Config(), options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "racks need simulation.assignment=kafka"),
        ({"simulation.assignment": "kafka"}, "for all brokers or for none; broker 2, 3 has none"),
    ],
)
def test_racks_need_kafka_s_assignment_and_all_brokers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        configure(Config(), options, RACK)


def test_the_producer_gives_up_idempotence_that_is_not_configured() -> None:
    assert configure(Config(), {"min.insync.replicas": 2}).idempotence
    assert not configure(Config(), {"acks": "1"}).idempotence
    assert not configure(Config(), {"acks": "0"}).idempotence
    assert not configure(Config(), {"retries": 0}).idempotence
    assert configure(Config(), {"request.timeout.ms": 300_000}).delivery_timeout == 300_005 * MS
