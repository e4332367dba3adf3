"""Losses by brokers that returned with some new disks, or with no log at all."""

from __future__ import annotations

import pytest

from .test_disk_causes import ALONE, IN_ORDER, STOPPED, rolled_back, sentences
from .timelines import BOOT, LOADED, fault, metadata, server_log, timeline


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
def test_a_later_start_after_a_shutdown_in_order_has_not_lost_what_the_first_one_lacked(first_end, cause):
    """As in a recorded run: a killed broker starts, ends as ZooKeeper has its old session, and starts again."""
    starts = server_log("1", (6, BOOT), (7, LOADED % first_end), (9, BOOT), (10, IN_ORDER), (11, LOADED % 1))
    changes = [ALONE[0], (8, {"leader": -1}), ALONE[1]]
    found = rolled_back(before="", after="", changes=changes, events=[starts])
    assert found.cause == cause


def test_a_start_in_order_may_be_a_later_one_if_its_first_line_was_not_collected():
    events = [server_log("1", (9, IN_ORDER), (10, LOADED % 1))]
    faults = fault("kill", "1", 6), fault("restart", "1", 7)
    assert rolled_back(*faults, before="", after="", changes=ALONE, events=events).cause == "last-replica-standing"
