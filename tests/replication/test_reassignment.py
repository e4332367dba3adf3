"""Reassignment: the states of KIP-455 and of ZooKeeper's controller, and runs in which partitions move."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import invoke
from logjudge.analysis.engines.local import judge_run
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.schedule import QUICK, draw
from logjudge.models.replication.config import SECOND, ConfigError
from logjudge.models.replication.eras import ERAS
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.partition_state import NO_LEADER, PartitionState
from logjudge.models.replication.reassignment import begin, finish, revert
from logjudge.models.replication.scenario import Scenario

KRAFT, ZOOKEEPER = ERAS["3.9"], ERAS["2.0"]
HOME = PartitionState((1, 2, 3), 1, 4, (1, 2, 3), 7)
ALL = (1, 2, 3, 4, 5)


def test_the_replicas_are_the_target_and_those_to_remove() -> None:
    moving = begin(HOME, (4, 5, 3), KRAFT)
    assert (moving.replicas, moving.adding, moving.removing) == ((4, 5, 3, 1, 2), (4, 5), (1, 2))
    assert (moving.leader, moving.epoch, moving.version, moving.isr) == (1, 4, 8, (1, 2, 3))
    assert begin(HOME, (4, 5, 3), ZOOKEEPER).epoch == 5


def test_a_move_ends_when_its_target_is_in_the_isr() -> None:
    moving = begin(HOME, (4, 5, 3), KRAFT)
    assert finish(replace(moving, isr=(1, 2, 3, 4)), ALL, KRAFT) == []
    [done] = finish(replace(moving, isr=(1, 2, 3, 4, 5)), ALL, KRAFT)
    assert done == PartitionState((4, 5, 3), 4, 5, (3, 4, 5), 9)
    # The leader stays if it is one of the target; its epoch is raised all the same, as replicas left.
    [same] = finish(replace(moving, leader=3, isr=(1, 2, 3, 4, 5)), ALL, KRAFT)
    assert (same.leader, same.epoch) == (3, 5)
    # Only live brokers of the target can lead.
    [second] = finish(replace(moving, isr=(1, 2, 3, 4, 5)), (1, 2, 3, 5), KRAFT)
    assert second.leader == 5
    assert finish(replace(moving, isr=(1, 2, 3, 4, 5)), (1, 2), KRAFT) == []
    assert finish(HOME, ALL, KRAFT) == []


def test_a_move_waits_for_a_target_replica_that_stays_out_of_the_isr() -> None:
    """KAFKA-15665, in 3.8; ZooKeeper's controller always did (KafkaController.isReassignmentComplete)."""
    without_3 = replace(begin(HOME, (4, 5, 3), KRAFT), isr=(1, 2, 4, 5))
    assert finish(without_3, ALL, KRAFT) == finish(without_3, ALL, ZOOKEEPER) == []
    [done] = finish(without_3, ALL, ERAS["3.3"])
    assert (done.replicas, done.isr) == ((4, 5, 3), (4, 5))


def test_zookeeper_s_controller_replaces_the_leader_before_replicas_leave() -> None:
    moving = replace(begin(HOME, (4, 5, 3), ZOOKEEPER), isr=(1, 2, 3, 4, 5))
    first, last = finish(moving, ALL, ZOOKEEPER)
    assert (first.leader, first.epoch, first.replicas, first.isr) == (4, 6, (4, 5, 3, 1, 2), (1, 2, 3, 4, 5))
    assert (last.leader, last.epoch, last.replicas, last.isr) == (4, 7, (4, 5, 3), (3, 4, 5))


def test_a_factor_grows_and_shrinks() -> None:
    grown = begin(HOME, (1, 2, 3, 4), KRAFT)
    assert (grown.adding, grown.removing) == ((4,), ())
    [done] = finish(replace(grown, isr=(1, 2, 3, 4)), ALL, KRAFT)
    assert (done.replicas, done.epoch) == ((1, 2, 3, 4), 4)  # no replica left, so the epoch stays
    [shrunk] = finish(begin(HOME, (1, 2), KRAFT), ALL, KRAFT)
    assert (shrunk.replicas, shrunk.isr, shrunk.epoch) == ((1, 2), (1, 2), 5)


def test_a_cancelled_move_leaves_the_original_replicas() -> None:
    moving = begin(HOME, (4, 5, 3), KRAFT)
    back = revert(replace(moving, isr=(1, 2, 3, 4), leader=4), ALL)
    assert back is not None
    assert (back.replicas, back.isr, back.leader, back.adding, back.removing) == ((3, 1, 2), (1, 2, 3), 3, (), ())
    assert revert(HOME, ALL) is None
    # No other replica could lead: KIP-455 refuses.
    assert revert(replace(moving, isr=(4,), leader=4), ALL) is None


def test_a_move_turns_to_another_target() -> None:
    turned = begin(begin(HOME, (4, 5, 3), KRAFT), (1, 2, 3), KRAFT)
    assert (turned.replicas, turned.adding, turned.removing) == ((1, 2, 3, 4, 5), (), (4, 5))
    [done] = finish(turned, ALL, KRAFT)
    assert (done.replicas, done.leader) == ((1, 2, 3), 1)


@pytest.mark.parametrize("name", ["reassignment", "reassignment-zookeeper"])
def test_brokers_that_a_partition_left_delete_its_log(name: str) -> None:
    cluster = load(name).run()
    [state] = cluster.quorum.states
    assert (state.replicas, sorted(state.isr), state.adding, state.removing) == ((4, 5, 3), [3, 4, 5], (), ())
    assert state.leader != NO_LEADER
    assert sorted(cluster.logs_of(0)) == [3, 4, 5]
    assert len({log.end for log in cluster.logs_of(0).values()}) == 1


def test_timeline_and_swimlane_show_what_is_added_and_removed(tmp_path: Path) -> None:
    written = write_bundle(load("reassignment"), tmp_path / "run")
    assert json.loads((written.folder / "run.json").read_text())["topics"]["orders"]["replica.assignment"] == [
        ["4", "5", "3"]
    ]
    output = invoke("timeline", written.folder).output
    text = " ".join(output.split())
    assert "a reassignment of orders-0 was under way, adding [4, 5] and removing [1, 2]" in text
    assert "the reassignment of orders-0 was completed; its replicas are [4, 5, 3]" in text
    picture = tmp_path / "swimlane.svg"
    assert invoke("plot", written.folder, "swimlane", "--out", picture).exit_code == 0
    assert "being added" in picture.read_text()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_the_judge_agrees_while_partitions_move(seed: int, tmp_path: Path) -> None:
    variant = ("kraft", "kip-279", "kip-966", "high-watermark", "kip-101", "kip-320")[seed]
    unclean = seed % 2 == 0
    options = {**QUICK, "simulation.brokers": 5, "num.partitions": 2, "unclean.leader.election.enable": unclean}
    bare = Scenario("moved", variant, seed, {**options, "simulation.ops": 120})
    kinds = ("reassignment", "unclean") if unclean else ("reassignment", "crash", "controller-crash")
    faults = draw(seed, bare.config(), kinds, 3, 2 * SECOND, 6 * SECOND)
    written = write_bundle(bare.with_faults(tuple(faults)), tmp_path / "run")
    results = judge_run(open_run(written.folder))
    rows = [row for row in results.findings().to_dicts() if row["severity"] == "violation"]
    assert sum(row["count"] for row in rows if row["rule"] == "lost-write") == written.truth["lost_acked_count"]
    causes = {cause.cause for cause in results.causes() if cause.lost is not None}
    assert causes <= {*written.truth["causes"], "unknown"}


def test_a_move_that_makes_no_sense_is_refused() -> None:
    def refused(fault: Fault, variant: str = "kraft") -> str:
        with pytest.raises(ConfigError) as caught:
            Scenario("x", variant, faults=(fault,)).config()
        return str(caught.value)

    assert "names a broker twice" in refused(Fault(SECOND, "reassignment", (1, 1)))
    assert "the amount of reassignment must be 0 to 0" in refused(Fault(SECOND, "reassignment", (1, 2), amount=1))
    assert "names no nodes" in refused(Fault(SECOND, "reassignment"))
    assert "majority-quorum has no reassignment" in refused(Fault(SECOND, "reassignment", (1, 2)), "majority-quorum")


LEADER, FOLLOWER = "leader.replication.throttled", "follower.replication.throttled"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "min_seconds", "max_seconds"),
    [
        ({f"{LEADER}.rate": 1 << 50}, 0, 1),
        ({f"{LEADER}.rate": 20_000}, 5, 10),
        ({f"{LEADER}.rate": 5_000}, 32, 80),
        ({f"{LEADER}.rate": 20_000, f"{LEADER}.replicas": "0:2"}, 0, 1),
        ({f"{LEADER}.rate": 20_000, f"{LEADER}.replicas": "0:1"}, 5, 10),
        ({f"{FOLLOWER}.rate": 20_000}, 5, 10),
        ({f"{FOLLOWER}.rate": 5_000}, 32, 80),
        ({f"{FOLLOWER}.rate": 5_000, f"{FOLLOWER}.replicas": "0:3"}, 0, 1),
        ({f"{FOLLOWER}.rate": 5_000, f"{FOLLOWER}.replicas": "0:3,0:4"}, 32, 80),
    ],
)
def test_a_throttled_reassignment_takes_as_long_as_its_rate_demands(
    options: dict[str, object], min_seconds: int, max_seconds: int
) -> None:
    """10 kB a second are written from 1 s to 41 s. At 10 s the partition moves from leader 1 to broker 4."""
    scenario = load("reassignment-throttled")
    events: list[ClusterEvent] = []
    unthrottled = {name: value for name, value in scenario.options.items() if "throttled" not in name}
    cluster = replace(scenario, options={**unthrottled, **options}).run(listener=events.append)
    [begun, completed] = [time for time, _, kind, _ in events if kind == "reassignment"]
    assert min_seconds * SECOND < completed - begun < max_seconds * SECOND
    assert cluster.final
    assert breaches(cluster, ("no-acknowledged-loss", "no-divergence")) == {}


def test_a_malformed_list_of_throttled_replicas_is_refused() -> None:
    for text in ("0", "0:1;0:2", "orders-0:1"):
        with pytest.raises(ConfigError, match=r"must be \* or partition:broker"):
            Scenario("x", "kraft", options={"follower.replication.throttled.replicas": text}).config()
