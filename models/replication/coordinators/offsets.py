"""Committed offsets of consumers without a group, by the consumer's name.

Simplification: this coordinator never fails, and responds at once.
"""

from __future__ import annotations


class OffsetCoordinator:
    """Stores what each consumer committed."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[int, tuple[int, int]]] = {}

    def commit(self, consumer: str, offsets: dict[int, int], epochs: dict[int, int]) -> None:
        """Replace a consumer's committed offsets and their leader epochs, both by partition."""
        self._committed[consumer] = {p: (offset, epochs.get(p, -1)) for p, offset in offsets.items()}

    def committed(self, consumer: str, partition: int) -> tuple[int | None, int]:
        """The committed offset of a partition (None: none) and its leader epoch (-1: none)."""
        return self._committed.get(consumer, {}).get(partition, (None, -1))
