"""The least and the greatest integer of a column, as polars types these as any value."""

from __future__ import annotations

from typing import TypeVar

import polars as pl

Otherwise = TypeVar("Otherwise")


def least(column: pl.Series, otherwise: Otherwise) -> int | Otherwise:
    """The least integer of a column; `otherwise` if it has none."""
    found = column.min()
    return found if isinstance(found, int) else otherwise


def greatest(column: pl.Series, otherwise: Otherwise) -> int | Otherwise:
    """The greatest integer of a column; `otherwise` if it has none."""
    found = column.max()
    return found if isinstance(found, int) else otherwise
