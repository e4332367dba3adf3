"""The transactions of a history of lists or registers, made of its events: invocations and completions joined.

A transaction is `ok` (committed), `fail` (aborted) or `info` (indeterminate: it may have committed). Without a
completion it is `info`. What an `info` or `fail` transaction read is ignored, as an aborted transaction proves nothing.
The order of the lines is the order of time, as in Elle.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64, collect

# start: place of the invocation; MIN_INT64 if it is missing. end: place of the completion, MAX_INT64 unless ok.
TXNS = {
    "txn": pl.Int64,
    "at": pl.Int64,  # place of the completion, else of the invocation
    "start": pl.Int64,
    "end": pl.Int64,
    "process": pl.String,
    "outcome": pl.String,
}
# The micro-operations that a part of a history has, with their transactions; `key` is a name.
OWNED = {
    **{name: kind for name, kind in TXNS.items() if name != "txn"},
    **{"place": pl.Int64, "step": pl.Int64, "f": pl.String, "key": pl.String, "value": pl.String},
}
UNPAIRED = "without invocation"  # a count: completions whose invocation is not known
# The micro-operations in order (transaction_lines.STEPS), without the reads of transactions that are not ok.
STEPS = {"txn": pl.Int64, "step": pl.Int64, "f": pl.String, "key": pl.Int64, "value": pl.String}


@dataclass(frozen=True)
class TxnHistory:
    """The transactions of a run."""

    txns: pl.DataFrame  # TXNS; row number `txn` is the transaction of that number
    steps: pl.DataFrame  # STEPS, sorted by txn and step; keys are numbers
    keys: pl.Series  # the name of each key, by its number
    is_whole: bool  # whether no line was left out or is missing

    def writes(self) -> pl.DataFrame:
        """All writes: txn, step, key, value and the outcome of the transaction."""
        written = collect(self.steps.lazy().filter(f="w").select("txn", "step", "key", "value"), len(self.steps))
        return written.with_columns(outcome=self.txns["outcome"].gather(written["txn"]))

    def steps_of(self, txn: int) -> list[tuple[str, str, str | None]]:
        """The micro-operations of one transaction: f, the name of the key, and the value."""
        low, high = self.steps["txn"].search_sorted(txn, "left"), self.steps["txn"].search_sorted(txn, "right")
        rows = self.steps[low:high].select("f", "key", "value").iter_rows()
        return [(f, str(self.keys[key]), value) for f, key, value in rows]


def history_of(events: pl.DataFrame, steps: pl.DataFrame, is_whole: bool = True) -> TxnHistory:
    """Joins invocations and completions. `events` and `steps` have the column `place` instead of `line`, sorted."""
    txns = pair_transactions(events)
    return _number_transactions(txns, _known_steps(steps, txns), is_whole and not outcome_counts(txns)[UNPAIRED])


def pair_transactions(events: pl.DataFrame) -> pl.DataFrame:
    """The TXNS of some processes, and `of`: the place of the event that has its steps.

    A completion is of the invocation before it. If its process had begun another operation, which had not ended, it may
    be of either, so its invocation is not known.
    """
    is_invoke = pl.col("type") == "invoke"
    before = pl.all().shift(1).over("process").name.prefix("before_")
    following = events.select("place", "type", "process", "has_value").with_columns(
        before, is_only=pl.col("type").shift(2).over("process").ne_missing("invoke")
    )
    follows = (pl.col("before_type") == "invoke") & pl.col("is_only")
    completions = following.filter(~is_invoke).select(
        pl.col("place").alias("at"),
        pl.when(follows).then("before_place").otherwise(MIN_INT64).alias("start"),
        "process",
        pl.col("type").alias("outcome"),
        # A completion without a value has that of its invocation.
        pl.when(pl.col("has_value") | ~follows.fill_null(False)).then("place").otherwise("before_place").alias("of"),
    )
    last = pl.col("type").shift(-1).over("process")
    open_ones = events.filter(is_invoke & (last.is_null() | (last == "invoke"))).select(
        pl.col("place").alias("at"), pl.col("place").alias("start"), "process", outcome=pl.lit("info"), of="place"
    )
    txns = (
        pl.concat([completions.with_columns(pl.col("start").fill_null(MIN_INT64)), open_ones])
        .sort("at")
        .with_row_index("txn")
        .cast({"txn": pl.Int64})
    )
    return txns.with_columns(pl.when(pl.col("outcome") == "ok").then("at").otherwise(MAX_INT64).alias("end"))


def outcome_counts(txns: pl.DataFrame) -> dict[str, int]:
    """The number of transactions, by outcome, and of those whose invocation is not known."""
    by_outcome = {str(name): number for name, number in txns.group_by("outcome").len().iter_rows()}
    return {"operations": len(txns), **by_outcome, UNPAIRED: int((txns["start"] < 0).sum())}


def owned_steps(steps: pl.DataFrame, txns: pl.DataFrame) -> pl.DataFrame:
    """OWNED: the known steps of transactions (of `pair_transactions`), each with its transaction."""
    return _known_steps(steps, txns).drop("outcome").join(txns, on="txn").select(list(OWNED))


def history_in(rows: pl.DataFrame, is_whole: bool) -> tuple[TxnHistory, pl.Series]:
    """The part of a history that has these OWNED steps, and the first appearance of each key, by its number.

    Its transactions and keys have other numbers than in the whole history, in the same order.
    """
    rows = rows.sort("place", "step")
    txns = rows.select(list(TXNS)[1:]).unique("at").sort("at").with_row_index("txn").cast({"txn": pl.Int64})
    known = rows.drop(*list(TXNS)[2:]).join(txns.select("txn", "at"), on="at", maintain_order="left")
    appearance = known.unique("key", keep="first", maintain_order=True)
    first = appearance.select(first=pl.col("place") * (1 << 17) + pl.col("step"))["first"]  # MAX_STEPS < 2^17
    return _number_transactions(txns, known, is_whole), first


def _known_steps(steps: pl.DataFrame, txns: pl.DataFrame) -> pl.DataFrame:
    owners = txns.select("txn", "outcome", place="of")
    is_known = (pl.col("f") == "w") | (pl.col("outcome") == "ok")
    return steps.join(owners, on="place", maintain_order="left").filter(is_known)


def _number_transactions(txns: pl.DataFrame, known: pl.DataFrame, is_whole: bool) -> TxnHistory:
    keys = known["key"].unique(maintain_order=True)
    numbered = known.join(pl.DataFrame({"key": keys}).with_row_index("number"), on="key", maintain_order="left")
    chosen = numbered.select("txn", "step", "f", pl.col("number").cast(pl.Int64).alias("key"), "value")
    return TxnHistory(txns.select(list(TXNS)), chosen.sort("txn", "step"), keys, is_whole)
