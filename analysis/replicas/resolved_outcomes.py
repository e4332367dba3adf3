"""What the brokers' evidence settles for the client's view: sends of unknown outcome, and legal gaps.

`settle` tells whether a send whose outcome the client never learned is in the log, before the client rules
run. `legal_absences` are the offsets that no reader can miss: below the log start, markers, aborted records,
and what compaction took.
"""

from __future__ import annotations

import polars as pl

from ...histories.evidence.tables import FINAL
from .replica_logs import ReplicaLogs, extents, stretches, with_aborted

RESOLVED = {"place": pl.Int64, "offset": pl.Int64, "stands": pl.Boolean}
BELOW_START, COMPACTED, ABORTED = "below the log start", "compacted", "of an aborted transaction"
ABSENCES = {"first_offset": pl.Int64, "last_offset": pl.Int64, "reason": pl.String}


def settle(logs: ReplicaLogs, unsettled: pl.DataFrame) -> pl.DataFrame:
    """Per send (columns value, place): where it stands in the leader's log at the end of the run.

    stands is true with its offset, where the record is in the log and not aborted; false where the log is
    whole and lacks it; null where damage, retention or compaction may hide it, or nobody knows the leader.
    """
    if not is_leader_collected(logs):
        return unsettled.select(
            "place", pl.lit(None, pl.Int64).alias("offset"), pl.lit(None, pl.Boolean).alias("stands")
        )
    here = (pl.col("snapshot") == logs.last) & (pl.col("broker") == logs.leader)
    start = extents(logs).filter(here)["start"][0]
    # What is not in an earlier snapshot may have been written since.
    whole = start == 0 and not logs.damage.filter(here).height and logs.compacted is False and logs.last == FINAL
    records = logs.records.filter(here).sort("offset")
    held = with_aborted(records).filter(pl.col("control").is_null())
    found = (
        held.filter(pl.col("value").is_not_null())
        .sort("offset")
        .group_by("value", maintain_order=True)
        .agg(pl.col("offset").first(), pl.col("aborted").first())
    )
    joined = unsettled.join(found.with_columns(found=pl.lit(True)), on="value", how="left", maintain_order="left")
    stands = (
        pl.when(pl.col("value").is_null())
        .then(None)
        .when(pl.col("found"))
        .then(~pl.col("aborted"))
        .otherwise(pl.lit(False if whole else None, pl.Boolean))
    )
    return joined.select("place", "offset", stands.alias("stands")).cast(RESOLVED)  # type: ignore[arg-type]


def legal_absences(logs: ReplicaLogs) -> pl.DataFrame:
    """Ranges of offsets of the leader's log that are nothing to miss, each with its reason."""
    if not is_leader_collected(logs):
        return pl.DataFrame(schema=ABSENCES)
    ordered = with_aborted(stretches(logs, logs.last, logs.leader).sort("first_offset"))
    bounds = extents(logs).filter((pl.col("snapshot") == logs.last) & (pl.col("broker") == logs.leader))
    start, cleaned = bounds["start"][0], bounds["cleaned"][0]
    reasons = [(pl.col("control").is_not_null(), "a control record")]
    reasons += [(pl.col("aborted") & pl.col("control").is_null(), ABORTED)]
    absent = [ordered.filter(which).select("first_offset", "last_offset", reason=pl.lit(why)) for which, why in reasons]
    if start:
        absent.append(pl.DataFrame([{"first_offset": 0, "last_offset": start - 1, "reason": BELOW_START}], ABSENCES))
    if logs.compacted is not False and cleaned is not None:
        gaps = ordered.select(
            (pl.col("last_offset").shift().fill_null((start or 0) - 1) + 1).alias("first_offset"),
            (pl.col("first_offset") - 1).alias("last_offset"),
        ).filter((pl.col("first_offset") <= pl.col("last_offset")) & (pl.col("last_offset") < cleaned))
        absent.append(gaps.with_columns(reason=pl.lit(COMPACTED)))
    return pl.concat(absent).sort("first_offset", "last_offset")


def is_leader_collected(logs: ReplicaLogs) -> bool:
    """Whether the last log of the leader was collected. Retention may have emptied it: one segment without a byte
    then says where it starts.
    """
    if logs.leader is None:
        return False
    here = (pl.col("snapshot") == logs.last) & (pl.col("broker") == logs.leader)
    return stretches(logs, logs.last, logs.leader).height > 0 or logs.segments.filter(here).height > 0
