"""producer-epoch-order: the epochs of a producer never go back along a log."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.tables import Evidence
from ..references import kip
from ..replicas.replica_logs import ReplicaLogs, runs
from ..wording import brokers, span
from .findings import Row, finding
from .judgement import Result
from .rule import NO_BROKER_FILES, Rule

EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms, unless configured


@Rule(
    "producer-epoch-order",
    group="transactions",
    summary="Producer epochs go back in a log",
    breach=(
        "A batch of records or a transaction marker has a lower producer epoch than an earlier one of the same "
        "producer id in the log. A leader refuses such batches: their producer is fenced (a zombie), and a marker of a "
        "fenced transaction would end another one."
    ),
    not_a_breach=(
        "An epoch that a day separates from the greater one: brokers forget a producer after producer.id.expiration.ms."
    ),
    in_jepsen=NO_BROKER_FILES,
    source=kip(98),
    needs=("batches",),
).judged_by_logs
def producer_epoch_order(logs: ReplicaLogs, _sends: pl.DataFrame) -> Iterator[Result]:
    """One finding for each run of such batches, whatever the replicas and snapshots that have it."""
    is_known = pl.col("crc_ok").fill_null(True) & pl.col("producer_id").is_not_null()
    rows = lower_epochs(logs.batches.filter(is_known & pl.col("producer_epoch").is_not_null()))
    held = rows.group_by("base_offset", "producer_id", "producer_epoch").agg(holders=pl.col("broker").unique().sort())
    once = rows.unique(["base_offset", "producer_id", "producer_epoch"], keep="first", maintain_order=True)
    found = once.join(held, on=["base_offset", "producer_id", "producer_epoch"], maintain_order="left")
    numbered = found.with_row_index("number").cast({"number": pl.Int64})
    for run in runs(numbered, "number", "producer_id", "highest_at", "holders"):
        yield _finding(logs, run.row(0, named=True), run)


def lower_epochs(batches: pl.DataFrame) -> pl.DataFrame:
    """The batches with an epoch below the `highest` before it of their producer, in order of offset.

    Added are its offset `highest_at`, `highest_file` and `highest_byte`.
    """
    copy = ["snapshot", "broker", "producer_id"]
    before = pl.col("producer_epoch").cum_max().shift().over(copy)
    ordered = batches.sort("snapshot", "broker", "base_offset", "byte").with_columns(highest=before)
    is_highest = pl.col("producer_epoch") >= pl.col("highest").fill_null(-1)

    def of_highest(column: str) -> pl.Expr:
        known = pl.when(is_highest).then(column)
        return known.fill_null(strategy="forward").shift().over(copy)

    lower = ordered.with_columns(
        highest_at=of_highest("base_offset"),
        highest_time=of_highest("max_timestamp"),
        highest_file=of_highest("file"),
        highest_byte=of_highest("byte"),
    ).filter(pl.col("producer_epoch") < pl.col("highest"))
    is_forgotten = (pl.col("max_timestamp") - pl.col("highest_time") >= EXPIRATION_MS).fill_null(False)
    return lower.filter(~is_forgotten).sort("base_offset", "snapshot", "broker")


def _finding(logs: ReplicaLogs, row: Row, run: pl.DataFrame) -> Result:
    first, last = row["base_offset"], run["last_offset"].to_list()[-1]
    what = "a transaction marker" if row["control"] else "records"
    epochs = f"{what} of producer {row['producer_id']} with epoch {row['producer_epoch']} at {span(first, last)}"
    earlier = f"epoch {row['highest']} at offset {row['highest_at']}"
    evidence = [
        Evidence(earlier, source=row["highest_file"], byte=row["highest_byte"]),
        Evidence(f"epoch {row['producer_epoch']} at offset {first}", source=row["file"], byte=row["byte"]),
    ]
    return finding(
        logs,
        f"{epochs} of {logs.name} follow its {earlier} in the log of {brokers(row['holders'])}",
        (first, last),
        evidence,
        count=int(run["count"].fill_null(1).sum()),
        brokers=row["holders"],
    )
