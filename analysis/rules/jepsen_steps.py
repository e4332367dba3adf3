"""Steps from one value to the next in Jepsen's dense log: the skip rules and the nonmonotonic rules compare them."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ..partitions.jepsen_log import jepsen_index, jepsen_log
from ..partitions.partition import Partition
from ..wording import numbered, plural, short
from .rule import Result, finding

# Columns process, at, value; before, before_at (the value that precedes it); places (how far on in the log it is).
Steps = pl.DataFrame
SKIPS = pl.col("places") > 1  # it skips values
GOES_BACK = pl.col("places") < 1  # to the same or an earlier value


def steps_within(p: Partition, rows: pl.DataFrame) -> Steps:
    """The steps between adjacent values of one operation."""
    pairs = rows.sort("at", "index").select(
        "process", "at", "value", before=pl.col("value").shift(1), before_at=pl.col("at").shift(1)
    )
    return _with_places(p, pairs.filter(pl.col("at") == pl.col("before_at")))


def steps_between(
    p: Partition, rows: pl.DataFrame, empty: pl.DataFrame, counts: pl.Expr, *, of_polls: bool = False
) -> Steps:
    """The steps to the first value of an operation from the last value of its process's latest one that `counts`.

    `empty` are operations without a value. An assignment or subscription without the key clears the position. So does
    an assignment that seeks to the beginning, if the steps are `of_polls`. Jepsen's checker ignores this seek.
    """
    operation = ["process", "at", "outcome"]
    operations = (
        rows.sort("at", "index")
        .group_by(operation, maintain_order=True)
        .agg(value=pl.col("value").first(), last=pl.col("value").last())
    )
    nothing = empty.select(operation).unique().join(operations, on=["process", "at"], how="anti")
    ordered = pl.concat([operations, nothing], how="diagonal").sort("process", "at").with_row_index("row")
    latest = ordered.select(pl.when(counts).then("row").forward_fill().shift(1).over("process")).to_series()
    pairs = ordered.select(
        "process", "at", "value", before=ordered["last"].gather(latest), before_at=ordered["at"].gather(latest)
    ).drop_nulls(["value", "before"])
    return _with_places(p, _without_resets(p, pairs, of_polls))


def _without_resets(p: Partition, pairs: pl.DataFrame, of_polls: bool) -> pl.DataFrame:
    """The pairs without an assignment or subscription in between that clears the position (`steps_between`)."""
    moves = p.context.filter(pl.col("kind").is_in(["assign", "subscribe"]) & (pl.col("outcome") != "fail"))
    keeps_position = pl.col("kind").is_in(["assign", "subscribe"]) & (pl.col("offset").is_null() | pl.lit(not of_polls))
    named = p.marks.filter(keeps_position).select("process", "at")
    resets = moves.join(named, on=["process", "at"], how="anti").select("process", reset="at").sort("reset")
    latest = pairs.sort("at", maintain_order=True).join_asof(
        resets, left_on="at", right_on="reset", by="process", allow_exact_matches=False, check_sortedness=False
    )
    return latest.filter((pl.col("reset") >= pl.col("before_at")).fill_null(False).not_()).drop("reset")


def _with_places(p: Partition, pairs: pl.DataFrame) -> Steps:
    """Add `places`, from the first value to the second. Pairs without a known place are dropped."""
    index = jepsen_index(p)
    return (
        pairs.join(index.select("value", to="last"), on="value", maintain_order="left")
        .join(index.select(before="value", start="last"), on="before", maintain_order="left")
        .select(pl.exclude("to", "start"), places=pl.col("to") - pl.col("start"))
        .sort("at", maintain_order=True)
    )


def findings_of(p: Partition, verb: str, steps: Steps, severity: str = "violation") -> Iterator[Result]:
    """A finding for each of these steps (SKIPS or GOES_BACK)."""
    offset_of = dict(jepsen_log(p).select("value", "offset").iter_rows()) if len(steps) else {}
    for row in steps.iter_rows(named=True):
        first, second, process = row["before"], row["value"], numbered([row["process"]])
        how = f"skipping {plural(row['places'] - 1, 'value')}" if row["places"] > 1 else "going back"
        offsets = sorted((offset_of[first], offset_of[second]))
        yield finding(
            p,
            f"{process} {verb} {short(first)} and then {short(second)} of key {p.topic}, {how}",
            (offsets[0], offsets[1]),
            [(f"{process} {verb} {short(first)}", row["before_at"]), (f"{process} {verb} {short(second)}", row["at"])],
            values=[first, second],
            processes=[row["process"]],
            severity=severity,
        )
