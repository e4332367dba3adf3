"""Bins of time that can be merged, though the run's span is not known in advance.

A bin's width is a power of two of nanoseconds, and bins are aligned to time 0. So a wider bin consists of whole
narrower ones: each partition chooses its own width, and merging coarsens all to one width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..partitions.entries import Ints as Ints

MAX_BINS = 192


class Bins(NamedTuple):
    """`number` bins of 2**shift ns; the first one begins at first << shift."""

    shift: int
    first: int
    number: int

    @property
    def width(self) -> int:
        """The width of each bin in ns."""
        return 1 << self.shift

    def of(self, times: Ints) -> Ints:
        """The number of the bin of each time (ns); times outside are in the nearest one."""
        numbers: Ints = np.clip((times >> self.shift) - self.first, 0, self.number - 1)
        return numbers

    def ends(self) -> Ints:
        """The end of each bin, exclusive, in ns."""
        return (np.arange(self.first, self.first + self.number, dtype=np.int64) + 1) << self.shift

    def count_in(self, times: Ints) -> list[int]:
        """The number of times in each bin."""
        tally: list[int] = np.bincount(self.of(times), minlength=self.number).tolist()
        return tally

    def to_json(self) -> dict[str, int]:
        """The JSON record with shift, first and count; `bins_of` reads it."""
        return {"shift": self.shift, "first": self.first, "count": self.number}


def bins_over(start: int, end: int, shift: int = 0) -> Bins:
    """The narrowest bins of at least 2**shift ns such that at most MAX_BINS cover start..end (ns, inclusive)."""
    shift = max(shift, ((end - start) // MAX_BINS).bit_length() - 1, 0)
    while (end >> shift) - (start >> shift) >= MAX_BINS:
        shift += 1
    return Bins(shift, start >> shift, (end >> shift) - (start >> shift) + 1)


def bins_of(record: dict[str, int]) -> Bins:
    """The bins from their JSON record (`Bins.to_json`)."""
    return Bins(record["shift"], record["first"], record["count"])


def numbers_in(own: Bins, wider: Bins) -> Ints:
    """For each bin of `own` the number of the bin of `wider` that contains it."""
    return (np.arange(own.first, own.first + own.number, dtype=np.int64) >> (wider.shift - own.shift)) - wider.first


def summed(values: list[int], own: Bins, wider: Bins) -> Ints:
    """Counts by bin of `own`, added up by bin of `wider`."""
    total = np.zeros(wider.number, np.int64)
    np.add.at(total, numbers_in(own, wider), np.asarray(values, np.int64))
    return total
