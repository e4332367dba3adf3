"""The classes of requests; a request object also carries its response.

The requester sets two callbacks: `reply` gets the request with its response, and `on_closed` is called if the
connection closed before the response. Requests of one client to one broker share a connection, except metadata
requests, which have a separate timeout (a simplification, client.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import errors
from .config import FetchLimits
from .network import Connection
from .ports import OffsetRange
from .producer_batch import ProducerBatch
from .storage.batches import Batch
from .storage.replica_log import EpochEnd
from .storage.transactions import AbortedTransaction

Callback = Callable[[Any], None]


@dataclass(slots=True, eq=False)
class Request:
    """The base of all requests."""

    node: int  # the requester
    broker: int
    sent: int
    reply: Callback
    on_closed: Callback
    connection: Connection | None
    is_closed: bool = field(default=False, init=False)  # the requester has the response, or no longer waits for it


class Verification(NamedTuple):
    """Whether the coordinator has the transaction of a batch (KIP-890)."""

    error: str | None  # None: the coordinator has not responded
    last_marker: int  # the offset of the producer's last marker when the leader requested it; -1: none


class BatchResult(NamedTuple):
    """The outcome of a batch: an error, or its base offset."""

    error: str
    base: int


UNDECIDED = BatchResult(errors.REQUEST_TIMED_OUT, -1)


@dataclass(slots=True, eq=False)
class ProduceRequest(Request):
    """Batches for partitions that one broker leads; `results` are set as they are replicated."""

    batches: list[ProducerBatch]
    acks: int
    deadline: int = field(default=0, init=False)  # set by the broker: until when it waits for replicas
    results: list[BatchResult] = field(init=False)
    undecided: int = field(default=0, init=False)  # batches without a result
    verified: dict[int, Verification] | None = field(default=None, init=False)  # by index of a batch

    def __post_init__(self) -> None:
        self.results = [UNDECIDED] * len(self.batches)


@dataclass(slots=True, eq=False)
class FetchPart:
    """A partition in a fetch request, and below `start` in its response."""

    partition: int
    offset: int
    leader_epoch: int  # the current one, as the requester knows it; -1: unknown
    last_epoch: int  # of the last record before the offset; -1: unknown
    start: int  # the follower's log start offset

    error: str = field(init=False)
    batches: list[Batch] = field(init=False)  # without error, as the next two
    hw: int = field(init=False)
    epoch_start: int = field(init=False)  # start offset of the leader epoch
    leader_start: int = field(init=False)  # without error, and for OUT_OF_RANGE: the leader's log start offset
    leader_end: int = field(init=False)  # only for OUT_OF_RANGE
    diverging: EpochEnd = field(init=False)  # only for TRUNCATED: where the logs diverge, as the leader found


@dataclass(slots=True, eq=False)
class FetchRequest(Request):
    """A follower's or a consumer's fetch; the broker delays its response while there is nothing to send."""

    follower: int  # broker id, or -1 for a consumer
    limit: int  # batches of one partition at most
    parts: list[FetchPart]
    aborted: dict[int, list[AbortedTransaction]] | None = None  # by partition, in the response; None: read_uncommitted
    fetcher: int = 0  # of the follower
    max_bytes: FetchLimits | None = None
    deadline: int = field(default=0, init=False)
    used_bytes: int = field(default=0, init=False)  # of the response


class EpochLookup(NamedTuple):
    """A partition in an OffsetsForLeaderEpoch request."""

    partition: int
    current_epoch: int  # the follower's leader epoch
    epoch: int  # whose end is requested


class EpochResult(NamedTuple):
    """A partition in an OffsetsForLeaderEpoch response."""

    partition: int
    error: str
    found: EpochEnd


@dataclass(slots=True, eq=False)
class EpochRequest(Request):
    """OffsetsForLeaderEpoch of a follower (KIP-101): the end offset of an epoch in the leader's log."""

    lookups: list[EpochLookup]
    results: list[EpochResult] = field(default_factory=list, init=False)


class ProducerIdAndEpoch(NamedTuple):
    """An idempotent producer, as brokers identify it."""

    pid: int
    epoch: int


NO_PRODUCER = ProducerIdAndEpoch(-1, -1)


@dataclass(frozen=True, slots=True)
class PartitionLeader:
    """The metadata of a partition, as clients have it."""

    leader: int
    epoch: int  # leader epoch
    isr: tuple[int, ...]


@dataclass(slots=True, eq=False)
class MetadataRequest(Request):
    """A client requests all leaders; the response is the broker's metadata cache."""

    leaders: list[PartitionLeader] = field(default_factory=list, init=False)  # by partition


class ApiVersionsRequest(Request):
    """The first request on a connection; the response shows that the broker runs."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class OffsetsRequest(Request):
    """ListOffsets: log start offset and high watermark of each partition that the broker leads."""

    offsets: dict[int, OffsetRange] = field(default_factory=dict, init=False)


@dataclass(slots=True, eq=False)
class AlterIsrRequest(Request):
    """A leader proposes a new ISR: AlterPartition (KIP-497), before it a conditional write to ZooKeeper."""

    partition: int
    isr: tuple[int, ...]
    epoch: int
    version: int
    accepted: bool = field(default=False, init=False)
