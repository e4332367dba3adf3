"""The replicas of a partition for the plots, in bounded size: blocks of their logs by epoch, and the leaders.

factor, min_isr  the number of replicas (0: not recorded) and min.insync.replicas (null: not recorded)
logs   [{name, time, brokers: [{broker, start, end, high_watermark, blocks}], differ: [[first, last]]}]
       one for each snapshot; a block is [first, last, leader epoch or null, side]: if replicas differ, the side is the
       first broker with the same records, else null
cuts   [[time, broker, end, was]]: truncations that removed records; `was` is the end before, if known
terms  [{epoch, leader, time, start, how, ended, rivals}]: `ended` if the controller recorded that no leader was left;
       `rivals` are [broker, time] of other brokers that logged to lead the same epoch
isr    [[time, [brokers]]]
lives  [[time, broker, "died" (or fenced), "started" or "unfenced"]]
moves  [[time, [brokers being added], [brokers being removed]]]: steps of reassignments; missing if there is none
ends   [[time, broker, offset, kind]]: loaded, snapshot, truncated, corruption, high-watermark
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import polars as pl

from ...histories.tables import MAX_INT64, collect
from ..partitions.partition import Partition
from ..replicas.replica_logs import ReplicaLogs
from ..timelines.facts import dated
from ..timelines.timeline import Timeline

MAX_BLOCKS = 60  # of one log
MAX_SNAPSHOTS = 12
MAX_RANGES = 20
MAX_TIMES = 240  # rows of each table of times

Record = dict[str, Any]


def replica_figures(p: Partition) -> Record | None:
    """The record above; None: no files of brokers were collected."""
    if p.replica_logs is None:
        return None
    times = {"cuts": [], "terms": [], "isr": [], "lives": [], "ends": []} if p.timeline is None else _times(p.timeline)
    known = set(p.replica_logs.batches["broker"].unique()) | set(p.replica_logs.replicas)
    deleted = p.generation.deleted if p.generation else None
    if deleted is not None and deleted.latest < MAX_INT64:
        times = _until(times, deleted.latest)
    least = str(p.settings.topic(p.topic).get("min.insync.replicas", ""))
    return {
        "leader": p.replica_logs.leader,
        "brokers": sorted(known),
        "factor": len(p.replica_logs.replicas),
        "min_isr": int(least) if least.isdecimal() and len(least) < 4 else None,
        "logs": _logs(p.replica_logs),
        **times,
    }


def _logs(logs: ReplicaLogs) -> list[Record]:
    blocks, differ = _blocks(logs), _differing_ranges(logs.diverging)
    brokers: dict[str, list[Record]] = {}
    for row in logs.extents.sort("broker").iter_rows(named=True):
        shown = {name: row[name] for name in ("broker", "start", "end", "high_watermark")}
        own = blocks.get((row["snapshot"], row["broker"]), [])
        brokers.setdefault(row["snapshot"], []).append({**shown, "blocks": own})
    snapshots = [
        {
            "name": name,
            "time": logs.times.get(name),
            "brokers": brokers[name],
            "differ": differ.get(name, [])[:MAX_RANGES],
        }
        for name in logs.snapshots
        if name in brokers
    ]
    # Snapshots that show a divergence have precedence.
    chosen = sorted(snapshots, key=lambda snapshot: not snapshot["differ"])[:MAX_SNAPSHOTS]
    return sorted(chosen, key=snapshots.index)


def _differing_ranges(diverging: pl.DataFrame) -> dict[str, list[list[int]]]:
    """The ranges of diverging offsets, by snapshot."""
    run = (pl.col("position").diff() != 1).fill_null(True).cum_sum().over("snapshot")
    runs = diverging.sort("snapshot", "position").group_by("snapshot", run.alias("run"), maintain_order=True)
    ranges: dict[str, list[list[int]]] = {}
    for name, _, first, last in runs.agg(first=pl.col("offset").first(), last=pl.col("offset").last()).iter_rows():
        ranges.setdefault(name, []).append([first, last])
    return ranges


def _blocks(logs: ReplicaLogs) -> dict[tuple[str, str], list[list[Any]]]:
    """Adjacent records of one epoch and side as blocks, by snapshot and broker.

    With too many blocks, the last one has all other records.
    """
    at, copy = ("snapshot", "broker", "offset"), ("snapshot", "broker")
    identical = [
        logs.identical.lazy().select(*copy, offset=end, leader_epoch="leader_epoch")
        for end in ("first_offset", "last_offset")
    ]
    split = logs.diverging.lazy().with_columns(pl.col("sides").str.split("|")).explode("brokers", "sides")
    sides = split.select("snapshot", "offset", broker="brokers", side="sides")
    what = pl.struct("leader_epoch", "side")
    blocks = (
        pl.concat([logs.records.lazy().select(*at, "leader_epoch"), *identical])
        .join(sides, on=at, how="left")
        .sort(at)
        .with_columns(block=what.rle_id().over(copy).clip(upper_bound=MAX_BLOCKS - 1))
        .group_by(*copy, "block", maintain_order=True)
        .agg(first=pl.col("offset").min(), last=pl.col("offset").max(), which=what.first())
    )
    found: dict[tuple[str, str], list[list[Any]]] = {}
    for snapshot, broker, _, first, last, which in collect(blocks, len(logs.records)).iter_rows():
        found.setdefault((snapshot, broker), []).append([first, last, which["leader_epoch"], which["side"]])
    return found


def _times(timeline: Timeline) -> Record:
    terms = [
        {
            **{name: getattr(t, name) for name in ("epoch", "leader", "time", "start")},
            "how": t.how_elected,
            "unclean": t.elected_uncleanly,
            "ended": t.ended,
            "rivals": [[name, time] for name, time in t.claims.items() if name != t.leader and time is not None],
        }
        for t in timeline.led_terms
    ]
    lives = sorted({(e.when, e.broker, e.kind) for e in dated(timeline.events)})
    ends = [(e.when, e.broker, e.end, e.kind) for e in dated(timeline.ends) if not e.is_noop]
    ends = [row for row in ends if row[3] not in ("refused", "cut")]  # drawn as truncations and as faults
    # A broker's first log is empty when it creates it; a log that is empty again was deleted.
    first = {broker: place for place, (_, broker, _, _) in reversed([*enumerate(ends)])}
    ends = [row for n, row in enumerate(ends) if row[2:] != (0, "loaded") or first[row[1]] != n]
    moves = [[m.when, sorted(m.adding), sorted(m.removing)] for m in dated(timeline.moves)]
    return {
        **({"moves": moves[:MAX_TIMES]} if moves else {}),
        "cuts": _cuts(timeline)[:MAX_TIMES],
        "terms": terms[:MAX_TIMES],
        "isr": _in_sync(timeline)[:MAX_TIMES],
        "lives": [list(row) for row in lives[:MAX_TIMES]],
        "ends": [list(row) for row in ends[:MAX_TIMES]],
    }


def _until(times: Record, deleted: int) -> Record:
    """The times up to the deletion of the topic (ns). After it, the partition has no leader and no ISR."""
    terms = [term for term in times["terms"] if term["time"] is None or term["time"] <= deleted]
    if terms:
        last = terms[-1]
        terms[-1] = {**last, "ended": deleted if last["ended"] is None else min(last["ended"], deleted)}
    names = [name for name in ("moves", "cuts", "isr", "lives", "ends") if name in times]
    rows: Record = {name: [row for row in times[name] if row[0] <= deleted] for name in names}
    isr = [*rows["isr"], [deleted, []]] if rows["isr"] else []
    return {**rows, "terms": terms, "isr": isr}


def _in_sync(timeline: Timeline) -> list[list[Any]]:
    """The ISR after each change.

    Controllers do not log the change after fencing: KRaft removes the fenced broker from the ISR, unless it is the last
    one (ReplicationControlManager.handleBrokerFenced).
    """
    rows = [(report.when, sorted(report.isr), "") for report in timeline.isr_between()]
    rows += [(e.when, [], e.broker) for e in dated(timeline.events) if e.fact.kind == "fenced"]
    changes: list[list[Any]] = []
    for time, brokers, fenced_broker in sorted(rows, key=itemgetter(0)):
        before = changes[-1][1] if changes else []
        remaining = [name for name in before if name != fenced_broker] or before
        now = remaining if fenced_broker else brokers
        if now != before:
            changes.append([time, now])
    return changes


def _cuts(timeline: Timeline) -> list[list[Any]]:
    """Truncations and repairs that made a log shorter than its last known end."""
    known: dict[str, int] = {}
    cuts: list[list[Any]] = []
    for end in dated(timeline.ends):
        if end.kind == "high-watermark" or end.is_noop:
            continue
        was = known.get(end.broker)
        # Every new follower truncates its empty log to 0.
        if end.kind in ("truncated", "corruption") and (end.end < was if was is not None else end.end > 0):
            cuts.append([end.when, end.broker, end.end, was])
        known[end.broker] = end.end
    return cuts
