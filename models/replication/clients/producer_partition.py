"""One partition at a producer: its undecided batches, and the numbers of its values and batches."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ..producer_batch import ProducerBatch


@dataclass(slots=True, eq=False)
class ProducerPartition:
    """RecordAccumulator.TopicInfo and TransactionManager.TxnPartitionEntry in one."""

    number: int  # of the partition
    queue: deque[ProducerBatch] = field(default_factory=deque)
    in_flight: list[ProducerBatch] = field(default_factory=list)
    next_value: int = 0
    epoch: int = 0  # the producer epoch that its sequence belongs to
    next_sequence: int = 0
    acked_until: int = 0  # sequence numbers in the epoch, as the next one
    given_up_until: int = -1
    needs_epoch: bool = False  # before new batches
    has_gap: bool = False  # before all undecided ones

    def open_batch(self) -> ProducerBatch | None:
        """The batch that takes more records."""
        queue = self.queue
        return queue[-1] if queue and queue[-1].is_open else None

    def close_batch(self) -> None:
        """Send the last batch in the queue with the records that it has."""
        if self.queue:
            self.queue[-1].is_open = False

    def start_epoch(self, epoch: int) -> None:
        """Number the batches from 0 in this producer epoch."""
        self.epoch, self.next_sequence = epoch, 0
        self.acked_until, self.given_up_until = 0, -1
        self.needs_epoch = self.has_gap = False
        for batch in self.queue:
            batch.sequence = -1  # numbered when it is sent

    def take_value(self) -> int:
        """The number of the next value."""
        number = self.next_value
        self.next_value = number + 1
        return number

    def finds_gap(self, batch: ProducerBatch) -> bool:
        """Whether it is next, so that a refusal proves that acknowledged records are lost or one was given up."""
        return batch.sequence in (self.acked_until, self.given_up_until)

    def follows_another(self, batch: ProducerBatch) -> bool:
        """Whether a batch with an earlier sequence number is undecided."""
        undecided = (*self.queue, *self.in_flight)
        return any(0 <= b.sequence < batch.sequence and b.producer_epoch == batch.producer_epoch for b in undecided)

    def follows_in_flight(self, batch: ProducerBatch) -> bool:
        """Whether a batch with an earlier sequence number is in flight."""
        return any(other.sequence < batch.sequence for other in self.in_flight)
