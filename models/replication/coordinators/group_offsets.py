"""The offsets of a group: those that are committed, and those of open transactions, which only count from their marker.

OffsetMetadataManager of the group coordinator, GroupMetadata before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .group_requests import GroupRecord

UNWRITTEN = -1  # in place of a record's offset, while it is being written


@dataclass(slots=True)
class GroupOffsets:
    """Each record is stored with its offset in the group's log: the latest record counts, even if the transaction of
    an earlier one commits after it."""

    _committed: dict[int, tuple[int, GroupRecord]] = field(default_factory=dict)  # by partition
    _pending: dict[int, dict[int, tuple[int, GroupRecord | None]]] = field(default_factory=dict)  # by producer id

    def committed(self) -> dict[int, int]:
        """Partition -> committed offset."""
        return {record.offset[0]: record.offset[1] for _, record in self._committed.values() if record.offset}

    def epochs(self) -> dict[int, int]:
        """Partition -> leader epoch of the committed offset."""
        return {partition: record.leader_epoch for partition, (_, record) in self._committed.items()}

    def commit(self, record: GroupRecord, at: int) -> None:
        """Replace a committed offset by that of the record at `at`, unless a later record set it."""
        assert record.offset is not None
        partition = record.offset[0]
        if record.is_tombstone:
            self._committed.pop(partition, None)
        elif partition not in self._committed or at >= self._committed[partition][0]:
            self._committed[partition] = (at, record)

    def expired(self, limit: int) -> list[int]:
        """The partitions whose offsets were committed by `limit` and are in no open transaction."""
        old = (partition for partition, (_, record) in self._committed.items() if record.time <= limit)
        return sorted(partition for partition in old if self.are_stable([partition]))

    def expect(self, pid: int, partitions: Iterable[int]) -> None:
        """Offsets of a transaction are about to be written: from now on its partitions are not stable
        (GroupMetadata.prepareTxnOffsetCommit)."""
        pending = self._pending.setdefault(pid, {})
        for partition in partitions:
            pending.setdefault(partition, (UNWRITTEN, None))

    def give_up(self, pid: int, partitions: Iterable[int]) -> None:
        """They were not written."""
        pending = self._pending.get(pid, {})
        for partition in partitions:
            if pending.get(partition, (0, None))[0] == UNWRITTEN:
                del pending[partition]

    def add_pending(self, pid: int, record: GroupRecord, at: int) -> None:
        """The record at `at` belongs to an open transaction."""
        assert record.offset is not None
        self._pending.setdefault(pid, {})[record.offset[0]] = (at, record)

    def end_transaction(self, pid: int, commit: bool) -> None:
        """A marker ends a producer's transaction: its offsets are committed, or dropped."""
        for at, record in self._pending.pop(pid, {}).values():
            if commit and record is not None:
                self.commit(record, at)

    def are_stable(self, partitions: Iterable[int]) -> bool:
        """Whether no open transaction has offsets of these partitions."""
        return not any(partition in pending for pending in self._pending.values() for partition in partitions)
