"""Committed offsets of consumers without a group, by the consumer's name.

Simplification: this coordinator never fails, and responds at once.
"""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndEpoch(NamedTuple):
    """A committed offset, and the leader epoch of the last record before it."""

    offset: int | None  # None: none was committed
    epoch: int  # -1: none was committed


class OffsetCoordinator:
    """Stores what each consumer committed."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[int, OffsetAndEpoch]] = {}  # consumer -> partition -> offset

    def commit(self, consumer: str, offsets: dict[int, int], epochs: dict[int, int]) -> None:
        """Replace a consumer's committed offsets and their leader epochs, both by partition."""
        self._committed[consumer] = {p: OffsetAndEpoch(offset, epochs.get(p, -1)) for p, offset in offsets.items()}

    def committed(self, consumer: str, partition: int) -> OffsetAndEpoch:
        """What a consumer committed in a partition."""
        return self._committed.get(consumer, {}).get(partition, OffsetAndEpoch(None, -1))
