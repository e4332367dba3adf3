"""What an open transaction hides: consumers that read only committed records stop at its first record."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from ..replicas.replica_logs import stretches, with_aborted
from .observations import Observations


def hidden_from(p: Observations, processes: tuple[str, ...], end: int, until: int) -> int:
    """The first offset that an open transaction may have hidden from reads by these processes.

    The reads came to `end` (exclusive), the last of them at `until` (ns). Beyond all where nothing is hidden.
    """
    if not p.transactional or not (_stops(p, processes) or _asked_for_stable(p)):
        return MAX_INT64
    ended = pl.when(pl.col("outcome") == "info").then(MAX_INT64).otherwise(pl.col("completed").fill_null(MAX_INT64))
    columns = ("at", "offset")
    mine = pl.col("txn") & (ended >= until) & (pl.col("invoked") <= until)
    steps = pl.concat([frame.filter(mine).select(columns) for frame in (p.sends, p.unplaced)])
    # One of which the reads passed a record was not open.
    passed = steps.filter(pl.col("offset") < end)
    steps = steps.join(passed, on="at", how="anti")
    if not len(steps):
        return MAX_INT64
    known = steps["offset"].min()
    first = known if isinstance(known, int) else MAX_INT64
    return min(first, _first_gap(p, end)) if steps["offset"].null_count() else first


def describe_open_transaction(p: Observations, since: int) -> str:
    """The open transaction that hides records from an offset on, with what is known of it.

    The leader's log has its first offset and producer id, the history its process and transactional.id.
    """
    first, producer = _open_in_log(p)
    since = since if first is None else first
    sends = p.sends.filter(pl.col("txn") & (pl.col("outcome") != "ok") & (pl.col("offset") == since))
    if first is not None and p.replica_logs is not None:
        written = p.replica_logs.records.filter(pl.col("offset") == first)["value"].drop_nulls()
        sends = p.sends.filter(pl.col("txn") & pl.col("value").is_in(written.implode()))
    owners = sends["process"].unique()
    known = [str(owners[0])] if len(owners) == 1 else []
    named = p.settings.processes.get(known[0], {}).get("transactional.id") if known else None
    ids = [f"transactional.id {named}"] if named else []
    ids += [f"producer id {producer}"] if producer is not None else []
    whose = f" of {known[0]}" if known else ""
    about = f" ({', '.join(ids)})" if ids else ""
    where = f" whose first record is at {p.name}@{since}" if since < MAX_INT64 and (first is not None or known) else ""
    return f"an open transaction{whose}{about}{where}"


def _open_in_log(p: Observations) -> tuple[int | None, int | None]:
    """The first offset and the producer id of the first transaction that has no marker in the leader's last log."""
    logs = p.replica_logs
    if logs is None or logs.leader is None:
        return None, None
    held = with_aborted(stretches(logs, logs.last, logs.leader).sort("first_offset"))
    left = held.filter(pl.col("transactional") & pl.col("aborted").is_null() & pl.col("control").is_null())
    return (int(left["first_offset"][0]), left["producer_id"][0]) if left.height else (None, None)


def count_in_logs(p: Observations, sends: pl.DataFrame) -> int:
    """How many of the sends (value, offset) the leader's last log holds, committed or outside of transactions."""
    logs = p.replica_logs
    if logs is None or logs.leader is None:
        return 0
    here = (pl.col("snapshot") == logs.last) & (pl.col("broker") == logs.leader)
    held = with_aborted(logs.records.filter(here).sort("offset")).filter(~pl.col("aborted").fill_null(True))
    return sends.join(held, on=["value", "offset"], how="semi").height


def _stops(p: Observations, processes: tuple[str, ...]) -> bool:
    return any(p.isolation(name) != "read_uncommitted" for name in processes)


def _asked_for_stable(p: Observations) -> bool:
    """Whether the only end that the reads could be held to may be the last stable offset."""
    late = pl.col("invoked") >= p.last_heal
    return bool(len(p.end_offsets.filter(late)) and not len(p.log_ends.filter(late)))


def _first_gap(p: Observations, end: int) -> int:
    """The first offset from `end` on that no acknowledged record is known to hold, so that another may stand there."""
    held = p.sends.filter(pl.col("acknowledged") & (pl.col("offset") >= end))["offset"].unique().sort().to_numpy()
    dense = held == end + np.arange(len(held))
    return end + (len(held) if dense.all() else int(np.argmin(dense)))
