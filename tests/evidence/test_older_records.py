"""Older records that a second unclean election brings back: the lost ones are those of the epoch in between.

As in a recorded run: broker 2 was elected uncleanly without the tail of broker 1, acknowledged other records at those
offsets, and was shut down cleanly. Broker 1 started first, and was elected uncleanly with its own tail.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.leader_change import find_leader_change
from logjudge.analysis.causes.replica_history import isr_at
from logjudge.analysis.incidents.truncations import explain_truncations
from logjudge.analysis.partitions.partition import Partition
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS
from notation import judge

from .replica_texts import epochs, logs
from .timelines import BEGINS, CUT, LOADED, SECOND, fault, lost, metadata, server_log, timeline

FRAMES = pl.DataFrame(schema=SENDS), pl.DataFrame(schema=READS)
ELECTED_1 = {"leader": 1, "isr": [1], "leaderRecoveryState": 1}
ELECTED_2 = {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
LEADERLESS = {"leader": -1, "isr": [], "eligibleLeaderReplicas": [2]}
TABLES = {**logs("1: 0a 1x\n2: 0a 1x"), "epochs": epochs(("1", 0, 0), ("1", 3, 2))}
CUT_LATER = (server_log("1", (13, LOADED % 2)), server_log("2", (16, LOADED % 2), (17, CUT % 1)))


def returned(*faults, events=CUT_LATER):
    meta = metadata((4, {"isr": [1]}), (8, ELECTED_2), (11, LEADERLESS), (14, ELECTED_1))
    tables = {**TABLES, "epochs": epochs(("1", 0, 0), ("2", 1, 1), ("1", 3, 2))}
    return timeline(tables, meta=meta, events=events, leader="1", faults=faults)


KILLED = (fault("kill", "1", 6), fault("restart", "1", 12))


@pytest.mark.parametrize(
    ("faults", "earlier", "started", "cause"),
    [
        (KILLED, (), (), "unclean-election"),
        ((), (("x", 3 * SECOND),), (), "unclean-election"),  # it had the older record all the time
        ((), (("x", 3 * SECOND),), (5,), "unknown"),  # but it may have lost it for a while
        ((), (("z", 3 * SECOND),), (), "unknown"),  # that record is not there now
        ((), (), (), "unknown"),
    ],
)
def test_a_second_unclean_election_loses_what_was_written_after_the_first(faults, earlier, started, cause):
    starts = server_log("1", *((at, LOADED % 2) for at in (*started, 13)))
    held = returned(*faults, events=(starts, CUT_LATER[1]))
    of_2 = replace(lost(at=10), earlier=earlier)
    found = explain_loss(held, of_2)
    assert found.cause == cause, found
    if cause != "unknown":
        change = find_leader_change(held, of_2)
        assert (change.old_leader, change.new_leader) == ("2", "1")
        assert any(fact.kind == "truncated" and fact.broker == "2" for fact in found.chain)


@pytest.mark.parametrize("events", [CUT_LATER, (server_log("2", (16, LOADED % 2)),)], ids=["truncated", "loaded"])
def test_a_second_unclean_election_after_that_of_a_dead_broker_and_before_a_rolling_restart(events):
    """As in a recorded run: the controller elected broker 3 before it noticed that this was dead, too."""
    leads_3, leads_2, at_end = {"leader": 3, "isr": [3]}, {"leader": 2, "isr": [1, 2]}, {"leader": 1, "isr": [1, 2]}
    changes = (4, {"isr": [1]}), (8, ELECTED_2), (9, {"isr": [2, 3]}), (11, leads_3), (12, LEADERLESS)
    meta = metadata(*changes, (14, ELECTED_1), (20, {"isr": [1, 2]}), (22, leads_2), (24, at_end))
    begun = ((broker, *epoch) for broker in "12" for epoch in ((0, 0), (4, 2), (5, 3)))
    tables = {**logs("1: 0a 1x 2y@4\n2: 0a 1x 2y@4"), "epochs": epochs(*begun)}
    faults = (*KILLED, fault("kill", "2", 10.7), fault("kill", "3", 10.8))
    held = timeline(tables, meta=meta, events=events, leader="1", faults=faults)
    change = find_leader_change(held, lost(at=10))
    assert (change.old_leader, change.new_leader) == ("2", "1")
    assert explain_loss(held, lost(at=10)).cause == "unclean-election"


@pytest.mark.parametrize(
    ("at", "begun", "cause"),
    [
        (10, 2, "unclean-election"),
        (14.2, 2, "unclean-election"),  # broker 2 acknowledged it before it heard of the election
        (10, 1, "unknown"),  # broker 3 may have fetched the older record later
    ],
)
def test_a_follower_of_the_first_leader_brings_back_what_it_had_fetched(at, begun, cause):
    """As in a recorded run: a reassignment added broker 2, which was elected with an empty log, and was cancelled."""
    tables = {**logs("1: 0a 1x\n3: 0a 1x"), "epochs": epochs(("3", 0, 0), ("3", 2, begun))}
    meta = metadata((4, {"isr": [1]}), (8, ELECTED_2), (14, {"leader": 3, "isr": [3], "leaderRecoveryState": 1}))
    held = timeline(tables, meta=meta, leader="3", faults=KILLED[:1])
    of_2 = lost(at=at)
    found = explain_loss(held, of_2)
    assert found.cause == cause, found
    if cause != "unknown":
        change = find_leader_change(held, of_2)
        assert (change.old_leader, change.new_leader) == ("2", "3")


@pytest.mark.parametrize(("followed", "cause"), [((("1", 2, 2),), "unclean-election"), ((), "unknown")])
def test_an_old_leader_that_followed_and_leads_again_uncleanly_brings_nothing_back(followed, cause):
    """No server.log shows that it truncated. If its second term is after the record of the other's, it had."""
    tables = {**logs("1: 0a 1x@1 2y@1"), "epochs": epochs(("1", 0, 0), ("1", 1, 1), *followed)}
    begins = server_log("1", (12, LOADED % 2), (14, BEGINS % (2, 2, 3, "1")))
    meta = metadata((4, {"isr": [1]}), (8, ELECTED_2), (14, ELECTED_1))
    held = timeline(tables, meta=meta, events=(begins,), leader="1", faults=(*KILLED, fault("kill", "2", 13)))
    found = explain_loss(held, lost())
    assert found.cause == cause, found


def test_a_leader_acknowledges_until_it_hears_that_the_isr_is_empty():
    """The controller noted the shutdown at 11 s, and the last acknowledgement reached the client at 12 s."""
    held = returned(fault("kill", "1", 6), fault("restart", "1", 13))
    assert isr_at(held, 12 * SECOND) == {"2"}
    assert explain_loss(held, lost(at=12)).cause == "unclean-election"


@pytest.mark.parametrize(("acks", "at"), [("1", 8.3), ("all", 15)], ids=["just elected", "late"])
@pytest.mark.parametrize(("killed", "cause"), [(6, "unclean-election"), (9, "unknown")])
def test_a_leader_that_was_dead_at_the_next_election_acknowledges_nothing_in_its_old_term(killed, acks, at, cause):
    """Broker 1 died, and there was no leader until broker 2 was elected at 8 s. Broker 1 leads again at 14 s."""
    none_leads = {"leader": -1, "isr": [], "eligibleLeaderReplicas": [1]}
    meta = metadata((4, {"isr": [1]}), (7, none_leads), (8, ELECTED_2), (11, LEADERLESS), (14, ELECTED_1))
    tables = {**TABLES, "epochs": epochs(("1", 0, 0), ("2", 2, 1), ("1", 4, 2))}
    faults = (fault("kill", "1", killed), fault("restart", "1", 12))
    held = timeline(tables, meta=meta, events=CUT_LATER, leader="1", faults=faults)
    found = explain_loss(held, lost(acks=acks, at=at))
    assert found.cause == cause, found


def test_without_clients_the_truncation_of_the_epoch_in_between_is_shown():
    held = returned()
    partition = Partition("orders", 0, Settings(), *FRAMES, replica_logs=held.replica_logs, timeline=held)
    (cut,) = [one for one in explain_truncations(partition) if one.truncated is not None]
    assert (cut.event, cut.cause) == ("broker 2 truncated offset 1 of orders-0", "unclean-election")


def test_a_truncation_to_what_its_broker_fetches_again_removes_nothing():
    """Broker 2 led from offset 2 and wrote nothing."""
    tables = {**TABLES, "epochs": epochs(("1", 0, 0), ("2", 1, 2), ("1", 3, 2))}
    meta = metadata((4, {"isr": [1]}), (8, ELECTED_2), (11, LEADERLESS), (14, ELECTED_1))
    held = timeline(tables, meta=meta, events=CUT_LATER, leader="1")
    partition = Partition("orders", 0, Settings(), *FRAMES, replica_logs=held.replica_logs, timeline=held)
    assert not [one for one in explain_truncations(partition) if one.truncated is not None]


@pytest.mark.parametrize(
    ("history", "rule", "is_related"),
    [
        ("p:a@0 p:b@2 q:z@1 p:c@1 c:<a@0,c@1 final:<a@0,z@1,b@2", "nonmonotonic-send", True),  # c is lost, b is not
        ("p:a@0 p:b@2 q:z@1 p:c@1 final:<a@0,c@1,b@2", "nonmonotonic-send", False),  # only z is lost
        ("q:z@1 p:b@2 p:c@1 c:<c@1 final:<z@1,b@2", "realtime-order", True),
        ("q:z@1 p:b@2 p:a@0 p:c@1 c:<c@1 final:<a@0,z@1,b@2", "realtime-order", False),  # a is not lost
    ],
)
def test_an_order_of_which_all_later_appends_were_lost_follows_from_their_loss(history, rule, is_related, tmp_path):
    run = judge(f"{{final=true}} {history}", tmp_path)
    found = [one for one in run.of(rule) if "c" in one["values"]]
    assert [bool(one["related"]) for one in found] == [is_related]
