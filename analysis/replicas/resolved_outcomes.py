"""Outcomes of sends and legal gaps, resolved by the leader's log before the client rules run.

`resolve_outcomes` returns whether sends of unknown outcome are in the log. `legal_absences` are the offsets that no
reader can miss: below the log start, markers, aborted records, and records removed by compaction.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ...histories.evidence.tables import FINAL
from .replica_logs import ReplicaLogs

RESOLVED = {
    "place": pl.Int64,
    "offset": pl.Int64,
    "is_in_log": pl.Boolean,
    "is_aborted": pl.Boolean,  # in the log and certainly never committed
}
BELOW_START, COMPACTED, ABORTED = "below the log start", "compacted", "of an aborted transaction"
ABSENCES = {"first_offset": pl.Int64, "last_offset": pl.Int64, "reason": pl.String}


def resolve_outcomes(logs: ReplicaLogs, open_sends: pl.DataFrame, confirmed: Sequence[int] = ()) -> pl.DataFrame:
    """One row of RESOLVED for each send (columns value, place): whether the leader's last log has it, and where.

    is_in_log is true, with the offset, if the log has the record and it is not aborted; false if it is aborted, or if
    the log is complete and lacks it. It is null if damage, retention or compaction may hide the record, if its
    transaction is open, if the send has no value, or if the leader or its log is unknown.

    An ABORT marker proves that the transaction was never committed only if the same leader wrote it in the same epoch:
    then no COMMIT marker between was lost. `confirmed` are producer ids with other proof of their outcomes. In a log
    with damage any marker may be missing.
    """
    if not is_leader_collected(logs):
        return open_sends.select(
            "place", offset=pl.lit(None, pl.Int64), is_in_log=pl.lit(None, pl.Boolean), is_aborted=pl.lit(False)
        )
    # A record that an earlier snapshot lacks may have been written later.
    is_damaged = logs.is_leader_damaged
    whole = logs.leader_start == 0 and not is_damaged and logs.is_compacted is False and logs.last == FINAL
    ended_in = pl.when(pl.col("control").is_not_null()).then("leader_epoch").fill_null(strategy="backward")
    is_proved = (ended_in.over("producer_id") == pl.col("leader_epoch")) | pl.col("producer_id").is_in(list(confirmed))
    held = logs.leader_records.with_columns(is_proved=is_proved).filter(pl.col("control").is_null())
    by_value = held.drop_nulls("value").group_by("value", maintain_order=True)
    found = by_value.agg(pl.col("offset", "aborted", "is_proved", "transactional").first())
    joined = open_sends.join(found.with_columns(found=pl.lit(True)), on="value", how="left", maintain_order="left")
    is_in_log = (
        pl.when(pl.col("value").is_null())
        .then(None)
        .when(pl.col("transactional") & is_damaged)
        .then(None)
        .when(pl.col("found"))
        .then(~pl.col("aborted"))
        .otherwise(pl.lit(False if whole else None, pl.Boolean))
    )
    is_aborted = (pl.col("found") & pl.col("aborted") & pl.col("is_proved")).fill_null(False) & (not is_damaged)
    return joined.select("place", "offset", is_in_log=is_in_log, is_aborted=is_aborted).cast(RESOLVED)  # type: ignore[arg-type]


def legal_absences(logs: ReplicaLogs) -> pl.DataFrame:
    """Ranges of offsets that the leader's log may lack, each with its reason (ABSENCES), in order of offset."""
    if not is_leader_collected(logs):
        return pl.DataFrame(schema=ABSENCES)
    ordered = logs.leader_stretches
    bounds = logs.extents.filter(logs.is_of_leader)
    start, cleaned, deleted_below = (bounds[name][0] for name in ("start", "cleaned", "deleted_below"))
    is_marker = pl.col("control").is_not_null()
    reasons = [(is_marker, "a control record"), (pl.col("aborted") & ~is_marker, ABORTED)]
    absent = [ordered.filter(which).select("first_offset", "last_offset", reason=pl.lit(why)) for which, why in reasons]
    if deleted_below:
        below = {"first_offset": 0, "last_offset": deleted_below - 1, "reason": BELOW_START}
        absent.append(pl.DataFrame([below], ABSENCES))
    if logs.is_compacted is not False and cleaned is not None:
        gaps = ordered.select(
            first_offset=pl.col("last_offset").shift().fill_null((start or 0) - 1) + 1,
            last_offset=pl.col("first_offset") - 1,
        ).filter((pl.col("first_offset") <= pl.col("last_offset")) & (pl.col("last_offset") < cleaned))
        absent.append(gaps.with_columns(reason=pl.lit(COMPACTED)))
    return pl.concat(absent).sort("first_offset", "last_offset")


def is_leader_collected(logs: ReplicaLogs) -> bool:
    """Whether the last log of the leader was collected.

    Retention may have emptied it; then one segment without a byte shows its start.
    """
    if logs.leader is None or logs.leader in logs.missing_brokers:
        return False
    return logs.leader_stretches.height > 0 or logs.segments.filter(logs.is_of_leader).height > 0


def missing_leader_log(logs: ReplicaLogs) -> str:
    """A clause that names what is missing to have the leader's log at the end of the run; empty if it was collected."""
    if logs.last != FINAL:
        return f"no log of {logs.name} was collected at the end of the run"
    if logs.leader is None:
        return f"the last leader of {logs.name} is not known"
    if is_leader_collected(logs):
        return ""
    return f"the log of broker {logs.leader}, the last leader of {logs.name}, {why_not_collected(logs)}"


def why_not_collected(logs: ReplicaLogs) -> str:
    """Why the leader's last log is missing, as a clause about it; that it `was not collected` if nothing shows more."""
    return next((one.reason for one in logs.missing_of_leader if one.is_whole), "was not collected")
