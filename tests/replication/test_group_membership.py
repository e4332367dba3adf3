"""Static members (KIP-345), and committed offsets and groups that expire (KIP-211)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import MS, SECOND, ConfigError
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario

from .test_consumer_groups import INVARIANTS, QUICK, scenario, written_group_log


def restarted(away_ms: int, **more: Any) -> Cluster:
    """A run with two members. The first is killed once and stays away for `away_ms`; the session lasts 1.5 s."""
    options = {
        **QUICK,
        "simulation.consumers": 2,
        "simulation.ops": 200,
        "simulation.send.interval.us": 100_000,
        "partition.assignment.strategy": "range",
        "simulation.commit": "after",
        "simulation.static.members": "own",
        **more,
    }
    faults = (Fault(4 * SECOND, "consumer-crash", (0,), away_ms * MS),)
    return Scenario("restart", "kraft", 1, options, faults=faults).run()


@pytest.mark.parametrize(("members", "away_ms", "generations"), [("own", 800, 1), ("own", 4000, 3), ("none", 800, 2)])
def test_a_static_member_may_be_away_for_its_session(members: str, away_ms: int, generations: int) -> None:
    cluster = restarted(away_ms, **{"simulation.static.members": members})
    count = len(cluster.group.generations)
    assert count == 1 if generations == 1 else count >= generations
    assert breaches(cluster, (*INVARIANTS, "no-consumer-loss")) == {}


@pytest.mark.parametrize("seed", range(4))
def test_static_members_survive_faults(seed: int) -> None:
    drawn = scenario(seed)
    cluster = replace(drawn, options={**drawn.options, "simulation.static.members": "own"}).run()
    assert cluster.final
    assert breaches(cluster, INVARIANTS) == {}


def test_the_second_member_of_an_instance_ends_the_first() -> None:
    cluster = load("group-static-fenced").run()
    assert [consumer.alive for consumer in cluster.consumers] == [False, True]
    assert len(cluster.group.generations) == 1
    assert breaches(cluster, (*INVARIANTS, "no-consumer-loss")) == {}


def test_static_members_need_a_group_and_a_version() -> None:
    static = {"simulation.static.members": "own"}
    with pytest.raises(ConfigError, match=r"needs a group"):
        Scenario("", "kraft", options=static).config()
    with pytest.raises(ConfigError, match=r"since 2.3"):
        Scenario("", "kip-101", options={**static, "partition.assignment.strategy": "range"}).config()


def test_the_judge_finds_the_cause_of_an_expired_offset(tmp_path: Path) -> None:
    written = write_bundle(load("group-offsets-expire"), tmp_path / "run")
    results = judge_run(open_run(written.folder))
    assert {cause.cause for cause in results.causes()} == {"committed-offset-vanished"}
    rows = written_group_log(written)
    assert rows.filter(rows["kind"] == "removed").height


@pytest.mark.parametrize(("variant", "is_dead"), [("high-watermark", False), ("kraft", None)])
def test_offsets_of_an_active_group_expired_before_kip_211(variant: str, is_dead: bool | None) -> None:
    """Nothing is sent for three minutes, and the member stays: only old coordinators remove its offset."""
    options = {
        "partition.assignment.strategy": "range",
        "simulation.commit": "after",
        "offsets.retention.minutes": 1,
        "offsets.retention.check.interval.ms": 10_000,
        "simulation.settle.ms": 90_000,
        "simulation.ops": 100,
    }
    events: list[ClusterEvent] = []
    Scenario("idle", variant, options=options, defaults="4.1").run(listener=events.append)
    removed = [details for _, _, kind, details in events if kind == "offsets-expired"]
    assert removed == ([] if is_dead is None else [((0,), is_dead)])
