"""The records of the group's log as bytes: OffsetCommit and GroupMetadata, in the versions of the era.

The field tables are in histories/evidence/group_records.py, whose decoder reads what this writes.
"""

from __future__ import annotations

from ...models.replication.cluster import Cluster
from ...models.replication.coordinators.requests import GroupRecord
from ...models.replication.storage.batches import Batch
from .names import epoch_ms
from .segments import Content
from .wire import integer as _int
from .wire import string as _text

GROUP = "workers"


def group_content(cluster: Cluster, magic: int) -> Content:
    """The content of the group's log. Brokers of format 2 write version 3 of the values, older ones version 1."""
    version = 3 if magic == 2 else 1

    def content(batch: Batch, index: int) -> tuple[bytes, bytes]:
        record = cluster.coordinator_logs.group_records[batch.first + index]
        if record.offset is None:
            return _int(2, 2) + _text(GROUP), _generation(cluster, record, version)
        partition, offset = record.offset
        key = _int(1, 2) + _text(GROUP) + _text(cluster.config.topic) + _int(partition, 4)
        epoch = _int(-1, 4) if version >= 3 else b""
        expires = _int(-1, 8) if version == 1 else b""
        return key, _int(version, 2) + _int(offset, 8) + epoch + _text("") + _int(epoch_ms(record.time), 8) + expires

    return content


def _generation(cluster: Cluster, record: GroupRecord, version: int) -> bytes:
    config = cluster.config
    shares = record.assignment or ()
    protocol, leader = (config.strategy, record.member) if shares else (None, None)
    out = _int(version, 2) + _text("consumer") + _int(record.generation, 4) + _text(protocol) + _text(leader)
    out += (_int(epoch_ms(record.time), 8) if version >= 2 else b"") + _int(len(shares), 4)
    for member, client, partitions in shares:
        out += _text(member) + (_text(None) if version >= 3 else b"") + _text(client) + _text("/127.0.0.1")
        out += _int(config.max_poll_interval // 1000, 4) + _int(config.group_session // 1000, 4)
        numbers = b"".join(_int(partition, 4) for partition in partitions)
        places = _int(1, 4) + _text(config.topic) + _int(len(partitions), 4) + numbers if partitions else _int(0, 4)
        subscription = _int(1, 2) + _int(1, 4) + _text(config.topic) + _int(-1, 4) + _int(0, 4)
        out += b"".join(_int(len(part), 4) + part for part in (subscription, _int(1, 2) + places + _int(-1, 4)))
    return out
