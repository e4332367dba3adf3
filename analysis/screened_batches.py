"""Screens a batch of partitions with few rows, and takes apart what is left to be judged."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import polars as pl

from ..histories.tables import no_rows
from .batches import Unit, by_unit
from .partitions.common import Common
from .partitions.unit import OBSERVED, Tables
from .screening import screen as screening


class ScreenedBatch(NamedTuple):
    """The summaries of plainly valid partitions; the rows of all others by unit and table, and unproved rules."""

    summaries: list[dict[str, Any]]
    left: list[tuple[Unit, str, pl.DataFrame]]
    unproved: dict[Unit, frozenset[str]]


def as_small(unit: Unit, table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table of a unit, with its topic and partition, as batches have them."""
    key = {"topic": pl.lit(unit.topic), "partition": pl.lit(unit.partition, pl.Int32)}
    return rows.with_columns(**key).select(list(OBSERVED[table]))


def screen_batch(small: Tables, apart: Collection[Unit], common: Common) -> ScreenedBatch:
    """Screens the partitions with few rows of a batch (`small`, with columns topic and partition).

    Units that have rows `apart` from these are left as they are.
    """
    if not small:
        return ScreenedBatch([], [], {})
    whole = {name: pl.concat([no_rows(OBSERVED[name]), *small.get(name, ())]) for name in OBSERVED}
    screened = screening.screen_batch(whole, apart, common)
    valid = pl.DataFrame([*screened.valid], schema={"topic": pl.String, "partition": pl.Int32}, orient="row")
    left = [
        (unit, name, own)
        for name, rows in whole.items()
        for unit, own in by_unit(rows.join(valid, on=["topic", "partition"], how="anti", maintain_order="left"))
    ]
    return ScreenedBatch(screened.summaries, left, {Unit(*key): rules for key, rules in screened.unproved.items()})
