"""The conversion of a group between the classic protocol and KIP-848's, by group.consumer.migration.policy."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import verdict_of_run
from logjudge.histories.evidence.group_log import read_group_log
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.matrix import SETTINGS, space
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import SECOND, ConfigError
from logjudge.models.replication.coordinators.classic_group import ClassicGroup
from logjudge.models.replication.coordinators.convertible_group import ConvertibleGroup
from logjudge.models.replication.coordinators.group_coordinator import GroupCoordinator
from logjudge.models.replication.coordinators.group_requests import GroupRecord
from logjudge.models.replication.coordinators.log_coordinator import COORDINATOR
from logjudge.models.replication.coordinators.mixed_group import MixedGroup
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario

INVARIANTS = SETTINGS["migration"].invariants
RULES = ("ownership", "commit-fenced", "consumer-loss", "commit-regression", "commit-beyond-end")
UP, DOWN = "KIP-848's", "the classic"  # the protocol to which a group is converted
CONVERTED, LOADED = "group-converted", "group-loaded"


def run(scenario: Scenario) -> tuple[Cluster, list[ClusterEvent]]:
    """The run, and what its coordinators reported about the whole group."""
    events: list[ClusterEvent] = []

    def listen(event: ClusterEvent) -> None:
        if event.kind in (CONVERTED, LOADED):
            events.append(event)

    return scenario.run(listener=listen), events


def conversions(events: list[ClusterEvent]) -> list[tuple[Any, ...]]:
    """The protocols to which the group was converted, each with its generation."""
    return [event.details for event in events if event.kind == CONVERTED]


def owners(cluster: Cluster, second: float) -> dict[int, str]:
    """The member that owns each partition at a time."""
    holds = [hold for hold in cluster.group.ownerships if hold.since <= second * SECOND < hold.until]
    return {hold.partition: hold.member.partition("-")[0] for hold in sorted(holds, key=lambda hold: hold.partition)}


def coordinator(cluster: Cluster) -> GroupCoordinator:
    """The coordinator at the end."""
    leader = cluster.leader_replica(cluster.config.group_log)
    assert leader is not None
    return cluster.brokers[leader.broker].coordinators.groups


def batches(cluster: Cluster) -> list[list[GroupRecord]]:
    """The batches of the group's log."""
    log, records = cluster.leader_log(cluster.config.group_log), cluster.coordinator_logs.group_records
    assert log is not None
    return [records[each.first : each.values_end] for each in log.batches() if each.producer == COORDINATOR]


def with_policy(name: str, policy: str) -> Scenario:
    scenario = load(name)
    return replace(scenario, options={**scenario.options, "group.consumer.migration.policy": policy})


def test_a_rolling_upgrade_converts_the_group_once() -> None:
    """c2 joins at 7 s: generation 2 becomes the epoch of the group and of c1, which keeps its partitions until then."""
    cluster, events = run(load("group-rolling-upgrade"))
    assert conversions(events) == [(UP, 2)]
    assert owners(cluster, 7.1) == dict.fromkeys(range(4), "c1")
    assert owners(cluster, 10) == {0: "c1", 1: "c1", 2: "c2", 3: "c2"}
    assert sorted(owners(cluster, 20).values()) == ["c2", "c2", "c3", "c3"]
    assert {hold.generation for hold in cluster.group.ownerships if hold.member.startswith("c1-")} == {1, 2, 3}
    assert breaches(cluster, INVARIANTS) == {}
    handled = [
        offset for ranges in cluster.group.handled.values() for base, end in ranges for offset in range(base, end)
    ]
    assert len(handled) == 500


def test_an_upgrade_that_is_taken_back_survives_the_death_of_the_coordinator() -> None:
    """The next coordinator loads a group of KIP-848's protocol of two members, and converts it back when c2 leaves."""
    cluster, events = run(load("group-upgrade-undone"))
    assert conversions(events) == [(UP, 2), (DOWN, 3)]
    loads = [event for event in events if event.kind == LOADED]
    assert [event.details[:2] for event in loads] == [(0, 0), (3, 2)]
    assert events.index(loads[1]) == 2
    assert owners(cluster, 15) == {0: "c1", 1: "c1", 2: "c2", 3: "c2"}
    assert owners(cluster, 20) == {0: "c0", 1: "c0", 2: "c1", 3: "c1"}
    assert isinstance(coordinator(cluster).members, ClassicGroup)
    assert breaches(cluster, INVARIANTS) == {}


def test_one_batch_removes_the_old_group_and_has_the_new_one() -> None:
    cluster, _ = run(load("group-upgrade-undone"))
    written = [batch for batch in batches(cluster) if len({type(record) is GroupRecord for record in batch}) == 2]
    up, down = ([record.key for record in batch] for batch in written)
    member = next(key for key in up if key.startswith("member c1-")).removeprefix("member ")
    c1 = [f"member {member}", "epoch", f"target assignment of {member}", "epoch of the target assignment"]
    assert up[:6] == ["group", *c1, f"current assignment of {member}"]
    assert [record.is_tombstone for record in written[0]][:6] == [True] + [False] * 5
    assert down[-1] == "group"
    assert [record.is_tombstone for record in written[1]] == [True] * (len(down) - 1) + [False]
    live = {record.key: record for batch in batches(cluster) for record in batch}
    assert {key for key, record in live.items() if not record.is_tombstone and record.committed is None} == {"group"}


@pytest.mark.parametrize(
    ("policy", "converted"),
    [("bidirectional", [UP, DOWN]), ("upgrade", [UP]), ("downgrade", []), ("disabled", [])],
)
def test_the_policy_decides(policy: str, converted: list[str]) -> None:
    cluster, events = run(with_policy("group-upgrade-undone", policy))
    assert [protocol for protocol, _ in conversions(events)] == converted
    assert "c2" in owners(cluster, 15).values() or not converted
    assert sorted(owners(cluster, 20).values()) == ["c0", "c0", "c1", "c1"]
    assert isinstance(coordinator(cluster).members, MixedGroup if converted == [UP] else ClassicGroup)
    assert breaches(cluster, INVARIANTS) == {}


def test_a_member_that_the_policy_refuses_ends(tmp_path: Path) -> None:
    written = write_bundle(with_policy("group-upgrade-undone", "disabled"), tmp_path / "run")
    crashes = [line for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines() if '"crash"' in line]
    assert any("GROUP_ID_NOT_FOUND" in line and '"c2"' in line for line in crashes)
    assert not [hold for hold in written.cluster.group.ownerships if hold.member.startswith("c2-")]


def test_a_group_that_is_empty_is_replaced_whatever_the_policy() -> None:
    """Both classic members close, then those of the new protocol join: the epochs begin anew, the offsets stay."""
    scenario = with_policy("group-rolling-upgrade", "disabled")
    closes = (
        Fault(6 * SECOND, "consumer-replace", (0, 2), 3 * SECOND),
        Fault(7 * SECOND, "consumer-replace", (1, 3), 2 * SECOND),
    )
    cluster, events = run(scenario.with_faults(closes))
    assert conversions(events) == []
    assert cluster.group.deaths == 1
    assert sorted(owners(cluster, 20).values()) == ["c2", "c2", "c3", "c3"]
    assert {hold.generation for hold in cluster.group.ownerships if hold.since > 8 * SECOND} <= {1, 2}
    assert breaches(cluster, INVARIANTS) == {}
    back = (
        Fault(10 * SECOND, "consumer-replace", (2, 0), 2 * SECOND),
        Fault(11 * SECOND, "consumer-replace", (3, 1), 1 * SECOND),
    )
    cluster, _ = run(scenario.with_faults((*closes, *back)))
    assert cluster.group.deaths == 2
    assert isinstance(coordinator(cluster).members, ClassicGroup)
    assert sorted(owners(cluster, 20).values()) == ["c0", "c0", "c1", "c1"]
    assert breaches(cluster, INVARIANTS) == {}


def drawn(seed: int, strategy: str) -> Scenario:
    scenario = space("kip-966", "migration").scenario(seed)
    return replace(scenario, options={**scenario.options, "partition.assignment.strategy": strategy})


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("seed", range(10))
def test_conversions_survive_faults(seed: int, strategy: str) -> None:
    cluster = drawn(seed, strategy).run()
    assert cluster.final
    assert breaches(cluster, INVARIANTS) == {}
    assert {hold.partition for hold in cluster.group.ownerships} == {0, 1, 2}


@pytest.mark.parametrize("seed", [20012, 20060])
def test_members_are_counted_once_the_log_has_the_conversion(seed: int) -> None:
    """The partition of the group has too few replicas in the ISR for a while, and members come and go meanwhile."""
    cluster = space("no-commit-fencing", "both-protocols").scenario(seed).run()
    assert breaches(cluster, ("one-owner",)) == {}


def test_the_search_converts_groups_in_both_directions() -> None:
    found = [protocol for seed in range(12) for protocol, _ in conversions(run(drawn(seed, "range"))[1])]
    assert found.count(UP) > 3
    assert found.count(DOWN) > 0


@pytest.mark.parametrize("seed", range(12))
def test_a_coordinator_loads_the_group_that_the_last_one_had(seed: int) -> None:
    """The same protocol, generation, members and offsets, by the log alone. At the end no rebalance is under way."""
    cluster = drawn(seed, "range").run()
    group = coordinator(cluster)
    before = state_of(group)
    records = cluster.coordinator_logs.group_records
    group._drop_state()
    log = cluster.leader_log(cluster.config.group_log)
    assert log is not None
    for batch in log.batches():
        group._replay(batch, records[batch.first : batch.values_end] if batch.producer == COORDINATOR else ())
    group._on_loaded()
    assert state_of(group) == before


def state_of(group: GroupCoordinator) -> tuple[Any, ...]:
    assert isinstance(group, ConvertibleGroup)
    members = group.members
    if isinstance(members, ClassicGroup):
        held = {name: mine for name, _, mine in members.assignments()}
    else:
        assert isinstance(members, MixedGroup)
        held = {name: member.current.held for name, member in members._members.items()}
    return type(members), group.generation, held, group._offsets.committed()


def verdicts(folder: Path) -> dict[str, str]:
    report = verdict_of_run(folder)
    return {"all": report["verdict"], **{rule: report["rules"][rule]["verdict"] for rule in RULES}}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name",
    [
        "group-rolling-upgrade",
        "group-upgrade-undone",
        "group-static-upgrade",
        "group-downgrade-failover",
        "group-both-protocols",
    ],
)
def test_a_conversion_is_valid(name: str, tmp_path: Path) -> None:
    """Also without group.protocol in run.json: the records of __consumer_offsets show the group's protocol."""
    write_bundle(load(name), tmp_path / "run")
    valid = dict.fromkeys(("all", *RULES), "valid")
    assert verdicts(tmp_path / "run") == valid
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    for process in about["processes"].values():
        process.pop("group.protocol", None)
    (tmp_path / "run" / "run.json").write_text(json.dumps(about))
    assert verdicts(tmp_path / "run") == valid


def judged(seed: int, variant: str, folder: Path) -> tuple[set[str], set[str]]:
    """The group's rules that the simulated run breaks, and those that the judge finds broken."""
    written = write_bundle(space(variant, "migration").scenario(seed), folder)
    found = verdict_of_run(folder, *RULES)["rules"]
    return set(breaches(written.cluster, INVARIANTS)), {rule for rule in RULES if found[rule]["verdict"] == "invalid"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(6))
def test_the_judge_invents_nothing(seed: int, tmp_path: Path) -> None:
    assert judged(seed, "kip-966", tmp_path / "run") == (set(), set())


def test_the_log_shows_each_conversion(tmp_path: Path) -> None:
    """Generations of the classic group, owners of KIP-848's, and generations again; c1 is in all of them."""
    written = write_bundle(load("group-upgrade-undone"), tmp_path / "run")
    data = tmp_path / "run" / "brokers" / "1" / "data"
    rows, damage = read_group_log(data / "__consumer_offsets-0", [topic_of(data)])
    assert len(damage) == 0
    of_c1 = rows.filter(client="c1", partition=0).sort("at", maintain_order=True)
    kinds = [kind for n, kind in enumerate(of_c1["kind"]) if n == 0 or of_c1["kind"][n - 1] != kind]
    assert kinds == ["assigned", "owned", "released", "assigned"]
    assert rows.filter(kind="group-removed").height == 2
    assert written.cluster.final


def topic_of(data: Path) -> tuple[str, str]:
    """The id of the topic, as partition.metadata has it, and its name."""
    text = (data / "orders-0" / "partition.metadata").read_text()
    return text.split("topic_id:")[1].strip(), "orders"


REFUSED: list[tuple[dict[str, Any], tuple[Fault, ...], str]] = [
    (
        {"simulation.classic.members": 0, "partition.assignment.strategy": ""},
        (),
        "has no effect without members of both",
    ),
    ({"simulation.standby.consumers": 4}, (), "with more members than 4"),
    ({}, (Fault(SECOND, "consumer-replace", (1,)),), "needs two members"),
    ({}, (Fault(SECOND, "consumer-replace", (1, 1)),), "needs two members"),
]


@pytest.mark.parametrize(("options", "faults", "message"), REFUSED)
def test_settings_without_effect_are_refused(options: dict[str, Any], faults: tuple[Fault, ...], message: str) -> None:
    base = with_policy("group-rolling-upgrade", "upgrade")
    changed = {**base.options, **options}
    if not changed["simulation.classic.members"]:  # else these two settings of classic members would be refused first
        del changed["session.timeout.ms"], changed["heartbeat.interval.ms"]
    with pytest.raises(ConfigError, match=message):
        replace(base, options=changed).with_faults(faults).config()
