"""Requests and their answers as data, one small class a kind.

Whoever sends a request puts two callables into it: `reply`, called at the requester with the answered request, and
`on_closed`, called if the connection closed before the answer. `node` is the requester. Requests of one client to one
broker share a connection, except metadata requests. Simplification: their timeout is one of their own (client.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
OLD_COORDINATOR = "TRANSACTION_COORDINATOR_FENCED"
INVALID_STATE = "INVALID_TXN_STATE"
TRUNCATED = "LOG_TRUNCATION"  # a consumer learns that its position was truncated (KIP-320)

Callback = Callable[[Any], None]


@dataclass(slots=True, eq=False)
class Request:
    """What every request has."""

    node: int  # where the answer goes
    broker: int
    sent: int
    reply: Callback
    on_closed: Callback
    connection: Connection | None
    closed: bool = field(default=False, init=False)  # the requester no longer waits for the answer, or has it


@dataclass(slots=True, eq=False)
class ProduceRequest(Request):
    """Batches for partitions that one broker leads; `results` fills up as they are replicated."""

    batches: list[ProducerBatch]
    acks: int
    deadline: int = field(default=0, init=False)  # set by the broker: until when it waits for replicas
    results: list[tuple[str, int]] = field(init=False)  # error, base offset
    undecided: int = field(default=0, init=False)  # batches without a result
    # Of batches whose transaction the coordinator verified: error, and the producer's last marker before it (KIP-890).
    verified: dict[int, tuple[str, int]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.results = [(TIMED_OUT, -1)] * len(self.batches)


# partition, error, batches, high watermark, log start offset, start offset of the leader epoch. For LOG_TRUNCATION the
# fourth is the offset at which the logs part, and the last is the epoch that the leader found.
FetchResult = tuple[int, str, "list[Batch]", int, int, int]
# partition, fetch offset, current leader epoch, epoch of the last record before it, log start offset
FetchPart = tuple[int, int, int, int, int]


@dataclass(slots=True, eq=False)
class FetchRequest(Request):
    """A follower's or a consumer's fetch; the broker parks it while there is nothing to send."""

    follower: int  # broker id, or -1 for a consumer
    limit: int  # batches of one partition at most
    parts: list[FetchPart]
    # With read_committed, by partition the aborted transactions in the answer: producer id, first offset.
    aborted: dict[int, list[tuple[int, int]]] | None = None
    deadline: int = field(default=0, init=False)
    results: list[FetchResult] = field(default_factory=list, init=False)


@dataclass(slots=True, eq=False)
class EpochRequest(Request):
    """OffsetsForLeaderEpoch of a follower (KIP-101): where does this epoch end in the leader's log?"""

    parts: list[tuple[int, int, int]]  # partition, current leader epoch, requested epoch
    results: list[tuple[int, str, int, int]] = field(default_factory=list, init=False)
    # of each part: partition, error, epoch found, its end offset


@dataclass(slots=True, eq=False)
class MetadataRequest(Request):
    """A client asks a broker for all leaders; the answer is that broker's metadata cache."""

    leaders: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list, init=False)
    # by partition: leader, leader epoch, ISR


class ApiVersionsRequest(Request):
    """The first request on a connection; the answer shows that the broker runs."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class OffsetsRequest(Request):
    """ListOffsets: (log start offset, high watermark) of each partition that the broker leads.

    -1 stands for OFFSET_NOT_AVAILABLE.
    """

    offsets: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)


@dataclass(slots=True, eq=False)
class AlterIsrRequest(Request):
    """A leader proposes a new ISR: AlterPartition (KIP-497), before it a conditional write to ZooKeeper."""

    partition: int
    isr: tuple[int, ...]
    epoch: int
    version: int
    accepted: bool = field(default=False, init=False)
