"""A partition without a leader in timelines: one loss of the leader, what changes meanwhile, and the election."""

from __future__ import annotations

import json

from command_line import invoke
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load

from .replica_texts import logs
from .timelines import metadata, timeline


def test_a_leader_is_lost_once_and_changes_of_the_elr_are_named():
    meta = metadata(
        (7, {"leader": -1, "isr": [], "eligibleLeaderReplicas": [1, 2], "lastKnownElr": [1]}),
        (8, {"eligibleLeaderReplicas": [2]}),
        (9, {"lastKnownElr": [2]}),
        (10, {"eligibleLeaderReplicas": []}),
        (11, {"leader": 2, "isr": [2]}),
    )
    known = timeline(logs("1: 0a\n2: 0a"), meta=meta)
    assert [fact.sentence for _, _, fact in known.isr_reports if fact.kind == "leaderless"] == [
        "orders-0 lost its leader in epoch 1, ISR [], ELR [1, 2]",
        "orders-0 still had no leader in epoch 1, ISR [], ELR [2]",
        "orders-0 still had no leader in epoch 1, ISR [], ELR []",
    ]


def test_a_second_loss_of_the_leader_is_a_loss_again():
    changes = [(7, {"leader": -1}), (8, {"leader": 1}), (9, {"leader": -1, "isr": [1]}), (10, {"isr": [2]})]
    known = timeline(logs("1: 0a\n2: 0a"), meta=metadata(*changes))
    assert [fact.sentence for _, _, fact in known.isr_reports if fact.kind == "leaderless"] == [
        "orders-0 lost its leader in epoch 1, ISR [1, 2]",
        "orders-0 lost its leader in epoch 3, ISR [1]",
        "orders-0 still had no leader in epoch 3, ISR [2]",
    ]


def test_events_of_one_millisecond_have_the_order_of_the_controllers_log(tmp_path):
    run = write_bundle(load("last-known-leader"), tmp_path / "run").folder
    [listed] = json.loads(invoke("timeline", run, "--json").output)["partitions"]
    sentences = [moment["says"] for moment in listed["moments"]]
    steps = (
        "orders-0 lost its leader in epoch 1",
        "the controller elected broker 1 leader of orders-0 in epoch 2",
        "broker 1 began to lead orders-0 in epoch 2",
    )
    places = [max(i for i, text in enumerate(sentences) if step in text) for step in steps]
    assert places == sorted(places)
