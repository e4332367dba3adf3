"""Replicas of a partition side by side: for each snapshot how far each log goes, and the offsets where they differ."""

from __future__ import annotations

from typing import Any

import polars as pl

from ..replicas.replica_logs import ReplicaLogs
from ..rules.log_order import CORRUPT, HARMLESS
from ..rules.replica_divergence import divergences

AROUND = 2  # offsets shown before and after a divergence
HEAD, TAIL = 4, 2  # offsets of a long divergence that are shown from its beginning and its end
MAX_DIVERGENCES = 12  # of one snapshot

Record = dict[str, Any]


def differences(logs: ReplicaLogs) -> list[Record]:
    """One record a snapshot that holds records: snapshot, time (ns), brokers (start, end, high_watermark),
    divergences (first, last, count, rows), left_out, damage (broker, first, last, file, byte, reason, is_corrupt),
    behind (in words), silent (assigned brokers without records).

    A row is an offset with each broker's record ({epoch, timestamp, key, value, control}), null where its log has none.
    A row with `skipped` instead replaces that many offsets.
    """
    snapshots = []
    for name in logs.snapshots:
        records = logs.records.filter(snapshot=name)
        extents = logs.extents.filter(snapshot=name).sort("broker")
        with_records = extents.filter(pl.col("end") > pl.col("start"))  # an empty log has nothing to compare
        if not with_records.height:
            continue
        found = list(divergences(logs, name))
        brokers = with_records.select("broker", "start", "end", "high_watermark").to_dicts()
        snapshots.append(
            {
                "snapshot": name,
                "time": logs.times.get(name),
                "brokers": brokers,
                "divergences": [_divergence(records, run, brokers) for run in found[:MAX_DIVERGENCES]],
                "left_out": max(len(found) - MAX_DIVERGENCES, 0),
                "damage": _damage(logs, name),
                "behind": lagging_logs(brokers),
                "silent": sorted({*logs.replicas, *extents["broker"]} - {broker["broker"] for broker in brokers}),
            }
        )
    return snapshots


def _damage(logs: ReplicaLogs, snapshot: str) -> list[Record]:
    """Parts of logs that cannot be compared: damaged batches, and files that cannot be read (not is_corrupt).

    A torn tail is neither: its log ends before it.
    """
    tail = pl.col("kind").is_in(HARMLESS) & pl.col("last_offset").is_null()
    damage = logs.damage.filter(~tail, snapshot=snapshot)
    columns = (pl.col("first_offset").alias("first"), pl.col("last_offset").alias("last"), "file", "byte", "reason")
    is_corrupt = pl.col("kind").is_in([*CORRUPT, *HARMLESS]).alias("is_corrupt")
    return damage.sort("broker", "file", "byte").select("broker", *columns, is_corrupt).to_dicts()


def lagging_logs(brokers: list[Record]) -> list[str]:
    """The logs that end before the longest one, as sentences."""
    longest = max(broker["end"] for broker in brokers)
    first = next(broker["broker"] for broker in brokers if broker["end"] == longest)
    return [
        f"broker {broker['broker']} ends at {broker['end']}, {longest - broker['end']} offsets before broker {first}"
        for broker in brokers
        if broker["end"] < longest
    ]


def _divergence(records: pl.DataFrame, run: pl.DataFrame, brokers: list[Record]) -> Record:
    first, last = int(run["offset"][0]), int(run["offset"][-1])
    around = records.filter(pl.col("offset").is_between(first - AROUND, last + AROUND)).sort("offset")
    offsets = around["offset"].unique().sort().to_list()
    differing = [offset for offset in offsets if first <= offset <= last]
    hidden = set(differing[HEAD:-TAIL]) if len(differing) > HEAD + TAIL else set()
    shown = around.filter(~pl.col("offset").is_in(list(hidden))).iter_rows(named=True)
    held = {(row["offset"], row["broker"]): row for row in shown}
    rows: list[Record] = []
    for offset in offsets:
        if offset in hidden:
            if "skipped" not in rows[-1]:
                rows.append({"skipped": len(hidden)})
            continue
        cells = {broker["broker"]: cell(held.get((offset, broker["broker"]))) for broker in brokers}
        rows.append({"offset": offset, "differs": first <= offset <= last, "held": cells})
    return {"first": first, "last": last, "count": run.height, "rows": rows}


def cell(row: Record | None) -> Record | None:
    """One broker's record at an offset; timestamp in ms since the epoch."""
    columns = ("timestamp", "key", "value", "control")
    return None if row is None else {"epoch": row["leader_epoch"], **{name: row[name] for name in columns}}
