"""A replaced leader acknowledges records with acks=1 until it learns of its replacement."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.leader_change import find_leader_change
from logjudge.analysis.causes.replica_history import facts_had_records

from .replica_texts import joined, logs
from .timelines import BEGINS, BOOT, CUT, LOADED, SECOND, epochs, fault, lost, metadata, server_log, timeline

REGISTERED = {"brokerId": 2, "logDirs": "a"}
FOLLOWS = (
    "INFO [Broker id=1] Follower orders-0 starts at leader epoch %d from offset %d with partition epoch 7 and high"
    " watermark 1. Current leader is 2. (state.change.logger)"
)


@pytest.mark.parametrize(
    ("follows", "cause"),
    [
        ((), "single-ack-failover"),
        (((18, FOLLOWS % (1, 3)),), "single-ack-failover"),
        (((15, FOLLOWS % (1, 3)),), "single-ack-failover"),  # the response reached the client just after this line
        (((8, FOLLOWS % (1, 3)),), "unknown"),
        (((15, FOLLOWS % (1, 2)),), "unknown"),  # its log had no record at offset 2, and it had truncated nothing yet
    ],
)
def test_a_replaced_leader_that_follows_already_acknowledges_nothing(follows, cause):
    """Broker 2 leads from 4 s. The record beyond its log was acknowledged at 15 s, and broker 1 truncated at 20 s."""
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    events = [server_log("1", *follows, (20, CUT % 1))]
    late = lost(acks="1", first=2, last=2, values=("c",), at=15)
    assert explain_loss(timeline(tables, None, metadata((4, {"leader": 2, "isr": [2]})), events), late).cause == cause


@pytest.mark.parametrize(("restarted", "cause"), [(3, "single-ack-failover"), (4.5, "unknown"), (6, "unknown")])
def test_a_leader_that_restarted_after_its_replacement_acknowledges_nothing_in_its_old_term(restarted, cause):
    """Broker 2 leads from 4 s. Broker 1 truncated what was acknowledged at 15 s, perhaps as the leader before 4 s."""
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    faults = (fault("kill", "1", 2), fault("restart", "1", restarted))
    meta = metadata((4, {"leader": 2, "isr": [2]}))
    found = timeline(tables, None, meta, [server_log("1", (20, CUT % 1))], faults=faults)
    assert explain_loss(found, lost(acks="1", first=2, last=2, values=("c",), at=15)).cause == cause


@pytest.mark.parametrize(("resumed", "cause"), [(9, "single-ack-failover"), (17, "unknown")])
def test_a_paused_leader_acknowledges_nothing(resumed, cause):
    """Broker 2 leads from 4 s. Broker 1 truncated what was acknowledged at 15 s, perhaps by itself."""
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    faults = (fault("pause", "1", 2), replace(fault("pause", "1", resumed), type="heal"))
    meta = metadata((4, {"leader": 2, "isr": [2]}))
    found = timeline(tables, None, meta, [server_log("1", (20, CUT % 1))], faults=faults)
    assert explain_loss(found, lost(acks="1", first=2, last=2, values=("c",), at=15)).cause == cause


@pytest.mark.parametrize(("offset", "acknowledged_by"), [(1, "2"), (2, "1")])
def test_a_tombstone_in_the_log_of_the_new_leader_is_the_acknowledged_one(offset, acknowledged_by):
    """Broker 2 leads from 4 s, and its copy has a tombstone at offset 1 that a later leader replaced."""
    before = logs("2: 0a 1t@1 2c@1", "before")
    before["records"] = before["records"].with_columns(pl.col("value").replace("t", None))
    tables = {**joined(before, logs("1: 0a 1x@2 2y@2\n2: 0a 1x@2 2y@2")), "epochs": epochs(("2", 1, 1), ("1", 2, 1))}
    meta = metadata((4, {"leader": 2, "isr": [1, 2]}), (18, {"leader": 1, "isr": [1]}))
    about = {"snapshots": ("before", ""), "times": {"before": 17 * SECOND}}
    found = timeline(tables, about, meta, [server_log("2", (1, BOOT))])
    gone = lost(acks="1", first=1, last=1, values=(f"tombstone@{offset}",), at=15)
    assert find_leader_change(found, gone).old.leader == acknowledged_by


@pytest.mark.parametrize(
    ("kind", "ended", "cause"),
    [("kill", 3, "unknown"), ("shutdown", 3, "unknown"), ("kill", 6, "last-replica-standing")],
)
def test_a_leader_that_has_stopped_acknowledges_nothing(kind, ended, cause):
    """The controllers' disks came back from a backup, so the metadata log lacks the leader that acknowledged at 5 s."""
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}
    meta = metadata((2, {"isr": [1]}), (7, {"leader": -1}), (9, {"leader": 1}))
    faults = (fault(kind, "1", ended), fault("restart", "1", 8))
    explained = explain_loss(timeline(tables, None, meta, leader="1", faults=faults), lost())
    assert explained.cause == cause, explained
    if cause == "unknown":
        assert any("the leader of orders-0 when the records were acknowledged" in one for one in explained.missing)


@pytest.mark.parametrize("kind", ["kill", "shutdown"])
def test_a_follower_that_has_stopped_has_nothing_that_is_acknowledged_later(kind):
    """Broker 2 leads, and the last known ISR has broker 1."""
    meta = metadata((2, {"leader": 2}))

    def has_records(ended):
        found = timeline(logs("2: 0a"), meta=meta, faults=[fault(kind, "1", ended)])
        return bool(facts_had_records(found, "1", lost()))

    assert [has_records(ended) for ended in (3, 6)] == [False, True]


def test_a_leader_that_missed_two_elections_acknowledged_what_it_truncated():
    """Broker 1 is cut off from the controller and acknowledges. Broker 3 leads from 4 s, broker 2 from 6 s."""
    tables = {**logs("1: 0a\n2: 0a\n3: 0a"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    in_sync = (2, {"isr": [1, 2, 3]})
    meta = metadata(in_sync, (4, {"leader": 3, "isr": [2, 3]}), (6, {"leader": 2, "isr": [2]}))
    late = lost(acks="1", first=2, last=2, values=("c",), at=15)
    explained = explain_loss(timeline(tables, None, meta, [server_log("1", (20, CUT % 1))]), late)
    assert explained.cause == "single-ack-failover"
    assert explained.chain[0].broker == "1"
    both_cut = [server_log(broker, (20, CUT % 1)) for broker in ("1", "3")]
    assert explain_loss(timeline(tables, None, meta, both_cut), late).cause == "unknown"


@pytest.mark.parametrize(("end", "cause"), [(2, "single-ack-failover"), (3, "unknown")])
def test_a_leader_that_follows_with_a_shorter_log_acknowledged_none(end, cause):
    """Broker 3, cut off, led from 4 s, and heard only of the last of three later elections."""
    tables = {**logs("1: 0a\n2: 0a\n3: 0a"), "epochs": epochs(("2", 0, 0), ("2", 4, 1))}
    in_sync, leads_3, leads_2 = {"isr": [1, 2, 3]}, {"leader": 3, "isr": [2, 3]}, {"leader": 2, "isr": [2]}
    meta = metadata((2, in_sync), (4, leads_3), (6, leads_2), (8, {"leader": -1}), (9, {"leader": 2}))
    late = lost(acks="1", first=2, last=2, values=("c",), at=15)
    events = [server_log("1", (20, CUT % 1)), server_log("3", (19, FOLLOWS % (4, end)), (20, CUT % 1))]
    assert explain_loss(timeline(tables, None, meta, events), late).cause == cause


@pytest.mark.parametrize(
    ("start", "cause"), [(1, "single-ack-failover"), (2, "single-ack-failover"), (3, "unclean-election")]
)
def test_an_election_after_that_of_the_first_leader_without_the_records_did_not_lose_them(start, cause):
    """Broker 2 leads from 4 s, from offset `start`; broker 3, out of sync, from 6 s. Broker 1 acknowledges at 15 s."""
    tables = {**logs("1: 0a\n2: 0a\n3: 0a"), "epochs": epochs(("2", 0, 0), ("2", 1, start), ("3", 0, 0), ("3", 2, 1))}
    meta = metadata((4, {"leader": 2, "isr": [2]}), (6, {"leader": 3, "isr": [3], "leaderRecoveryState": 1}))
    late = lost(acks="1", first=2, last=2, values=("c",), at=15)
    assert explain_loss(timeline(tables, None, meta, [server_log("1", (20, CUT % 1))]), late).cause == cause


@pytest.mark.parametrize(
    ("changes", "cause"),
    [([], "unclean-election"), ([(17, REGISTERED)], "unknown")],  # it may have lost a record of its own at 17 s
)
def test_the_isr_of_a_new_leader_is_not_that_of_a_late_acknowledgement(changes, cause):
    """As in a recorded controlled shutdown: broker 1, alone in its ISR, acknowledges after the election."""
    unclean = {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    meta = metadata((1, REGISTERED), (3, {"isr": [1]}), (4, unclean), *changes)
    tables = {**logs("1: 0a 1x@1\n2: 0a 1x@1"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    explained = explain_loss(timeline(tables, None, meta), lost(at=4.2))
    assert explained.cause == cause, explained


def test_a_start_before_the_election_of_a_leader_lost_nothing_that_it_acknowledged():
    unclean = {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    meta = metadata((3, {"isr": [1]}), (3.8, REGISTERED), (4, unclean))
    tables = {**logs("1: 0a 1x@1\n2: 0a 1x@1"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    found = timeline(tables, None, meta, [server_log("1", (20, CUT % 1))])
    assert explain_loss(found, lost(at=4.2)).cause == "unclean-election"


@pytest.mark.parametrize(("isr", "cause"), [([1], "unknown"), ([1, 2], "last-replica-standing")])
def test_with_acks_all_only_a_leader_alone_in_the_isr_acknowledges_late(isr, cause):
    """As in a recorded run: broker 1, cut off, acknowledges just after the election of broker 2, which dies then."""
    meta = metadata((3, {"isr": isr}), (8, {"leader": 2, "isr": [2]}))
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    led = [(at, BEGINS % (1, 1, 3, "2")) for at in (8, 13)]
    events = [server_log("1", (20, CUT % 1)), server_log("2", led[0], (12, LOADED % 1), led[1])]
    faults = (fault("kill", "2", 9), fault("restart", "2", 11))
    late = lost(first=2, last=2, values=("c",), at=8.2)
    explained = explain_loss(timeline(tables, None, meta, events, faults=faults), late)
    assert explained.cause == cause, explained


def test_without_the_metadata_log_a_replaced_leader_may_have_been_alone_in_the_isr():
    """No line names the leader of epoch 1."""
    led = [(at, BEGINS % (2, 1, 3, "2")) for at in (8, 13)]
    shrunk = [(at, BEGINS % (0, 0, at, isr)) for at, isr in ((1, "1,2"), (2, "1"))]
    events = [server_log("1", *shrunk, (20, CUT % 1)), server_log("2", led[0], (12, LOADED % 1), led[1])]
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    faults = (fault("kill", "2", 9), fault("restart", "2", 11))
    late = lost(first=2, last=2, values=("c",), at=8.2)
    found = timeline(tables, None, None, events, {"min.insync.replicas": 1}, faults=faults)
    assert explain_loss(found, late).cause == "unknown"


@pytest.mark.parametrize(
    ("earlier", "faults", "cause"),
    [
        ((), (), "single-ack-failover"),
        ((("b", 2 * SECOND),), (), "unknown"),
        ((("b", 6 * SECOND),), (), "single-ack-failover"),  # by broker 2
        # It may have lost that record when it started again.
        ((("b", 2 * SECOND),), (fault("kill", "1", 2.5), fault("restart", "1", 3)), "single-ack-failover"),
    ],
)
def test_a_leader_appends_each_offset_once(earlier, faults, cause):
    """Broker 2 leads from 4 s. Broker 1 acknowledged another record at the offset of the one acknowledged at 15 s."""
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    meta = metadata((4, {"leader": 2, "isr": [2]}))
    late = replace(lost(acks="1", first=2, last=2, values=("c",), at=15), earlier=earlier)
    found = timeline(tables, None, meta, [server_log("1", (20, CUT % 1))], faults=faults)
    assert explain_loss(found, late).cause == cause


@pytest.mark.parametrize(
    ("of_1", "cause"),
    [
        ((), "unknown"),
        (((20, FOLLOWS % (2, 3)), (21, CUT % 1)), "unknown"),  # it had a record at offset 2
        (((20, FOLLOWS % (2, 2)), (21, CUT % 1)), "unclean-election"),
        (((7, FOLLOWS % (1, 3)), (21, CUT % 1)), "unclean-election"),  # it knew that broker 3 led
    ],
)
def test_an_unclean_election_lost_nothing_that_a_replaced_leader_may_have_acknowledged(of_1, cause):
    """Broker 3 leads from 6 s, and broker 2 is elected uncleanly at 16 s. No file of broker 3 was collected."""
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    leads_3, shrunk, leads_2 = {"leader": 3, "isr": [2, 3]}, {"isr": [3]}, {"leader": 2, "isr": [2]}
    meta = metadata((2, {"isr": [1, 2, 3]}), (6, leads_3), (8, shrunk), (16, leads_2 | {"leaderRecoveryState": 1}))
    late, events = lost(acks="1", first=2, last=2, values=("c",), at=12), [server_log("1", *of_1)]
    assert explain_loss(timeline(tables, None, meta, events), late).cause == cause
    killed = (fault("kill", "1", 5), fault("restart", "1", 19))
    assert explain_loss(timeline(tables, None, meta, events, faults=killed), late).cause == "unclean-election"


def test_a_replaced_leader_lost_late_acknowledgements_by_the_first_election_though_its_start_is_not_known():
    """Broker 3 leads from 4 s, and broker 2 is elected uncleanly at 6 s. No file of broker 3 was collected."""
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    leads_3, leads_2 = {"leader": 3, "isr": [3]}, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    meta = metadata((2, {"isr": [1, 2, 3]}), (4, leads_3), (6, leads_2))
    late, cut = lost(acks="1", first=2, last=2, values=("c",), at=15), server_log("1", (20, CUT % 1))
    found = explain_loss(timeline(tables, None, meta, [cut]), late)
    assert (found.cause, found.chain[0].broker) == ("single-ack-failover", "1")
