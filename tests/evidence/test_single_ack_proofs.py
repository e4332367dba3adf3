"""Losses of acks=1 that an election explains only if the new leader was elected from the ISR."""

from __future__ import annotations

from dataclasses import replace

import pytest
from logjudge.analysis.causes import explain_loss

from .replica_texts import epochs, logs
from .timelines import (
    AFTER,
    BEGAN,
    CUT,
    LEADS,
    LOADED,
    SECOND,
    TWO_LEADS,
    fault,
    lost,
    metadata,
    of_format_v1,
    server_log,
    timeline,
)

UNCLEAN, MIN_ISR = "unclean.leader.election.enable", "min.insync.replicas"
TERMS = (0, 0), (2, 3), (3, 1)  # leader epochs and their starts
LED = "INFO [Partition orders-0 broker=1] ISR updated to {}  and version updated to 3 (kafka.cluster.Partition)"
# Broker 1 reported the ISR at 3 s; broker 2 began to lead at 9 s. There is neither a metadata log nor a controller's.
BEGINS_2 = server_log("2", (9, BEGAN % (2, 1, 1, 5, "2")))


def explained(isr, records=None, config=None):
    shrunk = server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,2")), (3, LED.format(isr)))
    held = timeline(AFTER, events=[shrunk, BEGINS_2], config={UNCLEAN: False} if config is None else config)
    return explain_loss(held, records or lost("1"))


@pytest.mark.parametrize(("isr", "cause"), [("1,2", "single-ack-failover"), ("1", "unknown")])
def test_the_configuration_proves_no_clean_election_of_a_broker_that_had_left_the_isr(isr, cause):
    """kafka-leader-election.sh elects it whatever the topic's setting is."""
    found = explained(isr)
    assert found.cause == cause, found
    if cause == "unknown":
        assert any("whether broker 2 was in the ISR when it was elected" in item for item in found.missing)


@pytest.mark.parametrize(("ended", "cause"), [(3, "unknown"), (6, "single-ack-failover")])
def test_the_configuration_proves_no_clean_election_of_a_broker_that_had_stopped(ended, cause):
    """Broker 2 may have left the ISR before the acknowledgement at 5 s. It starts again at 8 s, and leads at 9 s."""
    faults = [fault("kill", "2", ended), fault("restart", "2", 8)]
    events = [server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,2"))), BEGINS_2]
    found = explain_loss(timeline(AFTER, events=events, config={UNCLEAN: False}, faults=faults), lost("1"))
    assert found.cause == cause, found


@pytest.mark.parametrize(("read", "cause"), [(None, "single-ack-failover"), (0, "single-ack-failover"), (1, "unknown")])
def test_a_leader_from_the_isr_has_what_consumers_read(read, cause):
    found = explain_loss(timeline(AFTER, meta=TWO_LEADS), replace(lost("1"), read=read))
    assert found.cause == cause, found
    assert any("consumers had read" in item for item in found.missing) == (cause == "unknown")


def test_records_of_which_some_had_acks_all_miss_no_setting():
    found = explain_loss(timeline(AFTER, meta=TWO_LEADS), replace(lost("1"), acks=frozenset({"1", "all"})))
    assert found.cause == "unknown"
    assert not any("acks setting" in item for item in found.missing)


@pytest.mark.parametrize(("isr", "cause"), [("2,3", "single-ack-failover"), ("2", "unclean-election")])
def test_a_leader_that_a_reassignment_brought_into_the_isr_is_not_unclean(isr, cause):
    """By the brokers' logs alone. Broker 2 led as the reassignment ended, with broker 3 that had been in the ISR."""
    events = [
        server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,3")), (3, LED.format("1,3"))),
        server_log("2", (9, BEGAN % (2, 1, 1, 4, isr))),
    ]
    found = explain_loss(timeline(AFTER, events=events, config={MIN_ISR: 2}), lost("1"))
    assert found.cause == cause, found
    joined = "broker 2 joined the ISR [1, 3] at its election, as a reassignment ended"
    assert (joined in [fact.sentence for fact in found.chain]) == (isr == "2,3")


@pytest.mark.parametrize(
    ("least", "version", "cause"),
    [
        (1, "4.1.1", "unclean-election"),
        (2, "4.1.1", "unknown"),
        (None, "4.1.1", "unknown"),
        (2, "3.9.1", "unclean-election"),
    ],
)
def test_a_leader_from_outside_the_isr_may_have_been_eligible(least, version, cause):
    """Brokers log the ISR and not the eligible leader replicas, which exist while it is below min.insync.replicas."""
    events = [
        server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,2")), (3, LED.format("1"))),
        server_log("2", (9, BEGAN % (2, 1, 1, 4, "2"))),
    ]
    held = timeline(AFTER, events=events, config={} if least is None else {MIN_ISR: least}, version=version)
    found = explain_loss(held, lost("1"))
    assert found.cause == cause, found
    if cause == "unknown":
        assert any("whether broker 2 was in the ISR when it was elected" in item for item in found.missing)


MARKED = (
    "INFO [Broker id=%d] The topic partition orders-0 was marked as RECOVERING. Marking the topic partition as"
    " RECOVERED. (state.change.logger)"
)
REGISTERED = (
    "INFO [Broker id=1] Skipped the become-leader state change for orders-0 with topic id Some(x), partition"
    " registration PartitionRegistration(replicas=[1, 2], directories=[a, b], isr=[1], removingReplicas=[],"
    " addingReplicas=[], elr=[%s], lastKnownElr=[], leader=1, leaderRecoveryState=RECOVERED, leaderEpoch=0,"
    " partitionEpoch=3) and isNew=false since it is already the leader with leader epoch 0. (state.change.logger)"
)
MARKED_2 = "broker 2 was elected leader of orders-0, as no in-sync or eligible broker was alive"


@pytest.mark.parametrize(
    ("marked", "broker", "cause"), [(9, 2, "unclean-election"), (9, 3, "unknown"), (7, 2, "unknown")]
)
def test_a_leader_logs_that_no_eligible_broker_was_alive(marked, broker, cause):
    """Broker 2 begins to lead at 9 s; a line at 7 s is of an earlier term."""
    events = [
        server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,2")), (3, LED.format("1"))),
        server_log(f"{broker}", (marked, MARKED % broker)),
        server_log("2", (9, BEGAN % (2, 1, 1, 4, "2"))),
    ]
    found = explain_loss(timeline(AFTER, events=events, config={MIN_ISR: 2}), lost("1"))
    assert found.cause == cause, found
    assert (MARKED_2 in [fact.sentence for fact in found.chain]) == (cause != "unknown")


@pytest.mark.parametrize(("elr", "cause"), [("2", "single-ack-failover"), ("", "unclean-election")])
def test_leaders_name_the_eligible_replicas_since_kafka_4_2(elr, cause):
    events = [
        server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,2")), (3, REGISTERED % elr)),
        server_log("2", (9, BEGAN % (2, 1, 1, 4, "2"))),
    ]
    found = explain_loss(timeline(AFTER, events=events, config={MIN_ISR: 2}, version="4.2.0"), lost("1"))
    assert found.cause == cause, found
    eligible = "broker 2 was an eligible leader replica before its election; the ISR was [1]"
    assert (eligible in [fact.sentence for fact in found.chain]) == (cause == "single-ack-failover")


@pytest.mark.parametrize(("first", "version", "unclean"), [(1, "4.1.1", True), (2, "4.1.1", None), (2, "3.9.1", True)])
def test_a_leader_that_was_elected_uncleanly_logs_it(first, version, unclean):
    """No line has the ISR before broker 2 leads in epoch 2, after none. Since 4.0 it may be the last known leader."""
    again = (BEGAN % (2, 2, 1, 8, "2")).replace("epoch was -1", "epoch was 1")
    began = server_log(f"{first}", (1, BEGAN % (first, 0, 0, 0, "1,2")))
    found = timeline(AFTER, events=[began, server_log("2", (9, MARKED % 2), (9, again))], version=version)
    assert found.terms[2].elected_uncleanly is unclean


@pytest.mark.parametrize(
    ("adding", "removing", "steps"),
    [("3", "1", "added [3] and removed [1]"), ("3", "", "added [3]"), ("", "1", "removed [1]")],
)
def test_a_leader_logs_the_reassignment_during_which_it_began(adding, removing, steps):
    moves = f"adding replicas [{adding}] and removing replicas [{removing}]"
    line = BEGAN.replace("adding replicas [] and removing replicas []", moves) % (1, 0, 0, 0, "1,2")
    [move] = timeline(AFTER, events=[server_log("1", (1, line))]).moves
    assert (move.adding, move.removing) == (frozenset(adding), frozenset(removing))
    assert move.fact.sentence == f"broker 1 led orders-0 while a reassignment {steps}"


@pytest.mark.parametrize(
    ("loaded", "cut_at", "cause"),
    [
        (1, (7,), "single-ack-failover"),
        (2, (7,), "unknown"),  # it may have had the record when it started
        (1, (6, 7), "unknown"),  # it may have fetched it after the first truncation
    ],
)
def test_a_follower_that_returns_truncates_before_it_fetches(loaded, cut_at, cause):
    """As in a recorded run of Kafka 2.4 with message format 0.10.2.

    Broker 2 truncated less than a second before the first acknowledgement. A preferred election made it the leader.
    """
    led = server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,2")))
    returned = server_log("2", (5, LOADED % loaded), *((at, CUT % 0) for at in cut_at), (9, BEGAN % (2, 1, 1, 5, "2")))
    old = of_format_v1("1: 0a 1x\n2: 0a 1x")
    held = timeline(old, events=[led, returned], config={UNCLEAN: False}, version="2.4.1")
    assert explain_loss(held, lost("1", at=7.5)).cause == cause


def test_a_leader_that_started_again_acknowledges_nothing_in_its_old_term():
    """Broker 2 leads from 4 s. Broker 1 started at 8 s, and truncated less than a second before the acknowledgement."""
    led = server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,2")), (8, LOADED % 2), (14, CUT % 1))
    old = of_format_v1("1: 0a 1x\n2: 0a 1x")
    follows = server_log("2", (2, LOADED % 0), (4, BEGAN % (2, 1, 1, 5, "2")))
    held = timeline(old, events=[led, follows], config={UNCLEAN: False}, version="2.4.1")
    assert explain_loss(held, lost("1", at=14.5)).cause == "unknown"


@pytest.mark.parametrize(("second", "cause"), [(2, "unknown"), (1, "single-ack-failover")])
def test_a_leader_that_began_above_the_records_lost_them_later(second, cause):
    """Broker 2 leads from offset `second`, then broker 1 from offset 3, then broker 2 again from offset 1."""
    tables = {**logs("1: 0a 1x@3\n2: 0a 1x@3"), "epochs": epochs(*(("2", *row) for row in TERMS), ("2", 1, second))}
    meta = metadata((6, {"leader": 2}), (8, {"leader": 1}), (10, {"leader": 2, "isr": [2]}))
    assert explain_loss(timeline(tables, {"replicas": ("1", "2")}, meta), lost("1")).cause == cause


def test_a_leader_in_between_with_the_records_gives_them_to_no_other():
    """Broker 3 leads from offset 2 at 7 s, and broker 2 from offset 1 at 9 s."""
    epochs_of_all = epochs(("2", 0, 0), ("3", 1, 2), ("2", 2, 1))
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2\n3: 0a 1x@2"), "epochs": epochs_of_all}
    changes = (1, {"isr": [1, 2, 3], "replicas": [1, 2, 3]}), (7, {"leader": 3}), (9, {"leader": 2, "isr": [2]})
    held = timeline(tables, {"replicas": ("1", "2", "3")}, metadata(*changes))
    assert explain_loss(held, lost("1")).cause == "single-ack-failover"


@pytest.mark.parametrize(
    ("loaded", "replaced", "later", "cause"),
    [
        (4, 15, (), "single-ack-failover"),
        (7, 15, (), "unknown"),  # its server.log begins after the acknowledgement
        (4, 7, (), "unknown"),  # before its election
        (4, 15, [(12, LEADS % (1, 2, "1,2"))], "unknown"),  # by the next leader
    ],
)
def test_another_record_that_a_leader_acknowledged_there_proves_that_it_lacked_the_lost_one(
    loaded, replaced, later, cause
):
    """Before leader epochs. Broker 2 is killed a second before it loads its log, and leads from 9 s."""
    controller = server_log("3", (1, LEADS % (1, 0, "1,2")), (9, LEADS % (2, 1, "2")), *later)
    events = [controller, server_log("2", (loaded, LOADED % 1))]
    faults = fault("kill", "2", loaded - 1), fault("restart", "2", loaded)
    old = of_format_v1("1: 0a 1x\n2: 0a 1x")
    held = timeline(old, events=events, config={UNCLEAN: False}, version="0.10.2.2", faults=faults)
    records = replace(lost("1"), replaced=replaced * SECOND, replaced_place=3)
    assert explain_loss(held, records).cause == cause


FOLLOWS = (
    "INFO [Broker id=1] Follower orders-0 starts at leader epoch {} from offset {} with partition epoch 7 and high"
    " watermark 1. Current leader is {}. (x)"
)


@pytest.mark.parametrize(("truncated", "cause"), [(1, "single-ack-failover"), (40, "unknown")])
def test_a_leader_that_is_cut_off_acknowledges_records_before_and_after_its_replacement(truncated, cause):
    """Broker 2 is elected at 9 s. No log has offsets 5 to 9 since broker 1 truncated its own."""
    events = [
        server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,2")), (16, CUT % truncated)),
        server_log("2", (0, LOADED % 0), (9, BEGAN % (2, 1, 1, 4, "2"))),
    ]
    late = replace(lost("1", 5, 9, ("e", "f", "g", "h", "i"), at=14), first_acked=int(8.9 * SECOND))
    found = explain_loss(timeline(AFTER, meta=TWO_LEADS, events=events), late)
    assert found.cause == cause, found


@pytest.mark.parametrize(("reached", "cause"), [(10, "single-ack-failover"), (7, "unknown")])
def test_a_leader_that_is_cut_off_acknowledges_records_after_its_successor_died(reached, cause):
    """Broker 2 is elected at 9 s and dies at 12 s, and broker 3 at 14 s. Broker 1 had offsets up to `reached`."""
    meta = metadata((9, {"leader": 2, "isr": [2, 3]}), (14, {"leader": 3, "isr": [3]}))
    follows = FOLLOWS.format(2, reached, 3)
    events = [
        server_log("1", (1, BEGAN % (1, 0, 0, 0, "1,2,3")), (16, follows), (17, CUT % 1)),
        server_log("2", (0, LOADED % 0), (9, BEGAN % (2, 1, 1, 4, "2,3"))),
        server_log("3", (0, LOADED % 0), (14, BEGAN % (3, 2, 3, 5, "3"))),
    ]
    late = replace(lost("1", 5, 9, ("e", "f", "g", "h", "i"), at=15), first_acked=int(9.5 * SECOND))
    tables = {**logs("1: 0a 1x@1\n3: 0a 1x@1"), "epochs": epochs(("3", 0, 0), ("3", 1, 1), ("3", 2, 3))}
    held = timeline(tables, meta=meta, events=events, leader="3", faults=[fault("kill", "2", 12)])
    assert explain_loss(held, late).cause == cause
