"""Errors of sends: which leave the outcome open, in every spelling."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.histories.outcomes import is_indeterminate

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
KafkaError{code=_MSG_TIMED_OUT,val=-192,str="Local: Message timed out"}
KafkaError{code=REQUEST_TIMED_OUT,val=7,str="Broker: Request timed out"}
KafkaError{code=_TRANSPORT,val=-195,str="Local: Broker transport failure"}
Broker: Message(s) written to insufficient number of in-sync replicas
Message production error: MessageTimedOut (Local: Message timed out)
ERR__MSG_TIMED_OUT
ERR__TRANSPORT
[Error 7] RequestTimedOutError
[7] Request Timed Out: the request exceeded the user-specified time limit in the request
kafka server: Request exceeded the user-specified time limit in the request
kafka server: Tried to send a message to a replica that is not the leader for some partition. Your metadata is old
kafka server: Unexpected (unknown?) server error
context deadline exceeded
i/o timeout
read tcp 127.0.0.1:51234->127.0.0.1:9092: i/o timeout
write tcp 127.0.0.1:51234->127.0.0.1:9092: use of closed network connection
KafkaJSRequestTimeoutError: Request Produce(key: 0, version: 7) timed out
KafkaJSConnectionError: Connection timeout
KafkaJSConnectionClosedError: Closed connection
java.lang.RuntimeException: org.apache.kafka.common.errors.TimeoutException: Expiring 3 record(s) for x-0
Expiring 1 record(s) for orders-0:3000 ms has passed since batch creation
java.net.SocketTimeoutException
Caused by: org.apache.kafka.common.errors.NetworkException: Disconnected from node 2
records have timed out before they were able to be produced
Delivery timeout
timed-out
interrupted
EOF
unexpected EOF
java.io.EOFException
broken pipe
[Errno 32] Broken pipe
connection reset by peer
7
-1
LEADER_NOT_AVAILABLE
Broker: Leader not available
There is no leader for this topic-partition as we are in the middle of a leadership election.
kafka: client has run out of available brokers to talk to: EOF
client closed
kgo: client is closed
Producer is closed forcefully.
Local: Broker handle destroyed
error: 7
{"code":7,"message":"it took too long"}
{"errno":-104,"code":"ECONNRESET"}
org.apache.kafka.common.errors.TimeoutException: Topic x not present in metadata after 60000 ms.
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
Cannot perform operation after producer has been closed
KafkaError{code=MSG_SIZE_TOO_LARGE,val=10,str="Unable to produce message: Broker: Message size too large"}
KafkaError{code=NOT_ENOUGH_REPLICAS,val=19,str="Broker: Not enough in-sync replicas"}
KafkaError{code=TOPIC_AUTHORIZATION_FAILED,val=29,str="Broker: Topic authorization failed"}
KafkaError{code=_VALUE_SERIALIZATION,val=-161,str="timeout is no number"}
java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.SerializationException: Timeout of the registry
java.lang.RuntimeException: org.apache.kafka.common.errors.RecordTooLargeException: larger than max.request.size
org.apache.kafka.common.config.ConfigException: the timeout is too small
delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms
INVALID_TRANSACTION_TIMEOUT
InvalidTxnTimeoutException: The transaction timeout is larger than the maximum value allowed by the broker
[Error 10] MessageSizeTooLargeError
Message production error: MessageSizeTooLarge (Broker: Message size too large)
Topic orders not present in metadata after 60000 ms.
Failed to allocate memory within the configured max blocking time
UNKNOWN_LEADER_EPOCH
KafkaError{code=_PARTITION_EOF,val=-191,str="Broker: No more messages"}
19
error: 10
error 77 of 7
{"code":19}
"""


@pytest.mark.parametrize("error", OPEN.strip().splitlines())
def test_the_outcome_is_open(error: str) -> None:
    assert _judged(error)


@pytest.mark.parametrize("error", [*CERTAIN.strip().splitlines(), "", None])
def test_the_send_certainly_failed(error: str | None) -> None:
    assert not _judged(error)


def _judged(error: str | None) -> bool:
    frame = pl.DataFrame({"error": [error]}, schema={"error": pl.String})
    return bool(frame.select(is_indeterminate(pl.col("error"))).item())
