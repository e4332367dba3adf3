"""Decodes the records of a KRaft controller's metadata log, by a table of their schemas.

A frame has unsigned varints for its version (1), the record's type and the record's version, then the fields in
order. Strings, arrays and UUIDs are compact (KIP-482), and tagged fields follow. Names, types and versions are those
of Kafka 4.1's metadata/src/main/resources/common/metadata/*.json, which are valid back to 3.0. Fields that a later
version appends cannot be skipped, so a record of an unknown version is damage.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .wire_cursor import MalformedRecordError, WireCursor


@dataclass(frozen=True)
class Field:
    """A field of a record: its type, the first version that has it, and its tag if it is tagged."""

    name: str
    type: str  # int8 int16 int32 int64 uint16 bool string uuid, [type], or a key of STRUCTS in brackets
    since: int = 0
    tag: int | None = None
    default: Any = None


@dataclass(frozen=True)
class RecordSchema:
    """The fields of a type of records."""

    name: str
    max_version: int  # the highest known
    fields: tuple[Field, ...]


STRUCTS: dict[str, tuple[Field, ...]] = {
    "endpoint": (
        Field("name", "string"),
        Field("host", "string"),
        Field("port", "uint16"),
        Field("securityProtocol", "int16"),
    ),
    "feature": (
        Field("name", "string"),
        Field("minSupportedVersion", "int16"),
        Field("maxSupportedVersion", "int16"),
    ),
}

SCHEMAS: dict[int, RecordSchema] = {
    0: RecordSchema(
        "REGISTER_BROKER_RECORD",
        3,
        (
            Field("brokerId", "int32"),
            Field("isMigratingZkBroker", "bool", since=2),
            Field("incarnationId", "uuid"),
            Field("brokerEpoch", "int64"),
            Field("endPoints", "[endpoint]"),
            Field("features", "[feature]"),
            Field("rack", "string"),
            Field("fenced", "bool"),
            Field("inControlledShutdown", "bool", since=1),
            Field("logDirs", "[uuid]", since=3, tag=0),
        ),
    ),
    1: RecordSchema("UNREGISTER_BROKER_RECORD", 0, (Field("brokerId", "int32"), Field("brokerEpoch", "int64"))),
    2: RecordSchema("TOPIC_RECORD", 0, (Field("name", "string"), Field("topicId", "uuid"))),
    3: RecordSchema(
        "PARTITION_RECORD",
        2,
        (
            Field("partitionId", "int32"),
            Field("topicId", "uuid"),
            Field("replicas", "[int32]"),
            Field("isr", "[int32]"),
            Field("removingReplicas", "[int32]"),
            Field("addingReplicas", "[int32]"),
            Field("leader", "int32"),
            Field("leaderRecoveryState", "int8", tag=0, default=0),
            Field("leaderEpoch", "int32"),
            Field("partitionEpoch", "int32"),
            Field("directories", "[uuid]", since=1),
            Field("eligibleLeaderReplicas", "[int32]", since=2, tag=1),
            Field("lastKnownElr", "[int32]", since=2, tag=2),
        ),
    ),
    4: RecordSchema(
        "CONFIG_RECORD",
        0,
        (
            Field("resourceType", "int8"),
            Field("resourceName", "string"),
            Field("name", "string"),
            Field("value", "string"),
        ),
    ),
    5: RecordSchema(
        "PARTITION_CHANGE_RECORD",
        2,
        (
            Field("partitionId", "int32"),
            Field("topicId", "uuid"),
            Field("isr", "[int32]", tag=0),
            Field("leader", "int32", tag=1, default=-2),
            Field("replicas", "[int32]", tag=2),
            Field("removingReplicas", "[int32]", tag=3),
            Field("addingReplicas", "[int32]", tag=4),
            Field("leaderRecoveryState", "int8", tag=5, default=-1),
            Field("eligibleLeaderReplicas", "[int32]", since=2, tag=6),
            Field("lastKnownElr", "[int32]", since=2, tag=7),
            Field("directories", "[uuid]", since=1, tag=8),
        ),
    ),
    7: RecordSchema("FENCE_BROKER_RECORD", 0, (Field("id", "int32"), Field("epoch", "int64"))),
    8: RecordSchema("UNFENCE_BROKER_RECORD", 0, (Field("id", "int32"), Field("epoch", "int64"))),
    9: RecordSchema("REMOVE_TOPIC_RECORD", 0, (Field("topicId", "uuid"),)),
    12: RecordSchema("FEATURE_LEVEL_RECORD", 0, (Field("name", "string"), Field("featureLevel", "int16"))),
    17: RecordSchema(
        "BROKER_REGISTRATION_CHANGE_RECORD",
        2,
        (
            Field("brokerId", "int32"),
            Field("brokerEpoch", "int64"),
            Field("fenced", "int8", tag=0, default=0),
            Field("inControlledShutdown", "int8", since=1, tag=1, default=0),
            Field("logDirs", "[uuid]", since=2, tag=2),
        ),
    ),
    23: RecordSchema("BEGIN_TRANSACTION_RECORD", 0, ()),
    24: RecordSchema("END_TRANSACTION_RECORD", 0, ()),
    25: RecordSchema("ABORT_TRANSACTION_RECORD", 0, ()),
    28: RecordSchema("CLEAR_ELR_RECORD", 0, (Field("topicName", "string"),)),
}

# Types without data of partitions or brokers: quotas, tokens, ACLs, producer ids, no-ops, controllers.
IGNORED = frozenset((6, 10, 11, 13, 14, 15, 16, 18, 19, 20, 21, 22, 26, 27))


_WIDTHS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}


def _value(cursor: WireCursor, type_: str, version: int) -> Any:
    if type_ in _WIDTHS:
        return cursor.integer(_WIDTHS[type_])
    if type_ == "uint16":
        return cursor.integer(2, signed=False)
    if type_ == "bool":
        return cursor.integer(1) != 0
    if type_ == "uuid":
        # Kafka prints a Uuid as base64 for URLs, without padding.
        return base64.urlsafe_b64encode(cursor.take(16)).decode().rstrip("=")
    if type_ == "string":
        length = cursor.varint()
        return cursor.take(length - 1).decode("utf-8", "replace") if length else None
    length = cursor.varint()
    if not length:
        return None
    inner = type_[1:-1]
    if length - 1 > len(cursor.data):
        raise MalformedRecordError(f"an array of {length - 1} entries in {len(cursor.data)} bytes")
    if inner in STRUCTS:
        return [_fields(cursor, STRUCTS[inner], version) for _ in range(length - 1)]
    return [_value(cursor, inner, version) for _ in range(length - 1)]


def _fields(cursor: WireCursor, fields: tuple[Field, ...], version: int) -> dict[str, Any]:
    out = {field.name: field.default for field in fields}
    for field in fields:
        if field.tag is None and version >= field.since:
            out[field.name] = _value(cursor, field.type, version)
    by_tag = {field.tag: field for field in fields if field.tag is not None}
    for _ in range(cursor.varint()):
        tag, size = cursor.varint(), cursor.varint()
        inner = WireCursor(cursor.take(size))
        if tag in by_tag:
            out[by_tag[tag].name] = _value(inner, by_tag[tag].type, version)
    return out


def decode(data: bytes) -> tuple[int, int, dict[str, Any] | None]:
    """Type, version and fields of a metadata record; no fields (None) for an ignored type."""
    cursor = WireCursor(data)
    frame, type_, version = cursor.varint(), cursor.varint(), cursor.varint()
    if frame != 1:
        raise MalformedRecordError(f"found frame version {frame}, expected 1")
    schema = SCHEMAS.get(type_)
    if schema is None:
        return type_, version, None
    if version > schema.max_version:
        raise MalformedRecordError(f"found {schema.name} of version {version}, expected at most {schema.max_version}")
    return type_, version, _fields(cursor, schema.fields, version)


def encode(name: str, data: Mapping[str, Any]) -> bytes:
    """The bytes of a record of that name, in the oldest version that has its fields."""
    number, schema = next((number, schema) for number, schema in SCHEMAS.items() if schema.name == name)
    version = max((field.since for field in schema.fields if field.name in data), default=0)
    return _varint(1) + _varint(number) + _varint(version) + _encoded(schema.fields, version, data)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _bytes(type_: str, version: int, value: Any) -> bytes:
    if type_ in _WIDTHS:
        return int(value).to_bytes(_WIDTHS[type_], "big", signed=True)
    if type_ == "uint16":
        return int(value).to_bytes(2, "big")
    if type_ == "bool":
        return bytes((bool(value),))
    if type_ == "uuid":
        return bytes(base64.urlsafe_b64decode(value + "=="))
    if value is None:
        return _varint(0)
    if type_ == "string":
        text = str(value).encode()
        return _varint(len(text) + 1) + text
    inner = type_[1:-1]
    if inner in STRUCTS:
        entries = [_encoded(STRUCTS[inner], version, entry) for entry in value]
    else:
        entries = [_bytes(inner, version, entry) for entry in value]
    return _varint(len(entries) + 1) + b"".join(entries)


def _encoded(fields: tuple[Field, ...], version: int, data: Mapping[str, Any]) -> bytes:
    """The bytes of the fields in order, then of the tagged fields in `data`."""
    plain = [
        _bytes(f.type, version, data.get(f.name, f.default)) for f in fields if f.tag is None and version >= f.since
    ]
    tagged = [
        (f.tag, _bytes(f.type, version, data[f.name]))
        for f in sorted((f for f in fields if f.tag is not None and f.name in data), key=lambda f: f.tag or 0)
    ]
    tags = [_varint(tag or 0) + _varint(len(value)) + value for tag, value in tagged]
    return b"".join((*plain, _varint(len(tags)), *tags))
