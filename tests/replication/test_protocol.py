"""The protocol, step by step: replication, crashes, shutdowns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import INVARIANTS
from logjudge.models.exploration.matrix import space
from logjudge.models.exploration.schedule import QUICK
from logjudge.models.exploration.search import Space
from logjudge.models.exploration.truth import losses
from logjudge.models.replication.brokers.broker import Broker
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import MS, SECOND
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario
from protocol_runs import details, run


def test_a_quiet_run_acknowledges_and_reads_everything() -> None:
    cluster, _ = run("kraft", {"simulation.ops": 50})
    assert cluster.final
    assert cluster.ledger.acknowledged_end == {0: 50}
    assert {b.replicas[0].log.end for b in cluster.brokers.values()} == {50}
    assert cluster.ledger.read_by["final"] == {0: [(0, 50)]}


def test_a_follower_learns_the_high_watermark_one_fetch_late() -> None:
    """The response to the fetch that moves the leader's high watermark still carries the one before."""
    _, events = run("kraft", {"simulation.ops": 60}, Fault(4 * SECOND, "crash", (1,), 4 * SECOND))
    led = next(led for [led] in details(events, "leader") if led.epoch > 0)
    assert led.end - led.hw >= 1


def test_the_leader_takes_a_silent_follower_out_after_the_lag_time() -> None:
    options = {
        "broker.session.timeout.ms": 60000,
        "simulation.ops": 200,
        "simulation.send.interval.us": 100000,
    }
    _, events = run("kraft", options, Fault(3 * SECOND, "pause", (3,), 8 * SECOND))
    shrink = next(event for event in events if event.kind == "isr-shrink")
    waited = shrink.time - 3 * SECOND
    # replica.lag.time.max.ms is 2 s here, looked at every half of it, plus the time since the last fetch
    assert waited + 500 * MS >= 2 * SECOND
    assert waited <= 3 * SECOND + 600 * MS
    [shrunk] = shrink.details
    assert (shrunk.old, shrunk.new) == ((1, 2, 3), (1, 2))
    expand = [event for event in events if event.kind == "isr-expand"]
    assert expand[-1].details[2] == (1, 2, 3)
    assert expand[-1].time > 11 * SECOND


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
    """With any acks (KAFKA-15583) no consumer reads a record that only one broker has."""
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
def test_since_3_7_min_insync_replicas_is_at_most_the_number_of_replicas(variant: str, accepts: bool) -> None:
    options = {"simulation.brokers": 1, "default.replication.factor": 1, "min.insync.replicas": 2, "simulation.ops": 10}
    cluster, _ = run(variant, {**options, "delivery.timeout.ms": 3000}, seed=1)
    assert bool(len(list(cluster.ledger.acks[0]))) == accepts


def test_a_crash_keeps_the_page_cache_and_a_power_loss_does_not() -> None:
    alone = {"simulation.brokers": 1, "default.replication.factor": 1, "simulation.ops": 40}
    _, crashed = run("kraft", alone, Fault(4 * SECOND, "crash", (1,), SECOND))
    assert not details(crashed, "truncate")
    _, dark = run("kraft", alone, Fault(4 * SECOND, "power-loss", (1,), SECOND), seed=3)
    [cut] = details(dark, "truncate")[0]
    assert cut.after < cut.before
    _, flushed = run("kraft", {**alone, "flush.messages": 1}, Fault(4 * SECOND, "power-loss", (1,), SECOND), seed=3)
    [cut] = details(flushed, "truncate")[0]
    assert cut.after == cut.before


def test_a_power_loss_takes_the_page_cache_of_a_dead_process_too() -> None:
    alone = {"simulation.brokers": 1, "default.replication.factor": 1, "simulation.ops": 40}
    faults = (Fault(4 * SECOND, "crash", (1,), 4 * SECOND), Fault(5 * SECOND, "power-loss", (1,), 3 * SECOND))
    cluster, events = run("kraft", alone, *faults, seed=3)
    assert details(events, "stop") == [("crash",), ("power-loss",)]
    [cut] = details(events, "truncate")[0]
    assert cut.after < cut.before
    assert losses(cluster)
    _, written_back = run("kraft", {**alone, "simulation.writeback.ms": 500}, *faults, seed=3)
    assert all(cut.before == cut.after for [cut] in details(written_back, "truncate"))


def test_a_crash_falls_back_to_the_last_checkpoint() -> None:
    options = {"replica.high.watermark.checkpoint.interval.ms": 3000, "simulation.ops": 60}
    _, events = run("kraft", options, Fault(4500 * MS, "crash", (2,), SECOND))
    _, end, mark, clean = details(events, "loaded")[0]
    assert not clean
    assert 0 < mark < end


def test_a_controlled_shutdown_moves_leadership_first_and_keeps_everything() -> None:
    cluster, events = run("kraft", {"min.insync.replicas": 2}, Fault(3 * SECOND, "shutdown", (1,), 2 * SECOND))
    elected = next(event for event in events if event.kind == "elected" and event.time > 0)
    stopped = next(event for event in events if event.kind == "stop")
    assert elected.time < stopped.time
    assert details(events, "loaded")[0][3] is True
    assert cluster.ledger.acknowledged_end == {0: 60}


@pytest.mark.parametrize(("variant", "loses"), [("kraft", False), ("kip-101", False), ("kip-279", True)])
def test_a_leader_that_shuts_down_learns_that_it_was_replaced(variant: str, loses: bool) -> None:
    """From 1.1 to 2.0.0 it did not learn that (KAFKA-7482)."""
    options = {"acks": "1", "enable.idempotence": False, "simulation.send.interval.us": 5000, "simulation.ops": 1000}
    cluster, events = run(variant, options, Fault(3 * SECOND, "shutdown", (1,), 2 * SECOND))
    assert details(events, "leaving") == details(events, "left") == [(1,)]
    assert bool(losses(cluster)) == loses
    followed = [time for time, node, kind, d in events if (node, kind) == (1, "follower") and d[0].partition == 0]
    assert (followed[0] < 3050 * MS) != loses


@pytest.mark.parametrize("variant", ["kraft", "kip-101", "kip-279"])
@pytest.mark.parametrize("leaver", [1, 2])
def test_a_broker_in_controlled_shutdown_is_not_let_in_again(variant: str, leaver: int) -> None:
    """No heartbeat and no fetch lets it in, at whatever moment of its ticks it leaves (KAFKA-13858)."""
    for phase in (0, 30, 60, 90):
        begun = 3 * SECOND + phase * MS
        options = {"broker.heartbeat.interval.ms": 100, "simulation.send.interval.us": 20000, "simulation.ops": 200}
        _, events = run(variant, options, Fault(begun, "shutdown", (leaver,), 2 * SECOND))
        away = [event for event in events if begun < event.time < begun + 2 * SECOND]
        assert not details(away, "registered")
        assert not any(leaver in d[2].isr for d in details(away, "stored"))
        assert not details(away, "isr-expand")
        assert not details(events, "fenced")


@pytest.mark.parametrize("variant", ["kraft", "kip-320", "kip-101", "kip-279"])
def test_a_follower_that_shuts_down_stops_fetching(variant: str) -> None:
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
    """A last known leader remains although all die at once, and it leads again."""
    dark = Fault(3 * SECOND, "power-loss", (1, 2, 3), 4 * SECOND)
    for seed in range(3):
        cluster, events = run("last-known-leader", {"min.insync.replicas": 2}, dark, seed=seed)
        fenced = [broker for (broker,) in details(events, "fenced")]
        assert sorted(fenced) == [1, 2, 3]
        states = [d[2] for d in details(events, "stored")]
        without_isr = [state for state in states if not state.isr]
        assert {state.last_known for state in without_isr} == {fenced[-1]}
        assert next(state.leader for state in states[states.index(without_isr[-1]) :] if state.isr) == fenced[-1]
        assert cluster.final


def test_a_dead_broker_requests_no_controlled_shutdown() -> None:
    faults = (Fault(3 * SECOND, "crash", (1,), 4 * SECOND), Fault(3200 * MS, "shutdown", (1,), SECOND))
    _, events = run("kraft", {}, *faults)
    assert not details(events, "leaving")
    assert details(events, "fenced") == [(1,)]


def test_a_shutdown_for_a_moment_restarts_the_broker() -> None:
    cluster, events = run("kraft", {}, Fault(3 * SECOND, "shutdown", (2,), 30 * MS))
    kinds = [event.kind for event in events if event.node == 2 and event.kind in ("stop", "start")]
    assert kinds == ["start", "stop", "start"]
    assert details(events, "loaded")[0][3] is True
    assert sorted(cluster.quorum.states[0].isr) == [1, 2, 3]
    assert cluster.final


def test_a_fault_that_overlaps_another_does_not_end_it(tmp_path: Path) -> None:
    long, short = Fault(2 * SECOND, "crash", (2,), 6 * SECOND), Fault(3 * SECOND, "crash", (2,), SECOND)
    _, events = run("kraft", {}, long, short)
    assert [event.time for event in events if event.node == 2 and event.kind == "start"] == [0, 8 * SECOND]
    scenario = Scenario("overlap", "kraft", 1, {**QUICK}, {}, (long, short))
    history = (write_bundle(scenario, tmp_path / "run").folder / "history.jsonl").read_text()
    assert history.count('"kind":"restart"') == 2  # invoked and done, once
    _, events = run("kraft", {}, replace(long, kind="pause"), replace(short, kind="pause"))
    assert [event.time for event in events if event.node == 2 and event.kind == "resume"] == [8 * SECOND]
    _, events = run("kraft", {}, replace(long, kind="disk-full"), replace(short, kind="disk-full"))
    assert [event.time for event in events if event.node == 2 and event.kind == "start"] == [0, 8 * SECOND]
    _, events = run("kraft", {}, long, replace(short, kind="disk-full"))
    assert [event.time for event in events if event.node == 2 and event.kind == "start"] == [0, 8 * SECOND]


def test_the_larger_of_overlapping_packet_losses_counts() -> None:
    seen: list[float] = []

    def watch(cluster: Cluster) -> None:
        for second in (3, 5, 7, 9):
            cluster.loop.at(second * SECOND, lambda _: seen.append(cluster.network.loss_rate))

    faults = (
        Fault(2 * SECOND, "loss", (), 6 * SECOND, 20),
        Fault(4 * SECOND, "loss", (), 2 * SECOND, 50),
    )
    Scenario("loss", "kraft", 1, {**QUICK, "simulation.ops": 200}, {}, faults).run(prepare=watch)
    assert seen == [0.02, 0.05, 0.02, 0.0]


def test_the_preferred_leader_gets_its_place_back() -> None:
    cluster, events = run("kraft", {"min.insync.replicas": 2}, Fault(2 * SECOND, "crash", (1,), 2 * SECOND))
    leaders = [new.leader for _, _, new in details(events, "elected")]
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


@pytest.mark.parametrize(("variant", "refused"), [("kip-320", 0), ("kraft", 0), ("kip-98", 6)])
def test_batches_after_a_gap_are_numbered_anew_since_kip_360(variant: str, refused: int) -> None:
    """An unclean election lost acknowledged batches, so the leader refuses the next ones. Before 2.5 these fail."""
    scenario = replace(load("min-insync-1"), variant=variant)
    events: list[ClusterEvent] = []
    cluster = scenario.run(listener=events.append)
    assert [event for event in events if event.kind == "out-of-order"]
    assert sum(ack.end - ack.base for ack in cluster.ledger.acks[0]) == 600 - refused
    log = cluster.leader_log(0)
    assert log is not None
    by_producer = {p: [b.first for b in log.batches() if b.producer == p] for p in (0, 1)}
    assert all(firsts == sorted(set(firsts)) for firsts in by_producer.values())


def test_batches_after_a_gap_keep_their_order_and_are_written_once() -> None:
    for seed in (1, 2, 3, 4, 5, 7, 8, 9):
        events: list[ClusterEvent] = []
        cluster = Space("kraft", ("blackout",), {"simulation.producers": 2}).scenario(seed).run(listener=events.append)
        assert any(event.kind == "out-of-order" for event in events)
        assert not INVARIANTS["no-reordering"].check(cluster)
        assert not INVARIANTS["no-duplicates"].check(cluster)


def test_a_refused_batch_that_is_not_next_waits_for_its_timeout() -> None:
    """Five later batches followed it, so the leader does not recognise it as a duplicate any more."""
    cluster = space("kip-320", "handover").scenario(3).run()
    assert not INVARIANTS["no-duplicates"].check(cluster)


def test_one_request_in_flight_keeps_the_order_though_the_leader_changes() -> None:
    """A batch waits for the one before it even if that is still on its way to the old leader."""
    kinds = ("pause", "preferred-election", "one-way", "partition")
    options = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    cluster = Space("kip-320", kinds, options).scenario(56).run()
    assert INVARIANTS["no-reordering"].check(cluster) == []


def test_acks_0_acknowledges_nothing() -> None:
    cluster, _ = run("kraft", {"acks": "0", "enable.idempotence": False, "simulation.ops": 30})
    assert not cluster.ledger.acks[0]
    assert cluster.brokers[1].replicas[0].log.end == 30
