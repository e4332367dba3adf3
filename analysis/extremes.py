"""Minima and maxima as integers: of a column (polars types them as any value), and of each suffix of an array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import polars as pl

from ..histories.tables import MAX_INT64, MIN_INT64
from ..models.arrays import Ints

Otherwise = TypeVar("Otherwise")


def least(column: pl.Series, otherwise: Otherwise) -> int | Otherwise:
    """The least integer of a column; `otherwise` if it has none."""
    found = column.min()
    return found if isinstance(found, int) else otherwise


def greatest(column: pl.Series, otherwise: Otherwise) -> int | Otherwise:
    """The greatest integer of a column; `otherwise` if it has none."""
    found = column.max()
    return found if isinstance(found, int) else otherwise


def suffix_minima(values: Ints) -> Ints:
    """At each index, the least value from there to the end of the array; one more after the last: MAX_INT64."""
    return np.minimum.accumulate(np.append(values, MAX_INT64)[::-1])[::-1]


def suffix_maxima(values: Ints) -> Ints:
    """At each index, the greatest value from there to the end of the array; one more after the last: MIN_INT64."""
    return np.maximum.accumulate(np.append(values, MIN_INT64)[::-1])[::-1]


def earliest_start_above(offsets: Ints, dated_starts: Iterable[tuple[int, int]]) -> Ints:
    """For each offset, the earliest time of a log start (offset, time) above it; MAX_INT64 if there is none."""
    starts = sorted(dated_starts)
    above = np.searchsorted([offset for offset, _ in starts], offsets, "right")
    return suffix_minima(np.array([time for _, time in starts], np.int64))[above]
