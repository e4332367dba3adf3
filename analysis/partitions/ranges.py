"""Sets of offsets as ranges."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ...models.arrays import Mask

Numbers = npt.NDArray[Any]  # offsets, or other whole numbers of one type


class Ranges(NamedTuple):
    """Disjoint ranges of offsets in order: the first and the last of each."""

    first: Numbers
    last: Numbers

    def cover(self, first: int, last: int) -> bool:
        """Whether one range contains all offsets from `first` to `last`."""
        at = int(np.searchsorted(self.first, first, "right")) - 1
        return at >= 0 and bool(last <= self.last[at])

    def hold(self, offsets: Numbers) -> Mask:
        """A mask of the offsets that are in a range."""
        if not len(self.first):
            return np.zeros(len(offsets), bool)
        at = np.searchsorted(self.first, offsets, "right") - 1
        return (at >= 0) & (offsets <= self.last[np.maximum(at, 0)])


NO_RANGES = Ranges(np.empty(0, np.int64), np.empty(0, np.int64))


def union_of(low: Numbers, high: Numbers) -> Ranges:
    """The union of the ranges low..high, as ranges that do not touch. Ranges with high < low are ignored."""
    low, high = low[low <= high], high[low <= high]
    order = np.argsort(low, kind="stable")
    low, high = low[order], np.maximum.accumulate(high[order])
    is_apart = (low[1:] > high[:-1]) & (low[1:] - 1 > high[:-1])  # the first condition avoids an underflow
    starts = np.append(True, is_apart)[: len(low)]
    ends = np.append(starts[1:], True)[: len(low)]
    return Ranges(low[starts], high[ends])


def ranges_in(table: pl.DataFrame) -> Ranges:
    """The union of the ranges in a table with the columns first_offset and last_offset."""
    if not len(table):
        return NO_RANGES
    return union_of(table["first_offset"].to_numpy(), table["last_offset"].to_numpy())
