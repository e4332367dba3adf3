"""Records that no member can handle, seeks, asynchronous commits, and partitions that are added while a group reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.results import Results
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.group_truth import group_truth
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.narrative import narrate_scenario
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import ConfigError
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario

from .test_consumer_groups import scenario as group_scenario

INVARIANTS = ("one-owner", "no-fenced-commit", "no-commit-loss", "no-acknowledged-loss", "no-consumer-loss")


def ran(name: str, **settings: Any) -> Cluster:
    scenario = load(name)
    return replace(scenario, options={**scenario.options, **settings}).run()


def judged(scenario: Scenario, folder: Path) -> Results:
    return judge_run(open_run(write_bundle(scenario, folder).folder))


@pytest.mark.parametrize(
    ("poison", "broken", "is_behind", "is_repeated"),
    [("crash", (), True, True), ("skip", ("no-consumer-loss",), False, False), ("dead-letter", (), False, False)],
)
def test_effects_of_a_poison_record(poison: str, broken: tuple[str, ...], is_behind: bool, is_repeated: bool) -> None:
    cluster = ran(f"poison-{poison}")
    assert tuple(breaches(cluster, INVARIANTS)) == broken
    known = group_truth(cluster)
    assert known is not None
    assert (known["behind"] > 100, known["handled_again"] > 10) == (is_behind, is_repeated)


def test_the_dead_letter_topic_has_only_the_poison_record() -> None:
    cluster = ran("poison-dead-letter")
    assert [cluster.config.log_name(p) for p in cluster.config.copies] == ["orders-dead-letters-0"]
    [(partition, offset)] = cluster.copies.values()
    log = cluster.leader_log(partition)
    batch = log.at(offset) if log is not None else None
    assert batch is not None
    assert (partition, batch.producer, batch.first + offset - batch.base) == (0, 0, 45)
    [letters] = [log for p in cluster.config.copies if (log := cluster.leader_log(p)) is not None]
    assert letters.end == 1


def test_a_narrative_counts_what_producers_send_without_dead_letters() -> None:
    lines, _ = narrate_scenario(load("poison-dead-letter"))
    assert any("producers begin to send: 600 values until 31.339 s, 600 acknowledged" in line for line in lines)


def test_the_judge_reports_the_skipped_record_but_no_dead_letter(tmp_path: Path) -> None:
    skipped = judged(load("poison-skip"), tmp_path / "skip")
    assert skipped.findings().select("rule", "count").rows() == [("consumer-loss", 1)]
    assert not len(judged(load("poison-dead-letter"), tmp_path / "dead-letter").findings())


def test_a_seek_back_repeats_and_a_seek_forward_skips(tmp_path: Path) -> None:
    back = load("seek-back")
    known = group_truth(back.run())
    assert known is not None
    assert known["handled_again"] > 100
    assert not breaches(back.run(), INVARIANTS)
    slow = {**back.options, "simulation.handle.ms": 1500, "max.poll.records": 10}
    forward = replace(back, options=slow, faults=(Fault(15_000_000, "consumer-seek", (0,), amount=250),))
    assert "no-consumer-loss" in breaches(forward.run(), INVARIANTS)
    assert "consumer-loss" in judged(forward, tmp_path / "run").findings()["rule"]


@pytest.mark.parametrize("commit", ["auto", "after", "before"])
def test_records_that_a_member_handles_at_the_end_of_the_run_are_not_lost(commit: str) -> None:
    """The load is so short that the run ends while the last poll is handled."""
    options = {
        "partition.assignment.strategy": "range",
        "simulation.commit": commit,
        "simulation.handle.ms": 30_000,
        "simulation.ops": 20,
        "simulation.settle.ms": 1000,
    }
    cluster = Scenario("short", "kraft", options=options).run()
    assert any(consumer.under_way for consumer in cluster.consumers)
    assert not breaches(cluster, INVARIANTS)


def test_latest_skips_the_first_records_of_an_added_partition_and_earliest_does_not(tmp_path: Path) -> None:
    skipping = ran("partitions-added")
    assert [breach.partition for breach in breaches(skipping, INVARIANTS)["no-consumer-loss"]] == [2]
    assert breaches(ran("partitions-added", **{"auto.offset.reset": "earliest"}), INVARIANTS) == {}
    results = judged(load("partitions-added"), tmp_path / "run")
    assert {cause.cause for cause in results.causes()} == {"consumer-reset"}


@pytest.mark.parametrize("variant", ["kip-101", "kip-966"])
@pytest.mark.parametrize("strategy", ["roundrobin", "cooperative-sticky"])
def test_a_partition_is_added_while_the_controller_is_away(variant: str, strategy: str) -> None:
    scenario = load("partitions-added")
    options = {**scenario.options, "auto.offset.reset": "earliest", "partition.assignment.strategy": strategy}
    faults = (Fault(14_000_000, "controller-crash", (), 9_000_000), *scenario.faults)
    cluster = replace(scenario, variant=variant, options=options, faults=faults, defaults="4.1").run()
    assert cluster.final
    assert cluster.ledger.elections == 0
    assert breaches(cluster, INVARIANTS) == {}
    assert all(cluster.group.handled[partition] for partition in range(3))


@pytest.mark.parametrize("retries", [True, False])
def test_only_a_repeated_commit_goes_back(retries: bool, tmp_path: Path) -> None:
    scenario = load("commit-async-retry")
    options = {**scenario.options, "simulation.commit.retry": retries}
    results = judged(replace(scenario, options=options), tmp_path / "run")
    assert {*results.findings()["rule"]} == ({"commit-regression"} if retries else set())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("retries", [True, False])
def test_asynchronous_commits_lose_nothing_under_faults(seed: int, retries: bool) -> None:
    drawn = group_scenario(seed)
    options = {**drawn.options, "simulation.commit": "async", "simulation.commit.retry": retries}
    cluster = replace(drawn, options=options).run()
    assert cluster.final
    assert cluster.group.acknowledged
    assert breaches(cluster, INVARIANTS) == {}


def test_the_fault_needs_partitions_to_add() -> None:
    with pytest.raises(ConfigError, match=r"needs simulation\.partitions\.added"):
        Scenario("", "kraft", faults=(Fault(1, "add-partitions"),)).config()
