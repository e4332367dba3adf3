"""The moving parts of the protocol, each in a run small enough to follow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.models.exploration.invariants import INVARIANTS
from logjudge.models.exploration.schedule import QUICK
from logjudge.models.exploration.search import Space
from logjudge.models.exploration.truth import losses
from logjudge.models.replication.brokers.broker import Broker
from logjudge.models.replication.brokers.replica import Replica
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import MS, SECOND, Config, ConfigError, configure
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.partition_state import PartitionState
from logjudge.models.replication.requests import OffsetsRequest
from logjudge.models.replication.rules import Rules
from logjudge.models.replication.scenario import Scenario


def run(variant: str, options: dict[str, Any], *faults: Fault, seed: int = 1) -> tuple[Cluster, list[ClusterEvent]]:
    facts: list[ClusterEvent] = []
    scenario = Scenario("test", variant, seed, {**QUICK, **options}, {}, tuple(faults))
    return scenario.run(listener=facts.append), facts


def details(facts: list[ClusterEvent], kind: str) -> list[tuple[Any, ...]]:
    return [fact[3] for fact in facts if fact[2] == kind]


def test_a_quiet_run_acknowledges_and_reads_everything() -> None:
    cluster, _ = run("kraft", {"simulation.ops": 50})
    assert cluster.final
    assert cluster.ledger.acknowledged_end == {0: 50}
    assert {b.replicas[0].log.end for b in cluster.brokers.values()} == {50}
    assert cluster.ledger.read_by["final"] == {0: [(0, 50)]}


def test_a_follower_learns_the_high_watermark_one_fetch_late() -> None:
    """The answer to the fetch that moves the leader's mark still carries the mark before it."""
    _, facts = run("kraft", {"simulation.ops": 60}, Fault(4 * SECOND, "crash", (1,), 4 * SECOND))
    leads = next(d for d in details(facts, "leader") if d[1] > 0)
    assert leads[2] - leads[3] >= 1  # log end, high watermark


def test_the_leader_takes_a_silent_follower_out_after_the_lag_time() -> None:
    options = {
        "broker.session.timeout.ms": 60000,
        "simulation.ops": 200,
        "simulation.send.interval.us": 100000,
    }
    _, facts = run("kraft", options, Fault(3 * SECOND, "pause", (3,), 8 * SECOND))
    shrink = next(fact for fact in facts if fact[2] == "isr-shrink")
    waited = shrink[0] - 3 * SECOND
    # replica.lag.time.max.ms is 2 s here, looked at every half of it, plus the time since the last fetch
    assert waited + 500 * MS >= 2 * SECOND
    assert waited <= 3 * SECOND + 600 * MS
    assert shrink[3][1:3] == ((1, 2, 3), (1, 2))
    expand = [fact for fact in facts if fact[2] == "isr-expand"]
    assert expand[-1][3][2] == (1, 2, 3)
    assert expand[-1][0] > 11 * SECOND


def test_not_enough_replicas_refuses_and_loses_nothing() -> None:
    options = {"min.insync.replicas": 3, "delivery.timeout.ms": 3000, "simulation.ops": 40}
    cluster, _ = run("kraft", options, Fault(2 * SECOND, "crash", (3,), 8 * SECOND))
    acknowledged = sum(ack.end - ack.base for ack in cluster.ledger.acks[0])
    assert acknowledged < 40
    assert all(ack.is_in(cluster.brokers[2].replicas[0].log) for ack in cluster.ledger.acks[0])


@pytest.mark.parametrize(
    ("variant", "rests"),
    [("kip-320", False), ("kip-279", False), ("kraft", True), ("kip-966", True), ("last-known-leader", True)],
)
def test_since_3_7_the_mark_rests_below_min_insync_replicas(variant: str, rests: bool) -> None:
    """Whatever acks says (KAFKA-15583): nobody reads what one broker alone has."""
    marks: list[tuple[int, int]] = []

    def watch(cluster: Cluster) -> None:
        for second in (8, 11):
            cluster.loop.at(second * SECOND, lambda _: marks.append(_ends(cluster)))

    options = {**QUICK, "acks": "1", "enable.idempotence": False, "min.insync.replicas": 2, "simulation.ops": 150}
    faults = (Fault(4 * SECOND, "crash", (2, 3), 10 * SECOND),)
    cluster = Scenario("resting", variant, 1, options, {}, faults).run(prepare=watch)
    (end, mark), (later, then) = marks
    assert later > end > 20
    assert (then == mark) == rests
    assert max(stop for _, stop in cluster.ledger.read_by["c0"][0]) == cluster.brokers[1].replicas[0].hw >= later


def _ends(cluster: Cluster) -> tuple[int, int]:
    """Log end and high watermark of broker 1."""
    replica = cluster.brokers[1].replicas[0]
    return replica.log.end, replica.hw


@pytest.mark.parametrize(("variant", "accepts"), [("kip-320", False), ("kraft", True), ("kip-966", True)])
def test_since_3_7_no_more_replicas_are_asked_for_than_there_are(variant: str, accepts: bool) -> None:
    options = {"simulation.brokers": 1, "default.replication.factor": 1, "min.insync.replicas": 2, "simulation.ops": 10}
    cluster, _ = run(variant, {**options, "delivery.timeout.ms": 3000}, seed=1)
    assert bool(len(list(cluster.ledger.acks[0]))) == accepts


def test_a_crash_keeps_the_page_cache_and_a_power_loss_does_not() -> None:
    alone = {"simulation.brokers": 1, "default.replication.factor": 1, "simulation.ops": 40}
    _, crashed = run("kraft", alone, Fault(4 * SECOND, "crash", (1,), SECOND))
    assert not details(crashed, "truncate")
    _, dark = run("kraft", alone, Fault(4 * SECOND, "power-loss", (1,), SECOND), seed=3)
    before, after = details(dark, "truncate")[0][1:3]
    assert after < before
    _, flushed = run("kraft", {**alone, "flush.messages": 1}, Fault(4 * SECOND, "power-loss", (1,), SECOND), seed=3)
    before, after = details(flushed, "truncate")[0][1:3]
    assert after == before


def test_a_power_loss_takes_the_page_cache_of_a_dead_process_too() -> None:
    alone = {"simulation.brokers": 1, "default.replication.factor": 1, "simulation.ops": 40}
    faults = (Fault(4 * SECOND, "crash", (1,), 4 * SECOND), Fault(5 * SECOND, "power-loss", (1,), 3 * SECOND))
    cluster, facts = run("kraft", alone, *faults, seed=3)
    assert details(facts, "stop") == [("crash",), ("power-loss",)]
    before, after = details(facts, "truncate")[0][1:3]
    assert after < before
    assert losses(cluster)
    _, written_back = run("kraft", {**alone, "simulation.writeback.ms": 500}, *faults, seed=3)
    assert all(before == after for _, before, after, *_ in details(written_back, "truncate"))


def test_a_crash_falls_back_to_the_last_checkpoint() -> None:
    options = {"replica.high.watermark.checkpoint.interval.ms": 3000, "simulation.ops": 60}
    _, facts = run("kraft", options, Fault(4500 * MS, "crash", (2,), SECOND))
    _, end, mark, clean = details(facts, "loaded")[0]
    assert not clean
    assert 0 < mark < end


def test_a_controlled_shutdown_moves_leadership_first_and_keeps_everything() -> None:
    cluster, facts = run("kraft", {"min.insync.replicas": 2}, Fault(3 * SECOND, "shutdown", (1,), 2 * SECOND))
    elected = next(fact for fact in facts if fact[2] == "elected" and fact[0] > 0)
    stopped = next(fact for fact in facts if fact[2] == "stop")
    assert elected[0] < stopped[0]
    assert details(facts, "loaded")[0][3] is True
    assert cluster.ledger.acknowledged_end == {0: 60}


@pytest.mark.parametrize(("variant", "loses"), [("kraft", False), ("kip-101", False), ("kip-279", True)])
def test_a_leader_that_shuts_down_learns_that_it_was_replaced(variant: str, loses: bool) -> None:
    """Only from 1.1 to 2.0.0 it did not (KAFKA-7482)."""
    options = {"acks": "1", "enable.idempotence": False, "simulation.send.interval.us": 5000, "simulation.ops": 1000}
    cluster, facts = run(variant, options, Fault(3 * SECOND, "shutdown", (1,), 2 * SECOND))
    assert details(facts, "leaving") == details(facts, "left") == [(1,)]
    assert bool(losses(cluster)) == loses
    followed = [time for time, node, kind, d in facts if (node, kind, d[:1]) == (1, "follower", (0,))]
    assert (followed[0] < 3050 * MS) != loses


@pytest.mark.parametrize("variant", ["kraft", "kip-101", "kip-279"])
@pytest.mark.parametrize("leaver", [1, 2])
def test_a_broker_in_controlled_shutdown_is_not_let_in_again(variant: str, leaver: int) -> None:
    """Neither by a heartbeat nor by a fetch, at whatever moment of its ticks it leaves (KAFKA-13858)."""
    for phase in (0, 30, 60, 90):
        begun = 3 * SECOND + phase * MS
        options = {"broker.heartbeat.interval.ms": 100, "simulation.send.interval.us": 20000, "simulation.ops": 200}
        _, facts = run(variant, options, Fault(begun, "shutdown", (leaver,), 2 * SECOND))
        away = [fact for fact in facts if begun < fact[0] < begun + 2 * SECOND]
        assert not details(away, "registered")
        assert not any(leaver in d[2].isr for d in details(away, "stored"))
        assert not details(away, "isr-expand")
        assert not details(facts, "fenced")


@pytest.mark.parametrize("variant", ["kraft", "kip-320", "kip-101", "kip-279"])
def test_a_follower_that_shuts_down_stops_to_fetch(variant: str) -> None:
    seen: list[list[int]] = []

    def fetched(broker: Broker) -> None:
        seen.append([partition for fetcher in broker.fetchers.fetchers.values() for partition in fetcher.fetching])

    def watch(cluster: Cluster) -> None:
        for time in (2999, 3040):
            cluster.loop.at(time * MS, fetched, cluster.brokers[2])

    faults = (Fault(3 * SECOND, "shutdown", (2,), SECOND),)
    Scenario("leaving", variant, 1, {**QUICK}, {}, faults).run(prepare=watch)
    assert seen == [[0], []]


def test_stale_brokers_are_fenced_one_after_the_other() -> None:
    """So there is a last known leader, though all die at once, and it leads again."""
    dark = Fault(3 * SECOND, "power-loss", (1, 2, 3), 4 * SECOND)
    for seed in range(3):
        cluster, facts = run("last-known-leader", {"min.insync.replicas": 2}, dark, seed=seed)
        fenced = [broker for (broker,) in details(facts, "fenced")]
        assert sorted(fenced) == [1, 2, 3]
        states = [d[2] for d in details(facts, "stored")]
        nobody = [state for state in states if not state.isr]
        assert {state.last_known for state in nobody} == {fenced[-1]}
        assert next(state.leader for state in states[states.index(nobody[-1]) :] if state.isr) == fenced[-1]
        assert cluster.final


def test_a_dead_broker_asks_for_no_controlled_shutdown() -> None:
    faults = (Fault(3 * SECOND, "crash", (1,), 4 * SECOND), Fault(3200 * MS, "shutdown", (1,), SECOND))
    _, facts = run("kraft", {}, *faults)
    assert not details(facts, "leaving")
    assert details(facts, "fenced") == [(1,)]


def test_a_shutdown_for_a_moment_restarts_the_broker() -> None:
    cluster, facts = run("kraft", {}, Fault(3 * SECOND, "shutdown", (2,), 30 * MS))
    assert [fact[2] for fact in facts if fact[1] == 2 and fact[2] in ("stop", "start")] == ["start", "stop", "start"]
    assert details(facts, "loaded")[0][3] is True
    assert sorted(cluster.quorum.states[0].isr) == [1, 2, 3]
    assert cluster.final


def test_a_fault_that_overlaps_another_does_not_end_it(tmp_path: Path) -> None:
    long, short = Fault(2 * SECOND, "crash", (2,), 6 * SECOND), Fault(3 * SECOND, "crash", (2,), SECOND)
    _, facts = run("kraft", {}, long, short)
    assert [fact[0] for fact in facts if fact[1] == 2 and fact[2] == "start"] == [0, 8 * SECOND]
    scenario = Scenario("overlap", "kraft", 1, {**QUICK}, {}, (long, short))
    history = (write_bundle(scenario, tmp_path / "run").folder / "history.jsonl").read_text()
    assert history.count('"kind":"restart"') == 2  # invoked and done, once
    _, facts = run("kraft", {}, replace(long, kind="pause"), replace(short, kind="pause"))
    assert [fact[0] for fact in facts if fact[1] == 2 and fact[2] == "resume"] == [8 * SECOND]
    _, facts = run("kraft", {}, replace(long, kind="disk-full"), replace(short, kind="disk-full"))
    assert [fact[0] for fact in facts if fact[1] == 2 and fact[2] == "start"] == [0, 8 * SECOND]
    _, facts = run("kraft", {}, long, replace(short, kind="disk-full"))
    assert [fact[0] for fact in facts if fact[1] == 2 and fact[2] == "start"] == [0, 8 * SECOND]


def test_of_losses_that_overlap_the_larger_counts() -> None:
    seen: list[float] = []

    def watch(cluster: Cluster) -> None:
        for second in (3, 5, 7, 9):
            cluster.loop.at(second * SECOND, lambda _: seen.append(cluster.network.lose))

    faults = (
        Fault(2 * SECOND, "loss", (), 6 * SECOND, 20),
        Fault(4 * SECOND, "loss", (), 2 * SECOND, 50),
    )
    Scenario("loss", "kraft", 1, {**QUICK, "simulation.ops": 200}, {}, faults).run(prepare=watch)
    assert seen == [0.02, 0.05, 0.02, 0.0]


def test_the_preferred_leader_gets_its_place_back() -> None:
    cluster, facts = run("kraft", {"min.insync.replicas": 2}, Fault(2 * SECOND, "crash", (1,), 2 * SECOND))
    leaders = [new.leader for _, _, new in details(facts, "elected")]
    assert leaders == [2, 1]
    assert cluster.quorum.states[0].leader == 1


def test_idempotence_survives_a_failover_without_duplicates() -> None:
    options = {"min.insync.replicas": 2, "simulation.ops": 200, "simulation.send.interval.us": 20000}
    for seed in range(20):
        cluster, _ = run("kraft", options, Fault(2 * SECOND, "crash", (1,), 3 * SECOND), seed=seed)
        log = cluster.leader_log(0)
        assert log is not None
        values = [(b.producer, b.first + i) for b in log.batches() for i in range(b.end - b.base)]
        assert len(values) == len(set(values))
        assert log.end == 200


def test_one_request_in_flight_keeps_the_order_though_the_leader_changes() -> None:
    """A batch waits for the one before it even if that is still on its way to the old leader."""
    kinds = ("pause", "preferred-election", "one-way", "partition")
    options = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    cluster = Space("kip-320", kinds, options).scenario(56).run()
    assert INVARIANTS["no-reordering"][0](cluster) == []


def test_acks_0_acknowledges_nothing() -> None:
    cluster, _ = run("kraft", {"acks": "0", "enable.idempotence": False, "simulation.ops": 30})
    assert not cluster.ledger.acks[0]
    assert cluster.brokers[1].replicas[0].log.end == 30


def test_a_new_controller_takes_over_with_a_higher_epoch() -> None:
    _, facts = run("kraft", {}, Fault(3 * SECOND, "controller-crash", (), 4 * SECOND))
    assert [fact[1] for fact in facts if fact[2] == "controller"] == [101, 102]
    assert details(facts, "controller") == [(1,), (2,)]


def test_a_controller_that_dies_while_no_other_lives_comes_back_with_a_new_epoch() -> None:
    """Both are dead for a while; the one that returns must be elected again, or no broker would obey it."""
    cluster, facts = run(
        "kraft",
        {},
        Fault(2 * SECOND, "controller-crash", (101,), 6 * SECOND),
        Fault(4 * SECOND, "controller-crash", (102,), 2 * SECOND),
        Fault(5 * SECOND, "crash", (1,), 3 * SECOND),
    )
    assert [d[0] for d in details(facts, "controller")] == [1, 2, 3]
    assert not details(facts, "refused-controller")
    assert cluster.final
    assert cluster.quorum.states[0].isr != ()
    assert len(cluster.quorum.states[0].isr) == 3


def test_delete_records_moves_the_log_start_everywhere() -> None:
    cluster, _ = run("kraft", {"simulation.ops": 60}, Fault(4 * SECOND, "delete-records", (), 0, 10))
    assert {b.replicas[0].log.start for b in cluster.brokers.values()} == {10}
    assert cluster.brokers[1].replicas[0].lowest_start() == 10
    assert cluster.ledger.read_by["final"][0] == [(10, 60)]


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
    """lastCaughtUpTimeMs is the latest of them (Replica.updateFetchStateOrThrow)."""
    replica = Replica(1, 0, Rules(), Config())
    replica.start_leading(PartitionState((1, 2), 1, 0, (1, 2), 0), 5 * SECOND)
    follower = replica.record_fetch(2, 0, 0, 2 * SECOND)
    assert follower is not None
    assert follower.caught_up == 5 * SECOND


@pytest.mark.parametrize(("variant", "hidden"), [("kraft", True), ("kip-279", False)])
def test_a_new_leader_tells_no_end_before_its_mark_reaches_its_epoch(variant: str, hidden: bool) -> None:
    """OFFSET_NOT_AVAILABLE (KIP-207): the consumer keeps asking."""
    cluster, _ = run(variant, {"auto.offset.reset": "latest"}, Fault(3 * SECOND, "crash", (1,), 60 * SECOND))
    broker, consumer = cluster.brokers[cluster.quorum.states[0].leader], cluster.consumers[0]
    replica = broker.replicas[0]
    replica.hw = replica.epoch_start - 1
    connection = consumer.connections[broker.id]
    request = OffsetsRequest(
        consumer.node, broker.id, cluster.loop.now, consumer.on_offsets, consumer.on_closed, connection
    )
    broker.queries.answer_offsets(request)
    assert request.offsets == {0: (0, -1 if hidden else replica.hw)}
    consumer._listing, consumer._reset, consumer.position = request, [0], {0: 7}
    consumer.on_offsets(request)
    assert consumer.position == {0: 7 if hidden else replica.hw}


@pytest.mark.parametrize("variant", ["high-watermark", "kip-101", "kip-279", "kip-320"])
def test_who_truncates_in_a_new_epoch_of_the_same_leader(variant: str) -> None:
    """Broker 3 dies, which was an epoch of its own in ZooKeeper's time, and broker 2 went on fetching from broker 1."""
    _, facts = run(variant, {}, Fault(3 * SECOND, "crash", (3,), 4 * SECOND))
    begun = [time for time, node, kind, _ in facts if node == 2 and kind in ("follower", "truncate") and time > SECOND]
    kept = [d for _, node, kind, d in facts if node == 2 and kind == "follows-on"]
    assert bool(begun) == (variant == "kip-320")
    assert bool(kept) == (variant != "kip-320")


def test_a_partitioned_leader_is_replaced_and_its_tail_is_cut() -> None:
    options = {"acks": "1", "enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    cluster, facts = run("kraft", options, Fault(3 * SECOND, "partition", (1,), 4 * SECOND))
    cuts = [d for d in details(facts, "truncate") if d[2] < d[1]]
    assert cuts
    assert cuts[0][3] == "epoch"
    losses = {loss.cause for loss in cluster.ledger.acks[0].losses.values()}
    assert losses <= {"single-ack-failover"}


@pytest.mark.parametrize(
    ("variant", "to", "replaced"),
    [
        ("kraft", (101, 102), True),
        ("kraft", (100,), True),
        ("kip-320", (101, 102), True),
        ("high-watermark", (101, 102), False),  # its session is ZooKeeper's
        ("high-watermark", (100,), True),
    ],
)
def test_a_session_needs_whoever_keeps_it(variant: str, to: tuple[int, ...], replaced: bool) -> None:
    _, facts = run(variant, {}, Fault(2 * SECOND, "one-way", (1,), 4 * SECOND, 0, to))
    assert any(fact[2] == "fenced" and fact[3] == (1,) for fact in facts) == replaced


@pytest.mark.parametrize("variant", ["kraft", "high-watermark"])
def test_a_controller_that_is_cut_off_is_replaced(variant: str) -> None:
    cluster, facts = run(variant, {}, Fault(2 * SECOND, "partition", (101,), 4 * SECOND))
    assert [(fact[1], fact[3]) for fact in facts if fact[2] == "controller"] == [(101, (1,)), (102, (2,))]
    assert not details(facts, "fenced")
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
    cluster, facts = run("kraft", {"simulation.producers": 1}, cut)
    assert max(cluster.ledger.latencies) > 2 * SECOND
    assert not details(facts, "fenced")
    assert len(list(cluster.ledger.acks[0])) > 0
    assert cluster.final


def test_the_old_isr_change_is_told_to_the_controller_after_5_quiet_seconds() -> None:
    """ISR propagation through ZooKeeper: looked at every 2.5 s, sent once quiet for 5 s."""
    options = {"broker.session.timeout.ms": 60000, "simulation.ops": 200}
    _, facts = run("high-watermark", options, Fault(3 * SECOND, "pause", (3,), 11 * SECOND))
    updated, told = (next(fact for fact in facts if fact[2] == kind) for kind in ("isr-updated", "isr-propagated"))
    assert 5 * SECOND < told[0] - updated[0] <= 8 * SECOND
    assert told[3] == (True,)


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


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"no.such": 1}, "unknown configuration 'no.such'"),
        ({"acks": "1", "enable.idempotence": True}, "needs acks=all"),
        ({"retries": 0, "enable.idempotence": True}, "needs acks=all, retries"),
        ({"max.in.flight.requests.per.connection": 6}, "at most 5"),
        ({"acks": "1", "max.in.flight.requests.per.connection": 6}, "at most 5"),
        ({"delivery.timeout.ms": 30000}, "delivery.timeout.ms must be at least .*, 30005, not 30000"),
        ({"simulation.brokers": 2}, "needs as many brokers"),
        ({"min.insync.replicas": "two"}, "must be a whole number"),
        ({"auto.offset.reset": "middle"}, "must be earliest or latest"),
        ({"auto.offset.reset": "none"}, "none is not modelled"),
    ],
)
def test_impossible_configurations_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        configure(Config(), options)


def test_the_producer_gives_up_idempotence_that_nobody_asked_for() -> None:
    assert configure(Config(), {"min.insync.replicas": 2}).idempotence
    assert not configure(Config(), {"acks": "1"}).idempotence
    assert not configure(Config(), {"acks": "0"}).idempotence
    assert not configure(Config(), {"retries": 0}).idempotence
    assert configure(Config(), {"request.timeout.ms": 300_000}).delivery_timeout == 300_005 * MS
