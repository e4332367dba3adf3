"""acknowledged-absent: an acknowledged record that stands in no replica, or not in the leader's log.

Judged on the latest evidence. Absent for a legal reason is no breach: below the log start, or removed by
compaction (a newer record with the same key; where the history does not tell keys, an offset that the
cleaner has been over). A record that a damaged range may hold, or the log of a broker that is not at hand,
is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.tables import Evidence, Finding
from ..partitions.adjacent_runs import adjacent_runs, beside
from ..partitions.partition import Partition
from ..partitions.rewrites import events, generations
from ..replicas.replica_logs import Judgement, ReplicaLogs, extents, stretches, where
from ..wording import brokers, span
from .evidence import judge_logs
from .rule import Rule


@Rule(
    "acknowledged-absent",
    summary="An acknowledged record is missing from all replicas, or from the leader",
    breach="An acknowledged record is on no replica in the last snapshot, or not in the leader's log.",
    not_a_breach="The log start, compaction, or an aborted transaction explains it.",
    unknown_when=(
        "The log is damaged there. The last leader is not known and not all logs were collected. The logs "
        "were copied at an unknown time, or before the run ended."
    ),
    in_jepsen="Not judged: they carry no brokers' files.",
    needs=("batches", "acknowledged"),
    assumes=("partitions", "replicas"),
    follows="value",
    of_records=True,
).judged_by
def acknowledged_absent(p: Partition) -> Iterator[Finding]:
    return judge_logs(p, "acknowledged-absent", judge_absence)


def judge_absence(logs: ReplicaLogs, sends: pl.DataFrame) -> Judgement:
    """One finding a run of neighbouring acknowledged records that are absent in the same way."""
    out = Judgement()
    name = logs.name
    acked = generations(sends.filter(pl.col("acknowledged")), "place")
    records = logs.records.filter(pl.col("snapshot") == logs.last)
    if not acked.height:
        return out
    bounds = extents(logs).filter(pl.col("snapshot") == logs.last)
    if not bounds.height:
        out.unknown.append(f"acknowledged-absent: no broker's log of {name} is at hand")
        return out
    if not logs.last_is_dated:
        out.unknown.append(f"acknowledged-absent: when the logs of {name} {where(logs.last)} were copied is not known")
        return out
    at = logs.times.get(logs.last)
    if at is not None:
        # An evidence of an earlier time says nothing of what was acknowledged after it.
        acked = acked.filter(pl.col("completed") < at)
    if not logs.at_rest:
        # Logs that were copied while brokers wrote say nothing of what came after their end.
        acked = acked.filter(pl.col("offset") < bounds["end"].max())
    held = records.select("offset", "value", "broker", "control").filter(pl.col("control").is_null())
    anywhere = _without(acked, held)
    leads = logs.leader if logs.leader in set(bounds["broker"]) else None
    in_leader = _without(acked, held.filter(pl.col("broker") == leads)) if leads else anywhere.clear()
    absent = (
        pl.concat([anywhere, in_leader.join(anywhere, on="place", how="anti")])
        .with_columns(pl.col("place").is_in(anywhere["place"].implode()).alias("everywhere"))
        .sort("offset", "place", nulls_last=True)
    )
    if not absent.height:
        return out
    absent = absent.join(_legal(logs, bounds, records, absent, sends, leads), on="place", how="anti")
    absent = _without_stale(out, logs, bounds, absent, leads)
    unsure = _unsure(logs, bounds, absent, leads)
    if unsure.height:
        _report_unsure(out, logs, unsure, leads, bounds)
    absent = absent.join(unsure, on="place", how="anti")
    # Those without an offset are all neighbours.
    nameless = absent.filter(pl.col("offset").is_null())
    absent = absent.filter(pl.col("offset").is_not_null())
    for group in nameless.partition_by("everywhere", maintain_order=True):
        out.findings.append(_finding(logs, group, records, leads))
    present = acked.join(absent, on="place", how="anti").drop_nulls("offset")
    present = present.select("offset", pl.col("invoked").alias("since"))
    for event in events(absent, "place"):
        between = beside(present, event.select("offset", pl.col("completed").alias("until")))
        for run in adjacent_runs(event, between, "everywhere"):
            out.findings.append(_finding(logs, run, records, leads))
    return out


def _without(acked: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """The sends whose record is not held: by its value, wherever it stands; a tombstone by its offset."""
    values = acked.filter(pl.col("value").is_not_null()).join(held, on="value", how="anti")
    tombstones = acked.filter(pl.col("value").is_null() & pl.col("offset").is_not_null())
    gone = tombstones.join(held.filter(pl.col("value").is_null()), on="offset", how="anti")
    return pl.concat([values, gone])


def _legal(
    logs: ReplicaLogs,
    bounds: pl.DataFrame,
    records: pl.DataFrame,
    absent: pl.DataFrame,
    sends: pl.DataFrame,
    leads: str | None,
) -> pl.DataFrame:
    """The places of absent sends that retention, delete-records or compaction explain."""
    own = bounds.filter(pl.col("broker") == leads) if leads else bounds
    start = own["start"].min()
    below = absent.filter(pl.col("offset") < start) if start is not None else absent.clear()
    legal = [below.select("place")]
    cleaned = bounds["cleaned"].max()
    if logs.compacted is not False and (logs.compacted or cleaned is not None):
        # A later record with the key explains it, in the log or in the history (its tombstone may be gone).
        later = pl.concat(
            [
                records.filter(pl.col("control").is_null()).select("key", "offset"),
                sends.filter(pl.col("offset").is_not_null()).select("key", "offset"),
            ]
        )
        latest = later.drop_nulls("key").group_by("key").agg(pl.col("offset").max().alias("latest"))
        keyed = absent.join(latest, on="key", how="left")
        legal.append(keyed.filter(pl.col("latest") > pl.col("offset")).select("place"))
        # A tombstone goes by itself, once delete.retention.ms has passed.
        legal.append(keyed.filter(pl.col("value").is_null()).select("place"))
        if cleaned is not None and absent["key"].null_count() == absent.height:
            legal.append(absent.filter(pl.col("offset") < cleaned).select("place"))
    return pl.concat(legal).unique()


def _without_stale(
    out: Judgement, logs: ReplicaLogs, bounds: pl.DataFrame, absent: pl.DataFrame, leads: str | None
) -> pl.DataFrame:
    """What these logs can be asked about: where the final reads hold what they lack, they tell of an earlier time."""
    held = pl.col("held").fill_null(False)
    stale = absent.filter(held)
    if not stale.height:
        return absent
    end = (bounds.filter(pl.col("broker") == leads) if leads else bounds)["end"].max()
    later = held | pl.col("offset").is_null() | (pl.col("offset") >= end)
    out.unknown.append(
        f"the final reads of {logs.name} hold {stale.height:,} of the acknowledged records that the"
        " brokers' logs lack, so these were copied before the end of the run, or changed after it"
    )
    return absent.filter(~later)


def _unsure(logs: ReplicaLogs, bounds: pl.DataFrame, absent: pl.DataFrame, leads: str | None) -> pl.DataFrame:
    """The places of absent sends that may stand where this evidence cannot show it."""
    damage = logs.damage.filter((pl.col("snapshot") == logs.last) & pl.col("first_offset").is_not_null())
    if leads is not None:
        damage = damage.filter(pl.col("broker") == leads)
    hidden = [
        absent.filter(
            (pl.col("offset") >= row["first_offset"])
            & (pl.lit(row["last_offset"] is None) | (pl.col("offset") <= (row["last_offset"] or 0)))
        ).select("place")
        for row in damage.iter_rows(named=True)
    ]
    if leads is None and (not logs.replicas or set(logs.replicas) - set(bounds["broker"])):
        # Without the leader's log, or all assigned ones, the record may stand on a broker not at hand.
        hidden.append(absent.select("place"))
    return pl.concat([absent.select("place").clear(), *hidden]).unique()


def _report_unsure(
    out: Judgement, logs: ReplicaLogs, unsure: pl.DataFrame, leads: str | None, bounds: pl.DataFrame
) -> None:
    name = logs.name
    why = (
        f"broker {leads}'s log is damaged there"
        if leads is not None
        else f"the last leader is not known, and the logs of {', '.join(sorted(bounds['broker']))} are all"
    )
    out.unknown.append(
        f"acknowledged-absent: {unsure.height:,} acknowledged records of {name} are not in the logs at hand, but {why}"
    )


def _finding(logs: ReplicaLogs, run: pl.DataFrame, records: pl.DataFrame, leads: str | None) -> Finding:
    offsets = run["offset"].drop_nulls()
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (None, None)
    everywhere = bool(run["everywhere"][0])
    elsewhere = records.join(run.select("value"), on="value", how="semi")["broker"].unique().sort()
    count, stand = f"{run.height:,} acknowledged records of {logs.name}", "stand"
    if run.height == 1:
        count, stand = f"1 acknowledged record of {logs.name}", "stands"
    at = f" ({span(first, last)})" if first is not None and last is not None else ""
    absent_from = "no replica" if everywhere else f"not the log of broker {leads}, which leads"
    sentence = f"{count}{at} {where(logs.last)} {stand} in {absent_from}"
    if not everywhere:
        sentence = f"{count}{at} {where(logs.last)} {stand} on {brokers(elsewhere)} alone"
        sentence += f", and not in the log of broker {leads}, which leads"
    says = f"{run['value'][0]!r} was acknowledged"
    says += f" at offset {first}" if first is not None else " without an offset"
    evidence = [Evidence(says, place=run["place"][0])]
    evidence += _instead(logs, records, first, leads) + _stood(logs, run)
    return Finding(
        "acknowledged-absent",
        sentence,
        logs.topic,
        logs.partition,
        first_offset=first,
        last_offset=last,
        count=run.height,
        values=run["value"].drop_nulls().to_list(),
        processes=run["process"].drop_nulls().unique().sort().to_list(),
        evidence=evidence,
        replicas=elsewhere.to_list(),
        snapshot=logs.last or None,
    )


def _instead(logs: ReplicaLogs, records: pl.DataFrame, first: int | None, leads: str | None) -> list[Evidence]:
    """What stands at the first absent offset now."""
    if first is None:
        return []
    now = records.filter(pl.col("offset") == first)
    if leads is not None:
        now = now.filter(pl.col("broker") == leads)
    if not now.height:
        end = stretches(logs, logs.last)["last_offset"].max()
        told = end if isinstance(end, int) else "none"
        return [Evidence(f"the logs hold nothing at offset {first}; their last record is at {told}")]
    row = now.row(0, named=True)
    epoch = f" in leader epoch {row['leader_epoch']}" if row["leader_epoch"] is not None else ""
    says = f"broker {row['broker']} has {row['value']!r} at offset {first}, written{epoch}"
    return [Evidence(says, source=row["file"], byte=row["byte"])]


def _stood(logs: ReplicaLogs, run: pl.DataFrame) -> list[Evidence]:
    """Where the first absent record stood in earlier snapshots."""
    value = run["value"][0]
    if value is None:
        return []
    earlier = logs.records.filter((pl.col("snapshot") != logs.last) & (pl.col("value") == value))
    return [
        Evidence(
            f"{where(row['snapshot'])} it stood on broker {row['broker']} at offset {row['offset']}",
            source=row["file"],
            byte=row["byte"],
        )
        for row in earlier.iter_rows(named=True)
    ]
