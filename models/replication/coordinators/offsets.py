"""Committed offsets of consumers without a group, by the consumer's name.

Simplification: this coordinator never fails, and responds at once.
"""

from __future__ import annotations


class OffsetCoordinator:
    """Stores what each consumer committed."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[int, int]] = {}

    def commit(self, consumer: str, offsets: dict[int, int]) -> None:
        """Replace a consumer's committed offsets (partition -> offset)."""
        self._committed[consumer] = dict(offsets)

    def committed(self, consumer: str) -> dict[int, int]:
        """Partition -> committed offset, for the partitions that have one."""
        return self._committed.get(consumer, {})
