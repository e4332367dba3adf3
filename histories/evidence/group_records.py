"""Decodes the records of `__consumer_offsets`, by a table of their schemas.

A key and a value each begin with an int16: the kind of the record, and the version of the value. Names, types and
versions are those of Kafka 4.4's group-coordinator/src/main/resources/common/message/*.json (OffsetCommitKey and
Value, GroupMetadataKey and Value; both keys 0 and 1 are of offsets), and in them the assignment of a member is that of
clients/src/main/resources/common/message/ConsumerProtocolAssignment.json. Versions 4 and later of a value are flexible:
record_schema.py.

Groups of KIP-848 have records of their own, whose values are flexible from their first version: ConsumerGroupMetadata
(the group's epoch), ConsumerGroupMemberMetadata and ConsumerGroupCurrentMemberAssignment. These name a topic by its id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .record_schema import Field, WireCursor, fields_of, read_fields, read_key, read_versioned

OFFSET_KEYS, GROUP_KEY = (0, 1), 2
EPOCH_KEY, MEMBER_KEY, CURRENT_KEY = 3, 5, 8  # of KIP-848

OFFSET_KEY = fields_of("group string, topic string, partition int32")
OFFSET_VALUE = fields_of(
    "offset int64, leaderEpoch int32 3+ default=-1, metadata string, commitTimestamp int64, "
    "expireTimestamp int64 1 default=-1"
)
GROUP_KEY_FIELDS = fields_of("group string")
MEMBER = fields_of(
    "memberId string, groupInstanceId string 3+, clientId string, clientHost string, rebalanceTimeout int32 1+, "
    "sessionTimeout int32, subscription bytes, assignment bytes"
)
GROUP_VALUE = fields_of(
    "protocolType string, generation int32, protocol string, leader string, currentStateTimestamp int64 2+, members []",
    members=MEMBER,
)
ASSIGNED_TOPIC = fields_of("topic string, partitions [int32]")
ASSIGNMENT = fields_of("assigned []", assigned=ASSIGNED_TOPIC)
USER_DATA = Field("userData", "bytes")  # follows; not read
SUBSCRIPTION = (
    *fields_of("topics [string]"),
    USER_DATA,
    *fields_of("ownedPartitions []", ownedPartitions=ASSIGNED_TOPIC),
)

EPOCH_VALUE = fields_of("epoch int32, metadataHash int64 tag=0")
MEMBER_KEY_FIELDS = fields_of("group string, member string")
CLASSIC_PROTOCOL = fields_of("name string, metadata bytes")
CLASSIC_MEMBER = fields_of("sessionTimeoutMs int32, supportedProtocols []", supportedProtocols=CLASSIC_PROTOCOL)
MEMBER_VALUE = fields_of(
    "instanceId string, rackId string, clientId string, clientHost string, subscribedTopicNames [string], "
    "subscribedTopicRegex string, rebalanceTimeoutMs int32, serverAssignor string, classicMemberMetadata struct tag=0",
    classicMemberMetadata=CLASSIC_MEMBER,  # of a member of the classic protocol
)
OWNED_TOPIC = fields_of("topicId uuid, partitions [int32]")
CURRENT_VALUE = fields_of(
    "memberEpoch int32, previousMemberEpoch int32, state int8, assignedPartitions [], partitionsPendingRevocation []",
    assignedPartitions=OWNED_TOPIC,
    partitionsPendingRevocation=OWNED_TOPIC,
)


class Schema(NamedTuple):
    """The fields of a kind of records: those of its key, those of its value, and the versions of the value."""

    key: tuple[Field, ...]
    value: tuple[Field, ...]
    latest: int  # that is known; a later version may have fields that cannot be skipped
    flexible_since: int


SCHEMAS = {
    **dict.fromkeys(OFFSET_KEYS, Schema(OFFSET_KEY, OFFSET_VALUE, 4, 4)),
    GROUP_KEY: Schema(GROUP_KEY_FIELDS, GROUP_VALUE, 4, 4),
    EPOCH_KEY: Schema(GROUP_KEY_FIELDS, EPOCH_VALUE, 1, 0),
    MEMBER_KEY: Schema(MEMBER_KEY_FIELDS, MEMBER_VALUE, 0, 0),
    CURRENT_KEY: Schema(MEMBER_KEY_FIELDS, CURRENT_VALUE, 0, 0),
}


class GroupRecord(NamedTuple):
    """A record: its kind, and the fields of its key and of its value. Without a value it removes what the key names."""

    kind: int
    key: dict[str, Any]
    value: dict[str, Any] | None


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """The record; None: of another kind, such as target assignments or share groups. Raises MalformedRecordError."""
    kind = WireCursor(key).integer(2)
    if kind not in SCHEMAS:
        return None
    schema = SCHEMAS[kind]
    content = None if value is None else read_versioned(value, schema.value, schema.latest, schema.flexible_since)
    return GroupRecord(kind, read_key(key, schema.key), content)


def assigned_partitions(assignment: bytes | None) -> list[tuple[str, int]]:
    """The partitions of a member's assignment (ConsumerProtocolAssignment). Raises MalformedRecordError."""
    if not assignment:
        return []
    cursor = WireCursor(assignment)
    cursor.integer(2)  # later versions only append fields
    assigned = read_fields(cursor, ASSIGNMENT, 0, flexible=False)["assigned"]
    return [(str(each["topic"]), partition) for each in assigned for partition in each["partitions"]]
