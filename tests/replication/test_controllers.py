"""The protocol, step by step: controllers, sessions, epochs, and configurations."""

from __future__ import annotations

from typing import Any

import pytest
from logjudge.models.replication.brokers.replica import Replica
from logjudge.models.replication.config import SECOND, Config, ConfigError
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.partition_state import PartitionState
from logjudge.models.replication.requests import OffsetsRequest
from logjudge.models.replication.rules import Rules
from logjudge.models.replication.scenario import Scenario
from protocol_runs import details, run


def test_a_new_controller_takes_over_with_a_higher_epoch() -> None:
    _, events = run("kraft", {}, Fault(3 * SECOND, "controller-crash", (), 4 * SECOND))
    assert [event.node for event in events if event.kind == "controller"] == [101, 102]
    assert details(events, "controller") == [(1,), (2,)]


def test_a_controller_that_dies_while_no_other_lives_comes_back_with_a_new_epoch() -> None:
    """Both are dead for a while; the one that returns must be elected again, or no broker would obey it."""
    cluster, events = run(
        "kraft",
        {},
        Fault(2 * SECOND, "controller-crash", (101,), 6 * SECOND),
        Fault(4 * SECOND, "controller-crash", (102,), 2 * SECOND),
        Fault(5 * SECOND, "crash", (1,), 3 * SECOND),
    )
    assert [d[0] for d in details(events, "controller")] == [1, 2, 3]
    assert not details(events, "refused-controller")
    assert cluster.final
    assert len(cluster.quorum.states[0].isr) == 3


def test_delete_records_moves_the_log_start_everywhere() -> None:
    cluster, events = run("kraft", {"simulation.ops": 60}, Fault(4 * SECOND, "delete-records", (), 0, 10))
    assert {b.replicas[0].log.start for b in cluster.brokers.values()} == {10}
    assert cluster.brokers[1].deletes.low_watermark(cluster.brokers[1].replicas[0]) == 10
    assert details(events, "records-deleted") == [(0, 10, 10)]
    assert cluster.ledger.read_by["final"][0] == [(10, 60)]


def test_delete_records_needs_kafka_0_11() -> None:
    deleted = Fault(4 * SECOND, "delete-records", (), 0, 10)
    with pytest.raises(ConfigError, match=r"since 0\.11 \(KIP-107\), not in the variant high-watermark"):
        run("high-watermark", {}, deleted)
    cluster, _ = run("kip-101", {"simulation.ops": 60}, deleted)
    assert cluster.brokers[1].replicas[0].log.start == 10


def test_a_crash_falls_back_to_the_log_start_of_the_last_checkpoint() -> None:
    """Records that were deleted come back if all brokers die before log-start-offset-checkpoint is written."""
    deleted = Fault(4 * SECOND, "delete-records", (), 0, 10)

    def starts(options: dict[str, Any], kind: str) -> set[int]:
        crash = Fault(5 * SECOND, kind, (1, 2, 3), 2 * SECOND)
        cluster, _ = run("kraft", {"simulation.ops": 60, "flush.messages": 1, **options}, deleted, crash)
        assert cluster.ledger.read_by["final"][0] == [(cluster.brokers[1].replicas[0].log.start, 60)]
        return {b.replicas[0].log.start for b in cluster.brokers.values()}

    assert starts({}, "crash") == starts({}, "power-loss") == {0}
    assert starts({"log.flush.start.offset.checkpoint.interval.ms": 500}, "crash") == {10}
    assert starts({}, "shutdown") == {10}


def test_a_clock_that_goes_back_does_not_make_a_follower_late() -> None:
    """lastCaughtUpTimeMs never decreases (Replica.updateFetchStateOrThrow)."""
    replica = Replica(1, 0, Rules(), Config())
    replica.start_leading(PartitionState((1, 2), 1, 0, (1, 2), 0), 5 * SECOND)
    follower = replica.record_fetch(2, 0, 0, 2 * SECOND)
    assert follower is not None
    assert follower.caught_up == 5 * SECOND


@pytest.mark.parametrize(("variant", "hidden"), [("kraft", True), ("kip-279", False)])
def test_a_new_leader_reports_no_end_before_its_high_watermark_reaches_its_epoch(variant: str, hidden: bool) -> None:
    """OFFSET_NOT_AVAILABLE (KIP-207): the consumer keeps asking."""
    cluster, _ = run(variant, {"auto.offset.reset": "latest"}, Fault(3 * SECOND, "crash", (1,), 60 * SECOND))
    broker, consumer = cluster.brokers[cluster.quorum.states[0].leader], cluster.consumers[0]
    replica = broker.replicas[0]
    replica.hw = replica.epoch_start - 1
    connection = consumer.connections[broker.id]
    request = OffsetsRequest(
        consumer.node, broker.id, cluster.loop.now, consumer.on_offsets, consumer.on_closed, connection
    )
    broker.queries.handle_offsets(request)
    assert request.offsets == {0: (0, -1 if hidden else replica.hw)}
    consumer._listing, consumer._reset, consumer.position = request, [0], {0: 7}
    consumer.on_offsets(request)
    assert consumer.position == {0: 7 if hidden else replica.hw}


@pytest.mark.parametrize("variant", ["high-watermark", "kip-101", "kip-279", "kip-320"])
def test_only_kip_320_truncates_in_a_new_epoch_of_the_same_leader(variant: str) -> None:
    """Broker 3 dies. With ZooKeeper this raises the leader epoch, and broker 2 keeps fetching from broker 1."""
    _, events = run(variant, {}, Fault(3 * SECOND, "crash", (3,), 4 * SECOND))
    begun = [time for time, node, kind, _ in events if node == 2 and kind in ("follower", "truncate") and time > SECOND]
    continued = [d for _, node, kind, d in events if node == 2 and kind == "follows-on"]
    assert bool(begun) == (variant == "kip-320")
    assert bool(continued) == (variant != "kip-320")


@pytest.mark.parametrize(
    ("variant", "again"), [("high-watermark", False), ("kip-101", False), ("kip-279", True), ("kip-320", True)]
)
def test_since_2_0_a_follower_starts_again_if_it_missed_an_epoch(variant: str, again: bool) -> None:
    """Epochs 1 and 2, of the same leader, begin while broker 2 hangs; its leader could have truncated (KAFKA-6361)."""
    away = (Fault(3 * SECOND, "pause", (2,), 12 * SECOND), Fault(11 * SECOND, "crash", (3,), 2 * SECOND))
    _, events = run(variant, {"simulation.ops": 200}, *away)
    kinds = ("follower", "follows-on")
    begun = [(kind, *d) for time, node, kind, d in events if node == 2 and kind in kinds and time > SECOND]
    assert [(kind, followed.epoch, followed.leader) for kind, followed in begun] == [
        ("follower" if again else "follows-on", 2, 1)
    ]


def test_a_partitioned_leader_is_replaced_and_its_tail_is_cut() -> None:
    options = {"acks": "1", "enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    cluster, events = run("kraft", options, Fault(3 * SECOND, "partition", (1,), 4 * SECOND))
    cuts = [cut for [cut] in details(events, "truncate") if cut.after < cut.before]
    assert cuts
    assert cuts[0].reason == "epoch"
    losses = {loss.cause for loss in cluster.ledger.acks[0].losses.values()}
    assert losses == {"single-ack-failover"}


def test_an_unclean_election_is_no_cause_where_no_broker_in_the_isr_had_the_records() -> None:
    """Broker 1 is cut off, and acknowledges alone. Brokers 2 and 3 die in turn; broker 2 is elected uncleanly."""
    options = {"acks": "1", "enable.idempotence": False, "unclean.leader.election.enable": True}
    cut_off = Fault(3 * SECOND, "partition", (1,), 14 * SECOND)
    died = Fault(4 * SECOND, "crash", (2,), 4 * SECOND), Fault(6 * SECOND, "crash", (3,), 14 * SECOND)
    cluster, events = run("kraft", {**options, "simulation.ops": 100}, cut_off, *died)
    assert any(details for _, _, kind, details in events if kind == "elected" and details[2].is_unclean)
    assert {loss.cause for loss in cluster.ledger.acks[0].losses.values()} == {"single-ack-failover"}


@pytest.mark.parametrize(
    ("variant", "to", "ends"),
    [
        ("kraft", (101, 102), True),
        ("kraft", (100,), True),
        ("kip-320", (101, 102), True),
        ("high-watermark", (101, 102), False),  # ZooKeeper keeps its session
        ("high-watermark", (100,), True),
    ],
)
def test_a_session_ends_if_heartbeats_do_not_arrive(variant: str, to: tuple[int, ...], ends: bool) -> None:
    _, events = run(variant, {}, Fault(2 * SECOND, "one-way", (1,), 4 * SECOND, 0, to))
    assert any(event.kind == "fenced" and event.details == (1,) for event in events) == ends


@pytest.mark.parametrize("variant", ["kraft", "high-watermark"])
def test_a_controller_that_is_cut_off_is_replaced(variant: str) -> None:
    cluster, events = run(variant, {}, Fault(2 * SECOND, "partition", (101,), 4 * SECOND))
    assert [(event.node, event.details) for event in events if event.kind == "controller"] == [(101, (1,)), (102, (2,))]
    assert not details(events, "fenced")
    assert cluster.final


@pytest.mark.parametrize(
    "cut",
    [
        Fault(2 * SECOND, "partition", (201,), 3 * SECOND),
        Fault(2 * SECOND, "one-way", (201,), 3 * SECOND, 0, (1,)),
        Fault(2 * SECOND, "one-way", (1,), 3 * SECOND, 0, (201,)),
    ],
)
def test_a_client_can_be_cut_off(cut: Fault) -> None:
    cluster, events = run("kraft", {"simulation.producers": 1}, cut)
    assert max(cluster.ledger.latencies) > 2 * SECOND
    assert not details(events, "fenced")
    assert list(cluster.ledger.acks[0])
    assert cluster.final


def test_the_old_isr_change_reaches_the_controller_after_5_quiet_seconds() -> None:
    """ISR propagation through ZooKeeper: checked every 2.5 s, sent after 5 s without a change."""
    options = {"broker.session.timeout.ms": 60000, "simulation.ops": 200}
    _, events = run("high-watermark", options, Fault(3 * SECOND, "pause", (3,), 11 * SECOND))
    updated, propagated = (
        next(event for event in events if event.kind == kind) for kind in ("isr-updated", "isr-propagated")
    )
    assert 5 * SECOND < propagated.time - updated.time <= 8 * SECOND
    assert propagated.details == (True,)


def test_a_session_of_zookeeper_is_renewed_in_time() -> None:
    """At a third of its timeout, though broker.heartbeat.interval.ms is longer by default."""
    cluster = Scenario("test", "kip-101", 1, {"zookeeper.session.timeout.ms": 1500, "simulation.ops": 500}).run()
    assert cluster.ledger.elections == 0


def test_a_session_of_kraft_must_outlast_its_heartbeats() -> None:
    for variant, refused in (("kraft", True), ("kip-320", True), ("kip-279", False)):
        for options in ({"broker.session.timeout.ms": 1500}, {"broker.heartbeat.interval.ms": 9000}):
            scenario = Scenario("test", variant, 1, options)
            if refused:
                with pytest.raises(ConfigError, match="must be longer than"):
                    scenario.config()
            else:
                scenario.config()
    slow = Scenario("test", "kraft", 1, {}, {2: {"broker.heartbeat.interval.ms": 9500}})
    with pytest.raises(ConfigError, match="9500"):
        slow.config()
