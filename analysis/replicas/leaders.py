"""The last leader and the assigned replicas of a partition, from metadata and brokers' logs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import polars as pl

from ...histories.evidence.tables import FINAL
from .replica_logs import is_of_copy

LEADER_EVENTS = ("leader", "elected", "leadership", "partition-change", "partition-new", "follower")


def longest_copy(metadata: pl.DataFrame) -> pl.DataFrame:
    """The longest copy of the metadata log among METADATA with location, by offset: every node has a copy."""
    if not len(metadata):
        return metadata
    copies = metadata.group_by("snapshot", "broker").agg(pl.col("offset").max().alias("end"), pl.len())
    best = copies.sort("end", "len", "snapshot", "broker", descending=[True, True, False, False]).row(0, named=True)
    return metadata.filter(is_of_copy(best["snapshot"], best["broker"])).sort("offset", maintain_order=True)


def formatting_record(metadata: pl.DataFrame) -> dict[str, Any] | None:
    """The first record of the cluster's metadata log at the end of the run; None if its copies begin later.

    It is the feature level that formatted the log. A broker that kept its disk may have an older log than the new
    controllers, so the newest one counts.
    """
    first = metadata.filter(snapshot=FINAL).sort("offset", maintain_order=True).unique("broker", keep="first")
    # A log that copied ZooKeeper's records goes on from it.
    copying = metadata.filter(pl.col("is_copy"), snapshot=FINAL)["broker"].unique()
    is_whole = (pl.col("kind") == "feature") & ~pl.col("file").str.ends_with(".checkpoint")
    is_whole &= ~pl.col("broker").is_in(copying.implode())
    whole = first.filter(is_whole).sort("time", "broker")
    return whole.row(-1, named=True) if len(whole) else None


def last_leader(metadata: pl.DataFrame, log_events: pl.DataFrame) -> str | None:
    """The last leader of one topic-partition, from its METADATA and LOG_EVENTS; None if not recorded.

    The metadata log is proof and goes first. A cluster that shut down cleanly ends without a leader; then the result
    is its last leader, unless that one may not lead any more (KIP-966). Among log lines the greatest leader epoch
    decides, not the time. If that epoch has no leader, the last leader counts if it is in the recorded ISR.
    """
    led = metadata.filter(pl.col("leader") >= 0)
    if led.height:
        last = str(led.sort("leader_epoch", "offset")["leader"][-1])
        now = metadata.filter(pl.col("leader").is_not_null()).sort("leader_epoch", "offset").row(-1, named=True)
        may_lead = {str(broker) for name in ("isr", "elr") for broker in now[name] or ()}
        return last if now["leader"] >= 0 or last in may_lead else None
    terms: list[tuple[int, int, str]] = []  # epochs, times of lines, and leaders
    vacant: list[tuple[int, list[int]]] = [(-1, [])]  # epochs without a leader, and their ISR
    for row in log_events.filter(pl.col("kind").is_in(LEADER_EVENTS)).iter_rows(named=True):
        fields = json.loads(row["fields"])
        epoch = fields.get("leader_epoch", fields.get("leaderEpoch"))
        named = row["broker"] if row["kind"] == "leader" else fields.get("leader")
        if not isinstance(epoch, int) or named is None:
            continue
        if str(named).startswith("-"):
            vacant.append((epoch, fields.get("isr") or []))
        else:
            terms.append((epoch, row["time"] or 0, str(named)))
    if not terms:
        return None
    last_led, _, leader = max(terms, key=itemgetter(0, 1))
    epoch, isr = max(vacant)
    return leader if epoch <= last_led or leader in map(str, isr) else None


def epochs_with_two_leaders(log_events: pl.DataFrame) -> list[tuple[int, dict[str, dict[str, Any]]]]:
    """The leader epochs that two brokers led, each with the first line of each leader: its row with its fields.

    Each logged it of itself: a line about another broker may be outdated. A topic that was created again begins at
    epoch 0. Its topic id identifies it; without one epoch 0 proves nothing. If the epochs of lines without a topic id
    go back in time, no line of the partition proves anything.
    """
    claims: dict[str, dict[int, dict[str, dict[str, Any]]]] = {}
    lines = log_events.filter(kind="leader").sort("time", "file", "line", nulls_last=True)
    for row in lines.iter_rows(named=True):
        fields = json.loads(row["fields"])
        epochs = claims.setdefault(fields.get("topic_id", ""), {})
        if not fields.get("topic_id") and fields["leader_epoch"] < max(epochs, default=0):
            return []
        epochs.setdefault(fields["leader_epoch"], {}).setdefault(row["broker"], {**row, **fields})
    return [
        (epoch, leaders)
        for topic_id, epochs in claims.items()
        for epoch, leaders in epochs.items()
        if len(leaders) > 1 and (topic_id or epoch > 0)
    ]


def assigned_replicas(
    metadata: pl.DataFrame, log_events: pl.DataFrame, configured: list[list[str]] | None, partition: int
) -> tuple[str, ...]:
    """The brokers that the partition is assigned to; () if that is not recorded.

    The last metadata record decides, else the last line of a controller about a reassignment, else
    `replica.assignment` of run.json.
    """
    rows = metadata.filter(pl.col("replicas").is_not_null()).sort("offset")
    lines = log_events.filter(kind="assignment").sort("time", "file", "line")
    if rows.height:
        found = rows["replicas"][-1]
    elif lines.height:
        found = json.loads(lines["fields"][-1])["replicas"]
    else:
        found = configured[partition] if configured and partition < len(configured) else ()
    return tuple(str(broker) for broker in found)


def replicas_after_moves(configured: Sequence[str], log_events: pl.DataFrame) -> tuple[str, ...]:
    """The brokers of run.json after the reassignments that leaders logged; () if none is known to have ended.

    A leader logs what a reassignment adds and removes, and then its next epoch. If that names neither, and the ISR has
    a broker that was added, the reassignment completed; else it may have been cancelled. A KRaft leader also logs each
    change within its epoch, with all replicas.
    """
    replicas, is_moved = list(configured), False
    adding: list[str] = []
    removing: list[str] = []
    of_leaders = log_events.filter(pl.col("kind").is_in(["leader", "isr-update"]))
    lines = [line for fields in of_leaders["fields"] if "leader_epoch" in (line := json.loads(fields))]
    for line in sorted(lines, key=lambda line: (line["leader_epoch"], line.get("partition_epoch", 0))):
        before = adding, removing
        adding, removing = ([str(broker) for broker in line.get(name) or ()] for name in ("adding", "removing"))
        assigned = [str(broker) for broker in line.get("replicas") or ()]
        if assigned and not (adding or removing):
            is_moved |= {*assigned} != {*replicas}
            replicas = assigned
            continue
        if not any(before) or before == (adding, removing):
            continue
        if adding or removing or not {*before[0]} & {*map(str, line.get("isr") or ())}:
            return ()
        replicas = [*(broker for broker in replicas if broker not in before[1]), *before[0]]
        is_moved = True
    return tuple(dict.fromkeys(replicas)) if is_moved and not (adding or removing) else ()
