"""KIP-848's group protocol in the simulator: reconciliation, invariants under faults, and bundles that are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_line import verdict_of_run
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.matrix import SETTINGS, space
from logjudge.models.replication.config import SECOND, ConfigError
from logjudge.models.replication.coordinators.reconciliation import (
    AWAY,
    STABLE,
    UNRELEASED,
    UNREVOKED,
    CurrentAssignment,
    is_fenced,
    reconcile,
)
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario

from .test_consumer_groups import INVARIANTS, QUICK, judged_valid
from .test_consumer_groups import scenario as classic

CLASSIC_SETTINGS = (
    "partition.assignment.strategy",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "group.initial.rebalance.delay.ms",
)
PROTOCOL = {
    "group.protocol": "consumer",
    "group.consumer.session.timeout.ms": 1500,
    "group.consumer.heartbeat.interval.ms": 300,
}
# In group-consumer-static c0 begins to hold partitions in these times: before it closes, when it is back, and after its
# session ended.
AWAY_TIMES = [(0, 8 * SECOND), (11 * SECOND, 18 * SECOND), (18 * SECOND, 60 * SECOND)]
NAMES = "abc"
PARTITIONS = 5


class Members:
    """A coordinator and its members: what each was given, what its last response listed, and what it owns."""

    def __init__(self) -> None:
        self.current = {name: CurrentAssignment() for name in NAMES}
        self.announced: dict[str, tuple[int, ...]] = dict.fromkeys(NAMES, ())
        self.owned: dict[str, tuple[int, ...]] = dict.fromkeys(NAMES, ())
        self.owners: tuple[str, ...] = ()  # the target: the owner of each partition
        self.epoch = 0

    def target(self, name: str) -> tuple[int, ...]:
        return tuple(p for p, owner in enumerate(self.owners) if owner == name)

    def beat(self, name: str) -> None:
        """The member sends a heartbeat, with the partitions that it owns unless it is about to change them."""
        owned = self.owned[name] if self.owned[name] == self.announced[name] else None
        state = reconcile(self.current[name], self.target(name), self.epoch, owned, self.is_held)
        self.current[name], self.announced[name] = state, state.assigned

    def obey(self, name: str) -> None:
        """The member gives up and takes partitions as its last response listed them."""
        self.owned[name] = self.announced[name]

    def is_held(self, partition: int) -> bool:
        return any(partition in each.held for each in self.current.values())


targets = st.tuples(*[st.sampled_from(NAMES)] * PARTITIONS)
steps = st.lists(st.one_of(targets, st.tuples(st.sampled_from(("beat", "obey")), st.sampled_from(NAMES))), max_size=40)


@given(targets, steps)
def test_no_partition_has_two_owners_and_every_member_reaches_its_target(
    first: tuple[str, ...], taken: list[tuple[str, ...]]
) -> None:
    members = Members()
    for step in [first, *taken]:
        if len(step) == PARTITIONS:
            members.owners, members.epoch = step, members.epoch + 1
        else:
            getattr(members, step[0])(step[1])
        for owned in (members.owned, {name: each.held for name, each in members.current.items()}):
            everything = [p for mine in owned.values() for p in mine]
            assert len(everything) == len(set(everything))
        assert all(set(mine) <= set(members.current[name].held) for name, mine in members.owned.items())
    for _ in range(4):  # to obey an earlier target, to report that, to get what others gave up, and to take it
        for name in NAMES:
            members.obey(name)
            members.beat(name)
    for name in NAMES:
        members.obey(name)
        state = members.current[name]
        assert (state.assigned, state.revoking, state.state) == (members.target(name), (), STABLE)
        assert members.owned[name] == members.target(name)
        assert state.epoch == members.epoch


def test_a_member_gives_up_before_another_gets() -> None:
    mine = CurrentAssignment(1, 0, STABLE, (0, 1))
    revoking = reconcile(mine, (0,), 2, (0, 1), lambda _: True)
    assert revoking == CurrentAssignment(1, 1, UNREVOKED, (0,), (1,))
    assert reconcile(revoking, (0,), 2, None, lambda _: True) == revoking  # it has not reported that it gave it up
    waiting = reconcile(CurrentAssignment(), (1,), 2, (), lambda partition: partition in revoking.held)
    assert waiting == CurrentAssignment(2, 0, UNRELEASED, ())
    released = reconcile(revoking, (0,), 2, (0,), lambda _: True)
    assert released == CurrentAssignment(2, 1, STABLE, (0,))
    assert reconcile(waiting, (1,), 2, (), lambda partition: partition in released.held).assigned == (1,)


@pytest.mark.parametrize(
    ("epoch", "owned", "fenced"),
    [
        (5, None, False),
        (4, (0,), False),  # the response of the change was lost: the member owns nothing that it may not
        (4, (0, 2), True),
        (4, None, True),
        (6, (0,), True),
        (3, (), True),
    ],
)
def test_a_heartbeat_of_another_epoch_is_fenced(epoch: int, owned: tuple[int, ...] | None, fenced: bool) -> None:
    assert is_fenced(CurrentAssignment(5, 4, STABLE, (0, 1)), epoch, owned) is fenced


def test_a_static_member_that_left_is_fenced_in_each_of_its_epochs() -> None:
    away = CurrentAssignment(AWAY, 4, STABLE, (0, 1))
    assert all(is_fenced(away, epoch, ()) for epoch in (4, 5))


def scenario(seed: int, variant: str = "kip-966") -> Scenario:
    """The faults of the classic group's scenario of this seed, with members of KIP-848's protocol."""
    drawn = classic(seed, variant)
    options = {name: value for name, value in drawn.options.items() if name not in CLASSIC_SETTINGS}
    return replace(drawn, options={**options, **PROTOCOL, "group.remote.assignor": ("uniform", "range")[seed % 2]})


def static(seed: int) -> Scenario:
    """The scenario of this seed with static members, each of which also closes once and comes back."""
    drawn = scenario(seed)
    closes = [Fault((2 + 2 * member) * SECOND, "consumer-shutdown", (member,), SECOND) for member in range(3)]
    faults = sorted([*drawn.faults, *closes], key=lambda fault: fault.at)
    return replace(drawn, options={**drawn.options, "simulation.static.members": "own"}, faults=tuple(faults))


def mixed(seed: int) -> Scenario:
    """The scenario of this seed, in which one to three members use the classic protocol."""
    drawn = scenario(seed)
    of_classic = {
        name: value for name, value in classic(seed, "kip-966").options.items() if name in CLASSIC_SETTINGS[1:3]
    }
    strategy = ("range", "cooperative-sticky")[seed // 3 % 2]
    about = {"simulation.classic.members": 1 + seed % 3, "partition.assignment.strategy": strategy}
    return replace(drawn, options={**drawn.options, **of_classic, **about})


@pytest.mark.parametrize("members", [scenario, static, mixed])
@pytest.mark.parametrize("seed", range(12))
def test_a_group_survives_faults(members: Callable[[int], Scenario], seed: int) -> None:
    cluster = members(seed).run()
    may_skip = members is static or cluster.config.commit == "before"
    assert cluster.final
    assert breaches(cluster, (*INVARIANTS, *(() if may_skip else ("no-consumer-loss",)))) == {}
    assert len(cluster.group.accepted) > (5 if members is scenario else 0)
    assert {hold.partition for hold in cluster.group.ownerships} == {0, 1, 2}


def test_a_classic_member_revokes_all_and_the_others_what_moves() -> None:
    """c2 is killed at 8 s and back at 20 s: c0 and c1 each get a partition more, and later one less."""
    run = load("group-both-protocols").run()
    pauses: dict[str, list[int]] = {"c0": [], "c1": [], "c2": []}
    by_owner = sorted(run.group.ownerships, key=lambda hold: (hold.member, hold.partition, hold.since))
    for one, other in pairwise(by_owner):
        if (one.member, one.partition) == (other.member, other.partition) and other.since < one.until + SECOND:
            pauses[one.member.partition("-")[0]].append(other.since - one.until)
    assert len(pauses["c0"]) == 4
    assert min(pauses["c0"]) > 0
    assert set(pauses["c1"]) == {0}
    assert {hold.generation for hold in run.group.ownerships if hold.member.startswith("c0-")} == {3, 4, 5}
    assert breaches(run, (*INVARIANTS, "no-consumer-loss")) == {}


def test_a_static_member_that_closes_gets_its_partitions_back_without_a_new_assignment() -> None:
    """Closed at 8 s and back at 11 s in the same epoch; killed at 18 s, and refused until its session ends."""
    run = load("group-consumer-static").run()
    holds = sorted(
        (hold for hold in run.group.ownerships if hold.member.startswith("c0-")), key=lambda hold: hold.since
    )
    closed, back, late = ([hold for hold in holds if low < hold.since < high] for low, high in AWAY_TIMES)
    assert [hold.partition for hold in closed if hold.until == 8 * SECOND] == [0, 1]
    assert [hold.partition for hold in back] == [0, 1]
    assert {hold.generation for hold in back} == {2}
    assert min(hold.since for hold in late) > 18 * SECOND + 9 * SECOND
    others = {hold.until for hold in run.group.ownerships if hold.member.startswith("c1-")}
    assert not any(8 * SECOND <= until <= 18 * SECOND for until in others)
    assert breaches(run, (*INVARIANTS, "no-consumer-loss")) == {}


@pytest.mark.campaign
@pytest.mark.parametrize("variant", ["kraft", "kip-966"])
def test_groups_survive_many_schedules(variant: str) -> None:
    for seed in range(1000, 1400):
        assert breaches(scenario(seed, variant).run(), INVARIANTS) == {}, seed


def test_partitions_that_do_not_move_stay_with_their_owners() -> None:
    """Six partitions and three members: when the killed member comes back, each of the others gives up one."""
    holds = load("group-consumer-protocol").run().group.ownerships
    back = 20_000_000
    before = [hold for hold in holds if hold.since < back < hold.until]
    assert sorted(hold.partition for hold in before) == list(range(6))
    new = [hold for hold in holds if hold.since > back]
    assert {hold.member.partition("-")[0] for hold in new} == {"c0"}
    moved = [hold for hold in before if hold.partition in {each.partition for each in new}]
    assert sorted(hold.member.partition("-")[0] for hold in moved) == ["c1", "c2"]
    assert all(hold.until <= each.since for hold in moved for each in new if each.partition == hold.partition)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["group-consumer-protocol", "group-consumer-static", "group-both-protocols"])
def test_the_judge_finds_no_breach_in_the_protocol(name: str, tmp_path: Path) -> None:
    judged_valid(name, tmp_path)


def judged_rules(seed: int, variant: str, folder: Path, setting: str) -> tuple[set[str], set[str]]:
    """The group's rules that the simulated run breaks, and those that the judge finds broken."""
    written = write_bundle(space(variant, setting).scenario(seed), folder)
    judged = verdict_of_run(written.folder, "ownership", "commit-fenced")["rules"]
    broken = {rule for rule, result in judged.items() if result["verdict"] == "invalid"}
    return set(breaches(written.cluster, SETTINGS[setting].invariants)), broken


def test_the_judge_finds_the_commit_of_a_fenced_member(tmp_path: Path) -> None:
    assert judged_rules(3, "no-commit-fencing", tmp_path / "run", "member-epochs") == (
        {"no-fenced-commit"},
        {"commit-fenced"},
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("setting", ["member-epochs", "both-protocols"])
@pytest.mark.parametrize("seed", range(4))
def test_the_judge_invents_nothing_under_faults(seed: int, setting: str, tmp_path: Path) -> None:
    assert judged_rules(seed, "kip-966", tmp_path / "run", setting) == (set(), set())


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("kip-320", PROTOCOL, r"exists since 3.7 \(KIP-848\)"),
    ("kip-966", {**PROTOCOL, "partition.assignment.strategy": "range"}, r"has no effect with group.protocol=consumer"),
    ("kip-966", {"group.remote.assignor": "range"}, r"has no effect with group.protocol=classic"),
    ("kip-966", {**PROTOCOL, "group.consumer.heartbeat.interval.ms": 1500}, r"must be longer than"),
    ("kip-966", {**PROTOCOL, "simulation.classic.members": 1}, r"needs group.protocol=consumer and partition"),
]


@pytest.mark.parametrize(("variant", "options", "message"), REFUSED)
def test_settings_of_the_other_protocol_are_refused(variant: str, options: dict[str, Any], message: str) -> None:
    quick = {name: value for name, value in QUICK.items() if name not in CLASSIC_SETTINGS}
    with pytest.raises(ConfigError, match=message):
        Scenario("", variant, options={**quick, **options}).config()


def test_a_run_does_not_end_while_a_classic_member_handles_its_last_records() -> None:
    """It got its partition back a moment before, and read from the committed offset on."""
    run = space("kip-966", "both-protocols").scenario(9000718).run()
    assert breaches(run, SETTINGS["both-protocols"].invariants) == {}
