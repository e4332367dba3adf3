"""The patterns of Kafka's log lines: the kind of event, the wording, and the versions of Kafka that use it.

Every line that a pattern matches contains its `literal`. One search for all literals selects the lines, so other lines are
never matched with a regular expression. Named groups become the fields of the event; `topic` and `partition` (or `tp`, as
`topic-0` or `[topic,0]`) and `subject` (a broker) have columns of their own. A log line is a hint, not proof: wording
differs by version, and most truncations change nothing. To add a wording: one line here and one in the test's table.
"""

# A wording is on one line, however long, so that a search finds it.
# ruff: noqa: E501

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

# topic-0, or [topic,0] as 0.8 to 0.10 write it.
TP = r"(?P<tp>\[[\w.\-]+,\d+\]|[\w.\-]+-\d+)"
# [Partition orders-0 broker=1] since 1.0; Partition [orders,0] on broker 1: before.
PARTITION = rf"(?:\[Partition {TP} broker=\d+\]|Partition {TP.replace('<tp>', '<tp_old>')} on broker \d+:)"
LOG = rf"\[(?:Log|UnifiedLog|LogLoader|MergedLog) partition={TP}, dir=[^\]]*\]"


@dataclass(frozen=True)
class Pattern:
    """One wording of one kind of event."""

    kind: str
    versions: str  # the first and last known minor version with this wording; "+": up to 4.4 at least
    literal: str  # a part of each line that the regular expression matches
    expression: str

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled expression. It is compiled when first used: compiling all takes longer than reading a small log."""
        return re.compile(self.expression)


PATTERNS: tuple[Pattern, ...] = (
    # Truncation. The field `largest` of a truncate-noop is the last offset of the log.
    Pattern("truncate", "0.8-0.11", "Truncating log", rf"Truncating log {TP} to offset (?P<offset>\d+)"),
    Pattern("truncate", "1.0+", "Truncating to offset", rf"{LOG} Truncating to offset (?P<offset>\d+)"),
    Pattern("truncate-fully", "1.0+", "Truncate fully", rf"{LOG} Truncate fully and start at offset (?P<offset>\d+)"),
    Pattern("truncate-fully", "1.0+", "Truncate and start", rf"{LOG} Truncate and start at offset (?P<offset>\d+)"),
    Pattern("truncate-noop", "2.0+", "has no effect as the largest offset",
        rf"{LOG} Truncating to (?P<offset>\d+) has no effect as the largest offset in the log is (?P<largest>-?\d+)"),
    Pattern("truncate-noop", "0.9-1.1", "Cannot truncate",
        rf"Cannot truncate (?:log )?{TP} to offset (?P<offset>\d+) as (?:the )?largest offset in the log is (?P<largest>-?\d+)"),
    Pattern("truncate-noop", "0.11", "has no effect as the largest offset",
        rf"Truncating {TP} to (?P<offset>\d+) has no effect as the largest offset in the log is (?P<largest>-?\d+)"),
    # Of the copy on another disk (KIP-113), whose truncation the next line reports as if it were the log's.
    Pattern("truncate-copy", "2.1+", "[ReplicaAlterLogDirsThread",
        rf"Truncating partition {TP} with (?:Offset)?TruncationState\(offset=(?P<offset>\d+),"),
    Pattern("truncate-reason", "2.1+", "TruncationState(offset=",
        rf"Truncating partition {TP} with (?:Offset)?TruncationState\(offset=(?P<offset>\d+), completed=(?P<completed>\w+)\) "
        r"due to (?P<reason>.*?)(?: \([\w.$]+\))?$"),
    Pattern("truncate-reason", "1.0-2.8", "to local high watermark",
        rf"(?:Truncating|truncating) partition {TP} (?P<reason>to local high watermark) (?P<offset>\d+)"),
    Pattern("truncate-below-high-watermark", "2.0+", "below high watermark",
        rf"Truncating {TP} to offset (?P<offset>\d+) below high watermark (?P<high_watermark>\d+)"),
    # A follower's fetch from an offset that its leader does not have: the follower's line, and the leader's until 0.9.
    Pattern("out-of-range", "0.8+", "out of range",
        r"(?:ReplicaFetcherThread-\d+-|leaderId=)(?P<leader>\d+)\b.*?Current offset (?P<fetched>\d+) for partition "
        rf"{TP} (?:is )?out of range.*?[rR]eset (?:fetch )?offset to (?P<offset>\d+)"),
    Pattern("fetch-refused", "0.8-0.9", "Error when processing fetch request",
        rf"Error when processing fetch request for partition {TP} offset (?P<fetched>\d+) from follower with correlation "
        r"id \d+\. Possible cause: Request for offset \d+ but we only have log segments in the range (?P<start>\d+) to (?P<offset>\d+)"),
    # In-sync replicas.
    Pattern("isr-shrink", "0.8+", "Shrinking ISR",
        rf"{PARTITION} Shrinking ISR (?:for partition \S+ )?from (?P<old>[\d,]+) to (?P<isr>[\d,]*\d)"
        r"(?:\. Leader: \(highWatermark: (?P<high_watermark>\d+), endOffset: (?P<end_offset>\d+)\))?"),
    Pattern("isr-expand", "0.8-2.8", "Expanding ISR",
        rf"{PARTITION} Expanding ISR (?:for partition \S+ )?from (?P<old>[\d,]+) to (?P<isr>[\d,]*\d)"),
    Pattern("isr-update", "2.4+", "ISR updated to",
        rf"{PARTITION} ISR updated to \[?(?P<isr>[\d,]+)\]? .*?and (?:zkVersion|version) updated to \[?(?P<partition_epoch>\d+)"),
    # A KRaft leader logs each later change of its partition, also a change of the ISR by the controller.
    Pattern("isr-update", "3.0-4.1", "Skipped the become-leader state change",
        rf"Skipped the become-leader state change for {TP} with topic id \S+ and partition state"
        r" LeaderAndIsrPartitionState\(.*?leaderEpoch=(?P<leader_epoch>\d+), isr=\[(?P<isr>[\d, ]+)\], partitionEpoch=(?P<partition_epoch>\d+)"
        r"(?:, replicas=\[(?P<replicas>[\d, ]+)\], addingReplicas=\[(?P<adding>[\d, ]*)\], removingReplicas=\[(?P<removing>[\d, ]*)\])?"),
    # It names the eligible leader replicas, too (KIP-966).
    Pattern("isr-update", "4.2+", "Skipped the become-leader state change",
        rf"Skipped the become-leader state change for {TP} with topic id \S+, partition registration"
        r" PartitionRegistration\(replicas=\[(?P<replicas>[\d, ]+)\].*?isr=\[(?P<isr>[\d, ]+)\], removingReplicas=\[(?P<removing>[\d, ]*)\],"
        r" addingReplicas=\[(?P<adding>[\d, ]*)\].*?, elr=\[(?P<elr>[\d, ]*)\].*?leaderEpoch=(?P<leader_epoch>\d+), partitionEpoch=(?P<partition_epoch>\d+)"),
    # Leadership, logged by the leader or a follower.
    Pattern("leader", "2.5+", " starts at leader epoch ",
        rf"Leader {TP} (?:with topic id (?:Some\()?(?P<topic_id>[\w-]+)\)? )?starts at leader epoch (?P<leader_epoch>\d+) from offset (?P<offset>\d+) "
        r"with (?:partition epoch (?P<partition_epoch>\d+), )?high watermark (?P<high_watermark>\d+),? "
        r"ISR \[(?P<isr>[\d,]*)\](?:,? adding ?[Rr]eplicas \[(?P<adding>[\d,]*)\](?: and)? removing ?[Rr]eplicas \[(?P<removing>[\d,]*)\])?.*?(?:Previous leader (?P<previous>\S+) and p|P)revious leader epoch was (?P<previous_epoch>-?\d+)"),
    Pattern("leader", "2.4", " starts at leader epoch ",
        rf"\[Partition \S+ broker=\d+\] {TP} starts at leader epoch (?P<leader_epoch>\d+) from offset (?P<offset>\d+) "
        r"with high watermark (?P<high_watermark>\d+)\. Previous leader epoch was (?P<previous_epoch>-?\d+)"),
    Pattern("leader", "0.11-2.3", "starts at Leader Epoch",
        rf"{TP} starts at Leader Epoch (?P<leader_epoch>\d+) from offset (?P<offset>\d+)\. Previous Leader Epoch was: (?P<previous_epoch>-?\d+)"),
    Pattern("follower", "3.0+", "Follower ",
        rf"Follower {TP} starts at leader epoch (?P<leader_epoch>\d+) from offset (?P<offset>\d+) with partition epoch "
        r"(?P<partition_epoch>\d+) and high watermark (?P<high_watermark>\d+)\. Current leader is (?P<leader>-?\d+)"),
    Pattern("follower", "2.8", "Follower ",
        rf"Follower {TP} (?:with topic id \S+ )?starts at leader epoch (?P<leader_epoch>\d+) from offset (?P<offset>\d+) "
        r"with high watermark (?P<high_watermark>\d+)"),
    Pattern("become-leader", "0.8-2.4", "starting the become-leader transition",
        rf"Broker (?:id=)?(?P<subject>\d+)\]? [hH]andling LeaderAndIsr request .* starting the become-leader transition for partition {TP}"),
    Pattern("become-follower", "0.8-2.4", "starting the become-follower transition",
        rf"Broker (?:id=)?(?P<subject>\d+)\]? [hH]andling LeaderAndIsr request .* starting the become-follower transition for partition {TP}"),
    # Just before a KRaft broker begins to lead, if the controller could elect no in-sync or eligible replica (KIP-704).
    Pattern("marked-recovering", "3.2+", "was marked as RECOVERING", rf"The topic partition {TP} was marked as RECOVERING"),
    # Leadership, logged by the controller.
    Pattern("partition-change", "2.8+", "partition change for",
        rf"(?P<unclean>UNCLEAN )?partition change for {TP} with topic ID \S+: (?P<change>.*?)(?: \([\w.$]+\))?$"),
    Pattern("partition-new", "2.8+", "PartitionRecord for new partition",
        rf"PartitionRecord for new partition {TP} .*?PartitionRegistration\(replicas=\[(?P<replicas>[\d, ]*)\].*?"
        r"isr=\[(?P<isr>[\d, ]*)\].*?leader=(?P<leader>-?\d+).*?leaderEpoch=(?P<leader_epoch>\d+)"),
    Pattern("elected", "0.8-1.0", "Selected new leader and ISR",
        r'Selected new leader and ISR \{"leader":(?P<leader>\d+),"leader_epoch":(?P<leader_epoch>\d+),"isr":\[(?P<isr>[\d,]*)\]\} '
        rf"for offline partition {TP}"),
    Pattern("elected", "1.1-3.9", "to OnlinePartition with state LeaderAndIsr(",
        rf"(?:hanged partition|for partition) {TP} .*?to OnlinePartition with state LeaderAndIsr\(.*?leader=(?P<leader>\d+), "
        r"leaderEpoch=(?P<leader_epoch>\d+), .*?isr(?:WithBrokerEpoch)?=List\((?P<isr>(?:\d+|BrokerState\(brokerId=\d+, brokerEpoch=-?\d+\)|, )*)\)(?:.*?, (?:zkVersion|partitionEpoch)=(?P<partition_epoch>\d+))?"),
    Pattern("elected-unclean", "0.8-1.0", "potential data loss",
        rf"No broker in ISR.*? for {TP}.*?[Ee]lect leader (?P<leader>\d+) from live brokers .*?potential data loss"),
    # Requests and caches of the controller and its brokers, at TRACE.
    Pattern("leadership", "0.8-2.3", "PartitionState(controllerEpoch=",
        r"PartitionState\(controllerEpoch=-?\d+, leader=(?P<leader>-?\d+), leaderEpoch=(?P<leader_epoch>\d+), "
        rf"isr=\[?(?P<isr>[\d, ]*)\]?, zkVersion=(?P<partition_epoch>\d+), .* for partition {TP}"),
    Pattern("leadership", "2.4-3.9", "PartitionState(topicName=",
        r"(?:request|info) \w+PartitionState\(topicName='(?P<topic>[\w.\-]+)', partitionIndex=(?P<partition>\d+), controllerEpoch=-?\d+, leader=(?P<leader>-?\d+), "
        r"leaderEpoch=(?P<leader_epoch>\d+), isr=\[(?P<isr>[\d, ]*)\], (?:zkVersion|partitionEpoch)=(?P<partition_epoch>\d+)"),
    Pattern("leadership", "0.8-1.0", "sending become-",
        r"sending become-\w+ LeaderAndIsr request \(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),LeaderEpoch:(?P<leader_epoch>\d+),"
        rf"ControllerEpoch:\d+\) to broker \d+ for partition {TP}"),
    Pattern("leadership", "0.8-1.0", "cached leader info",
        r"cached leader info \(LeaderAndIsrInfo:\(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),LeaderEpoch:(?P<leader_epoch>\d+),"
        rf"ControllerEpoch:\d+\).* for partition {TP}"),
    Pattern("isr-removed", "2.8-3.9", "as part of transition to OfflineReplica",
        rf"Partition {TP} state changed to \(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),(?:LeaderRecoveryState:\w+,)?LeaderEpoch:(?P<leader_epoch>\d+),"
        r"(?:ZkVersion|PartitionEpoch):(?P<partition_epoch>\d+),ControllerEpoch:\d+\) after removing replica (?P<removed>\d+) from the ISR"),
    Pattern("leadership", "0.8-1.0", "After leader election, leader cache",
        rf"leader cache for {TP} is updated to \(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),LeaderEpoch:(?P<leader_epoch>\d+)"),
    Pattern("leadership", "0.8-1.0", "New leader and ISR for partition",
        rf'New leader and ISR for partition {TP} is \{{"leader":(?P<leader>-?\d+),"leader_epoch":(?P<leader_epoch>\d+),"isr":\[(?P<isr>[\d,]*)\]'),
    Pattern("leadership", "0.8-1.0", "Initializing leader and isr",
        rf"Initializing leader and isr for partition {TP} to \(Leader:(?P<leader>-?\d+),ISR:(?P<isr>[\d,]*),LeaderEpoch:(?P<leader_epoch>\d+)"),
    # The replicas of a partition while it is reassigned, by a controller with ZooKeeper, and afterwards.
    Pattern("assignment", "2.4-3.9", "Successfully updated assignment of partition",
        rf"Successfully updated assignment of partition {TP} to ReplicaAssignment\(replicas=(?P<replicas>[\d,]*), "),
    Pattern("assignment", "0.8-2.3", "Updated assigned replicas for partition",
        rf"Updated assigned replicas for partition {TP} being reassigned to (?P<replicas>[\d,]*)"),
    # The active controller, by itself.
    Pattern("controller", "0.8-3.9", "successfully elected as the controller",
        r"\[Controller (?:id=)?(?P<subject>\d+)\]:? \d+ successfully elected as the controller(?:\. Epoch incremented to (?P<controller_epoch>\d+))?"),
    Pattern("controller", "2.8+", "Becoming the active controller at epoch",
        r"\[(?:Quorum)?Controller (?:id=)?(?P<subject>\d+)\] Becoming the active controller at epoch (?P<controller_epoch>\d+)"),
    # Loading of a log, with its log end offset.
    Pattern("loaded", "0.8-2.4", "Completed load of log",
        rf"Completed load of log {TP} with .*?log end offset (?P<end_offset>\d+)"),
    Pattern("loaded", "1.1-2.4", "Completed load of log",
        rf"{LOG} Completed load of log with .*?log end offset (?P<end_offset>\d+)"),
    # But not of leftover folders, which are not the broker's log of the partition (leftover_folders.py).
    Pattern("loaded", "2.5+", "Completed load of Log(",
        r"Completed load of Log\((?!dir=[^,]*\.[0-9a-f]{32}-(?:delete|future|stray),).*?topic=(?P<topic>[^,]+), partition=(?P<partition>\d+), highWatermark=(?P<high_watermark>\d+),"
        r".*?logStartOffset=(?P<log_start>\d+), logEndOffset=(?P<end_offset>\d+)\)"),
    # The broker loaded a log, and is no replica any more: it renames the folder to -stray (leftover_folders.py).
    Pattern("loaded", "3.5+", "Found stray log dir",
        r"Found stray log dir Log\(dir=.*?topic=(?P<topic>[^,]+), partition=(?P<partition>\d+), highWatermark=(?P<high_watermark>\d+),"
        r".*?logStartOffset=(?P<log_start>\d+), logEndOffset=(?P<end_offset>\d+)\): the current replica assignment "),
    # A new and empty log. A folder -future is not a replica yet: the broker moves the log to another disk (KIP-113).
    Pattern("created", "0.8+", "Created log for partition", rf"Created log for partition {TP} in (?!\S+-future )\S+ with"),
    # The metadata do not have the topic, so the broker renames the log's folder to -stray (leftover_folders.py).
    Pattern("set-aside", "3.5+", "Found stray log dir",
        r"Found stray log dir Log\(dir=.*?topic=(?P<topic>[^,]+), partition=(?P<partition>\d+), highWatermark=(?P<high_watermark>\d+),"
        r".*?logEndOffset=(?P<end_offset>\d+)\): the topicId \S+ does not exist in the metadata image"),
    Pattern("high-watermark", "2.4+", "with initial high watermark",
        rf"Log loaded for partition {TP} with initial high watermark (?P<high_watermark>\d+)"),
    Pattern("high-watermark", "0.11-2.3", "with initial high watermark",
        rf"Replica loaded for partition {TP} with initial high watermark (?P<high_watermark>\d+)"),
    Pattern("recovering", "0.8-1.0", "Recovering unflushed segment",
        rf"Recovering unflushed segment (?P<base_offset>\d+) in log {TP}"),
    Pattern("recovering", "1.1+", "Recovering unflushed segment",
        rf"{LOG} Recovering unflushed segment (?P<base_offset>\d+)"),
    Pattern("corruption", "1.1+", "Corruption found in segment",
        rf"{LOG} Corruption found in segment (?P<base_offset>\d+), truncating to offset (?P<offset>\d+)"),
    Pattern("corruption", "0.8-1.1", "Found invalid messages in log segment",
        r"Found invalid messages in log segment (?P<segment>\S+) at byte offset (?P<byte>\d+)"),
    # A log directory failed, as on a full disk: the broker continues without the partitions in it (KIP-112).
    Pattern("disk-failed", "1.0+", "because they are in the failed log directory",
        r"stopped fetcher for partitions (?P<partitions>[\w.\-,]+) and stopped .*because they are in the failed log directory (?P<folder>\S+?)\.?(?: \([\w.$]+\))?$"),
    # A follower refuses a batch with a wrong CRC, and fetches it again and again.
    Pattern("fetched-corrupt", "1.0+", "Found invalid messages during fetch",
        rf"leaderId=(?P<leader>\d+).*Found invalid messages during fetch for partition {TP} offset (?P<offset>\d+)"),
    # Changes of the log start offset.
    Pattern("log-start", "0.11+", "log start offset to",
        rf"{LOG} Increment(?:ed|ing) log start offset to (?P<offset>\d+)(?: due to (?P<reason>[\w ]+?))?(?: \([\w.$]+\))?$"),
    # Tiered storage (KIP-405): the segments below are deleted from the disk, and remain in remote storage.
    Pattern("local-log-start", "3.6+", "local log start offset to",
        rf"{LOG} Increment(?:ed|ing) local log start offset to (?P<offset>\d+)"),
    Pattern("retention", "2.0+", " due to retention",
        rf"{LOG} (?:Found deletable segments|Deleting segment)(?: LogSegment\(baseOffset=(?P<base>\d+))?.*? due to (?P<reason>retention [\w ]*\w)"),
    Pattern("retention", "2.7+", " due to log retention",
        rf"{LOG} Deleting segment(?: LogSegment\(baseOffset=(?P<base>\d+))?.*? due to (?P<reason>log retention [\w ]*\w)"),
    Pattern("cleaned", "0.8+", "Building offset map for log",
        rf"Building offset map for log {TP} for \d+ segments in offset range \[(?P<first>\d+), (?P<offset>\d+)\)"),
    # All settings of a topic that differ from the brokers' defaults, when one of them changes.
    Pattern("topic-config", "0.9-3.9", "Processing override for entityPath: topics/",
        r"Processing override for entityPath: topics/(?P<topic>[\w.\-]+) with config: \w*Map\((?P<config>.*?)\)(?: \([\w.$]+\))?$"),
    Pattern("topic-config", "2.8+", "with new configuration :",
        r"Updating topic (?P<topic>[\w.\-]+) with new configuration : (?P<config>.*?)(?: \([\w.$]+\))?$"),
    # A controller that keeps its metadata in ZooKeeper deletes a topic from all brokers.
    Pattern("topic-deletion", "0.8-3.9", "Deletion of topic",
        r"Deletion of topic (?P<topic>[\w.\-]+) \(re\)started"),
    Pattern("topic-deleted", "0.8-3.9", "Deletion of topic",
        r"Deletion of topic (?P<topic>[\w.\-]+) successfully completed"),
    # Starts of brokers. The first line of a process is `boot`, before 1.0 `configured` (which later versions
    # also print when the configuration changes). The previous process lived at least until the line before it.
    Pattern("boot", "1.0+", "Log4jController", r"Registered \S*Log4jController\S* MBean"),
    Pattern("configured", "0.8+", "KafkaConfig values", r"INFO KafkaConfig values:"),
    Pattern("version", "0.8+", "Kafka version", r"Kafka version ?: ?(?P<version>[\w.\-]+)"),
    Pattern("started", "0.8-0.11", "[Kafka Server ", r"\[Kafka Server (?P<subject>\d+)\], started"),
    Pattern("started", "1.0-3.9", "[KafkaServer id=", r"\[KafkaServer id=(?P<subject>\d+)\] started"),
    Pattern("started", "2.8+", "Kafka Server started", r"\[KafkaRaftServer nodeId=(?P<subject>\d+)\] Kafka Server started"),
    # The process before ended cleanly, so it had flushed all logs.
    Pattern("clean-start", "0.8-2.5", "Found clean shutdown file", r"Found clean shutdown file\. Skipping recovery"),
    Pattern("clean-start", "2.6+", "since clean shutdown file was found", r"Skipping recovery .* since clean shutdown file was found"),
    # It ended at once. Earlier versions only report the segments of each log that they recover.
    Pattern("unclean-start", "2.6+", "since no clean shutdown file was found", r"since no clean shutdown file was found"),
    Pattern("fenced", "2.8+", "Fencing broker",
        r"Fencing broker (?P<subject>\d+)(?: at epoch \d+)?(?P<reason> because .*?)?(?: \([\w.$]+\))?$"),
    Pattern("unfenced", "2.8+", "to unfence has been granted",
        r"The request from broker (?P<subject>\d+) to unfence has been granted"),
    Pattern("unfenced", "2.8+", "has been unfenced",
        r"\[BrokerLifecycleManager id=(?P<subject>\d+)\] The broker has been unfenced"),
    Pattern("failed", "0.8-3.9", "Broker failure callback", r"Broker failure callback for (?P<brokers>\d+(?:,\d+)*)"),
    Pattern("returned", "0.8-3.9", "New broker startup callback",
        r"New broker startup callback for (?P<brokers>\d+(?:,\d+)*)"),
    # Disks.
    Pattern("disk-failure", "1.0+", "Stopping serving", r"Stopping serving (?:logs|replicas) in dir (?P<dir>\S+)"),
    Pattern("disk-failure", "1.0+", "failed log director",
        r"(?:in the failed log directory|failed log directories?) (?P<dir>\S+)"),
    # A single I/O error ended the process before 1.0 (KIP-112).
    Pattern("halted", "0.8-0.11", "Halting due to unrecoverable I/O error", r"Halting due to unrecoverable I/O error"),
    Pattern("halted", "0.8-0.11", "Disk error while replicating data for",
        r"Disk error while replicating data for"),
    Pattern("halted", "1.0+", "Shutdown broker because all log dirs",
        r"Shutdown broker because all log dirs in (?P<dirs>.+) have failed"),
    Pattern("disk-full", "0.8+", "No space left on device", r"No space left on device"),
)  # fmt: skip
