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

from .record_schema import Field, WireCursor, read_fields, read_key, read_versioned

OFFSET_KEYS, GROUP_KEY = (0, 1), 2
EPOCH_KEY, MEMBER_KEY, CURRENT_KEY = 3, 5, 8  # of KIP-848

OFFSET_KEY = (Field("group", "string"), Field("topic", "string"), Field("partition", "int32"))
OFFSET_VALUE = (
    Field("offset", "int64"),
    Field("leaderEpoch", "int32", since=3, default=-1),
    Field("metadata", "string"),
    Field("commitTimestamp", "int64"),
    Field("expireTimestamp", "int64", since=1, until=1, default=-1),
)
GROUP_KEY_FIELDS = (Field("group", "string"),)
MEMBER = (
    Field("memberId", "string"),
    Field("groupInstanceId", "string", since=3),
    Field("clientId", "string"),
    Field("clientHost", "string"),
    Field("rebalanceTimeout", "int32", since=1),
    Field("sessionTimeout", "int32"),
    Field("subscription", "bytes"),
    Field("assignment", "bytes"),
)
GROUP_VALUE = (
    Field("protocolType", "string"),
    Field("generation", "int32"),
    Field("protocol", "string"),
    Field("leader", "string"),
    Field("currentStateTimestamp", "int64", since=2),
    Field("members", "[]", of=MEMBER),
)
ASSIGNED_TOPIC = (Field("topic", "string"), Field("partitions", "[int32]"))
ASSIGNMENT = (Field("assigned", "[]", of=ASSIGNED_TOPIC),)
USER_DATA = Field("userData", "bytes")  # follows; not read
SUBSCRIPTION = (Field("topics", "[string]"), USER_DATA, Field("ownedPartitions", "[]", of=ASSIGNED_TOPIC))

EPOCH_VALUE = (Field("epoch", "int32"), Field("metadataHash", "int64", tag=0))
MEMBER_KEY_FIELDS = (Field("group", "string"), Field("member", "string"))
CLASSIC_PROTOCOL = (Field("name", "string"), Field("metadata", "bytes"))
CLASSIC_MEMBER = (Field("sessionTimeoutMs", "int32"), Field("supportedProtocols", "[]", of=CLASSIC_PROTOCOL))
MEMBER_VALUE = (
    Field("instanceId", "string"),
    Field("rackId", "string"),
    Field("clientId", "string"),
    Field("clientHost", "string"),
    Field("subscribedTopicNames", "[string]"),
    Field("subscribedTopicRegex", "string"),
    Field("rebalanceTimeoutMs", "int32"),
    Field("serverAssignor", "string"),
    Field("classicMemberMetadata", "struct", of=CLASSIC_MEMBER, tag=0),  # of a member of the classic protocol
)
OWNED_TOPIC = (Field("topicId", "uuid"), Field("partitions", "[int32]"))
CURRENT_VALUE = (
    Field("memberEpoch", "int32"),
    Field("previousMemberEpoch", "int32"),
    Field("state", "int8"),
    Field("assignedPartitions", "[]", of=OWNED_TOPIC),
    Field("partitionsPendingRevocation", "[]", of=OWNED_TOPIC),
)


class Schema(NamedTuple):
    """The fields of a kind of records: those of its key, those of its value, and the versions of the value."""

    key: tuple[Field, ...]
    value: tuple[Field, ...]
    latest: int  # that is known; a later version may have fields that cannot be passed over
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
