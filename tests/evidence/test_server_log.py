"""The brokers' own logs: each wording gives its event, and the recorded runs give their truncations."""

# A wording is on one line, as brokers write it.
# ruff: noqa: E501

from __future__ import annotations

import gzip
import json

import polars as pl
import pytest
from logjudge.analysis.partitions.common import faults_of
from logjudge.histories.evidence import server_log
from logjudge.histories.evidence.clock import Fault, clock_offsets
from logjudge.histories.evidence.layout import find_parts, split_part
from logjudge.histories.evidence.part_blocks import read_part
from logjudge.histories.evidence.server_log import parse_log, read_server_log, split_log
from logjudge.histories.tables import CONTEXT
from polars.testing import assert_frame_equal

from . import timelines
from .conftest import DATA, gathered, read_run
from .replica_texts import logs

# version, line after the time, kind, topic, partition, subject, some fields
WORDINGS = [
    ("0.10.2", "INFO Truncating log orders-0 to offset 635. (kafka.log.Log)", "truncate", "orders", 0, {"offset": 635}),
    ("2.3", "INFO [Log partition=a-b-1, dir=/d] Truncating to offset 6 (kafka.log.Log)", "truncate", "a-b", 1, {"offset": 6}),
    ("4.1", "INFO [Broker id=1] The topic partition orders-0 was marked as RECOVERING. Marking the topic partition as RECOVERED. (state.change.logger)", "marked-recovering", "orders", 0, {}),
    ("4.1", "INFO [UnifiedLog partition=orders-0, dir=/d] Truncating to 7 has no effect as the largest offset in the log is 6 (x.UnifiedLog)", "truncate-noop", "orders", 0, {"offset": 7, "largest": 6}),
    ("4.1", "INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating partition orders-0 with TruncationState(offset=685, completed=true) due to local high watermark 681 (kafka.server.ReplicaFetcherThread)", "truncate-reason", "orders", 0, {"offset": 685, "reason": "local high watermark 681"}),
    ("4.1", "INFO [ReplicaAlterLogDirsThread-1]: Truncating partition orders-0 with TruncationState(offset=7, completed=true) due to local high watermark 7 (kafka.server.ReplicaAlterLogDirsThread)", "truncate-copy", "orders", 0, {"offset": 7}),
    ("2.6", "WARN [ReplicaFetcher replicaId=1] Truncating orders-0 to offset 10 below high watermark 12 (kafka.server.ReplicaFetcherThread)", "truncate-below-high-watermark", "orders", 0, {"high_watermark": 12}),
    ("4.1", "INFO [Partition orders-0 broker=3] Shrinking ISR from 3,1,2 to 3. Leader: (highWatermark: 487, endOffset: 498). Out of sync (kafka.cluster.Partition)", "isr-shrink", "orders", 0, {"isr": [3], "high_watermark": 487}),
    ("0.10.2", "INFO Partition [orders,1] on broker 2: Expanding ISR for partition orders-1 from 2 to 2,1 (kafka.cluster.Partition)", "isr-expand", "orders", 1, {"isr": [2, 1]}),
    ("4.1", "INFO [Partition orders-0 broker=2] ISR updated to 2,1  and version updated to 5 (kafka.cluster.Partition)", "isr-update", "orders", 0, {"isr": [2, 1], "partition_epoch": 5}),
    ("4.2", "INFO [Broker id=1] Skipped the become-leader state change for orders-0 with topic id Some(EEaz8oGmRsaZyHG97yuJqA), partition registration PartitionRegistration(replicas=[1, 2, 3], directories=[dNfq8SDnXziv2oG7XpYmXQ], isr=[1], removingReplicas=[], addingReplicas=[], elr=[3], lastKnownElr=[], leader=1, leaderRecoveryState=RECOVERED, leaderEpoch=0, partitionEpoch=2) and isNew=false since it is already the leader with leader epoch 0. Current high watermark 531, ISR [1], adding replicas [] and removing replicas []. (state.change.logger)", "isr-update", "orders", 0, {"isr": [1], "elr": [3], "partition_epoch": 2, "leader_epoch": 0, "replicas": [1, 2, 3], "adding": [], "removing": []}),
    ("4.1", "INFO [Broker id=1] Skipped the become-leader state change for orders-0 with topic id Some(CrMKHWJwR8uL8AiD4ZAuYQ) and partition state LeaderAndIsrPartitionState(topicName='orders', partitionIndex=0, controllerEpoch=-1, leader=1, leaderEpoch=0, isr=[1], partitionEpoch=2, replicas=[1, 2, 3], addingReplicas=[], removingReplicas=[], isNew=false, leaderRecoveryState=0) since it is already the leader with leader epoch 0. (state.change.logger)", "isr-update", "orders", 0, {"isr": [1], "partition_epoch": 2, "leader_epoch": 0, "replicas": [1, 2, 3], "adding": [], "removing": []}),
    ("2.7", "INFO [Partition orders-0 broker=2] ISR updated to [2,1] and zkVersion updated to [5] (kafka.cluster.Partition)", "isr-update", "orders", 0, {"isr": [2, 1]}),
    ("4.1", "INFO [Broker id=2] Leader orders-0 with topic id Some(x) starts at leader epoch 2 from offset 487 with partition epoch 4, high watermark 415, ISR [2], adding replicas [] and removing replicas [] . Previous leader Some(-1) and previous leader epoch was 1. (state.change.logger)", "leader", "orders", 0, {"leader_epoch": 2, "offset": 487, "isr": [2], "topic_id": "x"}),
    ("1.1", "INFO [Partition orders-0 broker=1] orders-0 starts at Leader Epoch 3 from offset 9. Previous Leader Epoch was: 2 (kafka.cluster.Partition)", "leader", "orders", 0, {"leader_epoch": 3, "offset": 9}),
    ("4.1", "INFO [QuorumController id=100] UNCLEAN partition change for orders-0 with topic ID x: isr: [] -> [2], leader: -1 -> 2, leaderEpoch: 1 -> 2, elr: [1] -> [] (o.a.k.ReplicationControlManager)", "partition-change", "orders", 0, {"unclean": True, "elr_before": [1], "leader": 2, "leaderEpoch": 2}),
    ("0.10.2", 'INFO [OfflinePartitionLeaderSelector]: Selected new leader and ISR {"leader":2,"leader_epoch":1,"isr":[2]} for offline partition [orders,1] (x)', "elected", "orders", 1, {"leader": 2, "leader_epoch": 1, "isr": [2]}),
    ("0.10.2", "WARN [OfflinePartitionLeaderSelector]: No broker in ISR is alive for [orders,0]. Elect leader 2 from live brokers 2,3. There's potential data loss. (x)", "elected-unclean", "orders", 0, {"leader": 2}),
    ("0.10.2", "INFO Completed load of log orders-0 with 1 log segments and log end offset 833 in 24 ms (kafka.log.Log)", "loaded", "orders", 0, {"end_offset": 833}),
    ("1.1", "INFO [Log partition=orders-0, dir=/d] Completed load of log with 1 segments, log start offset 0 and log end offset 8 in 3 ms (kafka.log.Log)", "loaded", "orders", 0, {"end_offset": 8}),
    ("4.1", "INFO Completed load of Log(dir=/d/orders-0, topicId=x, topic=orders, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=918) with 1 segments (kafka.log.LogManager)", "loaded", "orders", 0, {"end_offset": 918, "log_start": 0}),
    ("0.10.2", "INFO Created log for partition [orders,0] in /d with properties {compression.type -> producer}. (kafka.log.LogManager)", "created", "orders", 0, {}),
    ("4.1", "INFO Created log for partition orders-0 in /d/orders-0 with properties {} (kafka.log.LogManager)", "created", "orders", 0, {}),
    ("4.1", "WARN [LogLoader partition=orders-0, dir=/d] Corruption found in segment 0, truncating to offset 355 (x)", "corruption", "orders", 0, {"offset": 355}),
    ("4.1", "INFO [UnifiedLog partition=logs-0, dir=/d] Incremented log start offset to 237 due to client delete records request (x.UnifiedLog)", "log-start", "logs", 0, {"offset": 237, "reason": "client delete records request"}),
    ("0.10.2", "INFO Kafka version : 0.10.2.2 (org.apache.kafka.common.utils.AppInfoParser)", "version", None, None, {"version": "0.10.2.2"}),
    ("4.1", "INFO [KafkaRaftServer nodeId=1] Kafka Server started (kafka.server.KafkaRaftServer)", "started", None, None, {}),
    ("4.1", "INFO [QuorumController id=100] Fencing broker 1 at epoch 10 because its session has timed out. (x)", "fenced", None, None, {}),
    ("2.8", "INFO [Controller 3000] The request from broker 1 to unfence has been granted because it has caught up with the last committed metadata offset 1. (org.apache.kafka.controller.BrokerHeartbeatManager)", "unfenced", None, None, {}),
    ("4.1", "INFO [BrokerLifecycleManager id=1] The broker has been unfenced. Transitioning from RECOVERY to RUNNING. (kafka.server.BrokerLifecycleManager)", "unfenced", None, None, {}),
    ("0.10.2", "FATAL [Replica Manager on Broker 1]: Halting due to unrecoverable I/O error while handling produce request:  (kafka.server.ReplicaManager)", "halted", None, None, {}),
    ("0.10.2", "FATAL [ReplicaFetcherThread-0-2], Disk error while replicating data for orders-0 (kafka.server.ReplicaFetcherThread)", "halted", None, None, {}),
    ("3.9", "ERROR Shutdown broker because all log dirs in /d, /e have failed (kafka.log.LogManager)", "halted", None, None, {"dirs": "/d, /e"}),
    ("2.0", "ERROR Shutdown broker: java.io.IOException: No space left on device (kafka.log.LogManager)", "disk-full", None, None, {}),
    ("2.0", "WARN [ReplicaManager broker=1] Stopping serving replicas in dir /d (kafka.server.ReplicaManager)", "disk-failure", None, None, {"dir": "/d"}),
    ("2.8", "INFO [Controller id=3 epoch=2] Partition orders-0 state changed to (Leader:3,ISR:3,2,LeaderEpoch:1,ZkVersion:1,ControllerEpoch:2) after removing replica 1 from the ISR as part of transition to OfflineReplica (state.change.logger)", "isr-removed", "orders", 0, {"leader": 3, "isr": [3, 2], "partition_epoch": 1, "removed": 1}),
    ("3.8", "INFO [Controller id=3] Successfully updated assignment of partition orders-0 to ReplicaAssignment(replicas=1,3,2, addingReplicas=1,3, removingReplicas=2) (kafka.controller.KafkaController)", "assignment", "orders", 0, {"replicas": [1, 3, 2]}),
    ("0.10.2", "INFO [Controller 3]: Updated assigned replicas for partition [orders,0] being reassigned to 1,3,2  (kafka.controller.KafkaController)", "assignment", "orders", 0, {"replicas": [1, 3, 2]}),
    ("2.8", "INFO [Controller id=1 epoch=3] Changed partition orders-0 from OfflinePartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=4, isr=List(1), zkVersion=4) (state.change.logger)", "elected", "orders", 0, {"leader": 1, "leader_epoch": 4, "partition_epoch": 4}),
    ("2.8", "INFO [Broker id=2] Follower orders-0 starts at leader epoch 4 from offset 1036 with high watermark 682. Previous leader epoch was -1. (state.change.logger)", "follower", "orders", 0, {"leader_epoch": 4, "offset": 1036}),
    ("3.9", "INFO [QuorumController id=100] Fencing broker 2 because its session has timed out. (org.apache.kafka.controller.ReplicationControlManager)", "fenced", None, None, {}),
    ("0.11", "INFO Truncating orders-0 to 0 has no effect as the largest offset in the log is -1. (kafka.log.Log)", "truncate-noop", "orders", 0, {"offset": 0, "largest": -1}),
    ("0.11", "INFO Replica loaded for partition orders-0 with initial high watermark 700 (kafka.cluster.Replica)", "high-watermark", "orders", 0, {"high_watermark": 700}),
    ("0.11", "DEBUG [Partition state machine on Controller 1]: After leader election, leader cache for [orders,0] is updated to (Leader:1,ISR:1,LeaderEpoch:1,ControllerEpoch:3) (kafka.controller.PartitionStateMachine)", "leadership", "orders", 0, {"leader": 1, "isr": [1]}),
    ("0.11", 'INFO [Controller 2]: New leader and ISR for partition [orders,0] is {"leader":3,"leader_epoch":3,"isr":[3]} (kafka.controller.KafkaController)', "leadership", "orders", 0, {"leader": 3, "isr": [3]}),
    ("2.4", "INFO [Partition orders-0 broker=1] orders-0 starts at leader epoch 4 from offset 914 with high watermark 0. Previous leader epoch was 3. (kafka.cluster.Partition)", "leader", "orders", 0, {"leader_epoch": 4, "offset": 914}),
    ("2.4", "TRACE [Broker id=1] Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName='orders', partitionIndex=0, controllerEpoch=2, leader=-1, leaderEpoch=3, isr=[3], zkVersion=3, replicas=[3, 1, 2], addingReplicas=[], removingReplicas=[], isNew=false) correlation id 3 from controller 1 epoch 2 (state.change.logger)", "leadership", "orders", 0, {"leader": -1, "isr": [3], "partition_epoch": 3}),
    ("1.1", "TRACE [Broker id=1] Cached leader info PartitionState(controllerEpoch=2, leader=2, leaderEpoch=1, isr=[2, 3], zkVersion=1, replicas=[1, 2, 3], offlineReplicas=[]) for partition orders-0 in response to UpdateMetadata request sent by controller 2 epoch 2 with correlation id 0 (state.change.logger)", "leadership", "orders", 0, {"leader": 2, "isr": [2, 3], "partition_epoch": 1}),
    ("3.6", "INFO [Controller id=1 epoch=2] Changed partition orders-0 from OnlinePartition to OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=5, isrWithBrokerEpoch=List(BrokerState(brokerId=1, brokerEpoch=-1), BrokerState(brokerId=2, brokerEpoch=-1)), leaderRecoveryState=RECOVERED, partitionEpoch=6) (state.change.logger)", "elected", "orders", 0, {"leader": 2, "leader_epoch": 5, "isr": [1, 2], "partition_epoch": 6}),
    ("0.9", "ERROR [ReplicaFetcherThread-0-0], Current offset 7 for partition [feeds.v1,1] out of range; reset offset to 0 (kafka.server.ReplicaFetcherThread)", "out-of-range", "feeds.v1", 1, {"leader": 0, "fetched": 7, "offset": 0}),
    ("1.0", "ERROR [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Current offset 9 for partition orders-0 out of range; reset offset to 4 (kafka.server.ReplicaFetcherThread)", "out-of-range", "orders", 0, {"leader": 2, "fetched": 9, "offset": 4}),
    ("4.1", "INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Current offset 9 for partition orders-0 is out of range, which typically implies a leader change. Reset fetch offset to 4 (kafka.server.ReplicaFetcherThread)", "out-of-range", "orders", 0, {"leader": 2, "fetched": 9, "offset": 4}),
    ("0.9", "ERROR [Replica Manager on Broker 0]: Error when processing fetch request for partition [feeds.v1,1] offset 7 from follower with correlation id 0. Possible cause: Request for offset 7 but we only have log segments in the range 0 to 0. (kafka.server.ReplicaManager)", "fetch-refused", "feeds.v1", 1, {"fetched": 7, "start": 0, "offset": 0}),
    ("4.1", "INFO Recovering 4 logs from /d since no clean shutdown file was found (kafka.log.LogManager)", "unclean-start", None, None, {}),
    ("3.0", "INFO Attempting recovery for all logs in /d since no clean shutdown file was found (kafka.log.LogManager)", "unclean-start", None, None, {}),
    ("4.1", "INFO Skipping recovery of 1 logs from /d since clean shutdown file was found (kafka.log.LogManager)", "clean-start", None, None, {}),
    ("3.0", "INFO Skipping recovery for all logs in /d since clean shutdown file was found (kafka.log.LogManager)", "clean-start", None, None, {}),
    ("0.10.2", "DEBUG Found clean shutdown file. Skipping recovery for all logs in data directory: /d (kafka.log.LogManager)", "clean-start", None, None, {}),
    ("4.1", "WARN [ReplicaManager broker=2] Broker 2 stopped fetcher for partitions orders-0,a-1 and stopped moving logs for partitions  because they are in the failed log directory /d/small. (kafka.server.ReplicaManager)", "disk-failed", None, None, {"partitions": "orders-0,a-1", "folder": "/d/small"}),
    ("4.1", "ERROR [ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0] Found invalid messages during fetch for partition orders-0 offset 298 (kafka.server.ReplicaFetcherThread)", "fetched-corrupt", "orders", 0, {"leader": 1, "offset": 298}),
    ("1.1", "TRACE [Broker id=1] Handling LeaderAndIsr request correlationId 3 from controller 1 epoch 1 starting the become-follower transition for partition orders-0 (state.change.logger)", "become-follower", "orders", 0, {}),
    ("2.8", "INFO Processing override for entityPath: topics/orders with config: HashMap(cleanup.policy -> compact,delete, retention.ms -> 1) (kafka.server.DynamicConfigManager)", "topic-config", "orders", None, {"config": "cleanup.policy -> compact,delete, retention.ms -> 1"}),
    ("1.1", "INFO Processing override for entityPath: topics/a.b-c with config: Map() (kafka.server.DynamicConfigManager)", "topic-config", "a.b-c", None, {"config": ""}),
    ("4.1", "INFO [DynamicConfigPublisher broker id=2] Updating topic orders with new configuration : min.insync.replicas -> 1,retention.ms -> 1 (kafka.server.metadata.DynamicConfigPublisher)", "topic-config", "orders", None, {"config": "min.insync.replicas -> 1,retention.ms -> 1"}),
    ("3.9", "INFO Found stray log dir Log(dir=/d/orders-0, topicId=x_Q, topic=orders, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=352): the topicId x_Q does not exist in the metadata image (kafka.log.LogManager$)", "set-aside", "orders", 0, {"end_offset": 352}),
    ("4.1", "INFO Found stray log dir Log(dir=/d/orders-0, topicId=x, topic=orders, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=1108): the current replica assignment [2] does not contain the local brokerId 1. (org.apache.kafka.storage.internals.log.LogManager)", "loaded", "orders", 0, {"end_offset": 1108, "log_start": 0}),
    ("0.11", "INFO [Controller 3]: 3 successfully elected as the controller (kafka.controller.KafkaController)", "controller", None, None, {"controller_epoch": None}),
    ("2.8", "INFO [Controller id=2] 2 successfully elected as the controller. Epoch incremented to 3 and epoch zk version is now 3 (kafka.controller.KafkaController)", "controller", None, None, {"controller_epoch": 3}),
    ("3.3", "INFO [Controller 101] Becoming the active controller at epoch 11, committed offset -1, committed epoch -1 (org.apache.kafka.controller.QuorumController)", "controller", None, None, {"controller_epoch": 11}),
    ("4.1", "INFO [QuorumController id=102] Becoming the active controller at epoch 4, next write offset 1. (org.apache.kafka.controller.QuorumController)", "controller", None, None, {"controller_epoch": 4}),
]  # fmt: skip


@pytest.mark.parametrize(("version", "text", "kind", "topic", "partition", "fields"), WORDINGS)
def test_each_wording_gives_its_event(version, text, kind, topic, partition, fields):
    frame = parse_log(f"noise\n[2026-11-21 09:51:07,835] {text}\nnoise\n")
    [row] = frame.rows(named=True)
    assert (row["kind"], row["topic"], row["partition"], row["line"]) == (kind, topic, partition, 2), version
    assert row["time"] == 1795254667835
    found = json.loads(row["fields"])
    assert {name: found.get(name) for name in fields} == fields


@pytest.mark.parametrize("suffix", ["", "-delete", "-stray", "-future"])
def test_a_folder_that_is_not_the_log_of_its_partition_loads_none(suffix):
    """A topic was deleted and created again while broker 3 was down; at its start it set its old log aside."""
    folder = f"orders-0.{'d1d0114c' * 4}{suffix}" if suffix else "orders-0"
    loads = f"Completed load of Log(dir=/d/{folder}, topicId=oJjrSUFGQIqT5xHrEJyz-w, topic=orders, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=210)"
    events = parse_log(f"[2026-11-28 00:06:31,589] INFO {loads} with 1 segments in 9ms (kafka.log.LogManager)")
    assert events.filter(kind="loaded").height == (not suffix)


def test_a_line_of_a_stack_trace_has_the_time_of_its_event():
    text = "[2026-11-21 09:51:07,835] ERROR oops\n\tat x\njava.io.IOException: No space left on device\n"
    assert parse_log(text)["time"].to_list() == [1795254667835]


def test_ranges_of_a_log_are_read_as_the_whole(unpacked):
    path = unpacked("unclean-election-c") / "brokers" / "3" / "server.log"
    whole, _ = read_server_log(path)
    parts = [read_server_log(path, *where)[0] for where in split_log(path, 20_000)]
    assert len(parts) > 3
    assert_frame_equal(pl.concat(parts), whole)


def test_the_old_leader_truncates_once_and_its_no_ops_are_distinct(recorded):
    events = recorded("unclean-election-c").table("log_events", ("orders", 0))
    cut = events.filter(pl.col("kind") == "truncate").select("broker", "fields").rows()
    assert cut == [("3", '{"offset": 487}')]
    assert events.filter(pl.col("kind") == "truncate-noop").height >= 2


def fault(type_, kind, node, seconds):
    at = int(seconds * 1e9)
    return Fault(type_, kind, (node,), at, at)


def restarted_clock(ahead, last_line=9.9):
    """The clock of a broker that was killed at 10 s and restarted at 15 s; its last line before is of `last_line`."""
    started = 1795254667000
    faults = [fault("fault", "kill", "1", 10), fault("heal", "restart", "1", 15)]
    boots = [(-5.0, None), (15.4, started + ahead + int(last_line * 1000))]
    events = pl.DataFrame(
        [
            {
                "broker": "1",
                "kind": "boot",
                "time": started + ahead + int(at * 1000),
                "fields": json.dumps({"alive_until": alive}),
                "file": "server.log",
                "line": line,
            }
            for line, (at, alive) in enumerate(boots)
        ]
    )
    return clock_offsets(events, faults, started)["1"]


@pytest.mark.parametrize("ahead", [-437_000, 61_000, 1_022_000])
def test_a_clock_that_is_minutes_off_is_dated_by_the_restart_however_early_the_last_line(ahead):
    clock = restarted_clock(ahead, last_line=-4.0)
    assert clock.high - clock.low > 14_000
    assert abs(clock.offset - ahead) < 500


@pytest.mark.parametrize("ahead", [0, 3_600_000, -7_200_000, 20_700_000, 400_000_000, -400_000_000])
def test_a_broker_in_another_time_zone_is_found_out_by_its_restart(ahead):
    clock = restarted_clock(ahead)
    # No time zone is days away: what began on another day is of another run.
    assert clock.has_conflict == (abs(ahead) > 86_400_000)
    assert clock.has_conflict or clock.offset == ahead


# A broker's container in the zone Europe/Berlin was killed and restarted in UTC.
IN_TWO_ZONES = """\
[2026-11-28 10:40:31,562] INFO Registered `kafka:type=kafka.Log4jController` MBean (kafka.utils.Log4jControllerRegistration$)
[2026-11-28 10:41:31,496] INFO [ReplicaFetcherThread-0-2]: Shutdown completed (kafka.server.ReplicaFetcherThread)
[2026-11-28 09:42:08,758] INFO Registered `kafka:type=kafka.Log4jController` MBean (kafka.utils.Log4jControllerRegistration$)
"""


def test_a_broker_that_restarts_in_another_time_zone_has_a_doubtful_clock():
    def clock(text):
        events = parse_log(text).with_columns(broker=pl.lit("1"), file=pl.lit("server.log"))
        return clock_offsets(events, [], 1795858881219)["1"]

    assert clock(IN_TWO_ZONES).has_conflict
    assert "goes back in time where it starts" in clock(IN_TWO_ZONES).description
    assert not clock(IN_TWO_ZONES.replace("09:42:08", "10:42:08")).has_conflict
    assert not clock(IN_TWO_ZONES.replace("09:42:08", "10:41:28")).has_conflict  # NTP


def _boots(started, *times):
    """The starts of broker 1: when it started, and when its log had the last line before (s)."""
    return [
        {
            "broker": "1",
            "kind": "boot",
            "time": started + int(at * 1000),
            "fields": json.dumps({"alive_until": alive and started + int(alive * 1000)}),
            "file": "server.log",
            "line": line,
        }
        for line, (at, alive) in enumerate(times)
    ]


def test_only_a_kill_that_ended_a_process_bounds_a_clock():
    """The second kill finds the broker dead, and a shutdown ends its next process."""
    started = 1795254667000
    faults = [fault("fault", "kill", "1", 2), fault("fault", "kill", "1", 8), fault("heal", "restart", "1", 11)]
    faults += [fault("fault", "shutdown", "1", 12), fault("heal", "restart", "1", 15)]
    rows = _boots(started, (-5.0, None), (11.4, 1.9), (15.4, 12.8))
    clock = clock_offsets(pl.DataFrame(rows), faults, started)["1"]
    assert clock.bounded
    assert (clock.offset, clock.has_conflict) == (0, False)


def test_a_restart_without_a_completion_is_in_order_of_time():
    """A history that was cut has the second restart's invocation only; the first one is not taken for the second."""
    started = 1795254667000
    steps = [
        ("fault", "kill", 4, 4),
        ("heal", "restart", 5, 13),
        ("fault", "kill", 34, 34),
        ("heal", "restart", 35, None),
    ]
    rows = [
        {
            **dict.fromkeys(CONTEXT),
            "kind": type_,
            "invoked": at * 10**9,
            "completed": end and end * 10**9,
            "at": number,
            "outcome": "ok" if end else "info",
            "detail": json.dumps({"kind": kind, "nodes": ["1"]}),
        }
        for number, (type_, kind, at, end) in enumerate(steps)
    ]
    faults = faults_of(pl.DataFrame(rows, CONTEXT).sample(fraction=1, shuffle=True, seed=1))
    boots = _boots(started, (-5.0, None), (5.7, 3.9), (36.4, 33.9))
    clock = clock_offsets(pl.DataFrame(boots), faults, started)["1"]
    assert (clock.bounded, clock.offset, clock.has_conflict) == (True, 0, False)


def test_starts_are_in_order_of_time_whatever_their_files_are_called():
    """A log that was rolled has its oldest lines in server.log.2026…, and a console's output has them twice."""
    started = 1795254667000
    faults = [fault("fault", "kill", "1", 10), fault("heal", "restart", "1", 15)]
    files = [("server.log.2026-11-21-09", -5.0, None), ("server.log", 15.4, 9.9), ("kafkaServer.out", 15.4, None)]
    rows = [
        {
            "broker": "1",
            "kind": "boot",
            "time": started + int(at * 1000),
            "fields": json.dumps({"alive_until": None if alive is None else started + int(alive * 1000)}),
            "file": file,
            "line": 1,
        }
        for file, at, alive in files
    ]
    clock = clock_offsets(pl.DataFrame(rows), faults, started)["1"]
    assert clock.bounded
    assert (clock.offset, clock.has_conflict) == (0, False)


def test_rotated_and_gzipped_logs_are_read(tmp_path):
    line = (
        "[2025-11-01 03:00:00,000] INFO [Partition orders-0 broker=1] Shrinking ISR from 1,2 to 1. Leader: x (kafka)\n"
    )
    folder = tmp_path / "brokers/1"
    folder.mkdir(parents=True)
    packed = gzip.compress(line.encode() * 1000)
    (folder / "server.log.2025-11-01-03").write_text(line)
    (folder / "server.log.2025-11-01-02.gz").write_bytes(packed)
    (folder / "server.log.2025-11-01-01.gz").write_bytes(packed[: len(packed) // 2])
    tables = gathered(
        block for part in find_parts(tmp_path) for whole in split_part(part) for block in read_part(whole)
    )
    shrinks = tables[("orders", 0)]["log_events"].group_by("file").len()
    found = dict(shrinks.rows())
    assert found["brokers/1/server.log.2025-11-01-03"] == 1
    assert found["brokers/1/server.log.2025-11-01-02.gz"] == 1000
    assert list(tables[(None, None)]["damage"]["file"]) == ["brokers/1/server.log.2025-11-01-01.gz"]


def test_a_line_longer_than_brokers_write_is_damage(tmp_path, monkeypatch):
    monkeypatch.setattr(server_log, "MAX_LINE", 1000)
    line = "[2026-11-21 09:21:33,618] INFO [Broker id=1] Finished transition (kafka.server.BrokerServer)\n"
    data = (line + "x" * 5000 + "\n" + line).encode()
    (tmp_path / "server.log").write_bytes(data)
    (tmp_path / "server.log.1.gz").write_bytes(gzip.compress(data))
    for name in ("server.log", "server.log.1.gz"):
        _, damage = server_log.read_server_log(tmp_path / name)
        assert damage["byte"].to_list() == [len(line)]
    ranges = server_log.split_log(tmp_path / "server.log", 200)
    assert max(end - start for start, end, _ in ranges) <= 1200


@pytest.mark.parametrize("digits", ["9" * 19, "9" * 21, "9" * 5000])
def test_a_number_beyond_what_kafka_counts_is_no_event(digits):
    text = (
        "[2026-11-21 09:17:50,000] INFO Truncating log orders-0 to offset 7. (kafka.log.Log)\n"
        "[2026-11-21 09:17:51,000] INFO [Broker id=1] Leader orders-0 starts at leader epoch 7 from offset 1 with "
        "high watermark 0 ISR [1] addingReplicas [] removingReplicas []. Previous leader epoch was 0. (state.change.logger)"
    )
    assert len(parse_log(text)) == 2
    assert not len(parse_log(text.replace(" 7", f" {digits}")))


def test_a_packed_log_is_read_to_a_line_that_no_broker_writes(tmp_path):
    line = b"[2025-11-01 01:00:00,000] INFO Truncating log orders-0 to offset 5. (kafka.log.Log)\n"
    path = tmp_path / "server.log.1.gz"
    path.write_bytes(gzip.compress(line * 1000 + b"x" * (1 << 25) + b"\n" + line))
    events, damage = server_log.read_server_log(path)
    assert len(events) == 1000
    assert "a line of more than 1 MiB" in damage["reason"].to_list()[0]


def test_a_failed_log_directory_and_a_damaged_leader_are_facts_of_their_partitions():
    failed = "WARN [ReplicaManager broker=2] Broker 2 stopped fetcher for partitions {} and stopped moving logs for "
    failed += "partitions  because they are in the failed log directory /d/small. (kafka.server.ReplicaManager)"
    damaged = "ERROR [ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0] Found invalid messages during fetch for "
    damaged += "partition orders-0 offset 7 (kafka.server.ReplicaFetcherThread)"
    lines = [(1, failed.format("a-0,orders-0")), (2, failed.format("orders-01,a-0")), (3, damaged), (4, damaged)]
    found = timelines.timeline(logs("1: 0a"), events=[timelines.server_log("2", *lines)]).disk_errors
    assert [(fact.kind, fact.broker, fact.line) for fact in found] == [
        ("disk-failed", "2", 1),
        ("fetched-corrupt", "2", 3),
    ]
    assert found[0].sentence == "the log directory of orders-0 on broker 2 failed (/d/small), so it is offline"


@pytest.fixture
def timeline_of():
    """The timeline of orders-0 in the logs of one Kafka version."""
    return lambda version: read_run(DATA / "wordings" / version).timeline("orders", 0)


@pytest.mark.parametrize(
    ("version", "epoch", "start", "old"), [("2.8.2", 4, 1033, "3"), ("2.4.1", 4, 914, "3"), ("0.11.0.3", 1, 1235, "3")]
)
def test_an_election_from_outside_the_isr_is_unclean(timeline_of, version, epoch, start, old):
    term = timeline_of(version).terms[epoch]
    assert (term.leader, term.start, term.electable) == ("1", start, {old})
    assert term.elected_uncleanly
    assert term.electable_fact is not None


@pytest.mark.parametrize(("version", "epoch", "unclean"), [("2.8.2", 5, False), ("0.11.0.3", 2, None)])
def test_a_handover_within_the_isr_is_never_unclean(timeline_of, version, epoch, unclean):
    assert timeline_of(version).terms[epoch].elected_uncleanly is unclean


def test_a_controller_that_takes_dead_brokers_out_leaves_the_leader(timeline_of):
    timeline = timeline_of("2.8.2")
    assert [timeline.terms[epoch].leader for epoch in (1, 2)] == ["3", "3"]
    sentence = next(fact.sentence for fact in timeline.isr_reports if "the controller took broker 2" in fact.sentence)
    assert sentence.endswith("out of the ISR of orders-0, which became [3]; broker 3 led in epoch 2")
    assert any(
        fact.sentence == "orders-0 lost its leader, as broker 3 was gone, ISR [3]" for fact in timeline.isr_reports
    )
