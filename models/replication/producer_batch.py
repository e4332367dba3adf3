"""A batch of records at a producer, from its first record to its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """Records for one partition: value numbers `first`, `first+1`, …, and the operations that sent them."""

    producer: int
    partition: int
    first: int
    created: int
    count: int = 0
    pid: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    ops: list[int] = field(default_factory=list)
    is_open: bool = True  # more records may be added
    attempts: int = 0
    ambiguous: bool = False  # some attempt may have been written
    retry_at: int = 0
    is_done: bool = False
    newest: int = -1  # when a producer sent its last record; -1: all were written at once
    epoch: int = -1  # the leader epoch that last appended it; unknown to the producer, used by the ledger

    @property
    def timestamp(self) -> int:
        """The timestamp of its newest record, by which retention deletes."""
        return max(self.created, self.newest)

    def halves(self) -> tuple[ProducerBatch, ProducerBatch]:
        """The first and the second half of its records; the records keep their sequence numbers."""
        middle = self.count // 2
        sequence = self.sequence + middle if self.sequence >= 0 else self.sequence
        first, count, ops = self.first + middle, self.count - middle, self.ops[middle:]
        return (
            replace(self, count=middle, ops=self.ops[:middle], is_done=False),
            replace(self, first=first, count=count, sequence=sequence, ops=ops, is_done=False),
        )
