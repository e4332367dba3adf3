"""A partition without a leader in timelines: one loss of the leader, what changes meanwhile, and the election."""

from __future__ import annotations

import json

import polars as pl
import pytest
from command_line import invoke
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load

from .replica_texts import logs
from .timelines import metadata, server_log, timeline


def test_a_leader_is_lost_once_and_changes_of_the_elr_are_named():
    meta = metadata(
        (7, {"leader": -1, "isr": [], "eligibleLeaderReplicas": [1, 2], "lastKnownElr": [1]}),
        (8, {"eligibleLeaderReplicas": [2]}),
        (9, {"lastKnownElr": [2]}),
        (10, {"eligibleLeaderReplicas": []}),
        (11, {"leader": 2, "isr": [2]}),
    )
    known = timeline(logs("1: 0a\n2: 0a"), meta=meta)
    assert [fact.sentence for fact in known.isr_reports if fact.kind == "leaderless"] == [
        "orders-0 lost its leader in epoch 1, ISR [], ELR [1, 2]",
        "orders-0 still had no leader in epoch 1, ISR [], ELR [2]",
        "orders-0 still had no leader in epoch 1, ISR [], ELR []",
    ]
    assert known.terms[2].facts[0].sentence == (
        "the controller elected broker 2 leader of orders-0 in epoch 2, ISR [2]; the ISR had been empty; it was the"
        " last known leader, which Kafka elects again although no broker is in sync (KIP-966)"
    )


@pytest.mark.parametrize(
    ("leader", "sentence"),
    [
        (1, "the metadata log begins for orders-0 with leader 1 in epoch 0, ISR [1, 2]"),
        (-1, "the metadata log begins for orders-0 with no leader in epoch 0, ISR [1, 2]"),
    ],
)
def test_a_state_that_the_metadata_log_repeats_dates_no_election(leader, sentence):
    """After a migration from ZooKeeper, or in a .checkpoint, broker 1 may have led for days."""
    meta = metadata((7, {"leader": 2, "isr": [2]}))
    is_first = (pl.col("leader_epoch") == 0) | (pl.col("kind") == "topic")
    meta = meta.with_columns(is_copy=is_first, leader=pl.when(is_first).then(leader).otherwise("leader"))
    known = timeline(logs("1: 0a\n2: 0a"), meta=meta)
    assert known.isr_reports[0].sentence == sentence
    assert [term.time for term in known.terms.values() if term.epoch == 0] == ([None] if leader > 0 else [])
    assert known.terms[1].electable == {"1", "2"}
    assert not known.topic_changes


def test_a_second_loss_of_the_leader_is_a_loss_again():
    changes = [(7, {"leader": -1}), (8, {"leader": 1}), (9, {"leader": -1, "isr": [1]}), (10, {"isr": [2]})]
    known = timeline(logs("1: 0a\n2: 0a"), meta=metadata(*changes))
    assert [fact.sentence for fact in known.isr_reports if fact.kind == "leaderless"] == [
        "orders-0 lost its leader in epoch 1, ISR [1, 2]",
        "orders-0 lost its leader in epoch 3, ISR [1]",
        "orders-0 still had no leader in epoch 3, ISR [2]",
    ]


def test_events_of_one_millisecond_have_the_order_of_the_controllers_log(tmp_path):
    run = write_bundle(load("last-known-leader"), tmp_path / "run").folder
    [listed] = json.loads(invoke("timeline", run, "--json").stdout)["partitions"]
    sentences = [event["says"] for event in listed["moments"]]
    steps = (
        "orders-0 lost its leader in epoch 1",
        "the controller elected broker 1 leader of orders-0 in epoch 2",
        "broker 1 began to lead orders-0 in epoch 2",
    )
    places = [max(i for i, text in enumerate(sentences) if step in text) for step in steps]
    assert places == sorted(places)


GONE = "as part of transition to OfflineReplica"
REMOVED = (
    "INFO [Controller id=2 epoch=3] Partition orders-0 state changed to (Leader:%d,ISR:1,LeaderEpoch:%d,ZkVersion:%d,"
    "ControllerEpoch:3) after removing replica %d from the ISR " + GONE
)
REQUEST = (
    "TRACE [Controller id=2 epoch=3] Sending become-follower LeaderAndIsr request LeaderAndIsrPartitionState("
    "topicName='orders', partitionIndex=0, controllerEpoch=3, leader=%d, leaderEpoch=%d, isr=[1], zkVersion=%d, "
    "replicas=[1, 2], addingReplicas=[], removingReplicas=[], isNew=false) to broker 2 for partition orders-0"
)


@pytest.mark.parametrize("isr_lines", [[(1, REMOVED % (1, 1, 1, 2))], []])
def test_zookeepers_controller_takes_the_last_leader_away_though_the_isr_stays(isr_lines):
    lines = [*isr_lines, (8, REMOVED % (-1, 2, 2, 1)), (9, REQUEST % (-1, 2, 2)), (12, REQUEST % (-1, 2, 2))]
    known = timeline(logs("1: 0a\n2: 0a"), events=[server_log("2", *lines)], version="2.8.2")
    assert [fact.sentence for fact in known.merged.values() if fact.kind == "leaderless"] == [
        "orders-0 lost its leader, as broker 1 was gone, ISR [1]"
    ]


def test_requests_alone_show_that_a_partition_had_no_leader():
    lines = [(1, REQUEST % (1, 1, 1)), (8, REQUEST % (-1, 2, 2)), (9, REQUEST % (1, 3, 3))]
    known = timeline(logs("1: 0a\n2: 0a"), events=[server_log("2", *lines)], version="2.8.2")
    assert [fact.sentence for fact in known.merged if fact.kind == "leaderless"] == [
        "orders-0 had no leader in epoch 2, ISR [1]"
    ]
    assert {epoch: (term.leader, term.ended is not None) for epoch, term in known.terms.items() if term.leader} == {
        1: ("1", True),
        3: ("1", False),
    }


def test_a_topic_that_is_deleted_did_not_lose_its_leader():
    known = timeline(logs("1: 0a\n2: 0a"), events=[server_log("2", (8, REQUEST % (-2, 2, 2)))], version="2.8.2")
    assert not [fact for fact in known.merged if fact.kind in ("leaderless", "elected")]


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ("", ""),
        ("isr: [] -> [2], ", "; the ISR had been empty"),
        ("isr: [1, 2] -> [2], ", "; the ISR had been [1, 2]"),
        ("isr: [] -> [2], elr: [2] -> [], ", "; the ISR had been [2]"),
    ],
)
def test_an_election_that_keeps_the_isr_has_no_isr_before_it(change, clause):
    line = f"INFO [QuorumController id=100] partition change for orders-0 with topic ID x: {change}"
    line += "leader: -1 -> 2, leaderEpoch: 1 -> 2, partitionEpoch: 2 -> 3 (o.a.k.ReplicationControlManager)"
    [fact] = timeline(logs("2: 0a"), events=[server_log("100", (9, line))], version="3.3.2").terms[2].facts
    assert fact.sentence == f"the controller elected broker 2 leader of orders-0 in epoch 2{clause}"


def test_the_isr_before_an_election_is_that_of_any_line_with_its_partition_epoch():
    """The first line that names no leader has no partition epoch."""
    first = 'INFO [C 3]: New leader and ISR for partition [orders,0] is {"leader":-1,"leader_epoch":2,"isr":[1]} (x)'
    lines = [(1, REQUEST % (1, 1, 1)), (8, first), (9, REQUEST % (-1, 2, 2)), (10, REQUEST % (2, 3, 3))]
    known = timeline(logs("1: 0a\n2: 0a"), events=[server_log("2", *lines)], version="1.1.1")
    assert known.terms[3].electable == {"1"}  # the request's


def test_a_change_of_the_active_controller_is_in_the_timeline_and_a_lost_election_is_not():
    active = "INFO [QuorumController id=102] Becoming the active controller at epoch 10, next write offset 9. (x)"
    lost = (
        "INFO [Controller id=103] Broker 102 has been elected as the controller, so stopping the election process. (x)"
    )
    events = [server_log("102", (9, active)), server_log("103", (9, lost))]
    known = timeline(logs("1: 0a\n2: 0a"), events=events)
    assert [fact.sentence for fact in known.controllers] == [
        "node 102 became the active controller in controller epoch 10"
    ]
    assert set(known.controllers) <= set(known.merged)
    assert not known.events
