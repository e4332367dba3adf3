"""The records of __consumer_offsets as bytes: OffsetCommit and GroupMetadata, in the simulated release's versions.

Those of KIP-848's protocol are in consumer_group_log.py.
"""

from __future__ import annotations

from typing import Any

from ...models.replication.cluster import Cluster
from ...models.replication.config import GROUP
from ...models.replication.coordinators.group_requests import GroupRecord
from ...models.replication.storage.batches import Batch
from ..evidence.group_records import (
    ASSIGNMENT,
    GROUP_KEY,
    GROUP_KEY_FIELDS,
    GROUP_VALUE,
    OFFSET_KEY,
    OFFSET_VALUE,
    SUBSCRIPTION,
    USER_DATA,
)
from ..evidence.record_schema import write_versioned
from .consumer_group_log import membership_content
from .names import epoch_ms
from .segments import Content


def group_content(cluster: Cluster, magic: int) -> Content:
    """Returns a function that writes the key and value of a record of the group's log.

    Brokers of format 2 write version 3 of the values, older ones version 1.
    """
    version = 3 if magic == 2 else 1

    def content(batch: Batch, index: int) -> tuple[bytes, bytes | None]:
        record = cluster.coordinator_logs.group_records[batch.first + index]
        if record.committed is None:
            if type(record) is not GroupRecord:
                return membership_content(cluster, GROUP, record)
            key = write_versioned(GROUP_KEY, GROUP_KEY_FIELDS, {"group": GROUP})
            if record.is_tombstone:
                return key, None
            return key, write_versioned(version, GROUP_VALUE, _generation(cluster, record))
        partition, offset = record.committed
        place = {"group": GROUP, "topic": cluster.config.topic, "partition": partition}
        value = {
            "offset": offset,
            "leaderEpoch": record.leader_epoch,
            "metadata": "",
            "commitTimestamp": epoch_ms(record.time),
        }
        key = write_versioned(1, OFFSET_KEY, place)
        return key, None if record.is_tombstone else write_versioned(version, OFFSET_VALUE, value)

    return content


def _generation(cluster: Cluster, record: GroupRecord) -> dict[str, Any]:
    """The fields of a GroupMetadata value. An empty group has neither a protocol nor a leader."""
    config = cluster.config
    assignment = record.assignment or ()
    protocol, leader = (config.strategy, record.member) if assignment else (None, None)
    members = [
        {
            "memberId": member,
            "groupInstanceId": config.instance_of(client) or None,
            "clientId": client,
            "clientHost": "/127.0.0.1",
            "rebalanceTimeout": config.max_poll_interval // 1000,
            "sessionTimeout": config.group_session // 1000,
            "subscription": write_versioned(1, SUBSCRIPTION, {"topics": [config.topic], "ownedPartitions": []}),
            "assignment": write_versioned(
                1,
                (*ASSIGNMENT, USER_DATA),
                {"assigned": [{"topic": config.topic, "partitions": partitions}] if partitions else []},
            ),
        }
        for member, client, partitions in assignment
    ]
    return {
        "protocolType": "consumer",
        "generation": record.generation,
        "protocol": protocol,
        "leader": leader,
        "currentStateTimestamp": epoch_ms(record.time),
        "members": members,
    }
