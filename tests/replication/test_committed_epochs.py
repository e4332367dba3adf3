"""Committed offsets have the leader epoch of the record before them (KIP-320), and what breaks without it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from logjudge.histories.evidence.group_log import read_group_log
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.matrix import SETTINGS, space
from logjudge.models.replication.clients.consumer import Consumer
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import SECOND
from logjudge.models.replication.coordinators.group_offsets import GroupOffsets
from logjudge.models.replication.coordinators.group_requests import CommittedOffset, GroupRecord
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario
from logjudge.models.replication.variants.kip_966 import Kip966

ONCE = "processing"


@pytest.mark.parametrize("seed", [7000130, 7001094])
def test_a_member_does_not_reset_at_a_leader_that_is_older_than_the_commit(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old leader has not learned of its replacement, and its log ends before the committed offset."""
    schedule = space("kip-966", ONCE).scenario(seed)
    assert breaches(schedule.run(), SETTINGS[ONCE].invariants) == {}
    monkeypatch.setattr(Kip966, "has_next_offsets", lambda _: False)
    assert breaches(schedule.run(), ["exactly-once"])


@pytest.mark.parametrize(
    ("name", "has_epochs"),
    [
        ("group-coordinator-failover", True),
        ("commit-async-retry", True),
        ("processing-exactly-once", True),
        ("processing-zombie", False),  # before 4.0 an application that writes offsets in transactions sends no epochs
        ("group-commit-lost", False),  # before 2.1
    ],
)
def test_the_log_of_the_group_has_the_epoch_of_the_record_before_each_offset(
    name: str, has_epochs: bool, tmp_path: Path
) -> None:
    written = write_bundle(load(name), tmp_path / "run")
    cluster = written.cluster
    leader = cluster.quorum.states[cluster.config.group_log].leader
    log, _ = read_group_log(written.folder / f"brokers/{leader}/data/__consumer_offsets-0")
    commits = log.filter(pl.col("kind") == "committed", pl.col("offset") > 0)
    epochs = commits.select("partition", "offset", "leader_epoch").unique().rows()
    assert epochs
    if not has_epochs:
        assert {epoch for *_, epoch in epochs} == {None}
        return
    for partition, offset, epoch in epochs:
        batch = cluster.leader_log(partition).at(offset - 1)
        assert batch is not None
        assert epoch == batch.epoch


def truncated(group: bool, variant: str = "kraft") -> Cluster:
    """A consumer commits what only the leader has; it and the leader die, and another broker is elected uncleanly."""
    options = {
        "simulation.brokers": 5,
        "simulation.ops": 120,
        "simulation.send.interval.us": 100_000,
        "simulation.consumers": 1,
        "simulation.commit": "after",
        "min.insync.replicas": 1,
        "acks": "1",
        "unclean.leader.election.enable": True,
        "broker.session.timeout.ms": 1500,
        "broker.heartbeat.interval.ms": 400,
        "replica.lag.time.max.ms": 2000,
        "session.timeout.ms": 1500,
        "heartbeat.interval.ms": 300,
        "group.initial.rebalance.delay.ms": 300,
    }
    if group:
        options["partition.assignment.strategy"] = "range"
    faults = (
        Fault(3 * SECOND, "crash", (2, 3), 6 * SECOND),
        Fault(7 * SECOND, "consumer-crash", (0,), 6 * SECOND),
        Fault(8 * SECOND, "crash", (1,), 12 * SECOND),
    )
    return Scenario("truncated", variant, 1, options, {}, faults).run()


@pytest.mark.parametrize("group", [True, False])
def test_a_consumer_returns_to_where_the_logs_diverge_and_not_to_the_beginning(
    group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = truncated(group)
    [(_, _, before, after)] = [reset for reset in cluster.ledger.resets if reset[0] == "c0"]
    log = cluster.leader_log(0)
    assert 0 < after < before
    assert after in [start for _, start in log.epochs]
    monkeypatch.setattr(Consumer, "_epochs_of", lambda *_: {})
    resets = [reset[3] for reset in truncated(group).ledger.resets if reset[0] == "c0"]
    assert after not in resets


def test_an_offset_in_a_transaction_gets_its_epoch_with_the_marker() -> None:
    offsets = GroupOffsets()
    offsets.commit(GroupRecord(1, committed=CommittedOffset(0, 5), leader_epoch=1), 0)
    offsets.add_pending(7, GroupRecord(1, committed=CommittedOffset(0, 9), leader_epoch=3), 1)
    assert offsets.epochs() == {0: 1}
    offsets.end_transaction(7, True)
    assert offsets.epochs() == {0: 3}
