"""Pairs invocations with completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from .tables import EVENTS, OPERATIONS, OUTCOME, complete

PLACED_EVENTS = {"place": pl.Int64, **{name: kind for name, kind in EVENTS.items() if name != "line"}}
MALFORMED = {"place": pl.Int64, "reason": pl.String}

# What a completion need not repeat of its invocation.
_REPEATED = (
    *("topic", "partition", "key", "value", "acks", "ops", "offsets", "topics"),
    *("group", "revoked", "auto", "fault", "synthetic"),
)
# More than operations of a process number, and few enough that a process's number fits above it in 64 bits.
_MOST_OPS = 1 << 44


# What a completion may leave out, but not tell otherwise than its invocation did.
_SAME = ("f", "topic", "partition", "value")


class Paired(NamedTuple):
    """What pairing gives: operations, events that wait for their other half, and events that have none."""

    operations: pl.DataFrame
    waiting: pl.DataFrame
    malformed: pl.DataFrame


def pair(events: pl.DataFrame, dialect: str = "native") -> Paired:
    """Pairs events by process and op; events without op pair with their process's neighbour.

    A completion that contradicts its invocation is malformed; Jepsen, whose verdicts count for its histories, takes one
    of another value.

    `events` has place and columns of EVENTS; those that it lacks are null, in the operations too.
    """
    same = _SAME[:1] if dialect == "jepsen" else _SAME
    events, moments = _split_moments(events)
    events = _with_key(events)
    invoked = events.filter(pl.col("type") == "invoke")
    completed = events.filter(pl.col("type") != "invoke")
    joined, found, open_invocations = _join(invoked, completed, same)
    malformed = pl.DataFrame(schema=MALFORMED)
    if _has_reuse(joined, found, completed, open_invocations):
        invoked, again = _first_of_each(invoked)
        completed, twice = _first_of_each(completed)
        malformed = pl.concat([again, twice])
        joined, found, open_invocations = _join(invoked, completed, same)
    for name in (name for name in same if f"invoked_{name}" in joined.columns):
        other = found & (joined[name] != joined[f"invoked_{name}"])
        if other.any():
            strange = joined.filter(other).select("place", _contradicts(name).alias("reason"))
            completed = completed.join(strange, on="place", how="anti", maintain_order="left")
            malformed = pl.concat([malformed, strange])
            joined, found, open_invocations = _join(invoked, completed, same)
    names = [name for name in OPERATIONS if name in events.columns]
    operations = (joined if found.all() else joined.filter(found)).select(
        "process",
        "f",
        pl.col("type").cast(OUTCOME).alias("outcome"),
        "invoked",
        pl.col("time").alias("completed"),
        "invoked_at",
        pl.col("place").alias("at"),
        *(name for name in names if name not in ("process", "f")),
    )
    waiting = pl.concat([open_invocations, joined.filter(~found).select(events.columns)]).sort(
        "place", maintain_order=True
    )
    return Paired(
        operations if not len(moments) else pl.concat([operations, moments], how="diagonal"),
        waiting.drop("pairing"),
        malformed,
    )


def _join(
    invoked: pl.DataFrame, completed: pl.DataFrame, same: Sequence[str]
) -> tuple[pl.DataFrame, pl.Series, pl.DataFrame]:
    """Completions beside their invocation, whether they have one, and the invocations that stay open."""
    repeated = [name for name in _REPEATED if name in completed.columns and completed[name].null_count()]
    compared = [name for name in same if name in completed.columns and name in invoked.columns]
    known = invoked.select(
        "pairing",
        pl.col("time").alias("invoked"),
        pl.col("place").alias("invoked_at"),
        *(pl.col(name).alias(f"invoked_{name}") for name in {**dict.fromkeys(compared), **dict.fromkeys(repeated)}),
    )
    joined = completed.join(known, on="pairing", how="left", maintain_order="left")
    joined = joined.with_columns(pl.coalesce(name, f"invoked_{name}").alias(name) for name in repeated)
    still_open = invoked.join(completed.select("pairing"), on="pairing", how="anti", maintain_order="left")
    return joined, joined["invoked_at"].is_not_null(), still_open


def _contradicts(name: str) -> pl.Expr:
    what = "the completion of a" if name == "f" else f"a completion with {name}"
    return pl.format(f"found {what} {{}}, expected that of the {{}} that was invoked", name, f"invoked_{name}")


def _has_reuse(joined: pl.DataFrame, found: pl.Series, completed: pl.DataFrame, open_invocations: pl.DataFrame) -> bool:
    """Whether an operation was invoked or completed twice, told from what the join made of it."""
    if len(joined) != len(completed) or open_invocations["pairing"].is_duplicated().any():
        return True
    return joined["invoked_at"].n_unique() != int(found.sum()) + bool((~found).any()) or bool(
        joined.filter(~found)["pairing"].is_duplicated().any()
    )


def close(waiting: pl.DataFrame, dialect: str = "native") -> Paired:
    """Pairs what waits at the end of the whole history: what then remains open is info, or malformed."""
    paired = pair(waiting.sort("place", maintain_order=True), dialect)
    invocations = paired.waiting.filter(pl.col("type") == "invoke").sort("place", maintain_order=True)
    # Of a poll whose invocation cannot be read nobody knows what it saw: its completion is no evidence, yet it polled.
    orphans = paired.waiting.filter(pl.col("type") != "invoke")
    polls = complete(orphans.filter(pl.col("f") == "poll").select("place", "time", "process", "f"), PLACED_EVENTS)
    never = (
        pl.concat([invocations, polls.select(invocations.columns)])
        .with_columns(
            pl.lit("info").cast(OUTCOME).alias("outcome"),
            pl.col("time").alias("invoked"),
            pl.lit(None, dtype=pl.Int64).alias("completed"),
            pl.col("place").alias("invoked_at"),
            pl.col("place").alias("at"),
        )
        .select(list(OPERATIONS))
    )
    operations = complete(paired.operations, OPERATIONS)
    orphans = orphans.select("place", pl.lit("a completion without an invocation").alias("reason"))
    return Paired(
        pl.concat([operations, never]),
        pl.DataFrame(schema=PLACED_EVENTS),
        pl.concat([paired.malformed, orphans]),
    )


def _split_moments(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Faults without operation numbers, as Jepsen's nemesis writes them (info, then info again), are moments."""
    moment = events["op"].is_null() & events["f"].is_in(["fault", "heal"])
    if not moment.any():
        return events, pl.DataFrame(schema=OPERATIONS)
    moments = complete(events.filter(moment), PLACED_EVENTS).with_columns(
        pl.lit("info").cast(OUTCOME).alias("outcome"),
        pl.col("time").alias("invoked"),
        pl.col("time").alias("completed"),
        pl.col("place").alias("invoked_at"),
        pl.col("place").alias("at"),
    )
    return events.filter(~moment), moments.select(list(OPERATIONS))


def _with_key(events: pl.DataFrame) -> pl.DataFrame:
    """A number for each process and op (or without op: the count of the process's invocations so far)."""
    op = pl.col("op")
    if events["op"].null_count():
        op = pl.coalesce("op", (pl.col("type") == "invoke").cast(pl.Int64).cum_sum().over("process"))
    numbered = events.with_columns(op.alias("_op"))
    least, most = numbered["_op"].min(), numbered["_op"].max()
    few = events["process"].n_unique() < 2**64 // _MOST_OPS
    if few and len(events) and isinstance(least, int) and isinstance(most, int) and least >= 0 and most < _MOST_OPS:
        process = pl.col("process").cast(pl.Categorical).to_physical().cast(pl.UInt64)
        key = process * _MOST_OPS + pl.col("_op").cast(pl.UInt64)
    else:
        key = pl.struct("process", "_op").rank("dense").cast(pl.UInt64)
    return numbered.with_columns(key.alias("pairing")).drop("_op")


def _first_of_each(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The events, and those whose operation another event of the same kind had used before."""
    first = events["pairing"].is_first_distinct()
    reason = pl.format("an operation of process {} is used twice (op {})", "process", pl.col("op").fill_null(-1))
    return events.filter(first), events.filter(~first).select("place", reason.alias("reason"))
