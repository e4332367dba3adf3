"""Pairs invocations with completions."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from .tables import EVENTS, OPERATIONS, OUTCOME

PLACED_EVENTS = {"place": pl.Int64, **{name: kind for name, kind in EVENTS.items() if name != "line"}}
MALFORMED = {"place": pl.Int64, "reason": pl.String}

_KEY = ["process", "pairing"]

# What a completion need not repeat of its invocation.
_REPEATED = ("topic", "partition", "key", "value", "acks", "ops", "offsets", "topics", "fault", "synthetic")


class Paired(NamedTuple):
    """What pairing gives: operations, events that wait for their other half, and events that have none."""

    operations: pl.DataFrame
    waiting: pl.DataFrame
    malformed: pl.DataFrame


def pair(events: pl.DataFrame) -> Paired:
    """Pairs PLACED_EVENTS by process and op; events without op pair with their process's neighbour."""
    events, moments = _split_moments(events)
    events = _with_key(events)
    invoked, again = _first_of_each(events.filter(pl.col("type") == "invoke"))
    completed, twice = _first_of_each(events.filter(pl.col("type") != "invoke"))
    known = invoked.select(
        *_KEY,
        pl.col("time").alias("invoked"),
        pl.col("place").alias("invoked_at"),
        *(pl.col(name).alias(f"invoked_{name}") for name in _REPEATED),
    )
    joined = completed.join(known, on=_KEY, how="left", maintain_order="left")
    found = joined["invoked_at"].is_not_null()
    operations = joined.filter(found).with_columns(
        pl.col("type").cast(OUTCOME).alias("outcome"),
        pl.col("time").alias("completed"),
        pl.col("place").alias("at"),
        *(pl.coalesce(name, f"invoked_{name}").alias(name) for name in _REPEATED),
    )
    open_invocations = invoked.join(completed, on=_KEY, how="anti", maintain_order="left")
    waiting = pl.concat([open_invocations, joined.filter(~found).select(events.columns)]).sort("place")
    return Paired(
        pl.concat([operations.select(list(OPERATIONS)), moments]),
        waiting.select(list(PLACED_EVENTS)),
        pl.concat([again, twice]),
    )


def close(waiting: pl.DataFrame) -> Paired:
    """Pairs what waits at the end of the whole history: what then remains open is info, or malformed."""
    paired = pair(waiting.sort("place"))
    invocations = paired.waiting.filter(pl.col("type") == "invoke").sort("place")
    never = invocations.with_columns(
        pl.lit("info").cast(OUTCOME).alias("outcome"),
        pl.col("time").alias("invoked"),
        pl.lit(None, dtype=pl.Int64).alias("completed"),
        pl.col("place").alias("invoked_at"),
        pl.col("place").alias("at"),
    ).select(list(OPERATIONS))
    orphans = paired.waiting.filter(pl.col("type") != "invoke").select(
        "place", pl.lit("a completion without an invocation").alias("reason")
    )
    return Paired(
        pl.concat([paired.operations, never]),
        pl.DataFrame(schema=PLACED_EVENTS),
        pl.concat([paired.malformed, orphans]),
    )


def _split_moments(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Faults without operation numbers, as Jepsen's nemesis writes them (info, then info again), are moments."""
    moment = events["op"].is_null() & events["f"].is_in(["fault", "heal"])
    if not moment.any():
        return events, pl.DataFrame(schema=OPERATIONS)
    moments = events.filter(moment).with_columns(
        pl.lit("info").cast(OUTCOME).alias("outcome"),
        pl.col("time").alias("invoked"),
        pl.col("time").alias("completed"),
        pl.col("place").alias("invoked_at"),
        pl.col("place").alias("at"),
    )
    return events.filter(~moment), moments.select(list(OPERATIONS))


def _with_key(events: pl.DataFrame) -> pl.DataFrame:
    """The number that pairs: op, or without one the count of the process's invocations so far."""
    if events["op"].null_count() == 0:
        return events.with_columns(pl.col("op").alias("pairing"))
    turn = (pl.col("type") == "invoke").cast(pl.Int64).cum_sum().over("process")
    return events.with_columns(pl.coalesce("op", turn).alias("pairing"))


def _first_of_each(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The events, and those whose operation another event of the same kind had used before."""
    repeated = events.select(pl.struct(_KEY).is_duplicated()).to_series()
    if not repeated.any():
        return events, pl.DataFrame(schema=MALFORMED)
    first = events.select(pl.struct(_KEY).is_first_distinct()).to_series()
    reason = pl.format("operation {} of process {} is used twice", "pairing", "process").alias("reason")
    return events.filter(first), events.filter(~first).select("place", reason)
