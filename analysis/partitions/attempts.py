"""Distinguishes the attempts to send one value, so that each has a value of its own in the rules.

A client that retries sends a value again: after its transaction aborted, after a send failed, or after a timeout. The
value then identifies several records. Their offsets, from the history or the leader's log, distinguish them.
The acknowledged attempt keeps the value. Each other attempt gets a name, `order-1#attempt-1`, in the sends,
the reads and the logs.

Attempts cannot be distinguished, and keep the value, if

- two of them were acknowledged, or have the same offset;
- the value was read, or is in a log, at an offset of no attempt, and an attempt that was not acknowledged has no known
  offset: the record may be of either;
- the acknowledged attempt has no known offset, and the value was read, or is in a log, at the offset of another one;
- an attempt without an offset may have been read at the offset of another one, before that was sent;
- a read of the value has no offset, or a client sent or read the name itself.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from ..replicas.replica_logs import ReplicaLogs
from ..replicas.resolved_outcomes import is_leader_collected

ATTEMPT = "#attempt-"  # between a value and the number of an attempt to send it
_PLACE = ["value", "offset"]


Named = tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, ReplicaLogs | None]  # sends, reads, marks and logs


def name_attempts(
    sends: pl.DataFrame, reads: pl.DataFrame, marks: pl.DataFrame, logs: ReplicaLogs | None, unplaced: pl.DataFrame
) -> Named:
    """The tables with names for attempts that are distinguished. `unplaced`: sends to the topic without a partition."""
    unchanged = (sends, reads, marks, logs)
    if not sends["value"].is_duplicated().any():
        return unchanged
    attempts = _attempts(sends, unplaced)
    if not len(attempts):
        return unchanged
    attempts = _distinct(_with_offsets_in_log(attempts, logs))
    remaining = attempts.filter("keeps").select("value", remaining_offset="offset")
    attempts = attempts.join(remaining, on="value", maintain_order="left")
    ambiguous = _maybe_of_several(attempts, _places(attempts, reads, logs))
    names = attempts.filter(~pl.col("keeps"), pl.col("row").is_not_null()).join(ambiguous, on="value", how="anti")
    names = names.with_columns(name=pl.format(f"{{}}{ATTEMPT}{{}}", "value", "number"))
    taken = [frame.filter(pl.col("value").is_in(names["name"].implode()))["value"] for frame in (sends, reads)]
    names = names.join(names.filter(pl.col("name").is_in(pl.concat(taken).implode())), on="value", how="anti")
    if not len(names):
        return unchanged
    known = names.select("row", "name", known="offset")
    joined = sends.with_row_index("row").join(known, on="row", how="left", maintain_order="left")
    named = joined.with_columns(value=pl.coalesce("name", "value"), offset=pl.coalesce("offset", "known"))
    if logs is not None:
        logs = replace(logs, records=_with_names(logs.records, names))
    return named.select(sends.columns), _with_names(reads, names), _with_names(marks, names), logs


def _attempts(sends: pl.DataFrame, unplaced: pl.DataFrame) -> pl.DataFrame:
    """The sends of values that were sent at least twice here and not always successfully, in the order of invocation.

    Columns: row (in `sends`; null: of an unplaced send), value, offset, invoked, is_ok, txn, number (from 1) and keeps:
    whether the attempt keeps the value. That is the successful one, or else the last one.
    """
    columns = ("value", "offset", "invoked", "invoked_at", "index", "txn")
    is_ok = (pl.col("outcome") == "ok").alias("is_ok")
    values = sends.filter(~is_ok)["value"].drop_nulls().unique()
    placed = sends.with_row_index("row").select("row", *columns, is_ok)
    placed = placed.filter(pl.col("value").is_in(values.implode())).filter(pl.len().over("value") > 1)
    others = unplaced.select(pl.lit(None, pl.UInt32).alias("row"), *columns, is_ok)
    attempts = pl.concat([placed, others.filter(pl.col("value").is_in(placed["value"].unique().implode()))])
    attempts = attempts.sort("invoked", "invoked_at", "index", maintain_order=True)
    number = pl.col("value").cum_count().over("value")
    last = number.filter(pl.col("row").is_not_null()).max().over("value")
    keeps = pl.when(pl.col("is_ok").any().over("value")).then("is_ok").otherwise(number == last)
    return attempts.select("row", "value", "offset", "invoked", "is_ok", "txn", number=number, keeps=keeps)


def _with_offsets_in_log(attempts: pl.DataFrame, logs: ReplicaLogs | None) -> pl.DataFrame:
    """The attempts, with offsets that only the leader's last log shows.

    If it has an aborted record at another offset for each transaction without one, these are theirs: the attempt that
    keeps the value has an offset. If only that one has no offset, a single record at another offset is its own.

    For example, a was sent in two transactions that failed, and again with an acknowledgement at offset 9. The log has
    a at offsets 2 and 5, aborted, and at 9: the first attempt is at offset 2, the second at 5.
    """
    if logs is None or not is_leader_collected(logs) or logs.is_leader_damaged:
        return attempts
    is_attempt = pl.col("value").is_in(attempts["value"].unique().implode())
    held = logs.leader_records.filter(is_attempt, pl.col("control").is_null()).select(*_PLACE, "aborted")
    stray = held.join(attempts, on=_PLACE, how="anti", maintain_order="left")
    lacks_offset, keeps = pl.col("offset").is_null(), pl.col("keeps")
    is_transaction = lacks_offset & ~keeps & pl.col("txn") & pl.col("row").is_not_null()
    attempts = _with_offsets_of(attempts, is_transaction, stray.filter("aborted"))
    return _with_offsets_of(attempts, lacks_offset & keeps, stray)


def _with_offsets_of(attempts: pl.DataFrame, is_owner: pl.Expr, records: pl.DataFrame) -> pl.DataFrame:
    """The attempts, where the owners (all attempts of their values without an offset) have the offsets of the records,
    in order, if a value has as many owners as records.
    """
    owners = attempts.filter((pl.col("offset").is_not_null() | is_owner).all().over("value") & is_owner)
    numbered = {"rank": pl.col("value").cum_count().over("value"), "count": pl.len().over("value")}
    placed = records.with_columns(**numbered).select("value", "rank", "count", in_log="offset")
    found = owners.with_columns(**numbered).join(placed, on=["value", "rank", "count"])
    joined = attempts.join(
        found.select("value", "number", "in_log"), on=["value", "number"], how="left", maintain_order="left"
    )
    return joined.with_columns(offset=pl.coalesce("offset", "in_log")).drop("in_log")


def _distinct(attempts: pl.DataFrame) -> pl.DataFrame:
    """The attempts without those of values with two successful ones, or with two at one offset."""
    several = pl.col("is_ok").sum().over("value") > 1
    at_same = pl.col("offset").is_not_null() & pl.struct(_PLACE).is_duplicated()
    return attempts.join(attempts.filter(several | at_same), on="value", how="anti", maintain_order="left")


def _places(attempts: pl.DataFrame, reads: pl.DataFrame, logs: ReplicaLogs | None) -> pl.DataFrame:
    """Where the values were read (completed: ns), and where they are in a log."""
    is_attempt = pl.col("value").is_in(attempts["value"].unique().implode())
    places = [reads.filter(is_attempt).select(*_PLACE, "completed")]
    if logs is not None:
        held = logs.records.filter(is_attempt, pl.col("control").is_null())
        places.append(held.select(*_PLACE, completed=pl.lit(None, pl.Int64)))
    return pl.concat(places)


def _maybe_of_several(attempts: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """The values with a place that may be of several attempts, as the module's docstring lists them."""
    values = attempts.group_by("value").agg(
        is_remaining_placed=pl.col("remaining_offset").first().is_not_null(),
        lacks_offset=(pl.col("offset").is_null() & ~pl.col("keeps")).any(),
    )
    at_offset = attempts.select(*_PLACE, "keeps", "invoked").drop_nulls("offset")
    found = places.join(at_offset, on=_PLACE, how="left").join(values, on="value")
    is_early = (pl.col("completed") < pl.col("invoked")).fill_null(False)
    is_of_other = pl.col("keeps").eq(False).fill_null(False)
    doubtful = (
        pl.col("offset").is_null()
        | (pl.col("lacks_offset") & (pl.col("keeps").is_null() | is_early))
        | (is_of_other & ~pl.col("is_remaining_placed"))
    )
    return found.filter(doubtful).select("value")


def _with_names(rows: pl.DataFrame, names: pl.DataFrame) -> pl.DataFrame:
    """The rows with the names of attempts as values, at the offsets of these attempts."""
    known = names.drop_nulls("offset").select(*_PLACE, "name")
    named = rows.join(known, on=_PLACE, how="left", maintain_order="left")
    return named.with_columns(value=pl.coalesce("name", "value")).select(rows.columns)
