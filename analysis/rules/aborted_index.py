"""aborted-index: a broker's index of aborted transactions has all that its log aborts."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.tables import Evidence, Finding
from ..partitions.partition import Partition
from ..partitions.transaction_evidence import log_transactions
from ..references import kip
from ..replicas.replica_logs import ReplicaLogs, is_of_copy
from ..wording import span
from .findings import Row, finding
from .judgement import Result
from .rule import NO_BROKER_FILES, Rule


@Rule(
    "aborted-index",
    group="transactions",
    summary="A broker's index of aborted transactions lacks one of its log",
    breach=(
        "The .txnindex of a segment lacks a transaction that has its ABORT marker in the segment, although it has a "
        "later one. A broker lists aborted transactions to read_committed consumers from this index, so they get "
        "records that were never committed."
    ),
    not_a_breach=(
        "An index that ends before the transaction, or that has nothing: it may have been copied before the segment, "
        "or not at all. A marker without records needs no entry."
    ),
    in_jepsen=NO_BROKER_FILES,
    source=kip(98),
    needs=("transactional batches",),
).judged_by
def aborted_index(p: Partition) -> Iterator[Result]:
    """One finding for each transaction that an index lacks."""
    logs = p.replica_logs
    if logs is None:
        return
    for (snapshot, broker), index in p.aborted.group_by("snapshot", "broker", maintain_order=True):
        here = is_of_copy(str(snapshot), str(broker))
        for row in missing(log_transactions(logs, here), index).iter_rows(named=True):
            yield _missing(p, logs, str(snapshot), str(broker), row)


def missing(in_log: pl.DataFrame, index: pl.DataFrame) -> pl.DataFrame:
    """The aborted transactions (IN_LOG) that one broker's indexes (ABORTED) lack, though a later one is there."""
    segment = pl.col("file").str.replace(r"\.txnindex$", ".log")
    entries = index.select("producer_id", "last_offset", marker_file=segment)
    ends = entries.group_by("marker_file").agg(end=pl.col("last_offset").max())
    aborted = in_log.filter(pl.col("first_offset").is_not_null(), outcome="abort")
    return (
        aborted.join(ends, on="marker_file", maintain_order="left")
        .filter(pl.col("marker") < pl.col("end"))
        .join(entries, left_on=["producer_id", "marker"], right_on=["producer_id", "last_offset"], how="anti")
        .sort("marker")
    )


def _missing(p: Partition, logs: ReplicaLogs, snapshot: str, broker: str, row: Row) -> Finding:
    records = span(row["first_offset"], row["last_offset"])
    index = row["marker_file"].replace(".log", ".txnindex")
    lacks = f"lacks that of producer {row['producer_id']} with {records}"
    return finding(
        p,
        f"broker {broker}'s index of aborted transactions of {logs.name} {lacks}, whose ABORT marker is at offset"
        f" {row['marker']}: read_committed consumers get its records",
        (row["first_offset"], row["last_offset"]),
        [
            Evidence(f"the ABORT marker at offset {row['marker']}", source=row["marker_file"], byte=row["marker_byte"]),
            Evidence("the index without it", source=index),
        ],
        count=row["records"],
        brokers=[broker],
        snapshot=snapshot,
    )
