"""Replays `__cluster_metadata` of KRaft: topics, leaders, ISR, eligible leaders and brokers over time.

The records come from a controller's or broker's copy of the metadata log and from its .checkpoint snapshots. They
apply as in Kafka's PartitionRegistration.merge: a PartitionChange with a leader raises the leader epoch by one, even
if the leader is the same, and every change raises the partition epoch. Each row has the state of its partition after
the record. Times are of the controller's clock in milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from .metadata_records import decode
from .record_schema import MalformedRecordError
from .tables import DAMAGE, METADATA, Row, damage_row

NO_LEADER_CHANGE = -2
TOPIC_RESOURCE = 2  # ConfigResource.Type.TOPIC
PRE_MIGRATION = 2  # ZkMigrationState: until the next state, the controller copies ZooKeeper's content
CHECKPOINT = ".checkpoint"
SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True)
class MetadataRecord:
    """One record of the metadata log, from bytes or from the text of kafka-dump-log."""

    offset: int
    time: int  # ms
    type: str  # its name in Kafka
    data: dict[str, Any]
    byte: int | None = None
    file: str | None = None


@dataclass(frozen=True)
class PartitionState:
    """The registration of a partition."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    recovering: bool
    directories: tuple[str, ...] = ()  # of the replicas, in their order (KIP-858); empty before Kafka 3.7


@dataclass
class Replay:
    """The state of a replay: topic names by id, and partitions by topic id and number."""

    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], PartitionState] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    damage: list[Row] = field(default_factory=list)
    is_migrating: bool = False  # from ZooKeeper

    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Tables METADATA and DAMAGE, both with a column `file`."""
        tables = (self.rows, METADATA), (self.damage, DAMAGE)
        metadata, damage = (pl.DataFrame(rows, schema={**schema, "file": pl.String}) for rows, schema in tables)
        return metadata, damage

    def apply_all(self, records: list[MetadataRecord]) -> None:
        """Applies the records of committed metadata transactions in order."""
        for record in without_aborted(records):
            self.apply(record)

    def apply(self, record: MetadataRecord) -> None:
        """Applies a record. One with missing or wrong fields becomes damage."""
        try:
            HANDLERS[record.type](self, record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{record.type} at offset {record.offset} cannot be applied: {error}"
            self.broken(record, "decode", reason)

    def broken(self, record: MetadataRecord, kind: str, reason: str) -> None:
        """Adds a row of damage."""
        row = damage_row(kind, reason, record.byte, record.offset, record.offset)
        self.damage.append({**row, "file": record.file})

    def row(self, record: MetadataRecord, kind: str, **columns: Any) -> None:
        """Adds a row of METADATA."""
        is_copy = self.is_migrating or (record.file or "").endswith(CHECKPOINT)
        where = {"byte": record.byte, "file": record.file, "is_copy": is_copy}
        self.rows.append({"offset": record.offset, "time": record.time, "kind": kind, **where, **columns})

    def partition_row(self, record: MetadataRecord, kind: str, key: tuple[str, int]) -> None:
        """Adds a row of METADATA with the state of a partition."""
        state = self.partitions[key]
        columns = {name: list(v) if isinstance(v, tuple) else v for name, v in vars(state).items()}
        # Without the record of its topic (a truncated log) a partition only has the topic id.
        self.row(record, kind, topic=self.topics.get(key[0], key[0]), topic_id=key[0], partition=key[1], **columns)


def read_cluster_metadata(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables METADATA and DAMAGE of a `__cluster_metadata-0` folder, both with a column `file` (its name).

    Where the log begins after offset 0, the snapshot up to its beginning is replayed first.
    """
    segments = sorted(p for p in folder.glob("*.log") if p.stem.isdecimal() and p.is_file())
    snapshots = sorted(p for p in folder.glob("*.checkpoint") if SNAPSHOT.fullmatch(p.name) and p.is_file())
    first = int(segments[0].stem) if segments else None
    replay = Replay()
    records: list[MetadataRecord] = []
    begin = 0
    if first != 0 and snapshots:
        # The log begins after offset 0: earlier records are only in a snapshot.
        usable = [p for p in snapshots if first is None or int(p.name[:20]) >= first]
        path = (usable or snapshots)[0]
        begin = int(path.name[:20])
        records += _records_of(path, replay, at_offset=begin - 1)
    for path in segments:  # a metadata transaction may end in a later one than it began in
        records += _records_of(path, replay, begin=begin)
    replay.apply_all(records)
    return replay.tables()


def _records_of(path: Path, replay: Replay, begin: int = 0, at_offset: int | None = None) -> Iterator[MetadataRecord]:
    """The records of a file; damage goes to the replay. Those of a snapshot all have the offset of the snapshot."""
    from .segments import raw_records  # loads compiled loops, which takes time

    raw, damage = raw_records(path)
    replay.damage.extend({**row, "file": path.name} for row in damage)
    for entry in raw:
        if entry.value is None or entry.is_control or entry.offset < begin:
            continue
        when = (entry.offset if at_offset is None else at_offset, entry.timestamp)
        try:
            if (decoded := decode(entry.value)) is not None:
                yield MetadataRecord(*when, *decoded, entry.byte, path.name)
        except MalformedRecordError as error:
            replay.broken(MetadataRecord(*when, "", {}, entry.byte, path.name), "decode", str(error))


def replay_records(records: list[MetadataRecord]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables METADATA and DAMAGE of records that were read elsewhere (dump_text.py)."""
    replay = Replay()
    replay.apply_all(records)
    return replay.tables()


def without_aborted(records: list[MetadataRecord]) -> list[MetadataRecord]:
    """The records without those of aborted metadata transactions (KIP-868)."""
    out: list[MetadataRecord] = []
    transaction: list[MetadataRecord] | None = None
    for record in records:
        if record.type == "BEGIN_TRANSACTION_RECORD":
            transaction = []
        elif record.type == "END_TRANSACTION_RECORD":
            out.extend(transaction or [])
            transaction = None
        elif record.type == "ABORT_TRANSACTION_RECORD":
            transaction = None
        elif transaction is not None:
            transaction.append(record)
        else:
            out.append(record)
    return out


def _topic(replay: Replay, record: MetadataRecord) -> None:
    replay.topics[record.data["topicId"]] = record.data["name"]
    replay.row(record, "topic", topic=record.data["name"], topic_id=record.data["topicId"])


def _remove_topic(replay: Replay, record: MetadataRecord) -> None:
    topic_id = record.data["topicId"]
    replay.row(record, "remove-topic", topic=replay.topics.pop(topic_id, topic_id), topic_id=topic_id)
    replay.partitions = {key: state for key, state in replay.partitions.items() if key[0] != topic_id}


# By name in PartitionState: the record's field.
LISTS = {
    "isr": "isr",
    "replicas": "replicas",
    "adding": "addingReplicas",
    "removing": "removingReplicas",
    "elr": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
}


def _lists(data: dict[str, Any]) -> dict[str, Any]:
    """The lists of brokers that a record has; a change has only those that changed."""
    return {name: tuple(map(int, data[field])) for name, field in LISTS.items() if data.get(field) is not None}


def _directories(data: dict[str, Any], default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The log.dirs of the replicas that a record has; a change has them only if they changed."""
    return tuple(map(str, data.get("directories") or ())) or default


def _partition(replay: Replay, record: MetadataRecord) -> None:
    data = record.data
    key = (data["topicId"], int(data["partitionId"]))
    replay.partitions[key] = PartitionState(
        leader=int(data["leader"]),
        leader_epoch=int(data["leaderEpoch"]),
        partition_epoch=int(data["partitionEpoch"]),
        recovering=data.get("leaderRecoveryState") == 1,
        directories=_directories(data),
        **dict.fromkeys(LISTS, ()) | _lists({"isr": data["isr"], "replicas": data["replicas"], **data}),
    )
    replay.partition_row(record, "partition", key)


def _partition_change(replay: Replay, record: MetadataRecord) -> None:
    data = record.data
    key = (data["topicId"], int(data["partitionId"]))
    old = replay.partitions.get(key)
    if old is None:
        reason = f"a change of partition {key[1]} of topic {key[0]}, without its PartitionRecord in this log"
        replay.broken(record, "order", reason)
        return
    directories = _directories(data, old.directories)
    state = replace(old, partition_epoch=old.partition_epoch + 1, directories=directories, **_lists(data))
    leader = data.get("leader")
    if leader is not None and leader != NO_LEADER_CHANGE:
        state = replace(state, leader=int(leader), leader_epoch=old.leader_epoch + 1)
    if data.get("leaderRecoveryState") in (0, 1):
        state = replace(state, recovering=data["leaderRecoveryState"] == 1)
    replay.partitions[key] = state
    replay.partition_row(record, "change", key)


def _clear_elr(replay: Replay, record: MetadataRecord) -> None:
    name = record.data.get("topicName")
    for key, state in list(replay.partitions.items()):
        if (not name or replay.topics.get(key[0]) == name) and (state.elr or state.last_known_elr):
            replay.partitions[key] = replace(state, elr=(), last_known_elr=())
            replay.partition_row(record, "change", key)


def _of_broker(kind: str, name: str) -> Callable[[Replay, MetadataRecord], None]:
    """A handler that adds a row with the broker that the record has in the field of that name."""
    return lambda replay, record: replay.row(record, kind, broker_id=record.data[name])


def _register(replay: Replay, record: MetadataRecord) -> None:
    directories = [str(directory) for directory in record.data.get("logDirs") or ()]
    replay.row(record, "register", broker_id=record.data["brokerId"], directories=directories)


def _registration_change(replay: Replay, record: MetadataRecord) -> None:
    # BrokerRegistrationFencingChange: 1 fences, -1 unfences; the shutdown field only ever rises to 1.
    change = record.data.get("fenced") or 0
    if change:
        replay.row(record, "fence" if change > 0 else "unfence", broker_id=record.data["brokerId"])
    if record.data.get("inControlledShutdown"):
        replay.row(record, "shutdown", broker_id=record.data["brokerId"])


def _config(replay: Replay, record: MetadataRecord) -> None:
    data = record.data
    topic = data["resourceName"] if data["resourceType"] == TOPIC_RESOURCE else None
    replay.row(record, "config", topic=topic, key=data["name"], value=data["value"])


def _feature(replay: Replay, record: MetadataRecord) -> None:
    replay.row(record, "feature", key=record.data["name"], value=str(record.data["featureLevel"]))


def _migration_state(replay: Replay, record: MetadataRecord) -> None:
    replay.is_migrating = record.data["zkMigrationState"] == PRE_MIGRATION


HANDLERS = {
    "REGISTER_BROKER_RECORD": _register,
    "UNREGISTER_BROKER_RECORD": _of_broker("unregister", "brokerId"),
    "TOPIC_RECORD": _topic,
    "PARTITION_RECORD": _partition,
    "CONFIG_RECORD": _config,
    "PARTITION_CHANGE_RECORD": _partition_change,
    "FENCE_BROKER_RECORD": _of_broker("fence", "id"),
    "UNFENCE_BROKER_RECORD": _of_broker("unfence", "id"),
    "REMOVE_TOPIC_RECORD": _remove_topic,
    "FEATURE_LEVEL_RECORD": _feature,
    "BROKER_REGISTRATION_CHANGE_RECORD": _registration_change,
    "CLEAR_ELR_RECORD": _clear_elr,
    "ZK_MIGRATION_STATE_RECORD": _migration_state,
}
