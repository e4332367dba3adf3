"""Sets of offsets as ranges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from .entries import Ints, Mask


class Ranges(NamedTuple):
    """Disjoint ranges of offsets in order: the first and the last of each."""

    first: Ints
    last: Ints

    def cover(self, first: int, last: int) -> bool:
        """Whether all from the first to the last offset lie in one range."""
        at = int(np.searchsorted(self.first, first, "right")) - 1
        return at >= 0 and bool(last <= self.last[at])

    def hold(self, offsets: Ints) -> Mask:
        """Which of the offsets lie in a range."""
        if not len(self.first):
            return np.zeros(len(offsets), bool)
        at = np.searchsorted(self.first, offsets, "right") - 1
        return (at >= 0) & (offsets <= self.last[np.maximum(at, 0)])


def merged(low: Ints, high: Ints) -> Ranges:
    """Ranges from a low to a high offset each, those left out that end before they begin; none touches another."""
    order = np.argsort(low[low <= high], kind="stable")
    low, high = low[low <= high][order], np.maximum.accumulate(high[low <= high][order])
    starts = np.append(True, low[1:] > high[:-1] + 1)[: len(low)]
    ends = np.append(starts[1:], True)[: len(low)]
    return Ranges(low[starts], high[ends])


def ranges_in(table: pl.DataFrame) -> Ranges:
    """Those of a table with the columns first_offset and last_offset."""
    return merged(table["first_offset"].to_numpy(), table["last_offset"].to_numpy())
