"""What an isolated leader acknowledges after its replacement, and truncates to the log of its successor."""

from __future__ import annotations

import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.replica_history import facts_truncated_to
from logjudge.analysis.timelines.terms import Term

from .replica_texts import joined, logs
from .timelines import (
    AFTER,
    BEGAN,
    CUT,
    DIFFER,
    LOADED,
    SECOND,
    TWO_LEADS,
    epochs,
    lost,
    metadata,
    of_format_v1,
    server_log,
    timeline,
)

REGISTERED = {"brokerId": 2, "logDirs": "a"}


@pytest.mark.parametrize(
    ("at_end", "changes", "cause"),
    [
        ("1: 0a 1x@1\n2: 0a 1x@1", [], "single-ack-failover"),  # another record of epoch 1
        ("1: 0a\n2: 0a", [], "single-ack-failover"),  # the log of the leader ends there
        ("1: 0a 1x@1\n2: 0a 1x@1", [(17, REGISTERED)], "unknown"),  # the new leader may have lost a record of its own
        # It wrote the record of epoch 1 before it was replaced.
        ("1: 0a 1x@1\n2: 0a 1x@1", [(17, {"leader": 1}), (18, REGISTERED)], "single-ack-failover"),
        ("1: 0a 1x@1\n2: 0a 1x@1", [(17, REGISTERED), (18, {"leader": 1})], "unknown"),
        ("1: 0a\n2: 0a", [(17, {"leader": 1})], "unknown"),
    ],
)
def test_an_isolated_leader_acknowledged_what_its_successor_cannot_have(at_end, changes, cause):
    """Without server.log. Broker 2 leads from 4 s; the record was acknowledged at 15 s, with acks=1."""
    meta = metadata((1, REGISTERED), (4, {"leader": 2, "isr": [2]}), *changes)
    tables = {**logs(at_end), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    explained = explain_loss(timeline(tables, None, meta), lost(acks="1", at=15))
    assert explained.cause == cause, explained
    if cause != "unknown":
        assert explained.chain[0].broker == "1"


def test_an_isolated_leader_acknowledged_what_its_successor_lacks_two_epochs_later():
    """Broker 2 leads from 4 s, and in a new epoch from 16 s, as a reassignment ends. Broker 1 has no log any more."""
    changes = (1, REGISTERED), (4, {"leader": 2, "isr": [2]}), (16, {"leader": 2, "isr": [2, 3], "replicas": [2, 3]})
    tables = {**logs("2: 0a 1x@2\n3: 0a 1x@2"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    began = server_log("2", *((at, BEGAN % (2, epoch, 1, epoch, "2")) for at, epoch in ((4, 1), (16, 2))))

    def cause(*more, events=(began,)):
        held = timeline(tables, {"replicas": ("2", "3")}, metadata(*changes, *more), events)
        return explain_loss(held, lost(acks="1", at=15)).cause

    assert cause() == "single-ack-failover"
    assert cause(events=()) == "single-ack-failover"  # it wrote nothing in the first of the two epochs
    assert cause((20, REGISTERED)) == "unknown"  # it may have lost a record of its own


@pytest.mark.parametrize(
    ("copied", "cause"), [("2: 0a 1y@1", "single-ack-failover"), ("2: 0a", "unknown"), ("2: 0a 1y", "unknown")]
)
def test_an_earlier_copy_shows_what_the_successor_had_before_another_election(copied, cause):
    """Broker 2 leads from 4 s and wrote y. Broker 3 was elected uncleanly at 20 s, after which x is at that offset."""
    elects_3 = (20, {"leader": 3, "isr": [3], "leaderRecoveryState": 1})
    meta = metadata((1, REGISTERED), (4, {"leader": 2, "isr": [2]}), elects_3)
    tables = {**joined(logs(copied, "s"), logs("3: 0a 1x@2")), "epochs": epochs(("3", 0, 0), ("3", 2, 1))}
    began = server_log("2", (4, BEGAN % (2, 1, 1, 1, "2")))
    about = {"snapshots": ("s", ""), "times": {"s": 18 * SECOND}}
    cut = server_log("1", (5, CUT % 1))
    explained = explain_loss(timeline(tables, about, meta, [began, cut], leader="3"), lost(acks="1", at=4.2))
    assert explained.cause == cause, explained


def test_a_replica_that_truncated_to_the_log_of_a_new_leader_had_the_records_when_that_was_elected():
    """Broker 1 alone was in the ISR. Broker 2 is elected uncleanly at 9 s; broker 1 starts again at 20 s."""
    meta = metadata((3, {"isr": [1]}), (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    tables = {**logs("1: 0a 1x@1\n2: 0a 1x@1"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}

    def cause(*lines):
        return explain_loss(timeline(tables, None, meta, [server_log("1", *lines, (20, LOADED % 1))]), lost()).cause

    assert cause((12, CUT % 1)) == "unclean-election"
    assert cause() == "unknown"  # it may have lost them itself


@pytest.mark.parametrize(
    ("about", "is_proof"),
    [
        ({}, True),
        ({"tables": of_format_v1("1: 0a 1x\n2: 0a 1x")}, False),  # it truncated to its high watermark
        ({"later": Term(2, leader="3")}, False),  # it may have followed broker 3 then
        ({"broker": "2"}, False),  # a leader truncates to no log
        ({"records": DIFFER}, False),  # the records may be later ones
    ],
)
def test_what_a_follower_truncates_by_leader_epochs_its_leader_lacked(about, is_proof):
    """Broker 2 leads from 9 s. The record was acknowledged at 5 s, and truncated at 12 s."""
    broker = about.get("broker", "1")
    found = timeline(about.get("tables", AFTER), None, TWO_LEADS, [server_log(broker, (12, CUT % 1))])
    if "later" in about:
        found.terms[2] = about["later"]
    assert bool(facts_truncated_to(found, broker, found.terms[1], about.get("records", lost()))) == is_proof
