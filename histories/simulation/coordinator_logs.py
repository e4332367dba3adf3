"""The records of __consumer_offsets and __transaction_state as bytes.

OffsetCommit and GroupMetadata are in the simulated release's versions. Those of KIP-848's protocol are flexible, of
version 0, as in Kafka's group-coordinator/src/main/resources/common/message/ConsumerGroup*.json. Transactions have
version 0 of their values.

Simplification: with transactions v2 Kafka writes version 1, which adds tagged fields.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from ...models.replication.cluster import Cluster
from ...models.replication.config import GROUP, Config
from ...models.replication.coordinators.group_requests import (
    CurrentRecord,
    EpochRecord,
    GroupRecord,
    MemberRecord,
    TargetRecord,
)
from ...models.replication.coordinators.reconciliation import STABLE, UNRELEASED, UNREVOKED
from ...models.replication.coordinators.transaction_requests import EMPTY, STATES
from ...models.replication.storage.batches import Batch
from ..evidence.group_records import (
    ASSIGNMENT,
    CURRENT_KEY,
    EPOCH_KEY,
    GROUP_KEY,
    GROUP_KEY_FIELDS,
    GROUP_VALUE,
    MEMBER_KEY,
    MEMBER_KEY_FIELDS,
    OFFSET_KEY,
    OFFSET_VALUE,
    OWNED_TOPIC,
    SCHEMAS,
    SUBSCRIPTION,
    USER_DATA,
    Schema,
)
from ..evidence.record_schema import Field, write_fields, write_versioned
from ..evidence.transaction_records import KEY, VALUE
from .names import epoch_ms, uuid
from .segments import Content

TARGET_EPOCH_KEY, TARGET_KEY = 6, 7  # records that are not read
WRITTEN = {
    **SCHEMAS,
    TARGET_EPOCH_KEY: SCHEMAS[EPOCH_KEY],
    TARGET_KEY: Schema(MEMBER_KEY_FIELDS, (Field("topicPartitions", "[]", of=OWNED_TOPIC),), 0, 0),
}
MEMBER_STATES = {STABLE: 0, UNREVOKED: 1, UNRELEASED: 2}  # MemberState


def group_content(cluster: Cluster, magic: int) -> Content:
    """Returns a function that writes the key and value of a record of the group's log.

    Brokers of format 2 write version 3 of the values, older ones version 1.
    """
    version = 3 if magic == 2 else 1

    def content(batch: Batch, index: int) -> tuple[bytes, bytes | None]:
        record = cluster.coordinator_logs.group_records[batch.first + index]
        if record.committed is None:
            if type(record) is not GroupRecord:
                return membership_content(cluster, record)
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
            "subscription": _subscription(config),
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


def membership_content(cluster: Cluster, record: GroupRecord) -> tuple[bytes, bytes | None]:
    """The key and the value of a record about members; a tombstone has no value."""
    kind, value = _kind_and_value(cluster, record)
    schema = WRITTEN[kind]
    key = write_versioned(kind, schema.key, {"group": GROUP, "member": record.member})
    return key, None if record.is_tombstone else (0).to_bytes(2, "big") + write_fields(schema.value, 0, True, value)


def _kind_and_value(cluster: Cluster, record: GroupRecord) -> tuple[int, dict[str, Any]]:
    """The kind of a record, and the fields of its value."""
    config = cluster.config

    def topic(partitions: tuple[int, ...]) -> list[dict[str, Any]]:
        named = {"topicId": uuid(cluster.seed, config.topic), "partitions": partitions}
        return [named] if partitions else []

    if isinstance(record, MemberRecord):
        is_classic = not record.is_tombstone and config.is_classic(record.client)
        return MEMBER_KEY, {
            "instanceId": record.instance or None,
            "clientId": record.client,
            "clientHost": "/127.0.0.1",
            "subscribedTopicNames": [config.topic],
            "rebalanceTimeoutMs": config.max_poll_interval // 1000,
            "serverAssignor": None if is_classic else config.remote_assignor,
            **({"classicMemberMetadata": _classic_member(config)} if is_classic else {}),
        }
    if isinstance(record, TargetRecord):
        return TARGET_KEY, {"topicPartitions": topic(record.target)}
    if isinstance(record, CurrentRecord):
        current = record.current
        return CURRENT_KEY, {
            "memberEpoch": current.epoch,
            "previousMemberEpoch": current.previous,
            "state": MEMBER_STATES[current.state],
            "assignedPartitions": topic(current.assigned),
            "partitionsPendingRevocation": topic(current.revoking),
        }
    assert isinstance(record, EpochRecord)
    return TARGET_EPOCH_KEY if record.of_target else EPOCH_KEY, {"epoch": record.generation}


def _subscription(config: Config) -> bytes:
    return write_versioned(1, SUBSCRIPTION, {"topics": [config.topic], "ownedPartitions": []})


def _classic_member(config: Config) -> dict[str, Any]:
    protocol = {"name": config.strategy, "metadata": _subscription(config)}
    return {"sessionTimeoutMs": config.group_session // 1000, "supportedProtocols": [protocol]}


def transaction_content(cluster: Cluster) -> Content:
    """The content of the transaction coordinator's log."""

    def content(batch: Batch, index: int) -> tuple[bytes, bytes]:
        record = cluster.coordinator_logs.transaction_records[batch.first + index]
        topics = [
            {"topic": topic, "partitionIds": [number for _, number in places]}
            for topic, places in groupby(map(cluster.config.topic_of, record.partitions), key=lambda place: place[0])
        ]
        value = {
            "producerId": record.pid,
            "producerEpoch": record.epoch,
            "transactionTimeoutMs": record.timeout // 1000,
            "transactionStatus": STATES[record.state],
            "transactionPartitions": None if record.state == EMPTY else topics,
            "transactionLastUpdateTimestampMs": epoch_ms(record.updated),
            "transactionStartTimestampMs": epoch_ms(record.started) if record.started >= 0 else -1,
        }
        return write_versioned(0, KEY, {"transactionalId": record.id}), write_versioned(0, VALUE, value)

    return content
