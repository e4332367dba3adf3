"""The offsets of a group: those that are committed, and those of open transactions, which only count from their marker.

OffsetMetadataManager of the group coordinator, GroupMetadata before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

UNWRITTEN = -1  # in place of a record's offset, while it is being written


@dataclass(slots=True)
class GroupOffsets:
    """Each offset is stored with the offset of its record in the group's log: the latest record counts, even if the
    transaction of an earlier one commits after it."""

    _committed: dict[int, tuple[int, int]] = field(default_factory=dict)  # partition -> offset, and of its record
    _pending: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)  # by producer id

    def committed(self) -> dict[int, int]:
        """Partition -> committed offset."""
        return {partition: offset for partition, (offset, _) in self._committed.items()}

    def commit(self, partition: int, offset: int, at: int) -> None:
        """Replace a committed offset by that of the record at `at`, unless a later record set it."""
        if at >= self._committed.get(partition, (0, UNWRITTEN))[1]:
            self._committed[partition] = (offset, at)

    def expect(self, pid: int, partitions: Iterable[int]) -> None:
        """Offsets of a transaction are about to be written: from now on its partitions are not stable
        (GroupMetadata.prepareTxnOffsetCommit)."""
        pending = self._pending.setdefault(pid, {})
        for partition in partitions:
            pending.setdefault(partition, (0, UNWRITTEN))

    def give_up(self, pid: int, partitions: Iterable[int]) -> None:
        """They were not written."""
        pending = self._pending.get(pid, {})
        for partition in partitions:
            if pending.get(partition, (0, 0))[1] == UNWRITTEN:
                del pending[partition]

    def add_pending(self, pid: int, partition: int, offset: int, at: int) -> None:
        """The record at `at` belongs to an open transaction."""
        self._pending.setdefault(pid, {})[partition] = (offset, at)

    def end_transaction(self, pid: int, commit: bool) -> None:
        """A marker ends a producer's transaction: its offsets are committed, or dropped."""
        for partition, (offset, at) in self._pending.pop(pid, {}).items():
            if commit and at != UNWRITTEN:
                self.commit(partition, offset, at)

    def are_stable(self, partitions: Iterable[int]) -> bool:
        """Whether no open transaction has offsets of these partitions."""
        return not any(partition in pending for pending in self._pending.values() for partition in partitions)
