"""What compaction may remove from a topic: records with a newer one of their key, and tombstones."""

from __future__ import annotations

from collections.abc import Iterable

from ..replication.acks import Ack, Ranges
from ..replication.cluster import Cluster
from ..replication.keys import Keys
from ..replication.ledger import Breach
from ..replication.storage.transactions import MARKER


class NewestRecords:
    """The newest record of each key in one partition, of those acknowledged and those in the final leader's log."""

    def __init__(self, cluster: Cluster, partition: int) -> None:
        self._keys, self._partition = Keys(cluster.config), partition
        self._offsets: dict[str, int] = {}
        for ack in cluster.ledger.acks[partition]:
            self._add(ack.producer, ack.first, ack.base, ack.count)
        log = cluster.leader_log(partition)
        for batch in () if log is None else log.batches():
            self._add(batch.producer, batch.first, batch.base, batch.count)

    def _add(self, producer: int, first: int, base: int, count: int) -> None:
        for index in range(count):
            key = self._keys.of(producer, self._partition, first + index).key
            self._offsets[key] = max(self._offsets.get(key, -1), base + index)

    def must_stay(self, producer: int, number: int, offset: int) -> bool:
        """Whether compaction never removes the record at this offset."""
        key, is_tombstone = self._keys.of(producer, self._partition, number)
        return not is_tombstone and self._offsets.get(key, -1) <= offset

    def required(self, acks: Iterable[Ack]) -> list[Ack]:
        """The records of acknowledged batches that must stay, one Ack each."""
        return [
            ack.part(index, index + 1)
            for ack in acks
            for index in range(ack.count)
            if self.must_stay(ack.producer, ack.first + index, ack.base + index)
        ]


def newest_value_stays(cluster: Cluster) -> list[Breach]:
    """The final leader's log has the newest record of each key that it ever appended and did not truncate.

    A truncation breaks that: it takes the newest record, after compaction took the one before it. So does a cleaner
    that passes the high watermark. Tombstones may go, and so do records of aborted transactions.
    """
    found: list[Breach] = []
    for partition, cleaner in cluster.cleaners.items():
        log = cluster.leader_log(partition)
        if log is None:
            continue
        newest: dict[str, tuple[int, bool]] = {}  # by key: the offset, and whether compaction removed its value
        for batch in log.batches():
            if batch.producer == MARKER or log.transactions.is_aborted(batch):
                continue
            for index in range(batch.count):
                record = cleaner.key_of(batch, index)
                is_gone = batch.is_removed(batch.base + index) and not record.is_tombstone
                newest[record.key] = (batch.base + index, is_gone)
        for key, (offset, is_gone) in sorted(newest.items()):
            if is_gone:
                text = f"{key} has no value: compaction removed offset {offset}, and the newer record is gone"
                found.append(Breach("newest-value-stays", cluster.loop.now, partition, text, offset, offset + 1))
    return found


def compacted_ranges(cluster: Cluster, partition: int) -> Ranges:
    """The offsets of the final leader's log that compaction has removed or may remove."""
    log = cluster.leader_log(partition)
    if log is None or not cluster.config.compacts:
        return []
    newest = NewestRecords(cluster, partition)
    return [
        (offset, offset + 1)
        for batch in log.batches()
        for offset in range(batch.base, batch.end)
        if not newest.must_stay(batch.producer, batch.first + offset - batch.base, offset)
    ]
