"""The cleaners of a run: one for each partition whose topic is compacted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .config import DAY, Config
from .coordinators.group_requests import GroupRecord
from .coordinators.services import CoordinatorLogs
from .coordinators.transaction_requests import TransactionRecord
from .keys import Keys, PartitionKeys
from .sizes import batch_sizes
from .storage.batches import Batch
from .storage.compaction import Cleaner, RecordKeys

DIRTY_RATIO = 0.5  # log.cleaner.min.cleanable.ratio, which coordinators' topics have


@dataclass(frozen=True, slots=True)
class CoordinatorKeys:
    """The keys of a coordinator's records."""

    records: Sequence[GroupRecord | TransactionRecord]

    def key(self, batch: Batch, index: int) -> str:
        """The key of a record."""
        return self.records[batch.first + index].key

    def is_tombstone(self, batch: Batch, index: int) -> bool:
        """Whether a record deletes its key."""
        return self.records[batch.first + index].is_tombstone


def cleaners(config: Config, is_format_2: bool, logs: CoordinatorLogs) -> dict[int, Cleaner]:
    """The cleaners by partition: of the topic, if it is compacted, and of the coordinators' logs."""
    found = {}
    sizes = batch_sizes(config, is_format_2)
    if config.compacts:
        keys = Keys(config)
        for partition in range(config.partitions):
            size, time = config.segment_limits(partition)
            own = PartitionKeys(keys, partition)
            limits = config.dirty_ratio, config.compaction_lag, config.delete_retention
            found[partition] = Cleaner(own, size, time, *limits, sizes[partition])
    coordinators: dict[int, RecordKeys] = {}
    if config.has_group:
        coordinators[config.group_log] = CoordinatorKeys(logs.group_records)
    if config.transactional:
        coordinators[config.transaction_log] = CoordinatorKeys(logs.transaction_records)
    for partition, of_records in coordinators.items():
        size, time = config.segment_limits(partition)
        found[partition] = Cleaner(of_records, size, time, DIRTY_RATIO, 0, DAY, sizes[partition])
    return found
