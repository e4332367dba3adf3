"""What nodes say to each other: one small class a request, with the state that its answer needs.

`broken` is called when the connection broke before the answer; `serve` when the request reaches a running
broker. Those of one client to one broker share a `channel`, all but metadata: simplification, as the answer is
awaited for a time of its own (client.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .batches import Batch
    from .broker import Broker
    from .client import Client
    from .consumer import Consumer
    from .fetcher import Fetcher
    from .isr import IsrKeeper
    from .network import Channel
    from .producer import Producer, ProducerBatch

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


class ProduceRequest:
    """Batches for partitions that one broker leads; `results` fills up as they are replicated."""

    __slots__ = ("acks", "batches", "broker", "channel", "closed", "deadline", "left", "owner", "results", "sent")

    def __init__(self, owner: Producer, broker: int, batches: list[ProducerBatch], acks: int, now: int) -> None:
        self.owner = owner
        self.broker = broker
        self.channel = owner.channels[broker]
        self.batches = batches
        self.acks = acks
        self.sent = now
        self.deadline = 0  # set by the broker: until when it waits for replicas
        self.results: list[tuple[str, int]] = [(TIMED_OUT, -1)] * len(batches)  # error, base offset
        self.left = 0
        self.closed = False  # the producer has given up on it, or it is answered

    def serve(self, broker: Broker) -> None:
        broker.receive_produce(self)

    def broken(self, _: None) -> None:
        self.owner.on_broken(self)


# partition, error, batches, high watermark, log start offset, where the leader epoch begins. For LOG_TRUNCATION the
# last two but one are where the logs part, and the last the epoch that the leader found.
FetchResult = tuple[int, str, "list[Batch]", int, int, int]
# partition, fetch offset, current leader epoch, epoch of the last record before it, log start offset
FetchPart = tuple[int, int, int, int, int]


class FetchRequest:
    """A follower's or a consumer's fetch; parked at the broker while there is nothing to send."""

    __slots__ = (
        "broker",
        "channel",
        "closed",
        "deadline",
        "follower",
        "limit",
        "node",
        "owner",
        "parts",
        "results",
        "sent",
    )

    def __init__(
        self,
        owner: Fetcher | Consumer,
        node: int,
        broker: int,
        follower: int,
        parts: list[FetchPart],
        now: int,
        channel: Channel,
    ) -> None:
        self.owner = owner
        self.channel = channel
        self.node = node  # where the answer goes
        self.broker = broker
        self.follower = follower  # broker id, or -1 for a consumer
        self.limit = owner.fetch_limit  # batches of one partition at most
        self.parts = parts
        self.sent = now
        self.deadline = 0
        self.results: list[FetchResult] = []
        self.closed = False

    def serve(self, broker: Broker) -> None:
        broker.receive_fetch(self)

    def broken(self, _: None) -> None:
        self.owner.on_broken(self)


class EpochRequest:
    """OffsetsForLeaderEpoch of a follower (KIP-101): where does this epoch end in your log?"""

    __slots__ = ("broker", "channel", "closed", "owner", "parts", "results", "sent")

    def __init__(self, owner: Fetcher, broker: int, parts: list[tuple[int, int, int]], now: int) -> None:
        self.owner = owner
        self.channel = owner.channel
        self.broker = broker
        self.parts = parts  # partition, current leader epoch, epoch asked for
        self.sent = now
        self.results: list[tuple[int, str, int, int]] = []  # partition, error, epoch found, its end offset
        self.closed = False

    def serve(self, broker: Broker) -> None:
        broker.receive_epochs(self)

    def broken(self, _: None) -> None:
        self.owner.on_broken(self)


class MetadataRequest:
    """A client asks a broker who leads what; the answer is that broker's belief."""

    __slots__ = ("closed", "leaders", "owner", "sent")
    channel = None

    def __init__(self, owner: Client, now: int) -> None:
        self.owner = owner
        self.sent = now
        self.leaders: list[tuple[int, int, tuple[int, ...]]] = []  # leader, leader epoch, ISR; by partition
        self.closed = False

    def serve(self, broker: Broker) -> None:
        broker.receive_metadata(self)

    def broken(self, _: None) -> None:
        self.owner.on_metadata_broken(self)


class ApiVersionsRequest:
    """The first words on a connection; who answers them is there."""

    __slots__ = ("broker", "closed", "owner", "sent")
    channel = None

    def __init__(self, owner: Producer, broker: int, now: int) -> None:
        self.owner = owner
        self.broker = broker
        self.sent = now
        self.closed = False

    def serve(self, broker: Broker) -> None:
        broker.network.send(broker.id, self.owner.node, self.owner.on_connected, self)

    def broken(self, _: None) -> None:
        self.owner.on_refused(self)


class OffsetsRequest:
    """ListOffsets: (log start offset, high watermark) of each partition that the broker leads; -1 stands for
    OFFSET_NOT_AVAILABLE."""

    __slots__ = ("broker", "channel", "closed", "offsets", "owner", "sent")

    def __init__(self, owner: Consumer, broker: int, now: int) -> None:
        self.owner = owner
        self.broker = broker
        self.channel = owner.channels[broker]
        self.sent = now
        self.offsets: dict[int, tuple[int, int]] = {}
        self.closed = False

    def serve(self, broker: Broker) -> None:
        broker.receive_offsets(self)

    def broken(self, _: None) -> None:
        self.owner.on_broken(self)


class AlterIsr:
    """A leader proposes a new ISR: AlterPartition (KIP-497), before it a conditional write to ZooKeeper."""

    __slots__ = ("accepted", "closed", "epoch", "isr", "node", "owner", "partition", "sent", "version")
    channel = None

    def __init__(
        self, owner: IsrKeeper, partition: int, isr: tuple[int, ...], epoch: int, version: int, now: int
    ) -> None:
        self.owner = owner
        self.node = owner.id
        self.partition = partition
        self.isr = isr
        self.epoch = epoch
        self.version = version
        self.sent = now
        self.accepted = False
        self.closed = False

    def broken(self, _: None) -> None:
        self.owner.on_alter_broken(self)
