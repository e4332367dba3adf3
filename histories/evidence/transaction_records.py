"""Decodes the records of `__transaction_state`, by tables of their fields.

Names, types, versions and tags are those of Kafka 4.4's transaction-coordinator/src/main/resources/common/message/
(TransactionLogKey.json, TransactionLogValue.json); before 3.8 they were in core's. Version 0 of a value is that of 0.11
to 3.7, version 1 is flexible (KIP-915, KIP-890). States are those of TransactionState.java (before 4.0
TransactionMetadata.scala).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .record_schema import MalformedRecordError, WireCursor, fields_of, read_key, read_versioned

LATEST = FLEXIBLE_SINCE = 1

KEY = fields_of("transactionalId string")
VALUE = fields_of(
    "producerId int64, previousProducerId int64 1+ tag=0 default=-1, nextProducerId int64 1+ tag=1 default=-1, "
    "producerEpoch int16, nextProducerEpoch int16 1+ tag=3 default=-1, transactionTimeoutMs int32, "
    "transactionStatus int8, transactionPartitions [], transactionLastUpdateTimestampMs int64, "
    "transactionStartTimestampMs int64, clientTransactionVersion int16 1+ tag=2 default=0",
    transactionPartitions=fields_of("topic string, partitionIds [int32]"),
)
STATES = {
    0: "empty",
    1: "ongoing",
    2: "prepare-commit",
    3: "prepare-abort",
    4: "complete-commit",
    5: "complete-abort",
    6: "dead",
    7: "prepare-epoch-fence",
}


@dataclass(frozen=True)
class TransactionRecord:
    """A record of the coordinator about a transactional id; `value` None: it removed the id, which had expired."""

    transactional_id: str
    value: dict[str, Any] | None

    @property
    def state(self) -> str:
        """The name of its state; removed without a value."""
        return "removed" if self.value is None else STATES[self.value["transactionStatus"]]

    @property
    def partitions(self) -> list[tuple[str, int]]:
        """The partitions of the transaction; none once it is complete."""
        listed = [] if self.value is None else self.value["transactionPartitions"]
        return [(str(each["topic"]), partition) for each in listed for partition in each["partitionIds"]]


def decode(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """The record; None: of an unknown kind. Raises MalformedRecordError."""
    if WireCursor(key).integer(2) != 0:
        return None
    name = read_key(key, KEY)["transactionalId"]
    content = None if value is None else read_versioned(value, VALUE, LATEST, FLEXIBLE_SINCE)
    if content is not None and content["transactionStatus"] not in STATES:
        raise MalformedRecordError(f"found the transaction state {content['transactionStatus']}, expected 0 to 7")
    return TransactionRecord(name, content)
