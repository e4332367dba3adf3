"""Consumer groups in the simulator: assignors, invariants under faults, and bundles with their verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest
from command_line import verdict_of_run
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.engines.local import judge_run
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.group_log import read_group_log
from logjudge.histories.simulation.bundle import WrittenBundle, write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.group_truth import group_truth
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.search import Space
from logjudge.models.replication.coordinators.assignors import (
    ASSIGNORS,
    Assignment,
    Claim,
    cooperative_sticky,
    owners_of,
    sticky,
)
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario

INVARIANTS = ("one-owner", "no-fenced-commit", "no-commit-loss", "no-acknowledged-loss")
QUICK = {
    "num.partitions": 3,
    "min.insync.replicas": 2,
    "simulation.consumers": 3,
    "simulation.handle.ms": 20,
    "session.timeout.ms": 1500,
    "heartbeat.interval.ms": 300,
    "group.initial.rebalance.delay.ms": 300,
    "auto.commit.interval.ms": 500,
    "max.poll.interval.ms": 4000,
}
members = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=7, unique=True)


def scenario(seed: int, variant: str = "kraft") -> Scenario:
    """A group with another assignor and way to commit for each seed, under faults of brokers and members."""
    random = Random(seed)
    times = [(random.randint(1500, 7000) * 1000, random.randint(500, 4000) * 1000) for _ in range(seed % 3)]
    options = {
        **QUICK,
        "partition.assignment.strategy": list(ASSIGNORS)[seed % 4],
        "simulation.commit": ("after", "auto", "before")[seed // 4 % 3],
    }
    drawn = Space(variant, options=options).scenario(seed)
    crashes = [Fault(at, "consumer-crash", (random.randrange(3),), lasts) for at, lasts in times]
    return drawn.with_faults(tuple(sorted([*drawn.faults, *crashes], key=lambda fault: fault.at)))


def written_group_log(written: WrittenBundle) -> pl.DataFrame:
    """The rows of the __consumer_offsets log that the leader of a simulated run wrote."""
    leader = written.cluster.quorum.states[written.cluster.config.group_log].leader
    rows, damage = read_group_log(written.folder / "brokers" / str(leader) / "data" / "__consumer_offsets-0")
    assert not len(damage)
    return rows


@given(members, st.integers(1, 12), st.randoms(use_true_random=False))
def test_assignors_share_every_partition_out_evenly(names: list[str], partitions: int, random: Random) -> None:
    owned = {
        name: Claim(tuple(p for p in range(partitions) if random.random() < 0.3), random.randrange(2)) for name in names
    }
    for name, assign in ASSIGNORS.items():
        shares = assign(partitions, owned)
        assert set(shares) == set(names)
        given_out = sorted(p for mine in shares.values() for p in mine)
        if name != "cooperative-sticky":
            assert given_out == list(range(partitions))
            sizes = [len(mine) for mine in shares.values()]
            assert max(sizes) - min(sizes) <= 1


@given(members, st.integers(1, 12))
def test_sticky_members_keep_what_they_may(names: list[str], partitions: int) -> None:
    before = sticky(partitions, dict.fromkeys(names, Claim()))
    assert sticky(partitions, _claimed(before)) == before
    joined = {**_claimed(before), "z": Claim()}
    after = sticky(partitions, joined)
    assert all(set(after[name]) <= set(before[name]) for name in names)
    first = cooperative_sticky(partitions, joined)
    assert first["z"] == ()  # the owners first give up its new partitions
    assert cooperative_sticky(partitions, _claimed(first)) == after


def _claimed(assignment: Assignment, generation: int = 1) -> dict[str, Claim]:
    return {name: Claim(partitions, generation) for name, partitions in assignment.items()}


def test_the_claim_of_the_latest_generation_counts() -> None:
    """A member that missed a generation still claims what another one got in it (KIP-792)."""
    missed, latest, joined = Claim((0, 1), 5), Claim((0, 2), 6), Claim((3,), 6)
    owned = {"a": missed, "b": latest, "c": joined}
    assert owners_of(owned) == {0: "b", 1: "a", 2: "b", 3: "c"}
    assert sticky(4, owned) == cooperative_sticky(4, owned) == {"a": (1,), "b": (0, 2), "c": (3,)}


def test_two_claims_of_one_generation_leave_a_partition_without_owner() -> None:
    """Both give it up, and it is assigned in the next generation."""
    owned = {"a": Claim((0, 1), 6), "b": Claim((0, 2), 6)}
    assert owners_of(owned) == {0: None, 1: "a", 2: "b"}
    assert set(range(4)) == {p for shares in sticky(4, owned).values() for p in shares}
    assert 0 not in {p for shares in cooperative_sticky(4, owned).values() for p in shares}


@pytest.mark.parametrize("seed", range(12))
def test_a_group_survives_faults(seed: int) -> None:
    cluster = scenario(seed).run()
    assert cluster.final
    committed_first = cluster.config.commit == "before"
    assert breaches(cluster, (*INVARIANTS, *(() if committed_first else ("no-consumer-loss",)))) == {}
    truth = group_truth(cluster)
    assert truth is not None
    assert truth["generations"] >= 1
    assert truth["commits"] > 5


@pytest.mark.campaign
@pytest.mark.parametrize("variant", ["kip-320", "kraft", "kip-966"])
def test_groups_survive_many_schedules(variant: str) -> None:
    for seed in range(1000, 1400):
        assert breaches(scenario(seed, variant).run(), INVARIANTS) == {}, seed


def test_truncation_to_the_high_watermark_loses_a_commit() -> None:
    """The group's log is replicated like any other, so KIP-101's hole concerns it, too."""
    cluster = load("group-commit-lost").run()
    assert set(breaches(cluster, INVARIANTS)) >= {"no-commit-loss"}


def judged_valid(name: str, folder: Path) -> WrittenBundle:
    """A scenario, in which the judge finds no breach."""
    written = write_bundle(load(name), folder / "run")
    report = verdict_of_run(written.folder)
    assert report["verdict"] == "valid"
    rules = ("ownership", "commit-fenced", "consumer-loss", "commit-regression", "commit-beyond-end")
    assert {rule: report["rules"][rule]["verdict"] for rule in rules} == dict.fromkeys(rules, "valid")
    return written


@pytest.mark.parametrize("name", ["group-coordinator-failover", "group-zombie-member"])
def test_the_judge_finds_what_happened(name: str, tmp_path: Path) -> None:
    written = judged_valid(name, tmp_path)
    truth = json.loads((written.folder / "truth.json").read_text())["group"]
    groups = written_group_log(written)
    assert groups.filter(groups["kind"] == "generation")["generation"].n_unique() == truth["generations"]
    last = dict(groups.filter(groups["kind"] == "committed").select("partition", "offset").rows())
    ends = {p: end for p, (_, end) in enumerate(filter(None, written.cluster.log_ranges()))}
    assert last == ends  # everything was handled and committed


def test_the_judge_explains_what_a_group_missed_by_the_truncation_below_its_position(tmp_path: Path) -> None:
    """Before KIP-320 the group does not notice it, and skips the records that replaced those it had read."""
    losing = load("kip-101-loss")
    group = {"simulation.commit": "after", "partition.assignment.strategy": "range", "simulation.handle.ms": 5}
    written = write_bundle(replace(losing, options={**losing.options, **group}), tmp_path / "run")
    [cause] = judge_run(open_run(written.folder).with_settings(rules=("consumer-loss",))).causes()
    assert cause.cause == "truncation-below-position"
    assert "truncated" in [fact.kind for fact in cause.chain]


def test_a_cooperative_rebalance_leaves_owners_their_partitions() -> None:
    """When the killed member comes back, an eager rebalance revokes all six partitions, a cooperative one two."""
    revoked = {}
    for name in ("eager", "cooperative"):
        holds = load(f"group-{name}-rebalance").run().group.ownerships
        back = 20_000_000  # us
        before = [hold for hold in holds if hold.since < back < hold.until]
        assert {hold.partition for hold in before} == set(range(6))
        next_owner = {(hold.partition, hold.since): hold.member for hold in holds}
        retained = [hold for hold in before if next_owner.get((hold.partition, hold.until)) == hold.member]
        revoked[name] = 6 - len(retained)
    assert revoked == {"eager": 6, "cooperative": 2}
