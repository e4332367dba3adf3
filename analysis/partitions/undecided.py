"""Polls of which nobody knows how they ended: the offsets that each may have given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ...histories.tables import BEYOND_ALL
from .entries import Ints

if TYPE_CHECKING:
    from .partition import Partition


class Ranges(NamedTuple):
    """Disjoint ranges of offsets in order: the first and the last of each."""

    first: Ints
    last: Ints

    def cover(self, first: int, last: int) -> bool:
        """Whether all from the first to the last offset lie in one range."""
        at = int(np.searchsorted(self.first, first, "right")) - 1
        return at >= 0 and bool(last <= self.last[at])

    def hold(self, offsets: Ints) -> npt.NDArray[np.bool_]:
        """Which of the offsets lie in a range."""
        if not len(self.first):
            return np.zeros(len(offsets), bool)
        at = np.searchsorted(self.first, offsets, "right") - 1
        return (at >= 0) & (offsets <= self.last[np.maximum(at, 0)])


def undecided_polls(p: Partition, processes: Iterable[str]) -> Ranges:
    """What polls of these processes may have given: from behind what the process read before to what it read next."""
    # Who neither read nor was assigned this partition polled others.
    here = {*p.reads["process"].unique(), *p.marks["process"].unique()} & {*processes}
    polls = p.context.filter((pl.col("kind") == "poll") & pl.col("process").is_in(list(here)))
    lows, highs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for process, invoked in polls.group_by("process").agg(pl.col("invoked").unique()).sort("process").iter_rows():
        mine = p.reads.filter((pl.col("process") == process) & pl.col("offset").is_not_null()).sort("completed", "at")
        offsets = mine["offset"].to_numpy()
        at = np.searchsorted(mine["completed"].fill_null(BEYOND_ALL).to_numpy(), np.array(invoked), "right")
        before, after = np.append(-1, offsets)[at], np.append(offsets, BEYOND_ALL)[at]
        lows.append(before + 1)
        # Where it goes back, or nowhere, nothing bounds what the poll may have given.
        highs.append(np.where(after > before, after - 1, BEYOND_ALL))
    return merged(np.concatenate(lows), np.concatenate(highs))


def merged(low: Ints, high: Ints) -> Ranges:
    """Ranges from a low to a high offset each, those left out that end before they begin; none touches another."""
    order = np.argsort(low[low <= high], kind="stable")
    low, high = low[low <= high][order], np.maximum.accumulate(high[low <= high][order])
    starts = np.append(True, low[1:] > high[:-1] + 1)[: len(low)]
    ends = np.append(starts[1:], True)[: len(low)]
    return Ranges(low[starts], high[ends])
