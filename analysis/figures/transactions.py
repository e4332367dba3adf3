"""The transactions in a partition's log for the plots, in bounded size.

shown    [{name, first, last, marker, outcome, began, prepared, ended, runs}]: offsets, and times (ns) of the first
         batch, the decision and the marker; null where it has none, or where it is not recorded. The longest ones.
         prepared is began where the coordinator had decided before. runs: the offsets of its batches, [[first, last]];
         empty if there are more than MAX_RUNS. merge.py adds `findings`, the rules of findings about it
left_out how many others there are
ends     [[time, log end, last stable offset]]: after each append, without those between if there are many
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Any

import polars as pl

from ..partitions.coordinators import coordinated_transactions, transactions_in_log
from ..partitions.evidence import on_clock_of_history
from ..partitions.partition import Partition
from ..replicas.replica_logs import ReplicaLogs

MAX_TRANSACTIONS = 40
MAX_ENDS = 160
MAX_RUNS = 16

Record = dict[str, Any]


def transaction_figures(p: Partition) -> Record | None:
    """The record above; None: no dated transactions in a leader's log."""
    logs = p.replica_logs
    rows = transactions_in_log(p).filter(pl.col("first_offset").is_not_null())
    if logs is None or p.settings.config.get("started_at") is None or not rows.height:
        return None
    batches = _leader_batches(p, logs)
    dated = _with_batch_time(_with_batch_time(rows, batches, "first_offset", "began"), batches, "marker", "ended")
    dated = dated.filter(pl.col("began").is_not_null()).sort("first_offset")
    if not dated.height:
        return None
    found = [(row["producer_id"], _transaction_record(p, row)) for row in dated.iter_rows(named=True)]
    longest = sorted(found, key=lambda one: (one[1]["ended"] is not None, one[1]["began"] - (one[1]["ended"] or 0)))
    shown = [{**one, "runs": _runs(batches, producer, one)} for producer, one in longest[:MAX_TRANSACTIONS]]
    shown.sort(key=lambda one: (one["began"], one["first"]))
    return {"shown": shown, "left_out": len(found) - len(shown), "ends": _ends(batches, rows)}


def _transaction_record(p: Partition, row: Record) -> Record:
    """A transaction, with what its coordinator recorded of it: its last one that began before the marker."""
    known = coordinated_transactions(p).filter(producer_id=row["producer_id"])
    if row["ended"] is not None:
        known = known.filter(pl.col("began_ns") <= row["ended"])
    name, prepared = f"producer id {row['producer_id']}", None
    if known.height:
        last = known.row(-1, named=True)
        name = str(last["transactional_id"])[:48]
        prepared = last["prepared_ns"]
        if prepared is not None and prepared < row["began"]:
            prepared = row["began"] if row["ended"] is None else None
    return {
        "name": name,
        "first": row["first_offset"],
        "last": row["last_offset"],
        "marker": row["marker"],
        "outcome": row["outcome"],
        "began": row["began"],
        "prepared": prepared,
        "ended": row["ended"],
    }


def _leader_batches(p: Partition, logs: ReplicaLogs) -> pl.DataFrame:
    """Columns base_offset, last_offset, producer_id and time (ns), in order of offset; headers suffice."""
    time = on_clock_of_history(pl.col("max_timestamp"), p.settings)
    batches = logs.batches.filter(logs.is_of_leader & (pl.col("max_timestamp") >= 0)).sort("base_offset")
    return batches.select("base_offset", "last_offset", "producer_id", time=time)


def _runs(batches: pl.DataFrame, producer: int, one: Record) -> list[list[int]]:
    """The offsets of a transaction's batches, adjacent ones as one run; empty if there are more than MAX_RUNS."""
    is_its_own = (pl.col("producer_id") == producer) & pl.col("base_offset").is_between(one["first"], one["last"])
    runs: list[list[int]] = []
    for first, last in batches.filter(is_its_own).select("base_offset", "last_offset").iter_rows():
        if runs and first == runs[-1][1] + 1:
            runs[-1][1] = last
        else:
            runs.append([first, last])
    return runs if len(runs) <= MAX_RUNS else []


def _with_batch_time(rows: pl.DataFrame, batches: pl.DataFrame, offset: str, name: str) -> pl.DataFrame:
    """The rows with the time `name` of the batch that holds an offset of theirs."""
    of_batches = batches.select("base_offset", pl.col("time").alias(name))
    return rows.sort(offset).join_asof(of_batches, left_on=offset, right_on="base_offset").drop("base_offset")


def _ends(batches: pl.DataFrame, rows: pl.DataFrame) -> list[list[int]]:
    """Log end and last stable offset over time. No batch is dated before an earlier one."""
    markers = sorted(rows.drop_nulls("marker").select("marker", "first_offset").rows())
    starts = deque(rows["first_offset"].sort())
    ended: set[int] = set()
    ends: list[list[int]] = []
    passed = 0
    for offset, when in batches.select("last_offset", pl.col("time").cum_max()).iter_rows():
        now = bisect_right(markers, (offset, offset))
        ended.update(first for _, first in markers[passed:now])
        passed = now
        while starts and starts[0] in ended:
            starts.popleft()
        stable = min(offset + 1, starts[0]) if starts else offset + 1
        ends.append([when, offset + 1, stable])
    if len(ends) <= MAX_ENDS:
        return ends
    step = len(ends) / MAX_ENDS
    return [ends[int(number * step)] for number in range(MAX_ENDS - 1)] + [ends[-1]]
