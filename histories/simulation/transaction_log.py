"""The records of `__transaction_state` as bytes, in version 0 of their values.

Simplification: with transactions v2 Kafka writes version 1, which adds tagged fields.
"""

from __future__ import annotations

from itertools import groupby

from ...models.replication.cluster import Cluster
from ...models.replication.coordinators.transaction_requests import EMPTY, STATES
from ...models.replication.storage.batches import Batch
from ..evidence.record_schema import write_versioned
from ..evidence.transaction_records import KEY, VALUE
from .names import epoch_ms
from .segments import Content


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
