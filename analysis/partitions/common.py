"""What all units of judging share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from ...histories.settings import Settings
from ...histories.tables import CONTEXT, SENDS, no_rows


class Common(NamedTuple):
    """The settings and input that all units share: context, sends without a known partition, and evidence of brokers
    that belongs to no partition."""

    settings: Settings
    context: pl.DataFrame
    unplaced: pl.DataFrame
    shared: Mapping[str, pl.DataFrame]


def common_of(tables: Mapping[str, Sequence[pl.DataFrame]], settings: Settings) -> Common:
    """Joins the rows that all units share: the tables `context` and `unplaced`, and those of brokers' evidence."""
    context = pl.concat([no_rows(CONTEXT), *tables.get("context", ())]).sort("completed", "at")
    unplaced = pl.concat([no_rows(SENDS), *tables.get("unplaced", ())])
    shared = {name: pl.concat(frames) for name, frames in tables.items() if name not in ("context", "unplaced")}
    return Common(settings, context, unplaced, shared)
