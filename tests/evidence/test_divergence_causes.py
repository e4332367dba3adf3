"""Replicas that differ in a snapshot, explained by the truncation that also lost records after the difference."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.incidents.divergences import explain_divergence
from logjudge.analysis.incidents.losses import ExplainedRange
from logjudge.analysis.partitions.evidence import collected_logs
from logjudge.analysis.partitions.partition import Partition
from logjudge.histories.evidence.tables import LOCATION, SEGMENTS
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS, Finding

from .conftest import judge_divergence
from .replica_texts import epochs, joined, logs, sends
from .timelines import CUT, LOADED, SECOND, fault, lost, metadata, server_log, timeline

# Broker 1 was paused with offset 1. Its client sent the record to broker 2 again, and an unclean election brought the
# copy of broker 1 back: offset 1 is the same record of another epoch, and the records after it are lost.
META = metadata((4, {"leader": 2, "isr": [2]}), (9, {"leader": 1, "isr": [1], "leaderRecoveryState": 1}))
FAULTS = (fault("pause", "1", 3), fault("kill", "2", 7), fault("restart", "2", 13))
LOST = lost(first=2, last=2, values=("c",))


def explained(taken=11, differing=(1, 1), cut=1, replicas=("1", "2")):
    held = joined(logs("1: 0a 1b\n2: 0a 1b@1 2c@1", "early"), logs("1: 0a 1b 2x@2\n2: 0a 1b 2x@2"))
    tables = {**held, "epochs": epochs(("1", 0, 0), ("1", 2, 2))}
    events = [server_log("2", (14, LOADED % 3), (15, CUT % cut))]
    about = {"snapshots": ("early", ""), "times": {"early": taken * SECOND}}
    found = timeline(tables, about, META, events, leader="1", faults=FAULTS)
    loss = ExplainedRange(LOST, explain_loss(found, LOST))
    assert loss.explanation.cause == "unclean-election"
    sent = pl.DataFrame([{"value": "c", "partition": 0}], schema=SENDS)
    frames = sent, pl.DataFrame(schema=READS)
    p = Partition("orders", 0, Settings(), *frames, replica_logs=found.replica_logs, timeline=found)
    place = {"first_offset": differing[0], "last_offset": differing[1], "replicas": list(replicas), "snapshot": "early"}
    return explain_divergence(p, Finding("replica-divergence", "", "orders", 0, **place), [loss])


def test_a_truncation_that_lost_records_explains_the_copy_that_it_removed_before_them():
    found = explained()
    assert found is not None
    assert found.cause == "unclean-election"


@pytest.mark.parametrize(
    "case",
    [
        {"cut": 2},  # it kept the record that differs
        {"taken": 16},  # the copies still differed after it
        {"replicas": ("1", "3")},  # of a broker that truncated nothing
        {"differing": (1, 2)},  # the loss itself: the finding is related to it
    ],
)
def test_other_differences_have_no_cause_of_a_loss(case):
    assert explained(**case) is None


MOVED = "INFO [Controller id=2] Successfully updated assignment of partition orders-0 to ReplicaAssignment(replicas=%s, addingReplicas=, removingReplicas=) (kafka.controller.KafkaController)"  # noqa: E501


@pytest.mark.parametrize(
    ("replicas", "snapshot", "differs"), [("1,2", "", False), ("1,2,3", "", True), ("1,2", "early", True)]
)
def test_the_last_log_of_a_broker_that_a_reassignment_removed_is_none_of_a_replica(replicas, snapshot, differs):
    """As before KRaft: broker 3 was dead when the partition was moved, and keeps its log when it starts again."""
    tables = {**logs("1: 0x@1\n2: 0x@1\n3: 0a", snapshot), "log_events": server_log("2", (9, MOVED % replicas))}
    settings = Settings(config={"snapshots": {"early": {"time": 1}}})
    held = collected_logs("orders", 0, tables, settings)
    assert held is not None
    assert (len(held.diverging) > 0) == differs


LED = "INFO [Broker id=2] Leader orders-0 starts at leader epoch %d from offset 1 with high watermark 1 ISR [%s] addingReplicas [%s] removingReplicas [%s]. Previous leader epoch was 0. (state.change.logger)"  # noqa: E501


@pytest.mark.parametrize(
    ("lines", "differs"),
    [
        ([(1, "2", "3", "1"), (2, "2,3", "", "")], False),
        ([(1, "2", "3", "1"), (2, "2", "", "")], True),  # it may have been cancelled
        ([(1, "2", "3", "1")], True),  # it has not ended
        ([(1, "2", "3", "1"), (2, "2,3", "", ""), (3, "2,3", "1", "3")], True),
        ([(1, "2", "", ""), (2, "2,3", "", "")], True),
    ],
)
def test_a_leader_logs_that_a_reassignment_has_removed_a_broker(lines, differs):
    """As before KRaft: broker 1 was dead when the partition was moved to broker 3, whose files were not collected."""
    events = server_log("2", *((number, LED % line) for number, line in enumerate(lines)))
    settings = Settings(config={"topics": {"orders": {"replica.assignment": [["1", "2"]]}}})
    held = collected_logs("orders", 0, {**logs("1: 0a\n2: 0x@1"), "log_events": events}, settings)
    assert held is not None
    assert (len(held.diverging) > 0) == differs


SKIPPED = "INFO [Broker id=2] Skipped the become-leader state change for orders-0 with topic id Some(x) and partition state LeaderAndIsrPartitionState(topicName='orders', partitionIndex=0, controllerEpoch=-1, leader=2, leaderEpoch=1, isr=[%s], partitionEpoch=%d, replicas=[%s], addingReplicas=[%s], removingReplicas=[%s], isNew=false, leaderRecoveryState=0) since it is already the leader with leader epoch 1. (state.change.logger)"  # noqa: E501
KRAFT_LED = LED.replace(" with high", " with partition epoch 9, high").replace("1 ISR", "1, ISR")


@pytest.mark.parametrize(
    ("changes", "led", "replicas"),
    [
        ([("1, 2", 3, "3, 2, 1", "3", "1")], (2, "2,3", "", ""), ("2", "3")),  # the next epoch completes it
        ([("1, 2", 3, "3, 2, 1", "3", "1"), ("2, 3", 4, "3, 2", "", "")], None, ("2", "3")),
        ([("1, 2", 3, "1, 2, 3", "3", ""), ("1, 2, 3", 4, "1, 2, 3", "", "")], None, ("1", "2", "3")),
        ([("1, 2", 3, "3, 2, 1", "3", "1"), ("1, 2", 4, "1, 2", "", "")], None, ("1", "2")),  # cancelled
        ([("1, 2", 3, "3, 2, 1", "3", "1")], None, ("1", "2")),  # it has not ended
    ],
)
def test_a_kraft_leader_logs_the_replicas_in_its_epoch(changes, led, replicas):
    """Without the metadata log, run.json has the assignment before the reassignment: replicas 1 and 2."""
    lines = [SKIPPED % change for change in changes] + ([KRAFT_LED % led] if led else [])
    events = server_log("2", (0, KRAFT_LED.replace("epoch 9", "epoch 2") % (1, "1,2", "", "")), *enumerate(lines, 1))
    settings = Settings(config={"topics": {"orders": {"replica.assignment": [["1", "2"]]}}})
    held = collected_logs("orders", 0, {**logs("2: 0x@1"), "log_events": events}, settings)
    assert held is not None
    assert tuple(sorted(held.replicas)) == replicas


def test_a_partition_without_batches_has_no_former_replicas():
    segments = pl.DataFrame([{"broker": "3"}], schema={**LOCATION, **SEGMENTS})
    tables = {"segments": segments, "log_events": server_log("2", (9, MOVED % "1,2"))}
    held = collected_logs("orders", 0, tables, Settings())
    assert held is not None
    assert not held.former


@pytest.mark.parametrize(
    ("texts", "assigned", "snapshot", "verdict"),
    [
        ("1: 0a\n2: 0x@1\n3: 0x@1", ["1", "2"], "", "unknown"),
        ("1: 0a\n2: 0x@1\n3: 0x@1", ["1", "2"], "early", "invalid"),
        ("1: 0a\n2: 0x@1\n3: 0x@1", ["1", "2", "3"], "", "invalid"),
        ("1: 0a\n2: 0x@1", ["1", "2"], "", "invalid"),
        ("1: 0a\n2: 0x@1\n3: 0x@1", [], "", "invalid"),
    ],
)
def test_only_run_json_has_the_assignment_and_another_broker_has_the_partition(texts, assigned, snapshot, verdict):
    """A reassignment without collected evidence may have removed broker 1 and left its log on the disk."""
    topic = {"replica.assignment": [assigned]} if assigned else {}
    settings = Settings(config={"topics": {"orders": topic}, "snapshots": {"early": {"time": 1}}})
    held = collected_logs("orders", 0, logs(texts, snapshot), settings)
    assert held is not None
    found = judge_divergence(held, sends("a@0"))
    assert (len(found.findings), len(found.unknowns)) == ((0, 1) if verdict == "unknown" else (1, 0))
