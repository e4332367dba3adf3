"""The pieces of each transaction in one partition. A transaction is torn if its pieces in several partitions differ.

Most pieces are as their client recorded them, and are only needed together with one that is not. So a partition
returns all columns (PIECES) only for the few that differ, and operation and state for the others (EXPECTED).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from ...histories.tables import Schema, typed
from ..partitions.partition import Partition, once
from ..replicas.replica_logs import ReplicaLogs
from ..replicas.resolved_outcomes import missing_leader_log

COMMITTED, ABORTED, ABSENT = "committed", "aborted", "absent"
MAX_PIECES = 1_000  # of a partition

STATES = pl.Enum([COMMITTED, ABORTED, ABSENT])
EXPECTED: Schema = {"at": pl.Int64, "state": STATES}
# One row for each transaction (`at` identifies its operation) and what became of some of its records in a partition.
PIECES: Schema = {
    "at": pl.Int64,
    "state": pl.String,
    "topic": pl.String,
    "partition": pl.Int32,
    "process": pl.String,
    "outcome": pl.String,  # of the operation, as the client recorded it
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,
    "records": pl.Int64,
    "value": pl.String,  # of the first
    "marker": pl.Int64,  # offset of the marker that decided it
    "broker": pl.String,
    "file": pl.String,
    "byte": pl.Int64,
    "explanation": pl.String,  # why it ended so, as JSON (Explanation.record); null: not explained, or expected
}


class Expected(NamedTuple):
    """The pieces of a partition that are as their clients recorded them (EXPECTED)."""

    topic: str
    partition: int
    states: pl.DataFrame


class Pieces(NamedTuple):
    """The pieces of a partition: those that differ from what their clients recorded (PIECES), and the others."""

    unexpected: pl.DataFrame
    expected: Expected
    needs_policy: bool = False  # whether cleanup.policy is not recorded, and records are absent that it may explain


NO_PIECES = Pieces(pl.DataFrame(schema=PIECES), Expected("", 0, pl.DataFrame(schema=EXPECTED)))


def expected_of_operations(unexpected: Iterable[pl.DataFrame], expected: Expected) -> pl.DataFrame:
    """The expected pieces of the operations of unexpected ones, with their topic and partition."""
    operations = pl.concat([pl.DataFrame(schema=PIECES), *unexpected])["at"].unique()
    return expected.states.filter(pl.col("at").is_in(operations.implode())).select(
        "at",
        pl.col("state").cast(pl.String),
        topic=pl.lit(expected.topic),
        partition=pl.lit(expected.partition, pl.Int32),
    )


def is_comparable(p: Partition) -> bool:
    """Whether the topic was not deleted during the run: pieces are found by the names of topics."""
    return p.generation is None or p.generation.is_alone


@once
def pieces_of(p: Partition) -> Pieces:
    """The pieces of a partition in the leader's last log; none without it, or if markers may be missing there."""
    logs = p.replica_logs
    if not p.has_transactions or not is_comparable(p) or logs is None:
        return NO_PIECES
    if missing_leader_log(logs) or logs.is_leader_damaged:
        return NO_PIECES
    records, is_absent = _with_states(p, logs), (pl.col("state") == ABSENT)
    needs_policy = logs.is_compacted is None and records.select(is_absent.any()).item()
    if logs.is_compacted is not False:
        records = records.filter(~is_absent)
    expected = {"ok": COMMITTED, "info": COMMITTED, "fail": ABORTED}
    is_expected = pl.col("state") == pl.col("outcome").replace_strict(expected, return_dtype=pl.String)
    pieces = records.group_by("at", "state", maintain_order=True).agg(
        pl.lit(p.topic).alias("topic"),
        pl.lit(p.partition, pl.Int32).alias("partition"),
        pl.col("process", "outcome", "value", "marker", "broker", "file", "byte").first(),
        first_offset=pl.coalesce("place", "offset").min(),
        last_offset=pl.coalesce("place", "offset").max(),
        records=pl.len(),
        is_expected=is_expected.first(),
        explanation=pl.lit(None, pl.String),
    )
    unexpected, others = pieces.filter(~pl.col("is_expected")), pieces.filter("is_expected")
    return Pieces(typed(unexpected, PIECES), Expected(p.topic, p.partition, typed(others, EXPECTED)), needs_policy)


def _with_states(p: Partition, logs: ReplicaLogs) -> pl.DataFrame:
    """The sends in transactions, with their record in the leader's last log (`place`) and the state that it shows."""
    is_named = pl.col("value").is_not_null() & ~pl.col("value").is_in(p.tombstones.implode())
    # A value that was sent twice, or is in the log twice, identifies no record.
    sent = p.possible_sends["value"]
    is_unique = ~pl.col("value").is_in(sent.filter(sent.is_duplicated()).implode())
    is_marker = pl.col("control").is_not_null()
    decided = pl.when(is_marker).then("offset").fill_null(strategy="backward").over("producer_id")
    found = logs.leader_records.with_columns(marker=decided).filter(~is_marker)
    found = found.select("value", "aborted", "marker", "broker", "file", "byte", place="offset")
    is_unique &= ~pl.col("value").is_in(found["value"].filter(found["value"].is_duplicated()).implode())
    sends = p.sends.filter(pl.col("txn") & is_named & is_unique)
    whole = logs.leader_start == 0
    joined = sends.join(found, on="value", how="left", maintain_order="left")
    # An acknowledged transaction is `ok` for its client; what brokers' files resolved is not.
    # A resolved failure has no time: the client recorded none.
    is_failed = (pl.col("outcome") == "fail") & pl.col("completed").is_not_null()
    known = pl.when("acknowledged").then(pl.lit("ok")).when(is_failed).then(pl.lit("fail")).otherwise(pl.lit("info"))
    aborted = pl.col("aborted").replace_strict({True: ABORTED, False: COMMITTED}, return_dtype=pl.String)
    absent = pl.lit(ABSENT if whole else None, pl.String)
    state = pl.when(pl.col("place").is_null()).then(absent).otherwise(aborted)
    joined = joined.with_columns(outcome=known, state=state).drop_nulls("state")
    # Only an acknowledged record is known to have been written.
    return joined.filter((pl.col("state") != ABSENT) | (pl.col("outcome") == "ok"))
