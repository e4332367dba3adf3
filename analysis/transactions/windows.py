"""Windows of time that contain all cycles of dependencies.

Every operation has a moment: its end, or its start if it has no end. Real time and process order lead from a moment to
a later one. So a cycle needs dependencies that lead back, from a later moment to an earlier one. Their spans cover the
time between its first and its last operation. A window is a union of overlapping spans of dependencies that lead back,
so one window has all operations of a cycle. Most histories have few windows.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, collect
from ...models.arrays import Ints

WINDOWS = {"low": pl.Int64, "high": pl.Int64}  # moments, both inclusive; sorted and disjoint
ALL = pl.lit(True)
MAX_WINDOWS = 100_000  # of a run; beyond that the nearest are joined, which only adds operations that are in no cycle


def windows_of(dependencies: pl.DataFrame, chosen: pl.Expr = ALL) -> pl.DataFrame:
    """The WINDOWS of the dependencies that a filter chooses."""
    if not len(dependencies):
        return pl.DataFrame(schema=WINDOWS)
    spans = dependencies.select(low=moment("target"), high=moment("source"), chosen=chosen)
    backwards = spans.filter(pl.col("chosen") & (pl.col("low") <= pl.col("high"))).drop("chosen")
    return join_windows([backwards]) if len(backwards) else backwards


def join_windows(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """The WINDOWS that cover all of `frames`, at most MAX_WINDOWS."""
    spans = pl.concat([pl.DataFrame(schema=WINDOWS), *frames]).sort("low")
    begins = pl.col("low") > pl.col("high").cum_max().shift(1)
    windows = (
        spans.with_columns(number=begins.fill_null(True).cum_sum())
        .group_by("number", maintain_order=True)
        .agg(pl.col("low").first(), pl.col("high").max())
        .drop("number")
    )
    if len(windows) <= MAX_WINDOWS:
        return windows
    gaps = windows["low"].to_numpy()[1:] - windows["high"].to_numpy()[:-1]
    widest = np.sort(np.argsort(-gaps, kind="stable")[: MAX_WINDOWS - 1])
    first, last = np.append(0, widest + 1), np.append(widest, len(windows) - 1)
    return pl.DataFrame({"low": windows["low"].gather(first), "high": windows["high"].gather(last)})


def split_windows(windows: pl.DataFrame, parts: int) -> pl.DataFrame:
    """The windows, each cut into pieces of at most 1/`parts` of the total time. This may cut cycles, too."""
    share = int((windows["high"] - windows["low"]).sum()) // parts + 1
    lows = pl.int_ranges("low", pl.col("high") + 1, step=share, dtype=pl.Int64)
    cut = windows.with_columns(low=lows).explode("low")
    return cut.with_columns(high=pl.min_horizontal("high", pl.col("low") + share - 1)).select(list(WINDOWS))


def dependencies_within(dependencies: pl.DataFrame, windows: pl.DataFrame, chosen: pl.Expr = ALL) -> pl.DataFrame:
    """The chosen dependencies between two operations of the same window, with its number in the column `window`."""
    if not len(windows) or not len(dependencies):
        return dependencies.clear().with_columns(window=pl.lit(0, pl.Int64))
    moments = dependencies.select(source=moment("source"), target=moment("target"))
    source, target = (_window_of(moments[name].to_numpy(), windows) for name in ("source", "target"))
    numbered = dependencies.lazy().with_columns(window=pl.Series(source))
    inside = numbered.filter(pl.Series((source == target) & (source >= 0)), chosen)
    return collect(inside, len(dependencies))


def _window_of(moments: Ints, windows: pl.DataFrame) -> Ints:
    """The number of the window of each moment; -1: it is in none."""
    number = np.searchsorted(windows["low"].to_numpy(), moments, "right") - 1
    inside = (number >= 0) & (moments <= windows["high"].to_numpy()[np.maximum(number, 0)])
    return np.where(inside, number, -1)


def moment(end: str) -> pl.Expr:
    """The moment of the source or the target of dependencies."""
    finished = pl.col(f"{end}_end") < MAX_INT64
    return pl.when(finished).then(f"{end}_end").otherwise(f"{end}_start")
