"""The cleaners of a run: one for each partition whose topic is compacted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .config import DAY, Config
from .coordinators.services import CoordinatorLogs
from .keys import Keys, RecordKey
from .sizes import batch_sizes
from .storage.batches import Batch
from .storage.compaction import Cleaner, Keyed

DIRTY_RATIO = 0.5  # log.cleaner.min.cleanable.ratio, which coordinators' topics have


def cleaners(config: Config, is_format_2: bool, logs: CoordinatorLogs) -> dict[int, Cleaner]:
    """The cleaners by partition: of the topic, if it is compacted, and of the coordinators' logs."""
    found = {}
    sizes = batch_sizes(config, is_format_2)
    if config.compacts:
        keys = Keys(config)
        for partition in range(config.partitions):
            key_of = partial(topic_key, keys, partition)
            dirty, lag, retention = config.dirty_ratio, config.compaction_lag, config.delete_retention
            segment = config.segment_limits(partition)
            found[partition] = Cleaner(key_of, *segment, dirty, lag, retention, sizes[partition])
    coordinators: dict[int, Sequence[Keyed]] = {}
    if config.has_group:
        coordinators[config.group_log] = logs.group_records
    if config.transactional:
        coordinators[config.transaction_log] = logs.transaction_records
    for partition, records in coordinators.items():
        record_of = partial(_record, records)
        found[partition] = Cleaner(record_of, *config.segment_limits(partition), DIRTY_RATIO, 0, DAY, sizes[partition])
    return found


def topic_key(keys: Keys, partition: int, batch: Batch, index: int) -> RecordKey:
    """The key of a record of the topic."""
    return keys.of(batch.producer, partition, batch.first + index)


def _record(records: Sequence[Keyed], batch: Batch, index: int) -> Keyed:
    return records[batch.first + index]
