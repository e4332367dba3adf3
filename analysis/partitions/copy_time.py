"""Whether the brokers' last logs are known to be newer than the last acknowledgements.

`cp`, `kubectl cp` and `logjudge collect` also copy the logs of running brokers, and a client's history may go on after
the copy. A record that was acknowledged behind the end of such a copy is not lost.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from ...histories.evidence.tables import FINAL
from ...histories.tables import MIN_INT64
from ..extremes import greatest
from ..replicas.replica_logs import ReplicaLogs
from .partition import Partition

REPORTED_ENDS = ("loaded", "truncated", "corruption", "followed")  # kinds of LogEnd in brokers' own logs


def with_copy_time(p: Partition) -> Partition:
    """The partition; its logs get `newer_than` if acknowledged records may be behind the end of an early copy.

    With final reads, contradictions between them and the logs show early copies (acknowledged-absent). Without, a copy
    is only known to be newer than the invocations of the sends that it holds, than the elections of the epochs in its
    leader-epoch-checkpoint, and than earlier snapshots. Acknowledgements also precede it as far as brokers reported
    later that their logs ended where the copies end.
    """
    logs = p.replica_logs
    if logs is None or logs.last != FINAL or not logs.at_rest or not p.sends["acknowledged"].any():
        return p
    if p.final is not None or logs.leader in logs.missing_brokers:
        return p
    judged = logs.last_extents
    end = greatest(judged["end"], None)
    if end is None:
        return p
    held = logs.last_records.filter(pl.col("control").is_null(), pl.col("broker").is_in(judged["broker"].implode()))
    since = max(_newer_than(p, logs, held["value"]), _ended_at(p, judged["broker"], end))
    vanished = logs.records.filter(pl.col("snapshot") != FINAL)["value"]
    known = pl.concat([held["value"], vanished]).drop_nulls().implode()
    is_behind = pl.col("offset").is_null() | (pl.col("offset") >= end)
    is_later = pl.col("completed") >= since
    is_known = pl.col("value").is_in(known).fill_null(False)  # a tombstone has no value
    if not p.sends.filter("acknowledged", is_behind, is_later, ~is_known).height:
        return p
    return replace(p, replica_logs=replace(logs, at_rest=False, newer_than=since))


def _ended_at(p: Partition, brokers: pl.Series, end: int) -> int:
    """The time (ns) until which the logs of all these brokers are known to have had nothing at or behind an offset.

    Each broker reported its log end when it loaded the log, truncated it or began to follow.
    """
    times = dict.fromkeys(brokers, MIN_INT64)
    for one in p.timeline.ends if p.timeline is not None else ():
        if one.kind in REPORTED_ENDS and one.end <= end and one.time is not None and one.broker in times:
            times[one.broker] = max(times[one.broker], one.time)
    return min(times.values(), default=MIN_INT64)


def _newer_than(p: Partition, logs: ReplicaLogs, held: pl.Series) -> int:
    """The latest time (ns) at which the last copy certainly was not made yet."""
    is_held = pl.col("value").is_in(held.drop_nulls().implode())
    sent = greatest(p.sends.filter(is_held, ~pl.col("synthetic"))["invoked"], MIN_INT64)
    # A leader adds its epoch when it begins to lead, also if it then writes nothing.
    begun = logs.epochs.filter(logs.is_of_leader)["leader_epoch"]
    terms = p.timeline.terms if p.timeline is not None else {}
    elected = [time for epoch in begun if epoch in terms and (time := terms[epoch].time) is not None]
    return max([sent, *elected, *logs.times.values()])
