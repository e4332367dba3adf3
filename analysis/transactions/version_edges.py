"""Dependencies between transactions that follow from the order of the versions of each key.

- **wr**: a transaction read a version that another one wrote.
- **ww**: a transaction wrote the version after that of another one.
- **rw**: a transaction read a version, and another one wrote the version after it.

Source: Adya, Liskov and O'Neil, "Generalized Isolation Level Definitions" (direct dependencies); elle/txn.clj.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from ...histories.tables import Schema, typed
from .dependencies import DEPENDENCIES, KINDS
from .txn_history import TxnHistory
from .windows import dependencies_within, windows_of

INITIAL = ""  # the version of every key before its first write
MAX_PAIRS = 2_000_000  # of readers of a version and writers of versions that may follow it
# What shows that a version precedes another: a list that was read has both, or only the first of them; the initial
# version comes first; or an assumption on registers. Null: the order was guessed.
BASES = pl.Enum(["both read", "first read", "initial", "wfr", "sequential", "linearizable"])
BASIS: Schema = {
    "basis": BASES,
    "one": pl.Int64,  # the transaction that shows it, if there is one
    "other": pl.Int64,  # and another one that used the later version after it
}


class Versions(NamedTuple):
    """The known versions of keys."""

    order: pl.DataFrame  # key, before, after: version `before` precedes version `after`; BASIS
    writers: pl.DataFrame  # key, value, txn: the only writer of a version, not aborted
    reads: pl.DataFrame  # key, value, txn: the versions that committed transactions read


def edges_of(versions: Versions) -> tuple[pl.DataFrame, int]:
    """The edges, each pair of transactions once for each kind, and the number of keys that have too many.

    Columns: kind; source and target (transactions); key; before, the version that the source wrote (ww, wr) or read
    (rw); after, the version that the target wrote (ww, rw); BASIS of the order of these two.
    """
    order, writers, reads = versions
    writes = writers.rename({"value": "after", "txn": "target"})
    after = order.join(writes, on=["key", "after"])
    source = writers.rename({"value": "before", "txn": "source"})
    ww = after.join(source, on=["key", "before"])
    wr = reads.rename({"value": "before", "txn": "target"}).join(source, on=["key", "before"])
    readers = reads.unique(["key", "value", "txn"]).rename({"value": "before", "txn": "source"})
    pairs = after.group_by("key", "before").len("n").join(readers.group_by("key", "before").len("m"), ["key", "before"])
    large = pairs.filter(pl.col("n").cast(pl.Int64) * pl.col("m") > MAX_PAIRS)
    if len(large):
        after = after.join(large, on=["key", "before"], how="anti")
    rw = after.join(readers, on=["key", "before"])
    needed: Schema = {"after": pl.String, **BASIS}
    found = [
        frame.select(
            pl.lit(kind).cast(KINDS).alias("kind"),
            *("source", "target", "key", "before"),
            *(pl.lit(None, of_type).alias(name) for name, of_type in needed.items() if kind == "wr"),
            *(name for name in needed if kind != "wr"),
        )
        .filter(pl.col("source") != pl.col("target"))
        .sort("source", "target", "key", "before", "after")
        .unique(["source", "target"], keep="first", maintain_order=True)
        for kind, frame in (("ww", ww), ("wr", wr), ("rw", rw))
    ]
    return pl.concat(found), large["key"].n_unique()


def dependencies_of(edges: pl.DataFrame, history: TxnHistory) -> pl.DataFrame:
    """The DEPENDENCIES of `edges_of` that may be part of a cycle: those within the same window of time."""
    times = edges.select(_about(history, edges, ("source", "target"), ("start", "end"))).with_row_index("row")
    inside = dependencies_within(times, windows_of(times)).select("row", "window")
    return with_operations(edges[inside["row"]], history).with_columns(inside["window"])


def with_operations(edges: pl.DataFrame, history: TxnHistory) -> pl.DataFrame:
    """The DEPENDENCIES of `edges_of`, in their order. Also `basis`, and of the transactions that show it the place and
    the process (one_at, one_process, other_at, other_process)."""
    wide = edges.select(
        history.keys.gather(edges["key"]).alias("topic"),
        pl.lit(0, pl.Int32).alias("partition"),
        "kind",
        *_about(history, edges, ("source", "target"), ("at", "start", "end", "process")),
        *(pl.lit(None, pl.Int64).alias(f"{end}_offset") for end in ("source", "target")),
        pl.col("before").alias("source_value"),
        pl.col("after").alias("target_value"),
    )
    shown_by = _about(history, edges, ("one", "other"), ("at", "process"))
    return typed(wide, DEPENDENCIES).with_columns(edges["basis"], *shown_by)


def _about(history: TxnHistory, edges: pl.DataFrame, txns: Sequence[str], names: Sequence[str]) -> list[pl.Series]:
    """The columns `names` (of TXNS) of the transactions in some columns of the edges, such as source_start."""
    return [history.txns[name].gather(edges[txn]).alias(f"{txn}_{name}") for txn in txns for name in names]
