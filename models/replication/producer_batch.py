"""A batch of records at a producer, from its first record to its outcome."""

from __future__ import annotations


class ProducerBatch:
    """Records for one partition: value numbers `first`, `first+1`, …, and the operations that sent them."""

    __slots__ = (
        "ambiguous",
        "attempts",
        "count",
        "created",
        "done",
        "epoch",
        "first",
        "open",
        "ops",
        "partition",
        "pid",
        "producer",
        "producer_epoch",
        "retry_at",
        "sequence",
    )

    def __init__(self, producer: int, partition: int, first: int, now: int) -> None:
        self.producer = producer
        self.partition = partition
        self.first = first
        self.count = 0
        self.created = now
        self.ops: list[int] = []
        self.open = True  # more records may be added
        self.pid = -1
        self.producer_epoch = -1
        self.sequence = -1
        self.attempts = 0
        self.ambiguous = False  # some attempt may have been written
        self.retry_at = 0
        self.done = False
        self.epoch = -1  # the leader epoch that last appended it; unknown to the producer, used by the ledger
