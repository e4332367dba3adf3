"""Decodes the records of a KRaft controller's metadata log, by a table of their schemas.

A frame has unsigned varints for its version (1), the record's type and the record's version, then the fields in
order. Strings, arrays and UUIDs are compact (KIP-482), and tagged fields follow. Names, types and versions are those
of Kafka 4.4's metadata/src/main/resources/common/metadata/*.json, which are valid back to 3.0. Fields that a later
version appends cannot be skipped, so a record of an unknown version is damage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .record_schema import Field, MalformedRecordError, WireCursor, fields_of, read_fields, varint, write_fields


class RecordSchema:
    """A type of records: its name, the highest known version, and its fields."""

    def __init__(self, name: str, max_version: int, text: str = "", **of: tuple[Field, ...]) -> None:
        self.name, self.max_version, self.fields = name, max_version, fields_of(text, **of)


SCHEMAS: dict[int, RecordSchema] = {
    0: RecordSchema(
        "REGISTER_BROKER_RECORD",
        4,
        "brokerId int32, isMigratingZkBroker bool 2+, incarnationId uuid, brokerEpoch int64, endPoints [], "
        "features [], rack string, fenced bool, inControlledShutdown bool 1+, logDirs [uuid] 3+ tag=0, "
        "cordonedLogDirs [uuid] 4+ tag=1",
        endPoints=fields_of("name string, host string, port uint16, securityProtocol int16"),
        features=fields_of("name string, minSupportedVersion int16, maxSupportedVersion int16"),
    ),
    1: RecordSchema("UNREGISTER_BROKER_RECORD", 0, "brokerId int32, brokerEpoch int64"),
    2: RecordSchema("TOPIC_RECORD", 0, "name string, topicId uuid"),
    3: RecordSchema(
        "PARTITION_RECORD",
        2,
        "partitionId int32, topicId uuid, replicas [int32], isr [int32], removingReplicas [int32], "
        "addingReplicas [int32], leader int32, leaderRecoveryState int8 tag=0 default=0, leaderEpoch int32, "
        "partitionEpoch int32, directories [uuid] 1+, eligibleLeaderReplicas [int32] 2+ tag=1, "
        "lastKnownElr [int32] 2+ tag=2",
    ),
    4: RecordSchema("CONFIG_RECORD", 0, "resourceType int8, resourceName string, name string, value string"),
    5: RecordSchema(
        "PARTITION_CHANGE_RECORD",
        2,
        "partitionId int32, topicId uuid, isr [int32] tag=0, leader int32 tag=1 default=-2, replicas [int32] tag=2, "
        "removingReplicas [int32] tag=3, addingReplicas [int32] tag=4, leaderRecoveryState int8 tag=5 default=-1, "
        "eligibleLeaderReplicas [int32] 2+ tag=6, lastKnownElr [int32] 2+ tag=7, directories [uuid] 1+ tag=8",
    ),
    7: RecordSchema("FENCE_BROKER_RECORD", 0, "id int32, epoch int64"),
    8: RecordSchema("UNFENCE_BROKER_RECORD", 0, "id int32, epoch int64"),
    9: RecordSchema("REMOVE_TOPIC_RECORD", 0, "topicId uuid"),
    12: RecordSchema("FEATURE_LEVEL_RECORD", 0, "name string, featureLevel int16"),
    17: RecordSchema(
        "BROKER_REGISTRATION_CHANGE_RECORD",
        3,
        "brokerId int32, brokerEpoch int64, fenced int8 tag=0 default=0, inControlledShutdown int8 1+ tag=1 default=0, "
        "logDirs [uuid] 2+ tag=2, cordonedLogDirs [uuid] 3+ tag=3",
    ),
    21: RecordSchema("ZK_MIGRATION_STATE_RECORD", 0, "zkMigrationState int8"),
    23: RecordSchema("BEGIN_TRANSACTION_RECORD", 0),
    24: RecordSchema("END_TRANSACTION_RECORD", 0),
    25: RecordSchema("ABORT_TRANSACTION_RECORD", 0),
    28: RecordSchema("CLEAR_ELR_RECORD", 0, "topicName string"),
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
