"""Decodes the records of `__consumer_offsets`, by a table of their schemas.

A key and a value each begin with an int16: the key's says which record it is, the value's is its version. Names, types
and versions are those of Kafka 4.1's group-coordinator/src/main/resources/common/message/*.json (OffsetCommitKey and
Value, GroupMetadataKey and Value; both keys 0 and 1 are of offsets), and in them the assignment of a member is that of
clients/src/main/resources/common/message/ConsumerProtocolAssignment.json. Versions 4 and later of a value are flexible:
strings and arrays are compact (KIP-482) and tagged fields follow, which are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .wire_cursor import MalformedRecordError, WireCursor

MAX_FLEXIBLE = 4  # of the values that are known; a later version may have fields that cannot be passed over
OFFSET_KEYS, GROUP_KEY = (0, 1), 2


@dataclass(frozen=True)
class Field:
    """A field of a record: its type, and the first and last versions that have it."""

    name: str
    type: str  # int16 int32 int64 string bytes, or [member]
    since: int = 0
    until: int = 32_767


OFFSET_KEY = (Field("group", "string"), Field("topic", "string"), Field("partition", "int32"))
OFFSET_VALUE = (
    Field("offset", "int64"),
    Field("leaderEpoch", "int32", since=3),
    Field("metadata", "string"),
    Field("commitTimestamp", "int64"),
    Field("expireTimestamp", "int64", since=1, until=1),
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
    Field("members", "[member]"),
)


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


def _length(cursor: WireCursor, width: int, flexible: bool) -> int:
    """The length of a string, bytes or array; -1: null."""
    return cursor.varint() - 1 if flexible else cursor.integer(width)


_WIDTHS = {"int16": 2, "int32": 4, "int64": 8}


def _value(cursor: WireCursor, type_: str, version: int, flexible: bool) -> Any:
    if type_ in _WIDTHS:
        return cursor.integer(_WIDTHS[type_])
    if type_ == "string":
        length = _length(cursor, 2, flexible)
        return None if length < 0 else cursor.take(length).decode("utf-8", "replace")
    length = _length(cursor, 4, flexible)
    if type_ == "bytes":
        return None if length < 0 else cursor.take(length)
    if length > len(cursor.data):
        raise MalformedRecordError(f"an array of {length} entries in {len(cursor.data)} bytes")
    return [_fields(cursor, MEMBER, version, flexible) for _ in range(max(length, 0))]


def _fields(cursor: WireCursor, fields: tuple[Field, ...], version: int, flexible: bool) -> dict[str, Any]:
    out = {
        field.name: _value(cursor, field.type, version, flexible)
        for field in fields
        if field.since <= version <= field.until
    }
    if flexible:
        for _ in range(cursor.varint()):
            cursor.varint()
            cursor.take(cursor.varint())
    return out


def _versioned(data: bytes, fields: tuple[Field, ...]) -> dict[str, Any]:
    cursor = WireCursor(data)
    version = cursor.integer(2)
    if not 0 <= version <= MAX_FLEXIBLE:
        raise MalformedRecordError(f"found a value of version {version}, expected at most {MAX_FLEXIBLE}")
    return _fields(cursor, fields, version, flexible=version >= MAX_FLEXIBLE)


def decode(key: bytes, value: bytes | None) -> OffsetCommit | GroupMetadata | None:
    """The record; None: of another kind, such as those of KIP-848. Raises MalformedRecordError."""
    cursor = WireCursor(key)
    kind = cursor.integer(2)
    if kind in OFFSET_KEYS:
        named = _fields(cursor, OFFSET_KEY, kind, flexible=False)
        _need(named, key)
        content = None if value is None else _versioned(value, OFFSET_VALUE)
        return OffsetCommit(named["group"], named["topic"], named["partition"], content)
    if kind == GROUP_KEY:
        named = _fields(cursor, GROUP_KEY_FIELDS, kind, flexible=False)
        _need(named, key)
        return GroupMetadata(named["group"], None if value is None else _versioned(value, GROUP_VALUE))
    return None


def _need(named: dict[str, Any], key: bytes) -> None:
    if any(part is None for part in named.values()):
        raise MalformedRecordError(f"found a key without a group or topic in its {len(key)} bytes")


def assigned_partitions(assignment: bytes | None) -> list[tuple[str, int]]:
    """The partitions of a member's assignment (ConsumerProtocolAssignment). Raises MalformedRecordError."""
    if not assignment:
        return []
    cursor = WireCursor(assignment)
    cursor.integer(2)  # later versions only append fields
    found: list[tuple[str, int]] = []
    for _ in range(cursor.integer(4)):
        topic = _value(cursor, "string", 0, flexible=False)
        found += [(str(topic), cursor.integer(4)) for _ in range(cursor.integer(4))]
    return found
