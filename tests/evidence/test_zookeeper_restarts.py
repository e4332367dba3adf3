"""Leaders that restart: ZooKeeper's controller keeps the epoch of one that was alone in the ISR."""

from __future__ import annotations

from dataclasses import replace

import pytest
from logjudge.analysis.causes import explain_loss

from .replica_texts import joined, logs
from .test_disk_causes import CLEAN, rolled_back
from .timelines import BEGAN, BOOT, LEADS, SECOND, epochs, fault, lost, metadata, server_log, timeline

BEGINS = (
    "INFO [Broker id=1] Leader orders-0 starts at leader epoch 3 from offset %d with high watermark 1 ISR [1]"
    " addingReplicas [] removingReplicas []. Previous leader epoch was 3. (state.change.logger)"
)

FOLLOWS = (
    "INFO [Broker id=1] Follower orders-0 starts at leader epoch 1 from offset 2 with partition epoch 3 and high"
    " watermark 1. Current leader is 2. Previous leader Some(2) and previous leader epoch was 1. (state.change.logger)"
)


@pytest.mark.parametrize(("first", "resumed_at"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("does_resume", [True, False])
def test_a_restored_leader_that_goes_on_in_its_epoch_lost_the_records(first, resumed_at, does_resume):
    """Broker 2 acknowledges the record at offset 1 in epoch 0, broker 1 that at 2 in epoch 3, before it is restored."""
    before = (1, LEADS % (2, 0, "1,2")), (7, LEADS % (1, 3, "1")), (7, BEGINS % 2)
    after = (11, BOOT), *([(12, BEGINS % resumed_at)] if does_resume else [])
    faults = [fault("shutdown", "1", 9), fault("restore", "1", 10), fault("restart", "1", 11)]
    about = {"replicas": ("1", "2"), "snapshots": ("before", ""), "times": {"before": 8 * SECOND}}
    tables = joined(logs("2: 0a 1b 2c@3", "before"), logs("1: 0a 1x@3\n2: 0a 1x@3" if first == 1 else "1: 0a\n2: 0a"))
    held = timeline(tables, about, None, [server_log("1", *before, *after)], leader="1", faults=faults)
    value, acknowledged_at = {1: ("b", 5), 2: ("c", 8)}[first]
    found = explain_loss(held, lost(first=first, last=first, values=(value,), at=acknowledged_at))
    assert (found.cause == "log-rolled-back") == (does_resume and resumed_at <= first)


@pytest.mark.parametrize("epoch_file_of", ["1", "2"])
def test_a_leader_with_other_records_in_its_log_brought_nothing_back(epoch_file_of):
    """Broker 1 still had the record when broker 2 was elected from outside the ISR, and led again later."""
    parts = [logs("1: 0a 1b\n2: 0a", "before"), logs("1: 0a 1x@1 2y@2\n2: 0a 1x@1 2y@2")]
    tables = {**joined(*parts), "epochs": epochs(("1", 0, 0), (epoch_file_of, 1, 1), ("1", 2, 2))}
    unclean = {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    meta = metadata(
        (4, {"isr": [1]}), (9, unclean), (12, {"isr": [2, 1], "leaderRecoveryState": 0}), (14, {"leader": 1})
    )
    about = {"snapshots": ("before", ""), "times": {"before": 8 * SECOND}}
    assert explain_loss(timeline(tables, about, meta, leader="1"), lost()).cause == "unclean-election"


@pytest.mark.parametrize(
    ("starts", "cause"), [((9,), "log-rolled-back"), ((7, 9), "last-replica-standing")], ids=["first", "second"]
)
def test_a_start_that_failed_while_the_session_lasted_ended_cleanly_after_the_loss(starts, cause):
    """Broker 1 is killed at 6 s. Its second start finds that the first ended cleanly, which may have lost the tail."""
    changes = [(3, {"leader": 1, "isr": [1]}), (8, {"leader": -1}), (12, {"leader": 1, "isr": [1]})]
    lines = server_log("1", *((at, BOOT) for at in starts), (9, CLEAN))
    found = rolled_back(fault("kill", "1", 6), before="", after="1: 0a\n2: 0a", changes=changes, events=[lines])
    assert found.cause == cause


@pytest.mark.parametrize("is_clean", [True, False])
def test_the_chain_ends_where_the_leader_led_on_in_its_epoch(is_clean):
    """Broker 1 is down from 9 to 11 s. Later faults, and a truncation after the record, lost nothing."""
    cut = {"details": {"topic": "orders", "partition": 0, "offsets_cut": [4, 5]}}
    faults = [
        replace(fault("truncate", "1", 8), **cut),
        fault("shutdown" if is_clean else "kill", "1", 9),
        fault("restart", "1", 11),
        fault("kill", "1", 20),
        replace(fault("truncate", "1", 21), **cut),
    ]
    lines = [(1, LEADS % (1, 3, "1")), (1, BEGINS % 0), (11, BOOT), (12, BEGINS % 1)]
    held = timeline(logs("1: 0a"), {"replicas": ("1",)}, None, [server_log("1", *lines)], leader="1", faults=faults)
    found = explain_loss(held, lost())
    assert found.cause == ("log-rolled-back" if is_clean else "last-replica-standing")
    assert found.chain[-1].sentence == "broker 1 began to lead orders-0 in epoch 3 from offset 1, ISR [1]"
    assert not [fact for fact in found.chain if fact.kind == "fault-truncate"]
    assert ("fault-shutdown" if is_clean else "kill") in {fact.kind for fact in found.chain}


@pytest.mark.parametrize(("version", "cause"), [("3.8.1", "unclean-election"), ("1.1.1", "unknown")])
def test_a_leader_that_had_joined_the_isr_of_the_unclean_one_brought_nothing_back(version, cause):
    """No server.log shows what broker 1 truncated, and the next unclean election removed its second term."""
    unclean = {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    join = (12, {"isr": [2, 1], "leaderRecoveryState": 0})
    meta = metadata((4, {"isr": [1]}), (9, unclean), join, (14, {"leader": 1, "isr": [1]}), (20, unclean))
    tables = {**logs("1: 0a 1x@1 2z@3\n2: 0a 1x@1 2z@3"), "epochs": epochs(("2", 0, 0), ("2", 1, 1), ("2", 3, 2))}
    lines = (11, FOLLOWS), (14, BEGAN % (1, 2, 2, 5, "1"))
    found = timeline(tables, meta=meta, events=[server_log("1", *lines)], version=version)
    assert explain_loss(found, lost()).cause == cause
