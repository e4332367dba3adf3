"""Records hidden by an open transaction: read_committed consumers stop at its first record."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.tables import MAX_INT64
from ..extremes import least
from .observations import Observations
from .ranges import ranges_in


def hidden_from(p: Observations, processes: tuple[str, ...], end: int, until: int) -> int:
    """The first offset that an open transaction may have hidden from reads by these processes.

    The reads reached offset `end` (exclusive); the last one was at `until` (ns). MAX_INT64: nothing is hidden.
    """
    is_uncommitted = all(p.settings.isolation(name) == "read_uncommitted" for name in processes)
    if not p.has_transactions or (is_uncommitted and not _may_end_at_last_stable_offset(p)):
        return MAX_INT64
    # Brokers' files resolve outcomes that no client knew (ok but not acknowledged), at an unknown time.
    is_known = (pl.col("outcome") == "fail") | pl.col("acknowledged")
    ended = pl.when(is_known).then(pl.col("completed").fill_null(MAX_INT64)).otherwise(MAX_INT64)
    is_open = pl.col("txn") & (ended >= until) & (pl.col("invoked") <= until)
    steps = p.possible_sends.filter(is_open).select("at", "offset")
    # A transaction was not open if the reads passed one of its records.
    steps = steps.join(steps.filter(pl.col("offset") < end), on="at", how="anti")
    if not len(steps):
        return MAX_INT64
    first = least(steps["offset"], MAX_INT64)
    return min(first, _first_unacknowledged_offset(p, end)) if steps["offset"].null_count() else first


def describe_open_transaction(p: Observations, since: int) -> str:
    """Describes the open transaction that hides records from an offset on.

    Its first offset and producer id are from the leader's log, its process and transactional.id from the history.
    """
    first, producer = _first_open_transaction_in_log(p)
    since = since if first is None else first
    sends = p.sends.filter(pl.col("txn"), pl.col("outcome") != "ok", offset=since)
    if first is not None and p.replica_logs is not None:
        written = p.replica_logs.records.filter(offset=first)["value"].drop_nulls()
        sends = p.sends.filter(pl.col("txn") & pl.col("value").is_in(written.implode()))
    owners = sends["process"].unique()
    process = str(owners[0]) if len(owners) == 1 else None
    transactional_id = p.settings.setting_of(process, "transactional.id")
    ids = [f"transactional.id {transactional_id}"] if transactional_id else []
    ids += [f"producer id {producer}"] if producer is not None else []
    by = f" of {process}" if process else ""
    id_text = f" ({', '.join(ids)})" if ids else ""
    is_placed = since < MAX_INT64 and (first is not None or process is not None)
    where = f" with its first record at {p.name}@{since}" if is_placed else ""
    return f"an open transaction{by}{id_text}{where}"


def _first_open_transaction_in_log(p: Observations) -> tuple[int | None, int | None]:
    """The first offset and the producer id of the first transaction that has no marker in the leader's last log."""
    logs = p.replica_logs
    if logs is None or logs.leader is None:
        return None, None
    is_open = pl.col("transactional") & pl.col("aborted").is_null() & pl.col("control").is_null()
    left = logs.leader_stretches.filter(is_open)
    return (int(left["first_offset"][0]), left["producer_id"][0]) if left.height else (None, None)


def is_in_leaders_log(p: Observations, sends: pl.DataFrame) -> pl.Series:
    """Whether sends (value, offset) are in the leader's log at the end, committed or outside of transactions."""
    held = values_in_leaders_log(p, sends["value"]).select("value", "offset", held=pl.lit(True)).unique()
    found = sends.join(held, on=["value", "offset"], how="left", maintain_order="left")["held"].fill_null(False)
    logs = p.replica_logs
    if logs is None or logs.leader is None or logs.last != FINAL:
        return found
    # Ranges that are the same in all replicas are not decoded.
    identical = ranges_in(logs.identical.filter(logs.is_of_leader))
    return found | pl.Series(identical.hold(sends["offset"].fill_null(-1).to_numpy()))


def values_in_leaders_log(p: Observations, values: pl.Series) -> pl.DataFrame:
    """The records with these values in the leader's log at the end, committed or outside of transactions."""
    logs = p.replica_logs
    if logs is None or logs.leader is None or logs.last != FINAL or not len(values):
        return pl.DataFrame(schema={"value": pl.String, "offset": pl.Int64})
    return logs.leader_records.filter(~pl.col("aborted").fill_null(True) & pl.col("value").is_in(values.implode()))


def _may_end_at_last_stable_offset(p: Observations) -> bool:
    """Whether all end offsets requested after the last heal may be last stable offsets, not high watermarks."""
    late = pl.col("invoked") >= p.last_heal
    return bool(len(p.end_offsets.filter(late)) and not len(p.log_ends.filter(late)))


def _first_unacknowledged_offset(p: Observations, end: int) -> int:
    """The first offset from `end` on without an acknowledged record: a record of a transaction may be there."""
    held = p.sends.filter(pl.col("acknowledged") & (pl.col("offset") >= end))["offset"].unique().sort().to_numpy()
    dense = held == end + np.arange(len(held))
    return end + (len(held) if dense.all() else int(np.argmin(dense)))
