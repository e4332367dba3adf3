"""The records of `__transaction_state` as bytes, in version 0 of their values.

The schema is Kafka's transaction-coordinator/src/main/resources/common/message/TransactionLogKey.json and
TransactionLogValue.json. Simplification: with transactions v2 Kafka writes version 1, which adds tagged fields.
"""

from __future__ import annotations

from itertools import groupby

from ...models.replication.cluster import Cluster
from ...models.replication.coordinators.transaction_requests import EMPTY, STATES
from ...models.replication.storage.batches import Batch
from .names import epoch_ms
from .segments import Content
from .wire import integer, string


def transaction_content(cluster: Cluster) -> Content:
    """The content of the transaction coordinator's log."""

    def content(batch: Batch, index: int) -> tuple[bytes, bytes]:
        record = cluster.coordinator_logs.transaction_records[batch.first + index]
        value = integer(0, 2) + integer(record.pid, 8) + integer(record.epoch, 2) + integer(record.timeout // 1000, 4)
        value += integer(STATES[record.state], 1)
        topics = [
            (topic, [number for _, number in places])
            for topic, places in groupby(map(cluster.config.topic_of, record.partitions), key=lambda place: place[0])
        ]
        value += integer(-1 if record.state == EMPTY else len(topics), 4)
        for topic, numbers in topics:
            value += string(topic) + integer(len(numbers), 4) + b"".join(integer(number, 4) for number in numbers)
        started = epoch_ms(record.started) if record.started >= 0 else -1
        return integer(0, 2) + string(record.id), value + integer(epoch_ms(record.updated), 8) + integer(started, 8)

    return content
