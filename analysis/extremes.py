"""The least and the greatest integer of a column, as polars types these as any value, and of the rest of an array."""

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


def least_from(values: Ints) -> Ints:
    """For each index the least of the values from it on; one more, behind the last: MAX_INT64."""
    return np.minimum.accumulate(np.append(values, MAX_INT64)[::-1])[::-1]


def greatest_from(values: Ints) -> Ints:
    """For each index the greatest of the values from it on; one more, behind the last: MIN_INT64."""
    return np.maximum.accumulate(np.append(values, MIN_INT64)[::-1])[::-1]


def first_above(offsets: Ints, dated: Iterable[tuple[int, int]]) -> Ints:
    """For each offset the least time of the starts (offset, time) above it; MAX_INT64: there is none."""
    starts = sorted(dated)
    above = np.searchsorted([offset for offset, _ in starts], offsets, "right")
    return least_from(np.array([time for _, time in starts], np.int64))[above]
