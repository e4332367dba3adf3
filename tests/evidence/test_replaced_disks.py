"""Losses by brokers that returned with some new disks, or with no log at all."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss

from .replica_texts import logs
from .test_disk_causes import ALONE, CLEAN, NEW, STOPPED, rolled_back, sentences
from .timelines import BOOT, CRASHED, CUT, LOADED, epochs, fault, lost, metadata, server_log, timeline


def moved(*changes, after):
    """Broker 1 registers with the log.dirs a and b, the replica moves, and broker 1 registers with others."""
    placed = [(at, {"directories": [directory, "c"]}) for at, directory in changes]
    return [(1, {"brokerId": 1, "logDirs": "ab"}), *placed, (9, {"brokerId": 1, "logDirs": after}), *ALONE]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        (moved((2, "a"), after="bx"), "log-rolled-back"),
        # The broker assigns the replica to its new disk, and registers after that.
        (moved((2, "a"), (8, "x"), after="bx"), "log-rolled-back"),
        (moved((2, "b"), after="bx"), "last-replica-standing"),
        # An administrator moved the replica to the other disk before.
        (moved((2, "a"), (4, "b"), after="bx"), "last-replica-standing"),
        # The log.dir of the replica is not recorded.
        (moved(after="bx"), "last-replica-standing"),
        (moved((2, "A" * 22), after="bx"), "last-replica-standing"),
    ],
)
def test_a_broker_without_the_disk_of_its_replica_lost_the_log(changes, cause):
    found = rolled_back(*STOPPED, before="", after="1: 0a\n2: 0a", changes=changes)
    assert found.cause == cause
    shown = "broker 1 registered with the controller, without the log.dir of its replica of orders-0 (directory.id)"
    assert (shown in sentences(found)) == (cause == "log-rolled-back")


def test_a_disk_without_the_replica_is_not_one_of_its_new_disks():
    registered = moved((2, "b"), after="bx")
    assert not timeline({}, meta=metadata(*registered)).new_disks
    assert len(timeline({}, meta=metadata(*moved((2, "a"), after="bx"))).new_disks) == 1


@pytest.mark.parametrize(
    ("registered", "cause"),
    [
        (9, "log-rolled-back"),
        (2, "last-replica-standing"),  # before the record was written
        (11, "last-replica-standing"),  # by a later process than the one that had lost the record
    ],
)
def test_a_new_disk_lost_what_the_process_that_registered_it_lacks(registered, cause):
    changes = [(1, {"brokerId": 1, "logDirs": "a"}), (registered, {"brokerId": 1, "logDirs": "b"}), *ALONE]
    events = [server_log("1", (7, CRASHED), (8, LOADED % 1), (10, BOOT))]
    assert rolled_back(before="", after="", changes=changes, events=events).cause == cause


NEW_DISK = [(at, {"brokerId": 2, "logDirs": name}) for at, name in ((1, "a"), (9, "b"))]
TWO_STARTS = server_log("1", (7, BOOT), (8, BOOT))
DAMAGED = replace(fault("corrupt", "1", 6.5), details={"topic": "orders", "partition": 0})


@pytest.mark.parametrize(
    ("faults", "events", "changes", "cause"),
    [
        ([fault("kill", "2", 8)], [NEW], [], "unknown"),  # broker 1 may have lost power
        (STOPPED, [], NEW_DISK, "last-replica-standing"),
        ([fault("shutdown", "1", 6), DAMAGED], [TWO_STARTS], [], "last-replica-standing"),  # damage cuts nothing off
    ],
)
def test_faults_of_others_and_other_faults_replace_no_log(faults, events, changes, cause):
    found = rolled_back(*faults, before="", after="1: 0a\n2: 0a", changes=[*changes, *ALONE], events=events)
    assert found.cause == cause


def test_a_log_that_was_short_when_it_was_copied_was_lost_before_the_next_process_has_a_new_disk():
    changes = [(1, {"brokerId": 1, "logDirs": "a"}), (11, {"brokerId": 1, "logDirs": "b"}), *ALONE]
    found = rolled_back(*STOPPED, before="", after="1: 0a\n2: 0a", changes=changes)
    assert found.cause == "last-replica-standing"


FOLLOWS = [(1, {"leader": 2}), (7, {"leader": -1, "isr": [], "eligibleLeaderReplicas": [1, 2]})]
LEADS_LAST = (12, {"leader": 1, "isr": [1]})
ALL_DOWN = [fault("kill", "1", 6), fault("kill", "2", 8), fault("restore", "1", 9)]
BACK = [fault("restart", "1", 10), fault("restart", "2", 10)]


@pytest.mark.parametrize(
    ("faults", "changes", "cause"),
    [
        ([*ALL_DOWN, *BACK], [*FOLLOWS, LEADS_LAST], "log-rolled-back"),
        # Broker 2 may have started again without the records before the partition had no leader.
        ([fault("restart", "2", 6.5), *ALL_DOWN, *BACK], [*FOLLOWS, LEADS_LAST], "unknown"),
        # It led on until broker 1 did.
        ([*ALL_DOWN, *BACK], [FOLLOWS[0], LEADS_LAST], "unknown"),
    ],
)
def test_a_follower_keeps_its_log_while_its_leader_leads_on(faults, changes, cause):
    found = rolled_back(*faults, before="", after="1: 0a\n2: 0a", changes=changes)
    assert found.cause == cause


@pytest.mark.parametrize(
    ("first_end", "cause"), [(1, "last-replica-standing"), (2, "log-rolled-back")], ids=["short before", "whole before"]
)
def test_a_later_start_after_a_clean_shutdown_has_not_lost_what_the_first_one_lacked(first_end, cause):
    """As in a recorded run: a killed broker starts, ends as ZooKeeper has its old session, and starts again."""
    first, second = [(6, BOOT), (6, CRASHED), (7, LOADED % first_end)], [(9, BOOT), (10, CLEAN), (11, LOADED % 1)]
    starts = server_log("1", *first, *second)
    changes = [ALONE[0], (8, {"leader": -1}), ALONE[1]]
    found = rolled_back(before="", after="", changes=changes, events=[starts])
    assert found.cause == cause


@pytest.mark.parametrize(
    ("starts", "cause"),
    [
        ([(7, BOOT), (8, CLEAN), (9, LOADED % 1)], "log-rolled-back"),
        ([(7, BOOT), (8, BOOT), (8, CLEAN), (9, LOADED % 1)], "unknown"),  # the first process may have followed
        ([(7, BOOT), (8, CLEAN)], "unknown"),
    ],
)
def test_a_broker_follows_no_leader_until_it_has_loaded_its_logs(starts, cause):
    """Broker 1 was killed, and started from the disk of a clean shutdown, while broker 2 may have led on."""
    changes = [FOLLOWS[0], LEADS_LAST]
    events = [server_log("1", *starts)]
    found = rolled_back(fault("kill", "1", 6), before="", after="", changes=changes, events=events)
    assert found.cause == cause


def test_a_clean_start_may_be_a_later_one_if_its_first_line_was_not_collected():
    events = [server_log("1", (9, CLEAN), (10, LOADED % 1))]
    faults = fault("kill", "1", 6), fault("restart", "1", 7)
    assert rolled_back(*faults, before="", after="", changes=ALONE, events=events).cause == "last-replica-standing"


@pytest.mark.parametrize(
    ("ended", "died", "cause"),
    [
        ("kill", 8, "log-rolled-back"),
        ("kill", 6, "unknown"),  # broker 2 may have come back without the record, and led on
        ("power-loss", 8, "unknown"),  # broker 1 followed it, and may have truncated the record
    ],
)
def test_a_follower_that_dies_later_than_its_leader_came_back_has_what_that_still_had(ended, died, cause):
    """Broker 2 starts again in its term before broker 1, in sync, dies and gets an older log."""
    faults = [fault(ended, "2", 5.5), fault("restart", "2", 6.5), fault("kill", "1", died), fault("kill", "2", 8.4)]
    changes = [(3, {"leader": 2, "isr": [2]}), (4, {"isr": [1, 2]}), (8.5, FOLLOWS[1][1]), LEADS_LAST]
    events = [server_log("1", (11, LOADED % 1))]
    faults += [fault("restore", "1", 9), *BACK]
    assert rolled_back(*faults, before="", after="", changes=changes, events=events).cause == cause


IN_SYNC = [(3, {"leader": 2, "isr": [2]}), (4, {"isr": [1, 2]})]


@pytest.mark.parametrize(
    ("acks", "changes", "cause"),
    [
        ("all", IN_SYNC, "log-rolled-back"),
        ("1", IN_SYNC, "unknown"),  # a follower in the ISR need not have fetched the record
        ("1 all", [*IN_SYNC, (6, {"isr": [1, 2, 3]})], "unknown"),
        ("1", [*IN_SYNC, (6, {"isr": [2]}), (7, {"isr": [1, 2]})], "log-rolled-back"),
    ],
)
def test_a_follower_in_the_isr_has_a_record_with_acks_1_only_if_it_joined_later(acks, changes, cause):
    faults = fault("kill", "2", 8), fault("kill", "1", 8), fault("restore", "1", 9), fault("restart", "1", 11)
    found = rolled_back(*faults, before="", after="1: 0a\n2: 0a", changes=[*changes, LEADS_LAST], acks=acks)
    assert found.cause == cause


def later_leader(*changes, epochs_of_1, events, faults=(), acks="all"):
    """The cause of the loss of b if broker 1 leads last, from offset 1."""
    tables = {**logs("1: 0a 1x@3\n2: 0a 1x@3"), "epochs": epochs(("1", 0, 0), *(("1", *row) for row in epochs_of_1))}
    meta = metadata(*changes).with_columns(byte=pl.int_range(pl.len()))
    held = timeline(tables, {"replicas": ("1", "2")}, meta, events, leader="1", faults=faults)
    return explain_loss(held, lost(acks)).cause


@pytest.mark.parametrize(
    ("acks", "isr", "start", "cause"),
    [
        ("1", [1, 2], 2, "log-rolled-back"),
        ("1", [1, 2], 1, "single-ack-failover"),
        ("1", [1, 2], None, "unknown"),
        ("1", [2], 2, "unknown"),  # by an unclean election, perhaps with another record there
        ("all", [2], 2, "unknown"),
    ],
)
def test_a_broker_that_led_cleanly_from_above_a_record_had_it(acks, isr, start, cause):
    """Broker 2 acknowledges the record, and broker 1 leads from `start` before its log is replaced."""
    changes = (3, {"leader": 2, "isr": isr}), (7, {"leader": 1, "isr": [1, *isr[:-1]]}), LEADS_LAST
    faults = fault("kill", "2", 6.5), fault("kill", "1", 8), fault("restore", "1", 9), fault("restart", "1", 10)
    begun = [] if start is None else [(2, start)]
    terms = {"epochs_of_1": [(1, 0), *begun, (3, 1)], "events": [server_log("1", (11, LOADED % 1))]}
    assert later_leader(*changes, **terms, faults=faults, acks=acks) == cause


@pytest.mark.parametrize(("between", "cause"), [((), "log-rolled-back"), ((10, 11), "unknown")])
def test_a_broker_that_found_no_log_may_have_fetched_the_records_before_it_led(between, cause):
    """Broker 1 creates its log at 9 s. Broker 2 may lead from 10 s, from above the record; broker 1 joins its ISR."""
    leads_2 = [(at, change) for at, change in zip(between, ({"leader": 2, "isr": [2]}, {"isr": [1, 2]}), strict=False)]
    terms = [(1, 2), (2, 1)] if between else [(1, 1)]
    killed = fault("kill", "1", 6), fault("restart", "1", 8.5)
    assert later_leader(*leads_2, LEADS_LAST, epochs_of_1=terms, events=[NEW], faults=killed) == cause


@pytest.mark.parametrize(("end", "cause"), [(2, "last-replica-standing"), (1, "unknown"), (None, "unknown")])
def test_a_broker_that_joined_the_isr_later_may_have_what_the_last_replica_lost(end, cause):
    """Broker 1 acknowledges alone, and broker 2 joins it. Broker 1 loses the record twice, and leads alone."""
    dark = [fault(kind, broker, at) for kind, at in (("power-loss", 8), ("restart", 10)) for broker in ("1", "2")]
    dark += [fault("power-loss", "1", 12), fault("restart", "1", 14)]
    changes = (3, {"isr": [1]}), (6, {"isr": [1, 2]}), (13, {"leader": -1, "isr": [1]}), (15, {"leader": 1})
    loads = [server_log("1", (11, LOADED % 1), (14, LOADED % 1))]
    loads += [] if end is None else [server_log("2", (11, LOADED % end))]
    assert later_leader(*changes, epochs_of_1=[(2, 1)], events=loads, faults=dark) == cause


@pytest.mark.parametrize(("acks", "cause"), [("all", "last-replica-standing"), ("1", "unknown")])
def test_the_last_replica_had_as_a_follower_what_acks_all_acknowledged(acks, cause):
    """Broker 2 acknowledges while broker 1 is in the ISR, and is killed. Broker 1 leads alone, and loses power."""
    changes = (3, {"leader": 2}), (6, {"leader": 1, "isr": [1]}), LEADS_LAST
    ends = (("kill", "2", 5.5), ("power-loss", "1", 8), ("restart", "1", 11), ("restart", "2", 14))
    logged = [server_log("1", (11, LOADED % 1)), server_log("2", (14, LOADED % 2), (15, CUT % 1))]
    faults = [fault(*end) for end in ends]
    assert later_leader(*changes, epochs_of_1=[(3, 1)], events=logged, faults=faults, acks=acks) == cause


@pytest.mark.parametrize(("epoch", "start", "cause"), [(2, 1, "unknown"), (3, 2, "log-rolled-back")])
def test_a_shutdown_after_it_led_without_the_records_proves_nothing(epoch, start, cause):
    """Broker 2 leads in epoch 2 from `start`, is shut down, and then has a log that ends at 1."""
    own = epochs(("2", 0, 0), ("2", 2, start), *([("2", 3, 1)] if epoch == 3 else []))
    tables = {**logs(f"1: 0a 1x@{epoch}\n2: 0a 1x@{epoch}"), "epochs": own}
    meta = metadata((3, {"leader": 1, "isr": [1, 2]}), (6, {"leader": 2, "isr": [2]}), (12, {"leader": 2, "isr": [2]}))
    lines = server_log("2", (8, BOOT), (9, LOADED % 1))
    found = explain_loss(timeline(tables, meta=meta, events=[lines], faults=[fault("shutdown", "2", 7)]), lost())
    assert found.cause == cause
