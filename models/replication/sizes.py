"""The bytes of records and batches on disk and in requests: format 2, or the messages of format 1 before it.

They are those of the files that a bundle has. Simplification: batches of coordinators' logs and of topics that a group
writes count with an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .config import Config
from .keys import Keys
from .storage.batches import Batch
from .storage.segments import size_of
from .storage.transactions import MARKER

HEADER = 61  # of a batch
MARKER_BATCH = HEADER + 17
MESSAGE = 34  # a message of format 1 without key and value
BatchSize = Callable[[Batch], int]


def _varint(number: int) -> int:
    """The bytes of a length or an offset as a zigzag varint."""
    return 1 if number < 64 else 2 if number < 8192 else 3


@dataclass(frozen=True, slots=True)
class RecordSizes:
    """The sizes in one partition that producers write."""

    partition: int
    is_format_2: bool
    keys: Keys | None

    def record(self, producer: int, number: int, index: int) -> int:
        """The bytes of a record: its value's number, and its place in the batch."""
        value, key = len(f"p{producer}-{self.partition}-{number}"), 0
        if self.keys is not None:
            name, is_tombstone = self.keys.of(producer, self.partition, number)
            key, value = len(name), 0 if is_tombstone else value
        if not self.is_format_2:
            return MESSAGE + key + value
        body = 3 + _varint(index) + key + _varint(value) + value + 1  # attributes, times, lengths, number of headers
        return _varint(body) + body

    def batch(self, producer: int, first: int, count: int) -> int:
        """The bytes of a batch with these values."""
        records = sum(self.record(producer, first + index, index) for index in range(count))
        return records + (HEADER if self.is_format_2 else 0)

    def __call__(self, batch: Batch) -> int:
        """The bytes of a batch before compaction, so that compaction does not move the borders of segments."""
        return MARKER_BATCH if batch.producer == MARKER else self.batch(batch.producer, batch.first, batch.count)


def record_sizes(config: Config, is_format_2: bool) -> list[RecordSizes]:
    """The sizes by partition of the producers' topic."""
    keys = Keys(config) if config.compacts else None
    return [RecordSizes(partition, is_format_2, keys) for partition in range(config.partitions)]


def batch_sizes(config: Config, is_format_2: bool) -> list[BatchSize]:
    """How large a batch is, by replicated partition."""
    known = record_sizes(config, is_format_2)
    return [*known, *[size_of] * (config.logs - len(known))]
