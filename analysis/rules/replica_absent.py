"""acknowledged-absent: every acknowledged record is in the last leader's log, or, if that is not known, in any log.

The latest snapshot is judged. A record is legally absent below the log start, where a deletion removed it before a
truncation (truncated_sends.py), or where compaction removed it: a newer record has its key, or, if keys are not
recorded, the log cleaner has been over its offset. It was truncated, and neither deleted nor compacted, if the leader's
log has another record at the offset, or a leader epoch there that began after the acknowledgement.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ...histories.references import REPLICATION
from ...histories.tables import MAX_INT64, MIN_INT64, Evidence, Finding
from ..extremes import greatest
from ..partitions.adjacent_runs import NO_OFFSETS, adjacent_runs, lost_runs, with_rewrites
from ..partitions.ranges import ranges_in
from ..partitions.unknown_acks import describe_unknown_acks
from ..replicas.replica_logs import ReplicaLogs, in_snapshot
from ..replicas.resolved_outcomes import missing_leader_log, why_not_collected
from ..wording import brokers, plural, quoted, span
from .last_logs import LastLogs, absent_sends, expected_sends, maybe_later, without_record
from .rule import Result, Rule, Unknown, finding


@Rule(
    "acknowledged-absent",
    group="loss",
    summary="An acknowledged record is missing from all replicas, or from the leader",
    source=REPLICATION,
    needs=("logs", "acknowledged"),
    assumes=("partitions", "replicas"),
    follows="value",
    values_are_records=True,
    explained_as="loss",
).judged_by_logs
def acknowledged_absent(logs: ReplicaLogs, sends: pl.DataFrame) -> Iterator[Result]:
    """One finding for each run of adjacent acknowledged records that are absent from the same logs.

    Breach: An acknowledged record is on no replica in the last snapshot, or not in the leader's log.
    Not a breach: The log start, compaction, or an aborted transaction explains it. So does a deletion before a
    truncation, as in lost-write, and a deletion of the topic. Log start and compaction do not explain it if the
    leader's log has another record at the offset, or a leader epoch there that began after the acknowledgement: a
    truncation removed the record.
    Unknown when: One of these holds:
    - Its producer may have had acks=0, as in lost-write.
    - A deletion or compaction before a truncation, or a tombstone of the key at an unknown offset, may have removed it.
    - Compaction may have removed it, but its offset was acknowledged again, so a truncation may have done so, too.
    - Remote storage (KIP-405) may have the record, and no final read returned it.
    - The log is damaged there, or the last leader is not known and not all logs were collected.
    - The last leader is not known, and a log that may be its log lacks a record that another one has.
    - The logs were copied at an unknown time, or before the run ended.
    - Without final reads: the record is past the end of the logs, which hold neither a record nor a leader epoch from
      after its acknowledgement, and no broker reported that end afterwards.
    """
    # A transaction's sends share a place, so each send has a number.
    acked = with_rewrites(sends.filter(pl.col("acknowledged")).with_row_index("send"), "send")
    if not acked.height:
        return
    last = LastLogs.of(logs)
    if not last.bounds.height:
        yield Unknown(f"no readable log of {logs.name} was collected")
        return
    if not logs.last_is_dated:
        yield Unknown(f"the time at which the logs of {logs.name} {in_snapshot(logs.last)} were copied is not recorded")
        return
    acked, later = expected_sends(last, acked), maybe_later(last, acked)
    if later.height:
        count, ends = plural(later.height, "acknowledged record"), last.judged(last.bounds)["end"].max()
        yield Unknown(
            f"{count} of {logs.name} may have been written after the brokers' logs were copied, which end at {ends!r}:"
            " no final read, and no later record in these logs, shows when that was"
        )
    if acked.height and logs.leader in logs.missing_brokers:
        count = plural(acked.height, "acknowledged record")
        yield Unknown(f"{missing_leader_log(logs)}, so whether it has {count} is not known")
    absent = absent_sends(last, acked)
    yield from _perhaps_not_on_leader(last, acked, absent, sends)
    if absent.height:
        absent = absent.join(_legally_absent(last, absent, sends), on="send", how="anti")
        absent = absent.with_columns(damaged=pl.col("send").is_in(_in_damage(last, absent)["send"].implode()))
    for doubt in _DOUBTS:
        if not absent.height:
            return
        doubtful, reason = doubt(last, absent, sends)
        if reason:
            yield Unknown(reason)
        absent = absent.join(doubtful, on="send", how="anti")
    for run in _runs(acked, absent):
        yield _absence(last, run)


# Absent sends that may not be lost, and the reason; without a reason they are certainly not lost.
Doubt = tuple[pl.DataFrame, str]


def _perhaps_not_on_leader(
    last: LastLogs, acked: pl.DataFrame, absent: pl.DataFrame, sends: pl.DataFrame
) -> Iterator[Unknown]:
    """Unknown if the last leader is not known, and a log that may be its log lacks records that another one has."""
    if last.logs.leader is not None or last.bounds.height < 2:
        return
    held = last.logs.last_records.filter(pl.col("control").is_null()).select("offset", "value", "broker")
    present = acked.join(absent, on="send", how="anti")
    for broker in _maybe_leaders(last):
        lacking = without_record(present, held.filter(broker=broker))
        if not lacking.height:
            continue
        of_broker = last._replace(bounds=last.bounds.filter(broker=broker))
        lacking = lacking.join(_legally_absent(of_broker, lacking, sends), on="send", how="anti")
        if lacking.height:
            records = f"{plural(lacking.height, 'acknowledged record')} of {last.logs.name} that other logs have"
            yield Unknown(f"broker {broker}'s log lacks {records}, and whether broker {broker} led last is not known")
            return


def _maybe_leaders(last: LastLogs) -> list[str]:
    """The brokers that may have led last, by their logs: those with the greatest leader epoch of all logs.

    A leader adds its epoch to its log when it begins to lead.
    """
    entries = [frame.filter(snapshot=last.logs.last) for frame in (last.logs.epochs, last.logs.batches)]
    epochs = pl.concat([frame.select("broker", "leader_epoch") for frame in entries]).drop_nulls()
    epochs = epochs.join(last.bounds, on="broker", how="semi")
    of_latest = epochs.filter(pl.col("leader_epoch") == pl.col("leader_epoch").max())
    return sorted({*of_latest["broker"]} - last.logs.former)


def _legally_absent(last: LastLogs, absent: pl.DataFrame, sends: pl.DataFrame) -> pl.DataFrame:
    """The numbers of absent sends that retention, delete-records or compaction explain."""
    start = last.judged(last.bounds)["deleted_below"].min()
    below = pl.lit(False) if start is None else (pl.col("offset") < start).fill_null(False)
    removable = absent.filter(~pl.col("overwritten").fill_null(False))
    once = _compactable(last, removable, sends).filter(pl.col("next_rewrite").is_null())
    legal = [removable.filter(below), absent.filter(pl.col("removed").fill_null(False)), once]
    return pl.concat([sent.select("send") for sent in legal]).unique()


def _compactable(last: LastLogs, removable: pl.DataFrame, sends: pl.DataFrame) -> pl.DataFrame:
    """The absent sends that compaction can have removed."""
    logs, cleaned = last.logs, last.bounds["cleaned"].max()
    if logs.is_compacted is False or not (logs.is_compacted or cleaned is not None):
        return removable.clear()
    # Compaction removes a tombstone itself once delete.retention.ms has passed.
    found = [removable.filter(pl.col("value").is_null()), _replaced(logs, removable, sends)]
    if cleaned is not None and removable["key"].null_count() == removable.height:
        found.append(removable.filter(pl.col("offset") < cleaned))
    return removable.join(pl.concat([sent.select("send") for sent in found]).unique(), on="send", how="semi")


def _replaced(logs: ReplicaLogs, absent: pl.DataFrame, sends: pl.DataFrame) -> pl.DataFrame:
    """The absent sends with a later record of their key: in a log, or in the history, as its tombstone may be gone.

    A record that was acknowledged before a send was invoked is not after it, though a truncation may have given the
    send a smaller offset.
    """
    sent = sends.filter("acknowledged").select("key", "offset", "value", end=pl.col("completed").fill_null(MAX_INT64))
    records = logs.last_records.filter(pl.col("control").is_null()).select("key", "offset", "value")
    others = records.join(sent, on=["offset", "value"], how="anti").with_columns(end=pl.lit(MAX_INT64))
    unsure = sends.filter(~pl.col("acknowledged")).select("key", "offset", "value", end=pl.lit(MAX_INT64))
    ended = pl.concat([sent, others, unsure]).drop_nulls(["key", "offset"]).sort("offset", descending=True)
    later = ended.select("key", "offset", end=pl.col("end").cum_max().over("key")).sort("offset")
    placed = absent.drop_nulls(["key", "offset"]).sort("offset")
    behind = placed.join_asof(
        later, on="offset", by="key", strategy="forward", allow_exact_matches=False, check_sortedness=False
    )
    return behind.filter(pl.col("end") >= pl.col("invoked").fill_null(MIN_INT64))


def _unacknowledged(last: LastLogs, absent: pl.DataFrame, _: pl.DataFrame) -> Doubt:
    """The sends that may have had acks=0."""
    unsure = absent.filter(pl.col("unsure_acks").fill_null(False))
    if not unsure.height:
        return unsure, ""
    count, reason = plural(unsure.height, "absent record"), describe_unknown_acks(unsure["process"])
    return unsure, f"{count} of {last.logs.name} may not have been acknowledged: {reason}"


def _in_remote_storage(last: LastLogs, absent: pl.DataFrame, _: pl.DataFrame) -> Doubt:
    """The sends that remote storage may have. A final read shows that it has one."""
    remote = absent.filter(pl.col("offset").fill_null(0) < last.logs.remote_below)
    unread = remote.filter(~pl.col("held").fill_null(False)).height
    if not unread:
        return remote, ""
    count = plural(unread, "acknowledged record")
    where = f"{last.logs.name} that may be in remote storage (KIP-405), which was not collected"
    return remote, f"the final reads did not return {count} of {where}"


def _newer_than_copies(last: LastLogs, absent: pl.DataFrame, _: pl.DataFrame) -> Doubt:
    """If the final reads returned an absent send, so that the copies are too old: also all sends behind their end."""
    held = absent.filter(~pl.col("damaged"), pl.col("held").fill_null(False))
    if not held.height:
        return held, ""
    end = last.judged(last.bounds)["end"].max()
    is_newer = pl.col("held").fill_null(False) | pl.col("offset").is_null() | (pl.col("offset") >= end)
    returned = f"the final reads of {last.logs.name} returned {plural(held.height, 'acknowledged record')}"
    where = "in no collected log" if held["everywhere"].any() else f"not in the log of broker {last.leader}, the leader"
    it, are = ("it", "is") if held.height == 1 else ("they", "are")
    others = f"{it} {are} in a log that was not collected, or " if last.may_lack_leader else ""
    reason = f"{returned} that {are} {where}, so {others}the logs were copied before the run ended, or changed after it"
    return absent.filter(~pl.col("damaged"), is_newer), reason


def _maybe_erased(last: LastLogs, absent: pl.DataFrame, sends: pl.DataFrame) -> Doubt:
    """The sends behind which a tombstone of their key may have been written, and removed since."""
    if last.logs.is_compacted is False:
        return absent.clear(), ""
    unplaced = sends.filter(pl.col("value").is_null() & pl.col("offset").is_null())
    ended = pl.when("acknowledged").then("completed").otherwise(MAX_INT64)
    latest = unplaced.drop_nulls("key").group_by("key").agg(until=ended.max())
    is_erased = ~pl.col("overwritten").fill_null(False) & (pl.col("until") >= pl.col("invoked"))
    how = ": a tombstone of the key was sent, and its offset is not known"
    return _maybe_removed(last, absent.join(latest, on="key").filter(is_erased), "compaction", how)


def _maybe_returned(last: LastLogs, absent: pl.DataFrame, sends: pl.DataFrame) -> Doubt:
    """The sends that compaction or a truncation removed: their offsets were acknowledged again."""
    again = absent.filter(pl.col("next_rewrite").is_not_null() & ~pl.col("overwritten").fill_null(False))
    how = ", or a truncation did: their offsets were acknowledged again"
    return _maybe_removed(last, _compactable(last, again, sends), "compaction", how)


def _maybe_deleted(last: LastLogs, absent: pl.DataFrame, _: pl.DataFrame) -> Doubt:
    """The sends that a deletion or compaction before a truncation may have removed."""
    cannot_compact = last.logs.is_compacted is False
    cause = "retention or delete-records" if cannot_compact else "retention, delete-records or compaction"
    return _maybe_removed(last, absent.filter("maybe_removed"), cause, " before a truncation")


def _maybe_removed(last: LastLogs, removed: pl.DataFrame, cause: str, how: str) -> Doubt:
    count = plural(removed.height, "acknowledged record")
    return removed, f"{cause} may have removed {count} of {last.logs.name}{how}" if removed.height else ""


def _unsure(last: LastLogs, absent: pl.DataFrame, _: pl.DataFrame) -> Doubt:
    """The sends at damaged offsets, or all of them if the leader's log may not be at hand.

    Without a reason if the leader may have removed its log legally, when it noticed the deletion of the topic.
    """
    unsure = absent.filter(pl.col("damaged") | pl.lit(last.may_lack_leader))
    was_removed = last.may_lack_leader and last.logs.outlive_topic
    return unsure, _unsure_reason(last, unsure) if unsure.height and not was_removed else ""


_DOUBTS = (
    _unacknowledged,
    _in_remote_storage,
    _newer_than_copies,
    _maybe_erased,
    _maybe_returned,
    _maybe_deleted,
    _unsure,
)


def _in_damage(last: LastLogs, absent: pl.DataFrame) -> pl.DataFrame:
    """The absent sends at damaged or missing offsets; those without an offset may be at missing ones."""
    schema = {"broker": pl.String, "first_offset": pl.Int64, "last_offset": pl.Int64}
    lacking = [(one.broker, one.first, one.last) for one in last.logs.missing if one.snapshot == last.logs.last]
    missing = last.judged(pl.DataFrame(lacking, schema, orient="row"))
    damage = last.judged(last.logs.damage.filter(pl.col("first_offset").is_not_null(), snapshot=last.logs.last))
    damage = pl.concat([damage.select(list(schema)), missing])
    ranges = ranges_in(damage.with_columns(pl.col("last_offset").fill_null(MAX_INT64)))
    is_damaged = pl.Series(ranges.hold(absent["offset"].fill_null(-1).to_numpy()))
    return absent.filter(is_damaged | pl.lit(missing.height > 0) & pl.col("offset").is_null())


def _unsure_reason(last: LastLogs, unsure: pl.DataFrame) -> str:
    leader, collected_logs = last.leader, brokers(sorted(last.bounds["broker"]))
    if leader is not None:
        lacking = [one.description for one in last.logs.missing_of_leader]
        why = lacking[0] if lacking else f"broker {leader}'s log is damaged there"
    elif last.logs.leader is not None:
        why = f"the log of broker {last.logs.leader}, the last leader, {why_not_collected(last.logs)}"
    else:
        why = f"no collected log is known to be the last leader's: only the logs of {collected_logs} were collected"
    count = plural(unsure.height, "acknowledged record")
    where = "in the collected logs" if unsure["everywhere"].any() else f"readable on broker {leader}, the leader"
    return f"{count} of {last.logs.name} {'is' if unsure.height == 1 else 'are'} not {where}, but {why}"


def _runs(acked: pl.DataFrame, absent: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Absent sends at adjacent offsets; those without an offset are one run."""
    unplaced = absent.filter(pl.col("offset").is_null())
    placed = absent.filter(pl.col("offset").is_not_null())
    yield from unplaced.partition_by("everywhere", maintain_order=True)
    present = acked.join(placed, on="send", how="anti").drop_nulls("offset")
    for run in lost_runs(placed, present, "send"):
        yield from adjacent_runs(run, NO_OFFSETS, "everywhere")


def _absence(last: LastLogs, run: pl.DataFrame) -> Finding:
    logs, offsets = last.logs, run["offset"].drop_nulls()
    names = run.select(pl.coalesce("value", "tombstone")).to_series()
    first, end = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (None, None)
    holders = logs.last_records.join(run.select("value"), on="value", how="semi")["broker"].unique().sort()
    count = plural(run.height, "acknowledged record")
    at = f" ({span(first, end)})" if first is not None and end is not None else ""
    only = f"only on {brokers(holders)}, and not in the log of broker {last.leader}, the leader"
    nowhere = "in no collected log" if last.may_lack_replica else "on no replica"
    places = nowhere if run["everywhere"][0] else only
    acknowledged = f"{quoted(names[0])} was acknowledged"
    acknowledged += f" at offset {first}" if first is not None else " without an offset"
    return finding(
        logs,
        f"{count} of {logs.name}{at} {in_snapshot(logs.last)} {'is' if run.height == 1 else 'are'} {places}",
        (first, end),
        [Evidence(acknowledged, place=run["place"][0]), *_records_instead(last, first), *_earlier(logs, run)],
        count=run.height,
        values=names.drop_nulls(),
        processes=run["process"].drop_nulls().unique().sort(),
        brokers=holders,
        snapshot=logs.last,
    )


def _records_instead(last: LastLogs, first: int | None) -> list[Evidence]:
    """The record that is now at the first absent offset."""
    if first is None:
        return []
    now = last.judged(last.logs.last_records.filter(offset=first))
    if not now.height:
        end = greatest(last.logs.last_stretches["last_offset"], None)
        rest = "they are empty" if end is None else f"their last record is at {end}"
        return [Evidence(f"the logs have no record at offset {first}; {rest}")]
    row = now.row(0, named=True)
    epoch = f" in leader epoch {row['leader_epoch']}" if row["leader_epoch"] is not None else ""
    description = f"broker {row['broker']} has {quoted(row['value'])} at offset {first}, written{epoch}"
    return [Evidence.in_file(description, row)]


def _earlier(logs: ReplicaLogs, run: pl.DataFrame) -> list[Evidence]:
    """The replicas with the first absent record in earlier snapshots."""
    value = run["value"][0]
    if value is None:
        return []
    earlier = logs.records.filter(pl.col("snapshot") != logs.last, value=value)
    text = "{} it was on broker {broker} at offset {offset}"
    return [
        Evidence.in_file(text.format(in_snapshot(row["snapshot"]), **row), row) for row in earlier.iter_rows(named=True)
    ]
