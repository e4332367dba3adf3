"""Errors of sends: which leave the outcome open, in every spelling."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.histories.outcomes import is_undecided

OPEN = """
NOT_LEADER_FOR_PARTITION
NOT_LEADER_OR_FOLLOWER: Broker: Not leader for partition
NotLeaderOrFollowerException
org.apache.kafka.common.errors.NotLeaderForPartitionException: This server is not the leader for that topic-partition.
This server is not the leader for that topic-partition.
For requests intended only for the leader, this error indicates that the broker is not the current leader.
KAFKA_STORAGE_ERROR
org.apache.kafka.common.errors.KafkaStorageException: Disk error when trying to access log file on the disk.
Disk error when trying to access log file on the disk.
UNKNOWN_SERVER_ERROR
UnknownServerException: The server experienced an unexpected error when processing the request.
UNKNOWN: Broker: Unknown broker error
REQUEST_TIMED_OUT
_MSG_TIMED_OUT: Local: Message timed out
Local: Message timed out
The request timed out.
TimeoutException
org.apache.kafka.common.errors.TimeoutException: Expiring 1 record(s) for x-0:120000 ms has passed
java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: Expiring 3 record(s)
KafkaTimeoutError: Failed to update metadata after 60.0 secs.
_TRANSPORT
_PURGE_INFLIGHT: Local: Purged in flight
_PURGE_QUEUE
TIMEOUT
DISCONNECT
DisconnectException
org.apache.kafka.common.errors.DisconnectException: null
NETWORK_EXCEPTION: The server disconnected before a response was received.
NetworkException
NOT_ENOUGH_REPLICAS_AFTER_APPEND
NotEnoughReplicasAfterAppendException
Messages are written to the log, but to fewer in-sync replicas than required.
"""
CERTAIN = """
MSG_SIZE_TOO_LARGE: Unable to produce message: Broker: Message size too large
MESSAGE_TOO_LARGE
org.apache.kafka.common.errors.RecordTooLargeException: The request timed out of range, as it were
RECORD_LIST_TOO_LARGE
NOT_ENOUGH_REPLICAS
org.apache.kafka.common.errors.NotEnoughReplicasException: Messages are rejected since there are fewer in-sync replicas
TOPIC_AUTHORIZATION_FAILED
ClusterAuthorizationException
INVALID_REQUIRED_ACKS
INVALID_TIMESTAMP: The timestamp of the message is out of acceptable range.
INVALID_PRODUCER_EPOCH
UNKNOWN_TOPIC_OR_PARTITION
Unknown topic or partition
CORRUPT_MESSAGE
OUT_OF_ORDER_SEQUENCE_NUMBER: Broker: Broker received an out of order sequence number
aborted by the application
"""


@pytest.mark.parametrize("error", OPEN.strip().splitlines())
def test_the_outcome_is_open(error: str) -> None:
    assert _judged(error)


@pytest.mark.parametrize("error", [*CERTAIN.strip().splitlines(), "", None])
def test_the_send_certainly_failed(error: str | None) -> None:
    assert not _judged(error)


def _judged(error: str | None) -> bool:
    frame = pl.DataFrame({"error": [error]}, schema={"error": pl.String})
    return bool(frame.select(is_undecided(pl.col("error"))).item())
