"""Pairs invocations with completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from ..models.arrays import Ints
from .tables import EVENTS, MAX_INT64, OPERATIONS, OUTCOME, complete, no_rows

PLACED_EVENTS = {"place": pl.Int64, **{name: kind for name, kind in EVENTS.items() if name != "line"}}
MALFORMED = {"place": pl.Int64, "reason": pl.String}
LONE_COMPLETION = "a completion without an invocation"

# Fields that a completion may leave out: they come from its invocation.
_REPEATED = (
    *("topic", "partition", "key", "value", "timestamp", "acks", "ops", "offsets", "topics"),
    *("group", "revoked", "auto", "fault", "synthetic"),
)
_SPARSE = 8  # possible ops for each event, above which the numbers are ranks

# Fields that a completion may leave out, but not contradict.
_SAME = ("f", "topic", "partition", "value")


class Paired(NamedTuple):
    """The result of pairing: operations, events without a counterpart, and malformed events."""

    operations: pl.DataFrame
    unpaired: pl.DataFrame
    malformed: pl.DataFrame


def pair(events: pl.DataFrame, dialect: str) -> Paired:
    """Pairs events by process and op; events without op pair with their process's neighbour.

    A completion that contradicts its invocation is malformed. In Jepsen's histories its value may differ, as Jepsen
    accepts that. A completion of :send without a value may be that of a txn: :send with several sends, or none, is one.

    `events` has place and columns of EVENTS; missing columns count as null, also in the operations.
    """
    same = _SAME[:1] if dialect == "jepsen" else _SAME
    events, moments = _split_moments(events)
    events, number = _with_number(events)
    invoked = events.filter(pl.col("type") == "invoke")
    completed = events.filter(pl.col("type") != "invoke")
    if dialect == "jepsen":
        completed = _with_txns_without_value(invoked, completed)
    invoked, invoked_again = _first_of_each(invoked, number)
    completed, completed_again = _first_of_each(completed, number)
    malformed, left_out = no_rows(MALFORMED), []
    if len(invoked_again) or len(completed_again):
        malformed = pl.concat([_as_reused(invoked_again), _as_reused(completed_again)])
        lone = completed_again.join(invoked_again.filter(pl.col("f") != "handle"), on="pairing", how="anti")
        left_out = [_as_indeterminate(again) for again in (invoked_again, lone) if len(again)]
    joined, found, open_invocations = _join(invoked, completed, same, number)
    for name in same:
        if f"invoked_{name}" not in joined.columns:
            continue
        differs = found & (joined[name] != joined[f"invoked_{name}"])
        if differs.any():
            other = "the completion of a" if name == "f" else f"a completion with {name}"
            reason = pl.format(
                f"found {other} {{}}, expected that of the {{}} that was invoked", name, f"invoked_{name}"
            )
            contradicting = joined.filter(differs).select("place", reason=reason)
            completed = completed.join(contradicting, on="place", how="anti", maintain_order="left")
            malformed = pl.concat([malformed, contradicting])
            joined, found, open_invocations = _join(invoked, completed, same, number)
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
    unmatched = [] if found.all() else [joined.filter(~found).select(events.columns)]
    unpaired = pl.concat([open_invocations, *unmatched]).sort("place", maintain_order=True)
    more = [*left_out, *([moments] if len(moments) else [])]
    operations = pl.concat([operations, *more], how="diagonal") if more else operations
    return Paired(operations, unpaired.drop("pairing"), malformed)


def _with_txns_without_value(invoked: pl.DataFrame, completed: pl.DataFrame) -> pl.DataFrame:
    """The completions; those of :send without a value have f txn where their invocation is one."""
    is_nil = (pl.col("f") == "send") & pl.col("topic").is_null()
    if "topic" not in completed.columns or not completed.select(is_nil.any()).item():
        return completed
    is_txn = pl.col("pairing").is_in(invoked.filter(f="txn")["pairing"].implode())
    return completed.with_columns(f=pl.when(is_nil & is_txn).then(pl.lit("txn")).otherwise("f"))


def _join(
    invoked: pl.DataFrame, completed: pl.DataFrame, same: Sequence[str], number: int
) -> tuple[pl.DataFrame, pl.Series, pl.DataFrame]:
    """Completions beside their invocations, whether each has one, and the open invocations."""
    given = [name for name in dict.fromkeys((*_SAME, *_REPEATED)) if name in invoked.columns]
    given = [name for name in given if invoked[name].null_count() < len(invoked)]
    left_out = [name for name in given if name in _REPEATED and completed[name].null_count() == len(completed)]
    repeated = [name for name in given if name in _REPEATED and name not in left_out and completed[name].null_count()]
    compared = [name for name in given if name in same and name not in left_out]
    known = invoked.select(
        *left_out,
        pl.col("time").alias("invoked"),
        pl.col("place").alias("invoked_at"),
        *(pl.col(name).alias(f"invoked_{name}") for name in dict.fromkeys((*compared, *repeated))),
    )
    rows = pl.Series(_first_rows(invoked, number)[completed["pairing"].to_numpy()])
    found = rows >= 0
    joined = completed.drop(left_out).hstack(known.select(pl.all().gather(rows.set(~found, None))))
    joined = joined.with_columns(pl.coalesce(name, f"invoked_{name}").alias(name) for name in repeated)
    is_open = _first_rows(completed, number)[invoked["pairing"].to_numpy()] < 0
    return joined, found, invoked.filter(pl.Series(is_open))


def pair_remaining(unpaired: pl.DataFrame, dialect: str = "native") -> Paired:
    """Pairs the events left at the end of the history. An open invocation becomes info, a lone completion malformed."""
    paired = pair(unpaired.sort("place", maintain_order=True), dialect)
    invocations = paired.unpaired.filter(pl.col("type") == "invoke").sort("place", maintain_order=True)
    orphans = paired.unpaired.filter(pl.col("type") != "invoke")
    operations = [complete(paired.operations, OPERATIONS), _open(invocations), _as_indeterminate(orphans)]
    reasons = orphans.select("place", reason=pl.lit(LONE_COMPLETION))
    return Paired(pl.concat(operations), no_rows(PLACED_EVENTS), pl.concat([paired.malformed, reasons]))


def _open(events: pl.DataFrame) -> pl.DataFrame:
    """Operations of unknown outcome, invoked at the times of the events."""
    return (
        complete(events, PLACED_EVENTS)
        .with_columns(
            outcome=pl.lit("info").cast(OUTCOME),
            invoked="time",
            completed=pl.lit(None, dtype=pl.Int64),
            invoked_at="place",
            at="place",
        )
        .select(list(OPERATIONS))
    )


def _as_indeterminate(events: pl.DataFrame) -> pl.DataFrame:
    """The operations of malformed events with unknown outcome, as they may have happened.

    A poll proves no reads, but its process did poll. A send or a transaction is left out, as it may have been another.
    """
    polls = complete(events.filter(pl.col("f") == "poll").select("place", "time", "process", "f"), PLACED_EVENTS)
    others = complete(events.filter(~pl.col("f").is_in(["poll", "send", "txn"])), PLACED_EVENTS)
    return _open(pl.concat([polls, others]))


def _split_moments(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The other events, and faults without operation numbers (of Jepsen's nemesis) as operations of one moment."""
    moment = events["op"].is_null()
    if not moment.any() or not (moment := moment & events["f"].is_in(["fault", "heal"])).any():
        return events, no_rows(OPERATIONS)
    moments = complete(events.filter(moment), PLACED_EVENTS).with_columns(
        outcome=pl.lit("info").cast(OUTCOME), invoked="time", completed="time", invoked_at="place", at="place"
    )
    return events.filter(~moment), moments.select(list(OPERATIONS))


def _with_number(events: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Adds `pairing`, a number from 0 on for each process and op, and returns how many numbers there are.

    Events without op count their process's invocations so far. Most of the ops that a process has between its first and
    its last one are in the block; otherwise the numbers are ranks, which take ten times as long.
    """
    op = pl.col("op")
    if events["op"].null_count():
        op = pl.coalesce("op", (pl.col("type") == "invoke").cast(pl.Int64).cum_sum().over("process"))
    ops = events.select(op).to_series()
    processes = events["process"].cast(pl.Categorical).to_physical()
    if len(events) and not processes.null_count() and ops.is_between(0, MAX_INT64).all(ignore_nulls=False):
        numbers, process = ops.to_numpy(), processes.to_numpy()
        low, high = np.full(process.max() + 1, MAX_INT64), np.full(process.max() + 1, -1)
        np.minimum.at(low, process, numbers)
        np.maximum.at(high, process, numbers)
        spans = np.maximum(high - low + 1, 0)
        if spans.sum(dtype=float) <= _SPARSE * len(events):
            ends = np.cumsum(spans)
            numbers = numbers + (ends - spans - low)[process]
            return events.with_columns(pairing=pl.Series(numbers)), int(ends[-1])
    ranks = pl.struct("process", op).rank("dense").cast(pl.Int64) - 1
    return events.with_columns(pairing=ranks), len(events)


def _first_rows(events: pl.DataFrame, number: int) -> Ints:
    """By number: its first row among the events; -1 for none."""
    first = np.full(number, -1)
    first[events["pairing"].to_numpy()[::-1]] = np.arange(len(events))[::-1]  # the first is written last
    return first


def _first_of_each(events: pl.DataFrame, number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The events whose operation occurs for the first time, and the others."""
    is_first = _first_rows(events, number)[events["pairing"].to_numpy()] == np.arange(len(events))
    if is_first.all():
        return events, events.clear()
    return events.filter(pl.Series(is_first)), events.filter(pl.Series(~is_first))


def _as_reused(events: pl.DataFrame) -> pl.DataFrame:
    reason = pl.format("an operation of process {} is used twice (op {})", "process", pl.col("op").fill_null(-1))
    return events.select("place", reason=reason)
