"""Bins of time that fit together without anybody knowing the run's span.

A bin is a power of two of nanoseconds wide and aligned to time 0, so a wider bin is made of whole narrower ones:
partitions choose their own width, and merging coarsens them to one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MAX_BINS = 192

Ints = npt.NDArray[np.int64]


class Bins(NamedTuple):
    """`number` bins of 2**shift ns; the first one begins at first << shift."""

    shift: int
    first: int
    number: int

    @property
    def width(self) -> int:
        """In ns."""
        return 1 << self.shift

    def of(self, times: Ints) -> Ints:
        """The bin of each time (ns); times outside fall into the nearest one."""
        found: Ints = np.clip((times >> self.shift) - self.first, 0, self.number - 1)
        return found

    def ends(self) -> Ints:
        """The end of each bin, exclusive, in ns."""
        return (np.arange(self.first, self.first + self.number, dtype=np.int64) + 1) << self.shift

    def count_in(self, times: Ints) -> list[int]:
        """How many of the times fall into each bin."""
        tally: list[int] = np.bincount(self.of(times), minlength=self.number).tolist()
        return tally

    def to_json(self) -> dict[str, int]:
        return {"shift": self.shift, "first": self.first, "count": self.number}


def bins_over(start: int, end: int, shift: int = 0) -> Bins:
    """The narrowest bins of at least 2**shift ns of which at most MAX_BINS cover start..end (ns, inclusive)."""
    shift = max(shift, ((end - start) // MAX_BINS).bit_length() - 1, 0)
    while (end >> shift) - (start >> shift) >= MAX_BINS:
        shift += 1
    return Bins(shift, start >> shift, (end >> shift) - (start >> shift) + 1)


def bins_of(told: dict[str, int]) -> Bins:
    return Bins(told["shift"], told["first"], told["count"])


def moved(own: Bins, wider: Bins) -> Ints:
    """For each bin of `own` the number of the bin of `wider` that contains it."""
    return (np.arange(own.first, own.first + own.number, dtype=np.int64) >> (wider.shift - own.shift)) - wider.first


def summed(values: list[int], own: Bins, wider: Bins) -> Ints:
    """Counts by bin of `own`, added up by bin of `wider`."""
    total = np.zeros(wider.number, np.int64)
    np.add.at(total, moved(own, wider), np.asarray(values, np.int64))
    return total
