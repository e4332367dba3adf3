"""acknowledged-absent: every acknowledged record is in the last leader's log, or, if that is not known, in any log.

The latest snapshot is judged. A record is legally absent below the log start, or where compaction removed it: a newer
record has its key, or, if keys are not recorded, the log cleaner has been over its offset.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.references import REPLICATION
from ...histories.tables import MAX_INT64, Evidence, Finding
from ..extremes import greatest
from ..partitions.adjacent_runs import adjacent_runs, coexisting, events, generations
from ..replicas.replica_logs import ReplicaLogs, in_snapshot, stretches
from ..wording import brokers, plural, quoted, span
from .rule import NO_BROKER_FILES, Result, Rule, Unknown, finding


@Rule(
    "acknowledged-absent",
    group="loss",
    summary="An acknowledged record is missing from all replicas, or from the leader",
    in_jepsen=NO_BROKER_FILES,
    source=REPLICATION,
    needs=("batches", "acknowledged"),
    assumes=("partitions", "replicas"),
    follows="value",
    of_records=True,
    explained_as="loss",
).judged_by_logs
def acknowledged_absent(logs: ReplicaLogs, sends: pl.DataFrame) -> Iterator[Result]:
    """One finding for each run of adjacent acknowledged records that are absent from the same logs.

    Breach: An acknowledged record is on no replica in the last snapshot, or not in the leader's log.
    Not a breach: The log start, compaction, or an aborted transaction explains it.
    Unknown when: The topic is compacted and the offset of a tombstone of the key is not known. The log is damaged
    there. The last leader is not known and not all logs were collected. The logs were copied at an unknown time, or
    before the run ended.
    """
    # A transaction's sends share a place, so each send has a number.
    acked = generations(sends.filter(pl.col("acknowledged")).with_row_index("send"), "send")
    if not acked.height:
        return
    bounds = logs.extents.filter(snapshot=logs.last)
    if not bounds.height:
        yield Unknown(f"no log of {logs.name} was collected")
        return
    if not logs.last_is_dated:
        yield Unknown(f"the time at which the logs of {logs.name} {in_snapshot(logs.last)} were copied is not recorded")
        return
    leader = logs.leader if logs.leader in set(bounds["broker"]) else None
    acked = _expected(logs, acked, bounds)
    absent = _absent(logs, acked, leader)
    if not absent.height:
        return
    absent = absent.join(_legally_absent(logs, bounds, absent, sends, leader), on="send", how="anti")
    damaged = absent.join(_in_damage(logs, absent, leader), on="send", how="semi")
    outdated = absent.join(damaged, on="send", how="anti").filter(pl.col("held").fill_null(False))
    if outdated.height:
        is_elsewhere = not outdated["everywhere"].any()
        where = f"not in the log of broker {leader}, the leader" if is_elsewhere else "in no collected log"
        yield Unknown(
            f"the final reads of {logs.name} returned {plural(outdated.height, 'acknowledged record')} that"
            f" {'is' if outdated.height == 1 else 'are'} {where}, so the logs were copied before the run"
            " ended, or changed after it"
        )
        absent = pl.concat([damaged, absent.filter(~_is_outdated(bounds, leader)).join(damaged, on="send", how="anti")])
    erased = absent.join(_maybe_erased(logs, absent, sends), on="send", how="semi")
    if erased.height:
        yield Unknown(
            f"compaction may have removed {plural(erased.height, 'acknowledged record')} of {logs.name}: a tombstone of"
            " the key was sent, and its offset is not known"
        )
        absent = absent.join(erased, on="send", how="anti")
    unsure = absent.join(_maybe_present(logs, bounds, absent, leader), on="send", how="semi")
    if unsure.height:
        yield Unknown(_unsure_reason(logs, unsure, bounds, leader))
    for run in _runs(acked, absent.join(unsure, on="send", how="anti")):
        yield _absence(logs, run, leader)


def _expected(logs: ReplicaLogs, acked: pl.DataFrame, bounds: pl.DataFrame) -> pl.DataFrame:
    """The acknowledged sends that the logs of the last snapshot must hold, as far as time shows."""
    copied = logs.times.get(logs.last)
    if copied is not None:
        acked = acked.filter(pl.col("completed") < copied)
    if not logs.at_rest:
        # Brokers wrote during the copy: records behind the end of the copied logs may have come later.
        acked = acked.filter(pl.col("offset") < bounds["end"].max())
    return acked


def _absent(logs: ReplicaLogs, acked: pl.DataFrame, leader: str | None) -> pl.DataFrame:
    """The sends that no log holds (`everywhere`), and those that the leader's log does not hold."""
    held = logs.last_records.filter(pl.col("control").is_null()).select("offset", "value", "broker")
    anywhere = _without(acked, held)
    in_leader = _without(acked, held.filter(broker=leader)) if leader else anywhere.clear()
    return (
        pl.concat([anywhere, in_leader.join(anywhere, on="send", how="anti")])
        .with_columns(everywhere=pl.col("send").is_in(anywhere["send"].implode()))
        .sort("offset", "send", nulls_last=True)
    )


def _without(acked: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """The sends without their record in `held`: identified by value at any offset, a tombstone by its offset."""
    values = acked.filter(pl.col("value").is_not_null()).join(held, on="value", how="anti")
    tombstones = acked.filter(pl.col("value").is_null() & pl.col("offset").is_not_null())
    gone = tombstones.join(held.filter(pl.col("value").is_null()), on="offset", how="anti")
    return pl.concat([values, gone])


def _legally_absent(
    logs: ReplicaLogs, bounds: pl.DataFrame, absent: pl.DataFrame, sends: pl.DataFrame, leader: str | None
) -> pl.DataFrame:
    """The numbers of absent sends that retention, delete-records or compaction explain."""
    records = logs.last_records
    own = bounds.filter(broker=leader) if leader else bounds
    start = own["start"].min()
    below = absent.filter(pl.col("offset") < start) if start is not None else absent.clear()
    legal = [below.select("send")]
    cleaned = bounds["cleaned"].max()
    if logs.compacted is not False and (logs.compacted or cleaned is not None):
        # A later record with the key explains it: in a log, or in the history, as its tombstone may be gone.
        later = pl.concat(
            [
                records.filter(pl.col("control").is_null()).select("key", "offset"),
                sends.filter(pl.col("offset").is_not_null()).select("key", "offset"),
            ]
        )
        latest = later.drop_nulls("key").group_by("key").agg(latest=pl.col("offset").max())
        keyed = absent.join(latest, on="key", how="left")
        legal.append(keyed.filter(pl.col("latest") > pl.col("offset")).select("send"))
        # Compaction removes a tombstone itself once delete.retention.ms has passed.
        legal.append(keyed.filter(pl.col("value").is_null()).select("send"))
        if cleaned is not None and absent["key"].null_count() == absent.height:
            legal.append(absent.filter(pl.col("offset") < cleaned).select("send"))
    return pl.concat(legal).unique()


def _maybe_erased(logs: ReplicaLogs, absent: pl.DataFrame, sends: pl.DataFrame) -> pl.DataFrame:
    """The numbers of absent sends behind which a tombstone of their key may have been written, and removed since."""
    if logs.compacted is False:
        return absent.select("send").clear()
    unplaced = sends.filter(pl.col("value").is_null() & pl.col("offset").is_null())
    ended = pl.when("acknowledged").then("completed").otherwise(MAX_INT64)
    latest = unplaced.drop_nulls("key").group_by("key").agg(until=ended.max())
    return absent.join(latest, on="key").filter(pl.col("until") >= pl.col("invoked")).select("send")


def _is_outdated(bounds: pl.DataFrame, leader: str | None) -> pl.Expr:
    """Whether these logs are too old to show a send: the final reads returned it, or it is behind their end."""
    end = (bounds.filter(broker=leader) if leader else bounds)["end"].max()
    return pl.col("held").fill_null(False) | pl.col("offset").is_null() | (pl.col("offset") >= end)


def _maybe_present(logs: ReplicaLogs, bounds: pl.DataFrame, absent: pl.DataFrame, leader: str | None) -> pl.DataFrame:
    """The numbers of absent sends that may be in a damaged range, or in a log that was not collected."""
    hidden = [_in_damage(logs, absent, leader)]
    if leader is None and (not logs.replicas or set(logs.replicas) - set(bounds["broker"])):
        hidden.append(absent.select("send"))
    return pl.concat(hidden).unique()


def _in_damage(logs: ReplicaLogs, absent: pl.DataFrame, leader: str | None) -> pl.DataFrame:
    """The numbers of absent sends at damaged offsets of the leader's log, or of any if the leader is not known."""
    damage = logs.damage.filter(pl.col("first_offset").is_not_null(), snapshot=logs.last)
    if leader is not None:
        damage = damage.filter(broker=leader)
    hidden = [
        absent.filter(
            (pl.col("offset") >= row["first_offset"])
            & (pl.lit(row["last_offset"] is None) | (pl.col("offset") <= (row["last_offset"] or 0)))
        ).select("send")
        for row in damage.iter_rows(named=True)
    ]
    return pl.concat([absent.select("send").clear(), *hidden]).unique()


def _unsure_reason(logs: ReplicaLogs, unsure: pl.DataFrame, bounds: pl.DataFrame, leader: str | None) -> str:
    collected_logs = brokers(sorted(bounds["broker"]))
    why = (
        f"broker {leader}'s log is damaged there"
        if leader is not None
        else f"the last leader is not known, and only the logs of {collected_logs} were collected"
    )
    count = plural(unsure.height, "acknowledged record")
    where = "in the collected logs" if unsure["everywhere"].any() else f"readable on broker {leader}, the leader"
    return f"{count} of {logs.name} {'is' if unsure.height == 1 else 'are'} not {where}, but {why}"


def _runs(acked: pl.DataFrame, absent: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Absent sends at adjacent offsets; those without an offset are one run."""
    unplaced = absent.filter(pl.col("offset").is_null())
    placed = absent.filter(pl.col("offset").is_not_null())
    yield from unplaced.partition_by("everywhere", maintain_order=True)
    present = acked.join(placed, on="send", how="anti").drop_nulls("offset")
    present = present.select("offset", since="invoked")
    for event in events(placed, "send"):
        between = coexisting(present, event.select("offset", until="completed"))
        yield from adjacent_runs(event, between, "everywhere")


def _absence(logs: ReplicaLogs, run: pl.DataFrame, leader: str | None) -> Finding:
    offsets = run["offset"].drop_nulls()
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (None, None)
    holders = logs.last_records.join(run.select("value"), on="value", how="semi")["broker"].unique().sort()
    count = plural(run.height, "acknowledged record")
    at = f" ({span(first, last)})" if first is not None and last is not None else ""
    places = (
        "on no replica"
        if run["everywhere"][0]
        else (f"only on {brokers(holders)}, and not in the log of broker {leader}, the leader")
    )
    acknowledged = f"{quoted(run['value'][0])} was acknowledged"
    acknowledged += f" at offset {first}" if first is not None else " without an offset"
    return finding(
        logs,
        f"{count} of {logs.name}{at} {in_snapshot(logs.last)} {'is' if run.height == 1 else 'are'} {places}",
        (first, last),
        [Evidence(acknowledged, place=run["place"][0]), *_records_instead(logs, first, leader), *_earlier(logs, run)],
        count=run.height,
        values=run["value"].drop_nulls(),
        processes=run["process"].drop_nulls().unique().sort(),
        brokers=holders,
        snapshot=logs.last,
    )


def _records_instead(logs: ReplicaLogs, first: int | None, leader: str | None) -> list[Evidence]:
    """The record that is now at the first absent offset."""
    if first is None:
        return []
    now = logs.last_records.filter(offset=first)
    if leader is not None:
        now = now.filter(broker=leader)
    if not now.height:
        end = greatest(stretches(logs, logs.last)["last_offset"], None)
        last = "they are empty" if end is None else f"their last record is at {end}"
        return [Evidence(f"the logs have no record at offset {first}; {last}")]
    row = now.row(0, named=True)
    epoch = f" in leader epoch {row['leader_epoch']}" if row["leader_epoch"] is not None else ""
    description = f"broker {row['broker']} has {quoted(row['value'])} at offset {first}, written{epoch}"
    return [Evidence(description, source=row["file"], byte=row["byte"])]


def _earlier(logs: ReplicaLogs, run: pl.DataFrame) -> list[Evidence]:
    """The replicas with the first absent record in earlier snapshots."""
    value = run["value"][0]
    if value is None:
        return []
    earlier = logs.records.filter(pl.col("snapshot") != logs.last, value=value)
    return [
        Evidence(
            f"{in_snapshot(row['snapshot'])} it was on broker {row['broker']} at offset {row['offset']}",
            source=row["file"],
            byte=row["byte"],
        )
        for row in earlier.iter_rows(named=True)
    ]
