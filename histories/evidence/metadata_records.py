"""Decodes the records of a KRaft controller's metadata log, by a table of their schemas.

A frame has unsigned varints for its version (1), the record's type and the record's version, then the fields in
order. Strings, arrays and UUIDs are compact (KIP-482), and tagged fields follow. Names, types and versions are those
of Kafka 4.4's metadata/src/main/resources/common/metadata/*.json, which are valid back to 3.0. Fields that a later
version appends cannot be skipped, so a record of an unknown version is damage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .record_schema import Field, MalformedRecordError, WireCursor, read_fields, varint, write_fields


class RecordSchema:
    """A type of records: its name, the highest known version, and its fields."""

    def __init__(self, name: str, max_version: int, *fields: Field) -> None:
        self.name, self.max_version, self.fields = name, max_version, fields


ENDPOINT = (
    Field("name", "string"),
    Field("host", "string"),
    Field("port", "uint16"),
    Field("securityProtocol", "int16"),
)
FEATURE = (Field("name", "string"), Field("minSupportedVersion", "int16"), Field("maxSupportedVersion", "int16"))

SCHEMAS: dict[int, RecordSchema] = {
    0: RecordSchema(
        "REGISTER_BROKER_RECORD",
        4,
        Field("brokerId", "int32"),
        Field("isMigratingZkBroker", "bool", since=2),
        Field("incarnationId", "uuid"),
        Field("brokerEpoch", "int64"),
        Field("endPoints", "[]", of=ENDPOINT),
        Field("features", "[]", of=FEATURE),
        Field("rack", "string"),
        Field("fenced", "bool"),
        Field("inControlledShutdown", "bool", since=1),
        Field("logDirs", "[uuid]", since=3, tag=0),
        Field("cordonedLogDirs", "[uuid]", since=4, tag=1),
    ),
    1: RecordSchema("UNREGISTER_BROKER_RECORD", 0, Field("brokerId", "int32"), Field("brokerEpoch", "int64")),
    2: RecordSchema("TOPIC_RECORD", 0, Field("name", "string"), Field("topicId", "uuid")),
    3: RecordSchema(
        "PARTITION_RECORD",
        2,
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
    4: RecordSchema(
        "CONFIG_RECORD",
        0,
        Field("resourceType", "int8"),
        Field("resourceName", "string"),
        Field("name", "string"),
        Field("value", "string"),
    ),
    5: RecordSchema(
        "PARTITION_CHANGE_RECORD",
        2,
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
    7: RecordSchema("FENCE_BROKER_RECORD", 0, Field("id", "int32"), Field("epoch", "int64")),
    8: RecordSchema("UNFENCE_BROKER_RECORD", 0, Field("id", "int32"), Field("epoch", "int64")),
    9: RecordSchema("REMOVE_TOPIC_RECORD", 0, Field("topicId", "uuid")),
    12: RecordSchema("FEATURE_LEVEL_RECORD", 0, Field("name", "string"), Field("featureLevel", "int16")),
    17: RecordSchema(
        "BROKER_REGISTRATION_CHANGE_RECORD",
        3,
        Field("brokerId", "int32"),
        Field("brokerEpoch", "int64"),
        Field("fenced", "int8", tag=0, default=0),
        Field("inControlledShutdown", "int8", since=1, tag=1, default=0),
        Field("logDirs", "[uuid]", since=2, tag=2),
        Field("cordonedLogDirs", "[uuid]", since=3, tag=3),
    ),
    21: RecordSchema("ZK_MIGRATION_STATE_RECORD", 0, Field("zkMigrationState", "int8")),
    23: RecordSchema("BEGIN_TRANSACTION_RECORD", 0),
    24: RecordSchema("END_TRANSACTION_RECORD", 0),
    25: RecordSchema("ABORT_TRANSACTION_RECORD", 0),
    28: RecordSchema("CLEAR_ELR_RECORD", 0, Field("topicName", "string")),
}

NAMES = frozenset(schema.name for schema in SCHEMAS.values())
# Types without data of partitions or brokers: quotas, tokens, ACLs, producer ids, no-ops, controllers.
IGNORED = frozenset((6, 10, 11, 13, 14, 15, 16, 18, 19, 20, 22, 26, 27, 29))


class Decoded(NamedTuple):
    """A metadata record."""

    name: str
    fields: dict[str, Any]


def decode(data: bytes) -> Decoded | None:
    """A metadata record; None for one of IGNORED. Raises MalformedRecordError."""
    cursor = WireCursor(data)
    frame, type_, version = cursor.varint(), cursor.varint(), cursor.varint()
    if frame != 1:
        raise MalformedRecordError(f"found frame version {frame}, expected 1")
    if type_ in IGNORED:
        return None
    if type_ not in SCHEMAS:
        raise MalformedRecordError(f"found metadata record type {type_}, expected a known one")
    schema = SCHEMAS[type_]
    if version > schema.max_version:
        raise MalformedRecordError(f"found {schema.name} of version {version}, expected at most {schema.max_version}")
    return Decoded(schema.name, read_fields(cursor, schema.fields, version, flexible=True))


def encode(name: str, data: Mapping[str, Any]) -> bytes:
    """The bytes of a record of that name, in the oldest version that has its fields."""
    number, schema = next((number, schema) for number, schema in SCHEMAS.items() if schema.name == name)
    version = max((field.since for field in schema.fields if field.name in data), default=0)
    return varint(1) + varint(number) + varint(version) + write_fields(schema.fields, version, True, data)
