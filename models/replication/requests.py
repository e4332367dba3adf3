"""Requests and their answers as data, one small class a kind.

Whoever sends a request puts two callables into it: `reply`, called at the requester with the answered request, and
`on_closed`, called if the connection closed before the answer. `node` is the requester. Requests of one client to one
broker share a connection, except metadata requests. Simplification: their timeout is one of their own (client.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .network import Connection
from .producer_batch import ProducerBatch
from .storage.batches import Batch

# Kafka's error names, as clients and histories see them.
NONE = ""
NOT_LEADER = "NOT_LEADER_OR_FOLLOWER"
FENCED = "FENCED_LEADER_EPOCH"
UNKNOWN_EPOCH = "UNKNOWN_LEADER_EPOCH"
OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
NOT_AVAILABLE = "OFFSET_NOT_AVAILABLE"
NOT_ENOUGH = "NOT_ENOUGH_REPLICAS"
NOT_ENOUGH_AFTER = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
TIMED_OUT = "REQUEST_TIMED_OUT"
OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
DUPLICATE = "DUPLICATE_SEQUENCE_NUMBER"
OLD_PRODUCER = "INVALID_PRODUCER_EPOCH"
TRUNCATED = "LOG_TRUNCATION"  # a consumer learns that its position was truncated (KIP-320)

Callback = Callable[[Any], None]


class Request:
    """What every request has."""

    __slots__ = ("broker", "closed", "connection", "node", "on_closed", "reply", "sent")

    def __init__(
        self,
        node: int,
        broker: int,
        now: int,
        reply: Callback,
        on_closed: Callback,
        connection: Connection | None = None,
    ) -> None:
        self.node = node  # where the answer goes
        self.broker = broker
        self.sent = now
        self.reply = reply
        self.on_closed = on_closed
        self.connection = connection
        self.closed = False  # the requester no longer waits for the answer, or has it


class ProduceRequest(Request):
    """Batches for partitions that one broker leads; `results` fills up as they are replicated."""

    __slots__ = ("acks", "batches", "deadline", "results", "undecided")

    def __init__(
        self,
        node: int,
        broker: int,
        now: int,
        reply: Callback,
        on_closed: Callback,
        connection: Connection,
        batches: list[ProducerBatch],
        acks: int,
    ) -> None:
        Request.__init__(self, node, broker, now, reply, on_closed, connection)
        self.batches = batches
        self.acks = acks
        self.deadline = 0  # set by the broker: until when it waits for replicas
        self.results: list[tuple[str, int]] = [(TIMED_OUT, -1)] * len(batches)  # error, base offset
        self.undecided = 0  # batches without a result


# partition, error, batches, high watermark, log start offset, start offset of the leader epoch. For LOG_TRUNCATION the
# fourth is the offset at which the logs part, and the last is the epoch that the leader found.
FetchResult = tuple[int, str, "list[Batch]", int, int, int]
# partition, fetch offset, current leader epoch, epoch of the last record before it, log start offset
FetchPart = tuple[int, int, int, int, int]


class FetchRequest(Request):
    """A follower's or a consumer's fetch; the broker parks it while there is nothing to send."""

    __slots__ = ("deadline", "follower", "limit", "parts", "results")

    def __init__(
        self,
        node: int,
        broker: int,
        now: int,
        reply: Callback,
        on_closed: Callback,
        connection: Connection,
        follower: int,
        limit: int,
        parts: list[FetchPart],
    ) -> None:
        Request.__init__(self, node, broker, now, reply, on_closed, connection)
        self.follower = follower  # broker id, or -1 for a consumer
        self.limit = limit  # batches of one partition at most
        self.parts = parts
        self.deadline = 0
        self.results: list[FetchResult] = []


class EpochRequest(Request):
    """OffsetsForLeaderEpoch of a follower (KIP-101): where does this epoch end in the leader's log?"""

    __slots__ = ("parts", "results")

    def __init__(
        self,
        node: int,
        broker: int,
        now: int,
        reply: Callback,
        on_closed: Callback,
        connection: Connection,
        parts: list[tuple[int, int, int]],
    ) -> None:
        Request.__init__(self, node, broker, now, reply, on_closed, connection)
        self.parts = parts  # partition, current leader epoch, requested epoch
        self.results: list[tuple[int, str, int, int]] = []  # partition, error, epoch found, its end offset


class MetadataRequest(Request):
    """A client asks a broker for all leaders; the answer is that broker's metadata cache."""

    __slots__ = ("leaders",)

    def __init__(self, node: int, broker: int, now: int, reply: Callback, on_closed: Callback) -> None:
        Request.__init__(self, node, broker, now, reply, on_closed)
        self.leaders: list[tuple[int, int, tuple[int, ...]]] = []  # leader, leader epoch, ISR; by partition


class ApiVersionsRequest(Request):
    """The first request on a connection; the answer shows that the broker runs."""

    __slots__ = ()


class OffsetsRequest(Request):
    """ListOffsets: (log start offset, high watermark) of each partition that the broker leads.

    -1 stands for OFFSET_NOT_AVAILABLE.
    """

    __slots__ = ("offsets",)

    def __init__(
        self, node: int, broker: int, now: int, reply: Callback, on_closed: Callback, connection: Connection
    ) -> None:
        Request.__init__(self, node, broker, now, reply, on_closed, connection)
        self.offsets: dict[int, tuple[int, int]] = {}


class AlterIsrRequest(Request):
    """A leader proposes a new ISR: AlterPartition (KIP-497), before it a conditional write to ZooKeeper."""

    __slots__ = ("accepted", "epoch", "isr", "partition", "version")

    def __init__(
        self,
        node: int,
        target: int,
        now: int,
        reply: Callback,
        on_closed: Callback,
        partition: int,
        isr: tuple[int, ...],
        epoch: int,
        version: int,
    ) -> None:
        Request.__init__(self, node, target, now, reply, on_closed)
        self.partition = partition
        self.isr = isr
        self.epoch = epoch
        self.version = version
        self.accepted = False
