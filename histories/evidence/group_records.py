"""Decodes the records of `__consumer_offsets`, by a table of their schemas.

A key and a value each begin with an int16: the key's says which record it is, the value's is its version. Names, types
and versions are those of Kafka 4.1's group-coordinator/src/main/resources/common/message/*.json (OffsetCommitKey and
Value, GroupMetadataKey and Value; both keys 0 and 1 are of offsets), and in them the assignment of a member is that of
clients/src/main/resources/common/message/ConsumerProtocolAssignment.json. Versions 4 and later of a value are flexible:
record_schema.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .record_schema import Field, read_fields, read_key, read_versioned
from .wire_cursor import WireCursor

FLEXIBLE_SINCE = LATEST = 4  # of the values that are known; a later version may have fields that cannot be passed over
OFFSET_KEYS, GROUP_KEY = (0, 1), 2

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


@dataclass(frozen=True)
class OffsetCommit:
    """A group's committed offset of a partition; `value` None: it was removed."""

    group: str
    topic: str
    partition: int
    value: dict[str, Any] | None


@dataclass(frozen=True)
class GroupMetadata:
    """A group's generation and members; `value` None: the group was removed."""

    group: str
    value: dict[str, Any] | None


def decode(key: bytes, value: bytes | None) -> OffsetCommit | GroupMetadata | None:
    """The record; None: of another kind, such as those of KIP-848. Raises MalformedRecordError."""
    kind = WireCursor(key).integer(2)
    if kind in OFFSET_KEYS:
        named = read_key(key, OFFSET_KEY)
        content = None if value is None else read_versioned(value, OFFSET_VALUE, LATEST, FLEXIBLE_SINCE)
        return OffsetCommit(named["group"], named["topic"], named["partition"], content)
    if kind == GROUP_KEY:
        named = read_key(key, GROUP_KEY_FIELDS)
        content = None if value is None else read_versioned(value, GROUP_VALUE, LATEST, FLEXIBLE_SINCE)
        return GroupMetadata(named["group"], content)
    return None


def assigned_partitions(assignment: bytes | None) -> list[tuple[str, int]]:
    """The partitions of a member's assignment (ConsumerProtocolAssignment). Raises MalformedRecordError."""
    if not assignment:
        return []
    cursor = WireCursor(assignment)
    cursor.integer(2)  # later versions only append fields
    assigned = read_fields(cursor, ASSIGNMENT, 0, flexible=False)["assigned"]
    return [(str(each["topic"]), partition) for each in assigned for partition in each["partitions"]]
