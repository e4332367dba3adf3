"""The offsets of a group: those that are committed, and those of open transactions, which only count from their marker.

OffsetMetadataManager of the group coordinator, GroupMetadata before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .group_requests import GroupRecord


class PlacedRecord(NamedTuple):
    """A record that commits an offset, and its place in the group's log."""

    at: int  # its offset in the group's log
    record: GroupRecord


@dataclass(slots=True)
class GroupOffsets:
    """The latest record in the group's log counts, even if the transaction of an earlier one commits after it."""

    _committed: dict[int, PlacedRecord] = field(default_factory=dict)  # by partition
    # Producer id -> partition -> record of its open transaction; None while that is being written.
    _pending: dict[int, dict[int, PlacedRecord | None]] = field(default_factory=dict)

    def committed(self) -> dict[int, int]:
        """Partition -> committed offset."""
        return dict(placed.record.committed for placed in self._committed.values() if placed.record.committed)

    def epochs(self) -> dict[int, int]:
        """Partition -> leader epoch of the committed offset."""
        return {partition: placed.record.leader_epoch for partition, placed in self._committed.items()}

    def commit(self, record: GroupRecord, at: int) -> None:
        """Replace a committed offset by that of the record at `at`, unless a later record set it; or remove it."""
        assert record.committed is not None
        partition = record.committed.partition
        if record.is_tombstone:
            self._committed.pop(partition, None)
        elif partition not in self._committed or at >= self._committed[partition].at:
            self._committed[partition] = PlacedRecord(at, record)

    def expired(self, limit: int) -> list[int]:
        """The partitions whose offsets were committed by `limit` and are in no open transaction."""
        old = (partition for partition, placed in self._committed.items() if placed.record.time <= limit)
        return sorted(partition for partition in old if self.are_stable([partition]))

    def expect(self, pid: int, partitions: Iterable[int]) -> None:
        """Offsets of a transaction are about to be written: from now on its partitions are not stable
        (GroupMetadata.prepareTxnOffsetCommit)."""
        pending = self._pending.setdefault(pid, {})
        for partition in partitions:
            pending.setdefault(partition, None)

    def give_up(self, pid: int, partitions: Iterable[int]) -> None:
        """The expected offsets of a transaction were not written."""
        pending = self._pending.get(pid, {})
        for partition in partitions:
            if pending.get(partition) is None:
                pending.pop(partition, None)

    def add_pending(self, pid: int, record: GroupRecord, at: int) -> None:
        """The record at `at` belongs to an open transaction."""
        assert record.committed is not None
        self._pending.setdefault(pid, {})[record.committed.partition] = PlacedRecord(at, record)

    def end_transaction(self, pid: int, commit: bool) -> None:
        """A marker ends a producer's transaction: its offsets are committed, or dropped."""
        for placed in self._pending.pop(pid, {}).values():
            if commit and placed is not None:
                self.commit(placed.record, placed.at)

    def are_stable(self, partitions: Iterable[int]) -> bool:
        """Whether no open transaction has offsets of these partitions."""
        return not any(partition in pending for pending in self._pending.values() for partition in partitions)
