"""Conversions of a group at their limits: sizes, static members, late members, rebalances and failovers under way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.matrix import space
from logjudge.models.replication import errors
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import MS, SECOND
from logjudge.models.replication.coordinators.classic_group import ClassicGroup
from logjudge.models.replication.coordinators.group_requests import MemberRecord
from logjudge.models.replication.coordinators.mixed_group import MixedGroup
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.ports import EventHead, History

from .test_group_conversion import (
    CONVERTED,
    DOWN,
    INVARIANTS,
    LOADED,
    UP,
    batches,
    conversions,
    coordinator,
    owners,
    run,
)

REPLACED = "static-member-replaced"
THREE_CLASSIC = {"simulation.consumers": 4, "simulation.classic.members": 3, "simulation.standby.consumers": 1}
STATIC = {"simulation.static.members": "own"}


class Endings(History):
    """Records the processes that end, each with the reason."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str]] = []

    def crash(self, head: EventHead, reason: str) -> None:
        self.found.append((head.process, reason))


def convert(options: dict[str, Any], *faults: Fault) -> tuple[Cluster, list[ClusterEvent], set[tuple[str, str]]]:
    """A run, what its coordinators reported, and the processes that ended. c0 and c1 are classic, c2 is on standby."""
    scenario, endings, events = load("group-upgrade-undone"), Endings(), []
    scenario = replace(scenario, options={**scenario.options, **options}, faults=faults)
    cluster = scenario.run(history=endings, listener=events.append)
    assert cluster.final
    return cluster, events, set(endings.found)


def replaced(second: float, old: int, new: int) -> Fault:
    """A member closes, and a second later another one starts."""
    return Fault(int(second * SECOND), "consumer-replace", (old, new), SECOND)


def closed(second: float, member: int, seconds: float) -> Fault:
    return Fault(int(second * SECOND), "consumer-shutdown", (member,), int(seconds * SECOND))


def count(events: list[ClusterEvent], kind: str) -> int:
    return sum(event.kind == kind for event in events)


def generations(cluster: Cluster, client: str) -> dict[str, set[int]]:
    """The member ids of a client that owned partitions, each with its generations."""
    found: dict[str, set[int]] = {}
    for hold in cluster.group.ownerships:
        if hold.member.startswith(f"{client}-"):
            found.setdefault(hold.member, set()).add(hold.generation)
    return found


# --- group.max.size and group.consumer.max.size


def test_a_classic_group_that_is_too_large_is_not_upgraded() -> None:
    """c1 and c2 remain when c3 joins, and one member is permitted (validateOnlineUpgrade)."""
    cluster, events, ended = convert({**THREE_CLASSIC, "group.consumer.max.size": 1}, replaced(6, 0, 3))
    assert conversions(events) == []
    assert ("c3", errors.GROUP_ID_NOT_FOUND) in ended
    assert set(owners(cluster, 20).values()) == {"c1", "c2"}
    assert breaches(cluster, INVARIANTS) == {}


def test_an_upgrade_without_room_for_the_new_member_leaves_the_group_classic() -> None:
    """One classic member remains, and one member is permitted (throwIfConsumerGroupIsFull)."""
    cluster, events, ended = convert({"group.consumer.max.size": 1}, replaced(6, 0, 2))
    assert conversions(events) == []
    assert ("c2", errors.GROUP_MAX_SIZE_REACHED) in ended
    assert {"c1"} == set(owners(cluster, 20).values())
    assert len(generations(cluster, "c1")) == 1
    assert isinstance(coordinator(cluster).members, ClassicGroup)
    assert breaches(cluster, INVARIANTS) == {}


def test_a_refused_upgrade_lets_the_members_that_wait_join_again() -> None:
    """c1 is paused in the rebalance for which c2 waits. c3 is refused every second, and c2 joins again each time."""
    options = {**THREE_CLASSIC, "group.consumer.max.size": 2}
    pause = Fault(6 * SECOND, "consumer-pause", (1,), 2500 * MS)
    cluster, events, ended = convert(options, pause, replaced(6, 0, 3))
    assert conversions(events) == []
    assert ("c3", errors.GROUP_MAX_SIZE_REACHED) in ended
    assert len(generations(cluster, "c1")) == len(generations(cluster, "c2")) == 1
    assert set(owners(cluster, 20).values()) == {"c1", "c2"}
    assert breaches(cluster, INVARIANTS) == {}


def test_a_group_that_is_too_large_becomes_classic_once_enough_members_have_left() -> None:
    """group.max.size=1 lets c2 in, and c1 once the group is upgraded. When c3 leaves, both remain. Then c1 leaves."""
    options = {**THREE_CLASSIC, "group.max.size": 1}
    cluster, events, ended = convert(options, replaced(6, 0, 3), closed(12, 3, 8), closed(15, 1, 30))
    assert [protocol for protocol, _ in conversions(events)][:2] == [UP, DOWN]
    assert 15 * SECOND <= [event.time for event in events if event.kind == CONVERTED][1] < 16 * SECOND
    assert ("c1", errors.GROUP_MAX_SIZE_REACHED) in ended
    assert set(owners(cluster, 14).values()) == {"c1", "c2"}
    assert set(owners(cluster, 18).values()) == {"c2"}
    assert breaches(cluster, INVARIANTS) == {}


@pytest.mark.parametrize(
    ("name", "option"),
    [("group-upgrade-undone", "group.max.size"), ("group-consumer-protocol", "group.consumer.max.size")],
)
def test_a_full_group_refuses_a_new_member_until_one_leaves(name: str, option: str) -> None:
    """Its member closes for a while at 8 s. The other one, which a supervisor starts again each second, gets in."""
    scenario, endings = load(name), Endings()
    options = {**scenario.options, option: 1}
    before = owners(replace(scenario, options=options, faults=()).run(), 7.9)
    (first,) = set(before.values())
    leaves = closed(8, int(first[1:]), 6)
    cluster = replace(scenario, options=options, faults=(leaves,)).run(history=endings)
    refused = {name for name, reason in endings.found if reason == errors.GROUP_MAX_SIZE_REACHED}
    assert owners(cluster, 7.9) == before
    assert set(owners(cluster, 13).values()) <= refused - {first}
    assert first in refused
    assert len(before) == len(owners(cluster, 13)) == len(owners(cluster, 20))
    assert breaches(cluster, INVARIANTS) == {}


def test_a_group_that_a_coordinator_loads_over_its_size_sheds_members() -> None:
    """The brokers that take over permit one member. The first one that joins again stays (onLoaded)."""
    scenario = load("group-upgrade-undone")
    small = tuple((broker, (("classic_group_size", 1),)) for broker in (1, 3))
    endings = Endings()

    def shrink(cluster: Cluster) -> None:
        for broker, settings in small:
            groups = cluster.brokers[broker].coordinators.groups
            groups._config = groups.config = replace(groups.config, **dict(settings))

    crash = Fault(10 * SECOND, "crash", (2,), 3 * SECOND)
    cluster = replace(scenario, faults=(crash,)).run(history=endings, prepare=shrink)
    assert set(owners(cluster, 9).values()) == {"c0", "c1"}
    assert errors.GROUP_MAX_SIZE_REACHED in {reason for _, reason in endings.found}
    assert len(set(owners(cluster, 18).values())) == 1
    assert breaches(cluster, INVARIANTS) == {}


# --- static members


def test_a_rolling_upgrade_of_static_members_moves_no_partition() -> None:
    """c2 has the group.instance.id of c0, and c3 that of c1. Each gets the partitions of the process before it."""
    cluster, events = run(load("group-static-upgrade"))
    assert conversions(events) == [(UP, 1), (DOWN, 1)]
    assert len(generations(cluster, "c0")) == len(generations(cluster, "c1")) == 2
    first, second = owners(cluster, 5), {"c0": "c2", "c1": "c3"}
    assert owners(cluster, 12) == {partition: second[owner] for partition, owner in first.items()}
    assert owners(cluster, 22) == first
    assert {hold.until for hold in cluster.group.ownerships if hold.member.startswith("c1-6")} == {9 * SECOND}
    assert {generation for client in ("c0", "c1", "c2", "c3") for generation in union(cluster, client)} == {1}
    assert breaches(cluster, INVARIANTS) == {}


def union(cluster: Cluster, client: str) -> set[int]:
    return set().union(*generations(cluster, client).values())


def test_the_log_has_the_instances_of_converted_members() -> None:
    cluster, *_ = convert(STATIC, replaced(6, 0, 2))
    records = [record for batch in batches(cluster) for record in batch if isinstance(record, MemberRecord)]
    written = {(record.client, record.instance) for record in records if not record.is_tombstone}
    assert written == {("c0", "c0"), ("c1", "c1"), ("c2", "c0")}


PAUSED = (
    replaced(6, 0, 2),
    Fault(15 * SECOND, "consumer-pause", (2,), 2 * SECOND),
    Fault(15500 * MS, "consumer-replace", (1, 0), 100 * MS),
    closed(17.5, 1, 0.5),
)


def test_a_classic_process_replaces_a_static_member_that_still_runs() -> None:
    """c2 is paused and did not close. c0 takes its place, and c2 ends with FENCED_INSTANCE_ID when it resumes."""
    cluster, events, ended = convert({**STATIC, "group.consumer.migration.policy": "upgrade"}, *PAUSED)
    assert ("c2", errors.FENCED_INSTANCE_ID) in ended
    assert conversions(events) == [(UP, 1)]
    assert isinstance(coordinator(cluster).members, MixedGroup)
    assert sorted(owners(cluster, 19).values()) == ["c0", "c0", "c1", "c1"]
    assert breaches(cluster, INVARIANTS) == {}


def test_a_group_becomes_classic_when_a_classic_process_replaces_the_last_member() -> None:
    """The same with a downgrade, which begins no rebalance: c0 has the epoch of c2. c2 finds a classic group."""
    cluster, events, ended = convert(STATIC, *PAUSED)
    assert conversions(events)[:2] == [(UP, 1), (DOWN, 1)]
    assert ("c2", errors.GROUP_ID_NOT_FOUND) in ended
    before = {partition: owner.replace("c2", "c0") for partition, owner in owners(cluster, 14).items() if owner == "c2"}
    assert {partition: owner for partition, owner in owners(cluster, 17.2).items() if owner == "c0"} == before
    assert {hold.generation for hold in cluster.group.ownerships if 15 * SECOND < hold.since < 17.2 * SECOND} == {1}
    assert breaches(cluster, INVARIANTS) == {}


def test_a_classic_static_member_that_is_replaced_in_a_group_of_the_new_protocol_converts_nothing() -> None:
    """The policy let c2 in and c0 back, so both members are classic. Then c1's process is killed and starts again."""
    kill = Fault(20 * SECOND, "consumer-crash", (1,), SECOND)
    options = {**STATIC, "group.consumer.migration.policy": "upgrade"}
    cluster, events, _ = convert(options, replaced(6, 0, 2), replaced(14, 2, 0), kill)
    assert conversions(events) == [(UP, 1)]
    assert count(events, REPLACED) == 3
    assert owners(cluster, 19) == owners(cluster, 22)
    assert breaches(cluster, INVARIANTS) == {}


def test_a_static_member_that_is_away_keeps_the_group_of_its_protocol() -> None:
    """c2 closes at 12 s and its session ends at 15 s, 3 s after its last heartbeat. Then the group is converted."""
    cluster, events, _ = convert(STATIC, replaced(6, 0, 2), closed(12, 2, 30))
    assert conversions(events)[:2] == [(UP, 1), (DOWN, 1)]
    down = [event.time for event in events if event.kind == CONVERTED][1]
    assert 14 * SECOND < down <= 15200 * MS
    assert owners(cluster, 14) == {2: "c1", 3: "c1"}
    assert owners(cluster, 18) == dict.fromkeys(range(4), "c1")
    assert breaches(cluster, INVARIANTS) == {}


# --- members that are behind, rebalances and failovers under way


def test_a_classic_member_that_is_behind_at_a_downgrade_keeps_its_id() -> None:
    """c1 leaves, which raises the epoch to 4, and 20 ms later c3. c2 is in epoch 3 (KAFKA-13419)."""
    cluster, events, _ = convert(THREE_CLASSIC, replaced(6, 0, 3), closed(16, 1, 3), closed(16.02, 3, 3))
    assert (DOWN, 4) in conversions(events)
    (ids,) = generations(cluster, "c2").items()
    assert ids[1] == {1, 2, 3, 5, 6}
    gaps = [hold.until for hold in cluster.group.ownerships if hold.member == ids[0] and hold.generation == 3]
    joined = [hold.since for hold in cluster.group.ownerships if hold.member == ids[0] and hold.generation == 5]
    assert min(joined) - max(gaps) < 100 * MS
    assert breaches(cluster, INVARIANTS) == {}


COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky", "simulation.consumer.stagger.ms": 6000}


def test_an_upgrade_in_a_cooperative_rebalance_gives_partitions_away_that_a_member_still_owns() -> None:
    """As in Kafka: c0 has to give up partitions 2 and 3, which its SyncGroup response leaves out.

    c0 is paused before it gets the response. The upgrade takes the classic group's last assignment, where
    2 and 3 have no owner, so c2 gets them at once. c0 handles them, too, and may commit, until it resumes and gets the
    response.
    """
    cluster, *_ = convert(COOPERATIVE)
    stored = cluster.group.generations[0, 2]
    pause = Fault(stored - 2 * MS, "consumer-pause", (0,), 1500 * MS)
    upgrade = Fault(stored + 18 * MS, "consumer-replace", (1, 2), 100 * MS)
    cluster, events, _ = convert(COOPERATIVE, pause, upgrade)
    assert conversions(events) == [(UP, 2)]
    found = breaches(cluster, INVARIANTS)
    assert set(found) == {"one-owner"}
    assert {breach.partition for breach in found["one-owner"]} == {2, 3}
    assert owners(cluster, 10) == {0: "c0", 1: "c0", 2: "c2", 3: "c2"}


def test_a_coordinator_that_fails_after_a_downgrade_leaves_partitions_without_an_owner() -> None:
    """As in Kafka: the rebalance is not in the log. The next coordinator loads a stable group without c2's partitions.

    c1 is in the generation that the log has, so it does not join again. c2, back at 24 s, begins a rebalance.
    """
    cluster, events = run(load("group-downgrade-failover"))
    assert conversions(events) == [(UP, 2), (DOWN, 3), (UP, 3)]
    loads = [event for event in events if event.kind == LOADED]
    assert [event.details[:2] for event in loads] == [(0, 0), (3, 1)]
    assert owners(cluster, 15) == {0: "c1", 1: "c1", 2: "c2", 3: "c2"}
    assert owners(cluster, 18) == owners(cluster, 24) == {0: "c1", 1: "c1"}
    assert owners(cluster, 26) == {0: "c1", 1: "c1", 2: "c2", 3: "c2"}
    assert breaches(cluster, INVARIANTS) == {}


def test_a_coordinator_that_fails_after_a_downgrade_rebalances_if_a_member_joins_again() -> None:
    """The same failure once c1 has received REBALANCE_IN_PROGRESS: it revokes its partitions and joins."""
    crash = Fault(16260 * MS, "crash", (2,), 3 * SECOND)
    cluster, events, _ = convert({}, replaced(6, 0, 2), closed(16, 2, 8), crash)
    assert conversions(events)[:2] == [(UP, 2), (DOWN, 3)]
    assert owners(cluster, 20) == dict.fromkeys(range(4), "c1")
    assert breaches(cluster, INVARIANTS) == {}


@pytest.mark.parametrize("options", [{}, STATIC, COOPERATIVE, {"group.max.size": 2, "group.consumer.max.size": 2}])
@pytest.mark.parametrize("seed", range(100, 106))
def test_conversions_survive_faults_at_their_limits(seed: int, options: dict[str, Any]) -> None:
    scenario = space("kip-966", "migration").scenario(seed)
    cluster = replace(scenario, options={**scenario.options, **options}).run()
    assert cluster.final
    assert breaches(cluster, INVARIANTS) == {}


def test_a_downgrade_fences_a_member_that_is_behind() -> None:
    """It gets its target as its assignment, and the group's generation, before it learns of them.

    What it had to give up, another member gets at once. The coordinator refuses its commits from then on.
    """
    cluster = space("kip-966", "both-protocols").scenario(31000795).run()
    assert cluster.group.fenced
    assert breaches(cluster, INVARIANTS) == {}


def test_a_late_heartbeat_fences_its_member() -> None:
    """As in Kafka: c2's heartbeat in the epoch before its own waits for a slow disk while c2 joins again.

    It states less than c2 owns by then. What it leaves out other members get before c2's next heartbeat is refused.
    """
    cluster = space("kip-966", "both-protocols").scenario(34043719).run()
    [fenced] = cluster.group.fenced["c2-500000"]
    assert fenced.epoch == 5
    held = [
        (hold.partition, hold.since < fenced.time < hold.until)
        for hold in cluster.group.ownerships
        if hold.generation == 5
    ]
    assert held == [(0, True), (1, True), (2, True)]
    assert breaches(cluster, INVARIANTS) == {}


def test_a_coordinator_that_was_replaced_does_not_empty_the_group() -> None:
    """A paused coordinator resumes, removes all members, and admits a classic one. Nothing of that is replicated."""
    cluster = space("kip-966", "both-protocols").scenario(31001043).run()
    assert breaches(cluster, INVARIANTS) == {}
