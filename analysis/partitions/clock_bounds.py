"""Clocks of brokers that no fault bounds, by what their logs report of the log end, and when clients sent the records.

A leader logs the log end at which it begins to lead: what is behind it in the last log was acknowledged later, and
what is before it was sent earlier. A follower logs it when the leader changes: records of earlier epochs were sent
earlier. A leader that starts again in its epoch may have lost its log, and records behind its log end may be older.
Where no records bound the clocks, elections in the metadata log do: its times are in UTC.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import polars as pl

from ...histories.evidence.clock import QUARTER_MS, SLACK_MS, Clock
from ...histories.evidence.tables import FINAL
from ..extremes import greatest, least
from ..replicas.replica_logs import ReplicaLogs
from ..timelines.facts import MS

BROKERS_LINES = ("leader", "follower")  # by which a broker logs a leader epoch
CONTROLLERS_LINES = ("partition-change", "partition-new")  # by which a controller of KRaft logs a leader epoch


def clocks_by_records(
    clocks: Mapping[str, Clock], logs: ReplicaLogs, log_events: pl.DataFrame, sends: pl.DataFrame, started: int | None
) -> Mapping[str, Clock]:
    """The clocks, corrected by the time zone that fits the records, if times in UTC contradict these.

    If no time zone is the only one that fits, the clocks are in conflict. Faults of the history go first: then the
    clocks are returned as they are. `started` is the start of the run, ms since the epoch.
    """
    if started is None or any(clock.low is not None or clock.offset for clock in clocks.values()):
        return clocks
    low, high = _bounds(_sent_records(logs, sends), log_events, started)
    if (low is None or low <= SLACK_MS) and (high is None or high >= -SLACK_MS):
        return clocks
    first = -(-((low if low is not None else high or 0) - SLACK_MS) // QUARTER_MS) * QUARTER_MS
    is_only = low is not None and high is not None and first <= high + SLACK_MS < first + QUARTER_MS
    offset = first if is_only else 0
    return {
        name: replace(clock, offset=offset, low=low, high=high, has_conflict=not is_only, by_records=True)
        for name, clock in clocks.items()
    }


def clocks_by_elections(clocks: Mapping[str, Clock], ahead: Mapping[str, tuple[int, int]]) -> Mapping[str, Clock]:
    """The clocks, corrected by the times at which brokers logged leader epochs soon after their elections.

    A broker logs an epoch after the controller recorded its election, the first one mostly within a second, and the
    controller at once. A node without such a line has the clock of the others, if these agree. Clocks that faults or
    records bound go first: the elections of such a broker show how far the metadata log is ahead of the history.
    `ahead`: the result of `ahead_of_elections`.
    """
    bounded = {broker for broker, clock in clocks.items() if clock.low is not None or clock.by_records}
    if bounded:
        return _corrected_beside(clocks, ahead, bounded)
    if any(clock.offset for clock in clocks.values()) or not any(offset for offset, _ in ahead.values()):
        return clocks
    if len({offset for offset, _ in ahead.values()}) == 1:
        ahead = {**dict.fromkeys(clocks, next(iter(ahead.values()))), **ahead}
    return {**clocks, **{broker: _set_ahead(clocks[broker], *ahead[broker]) for broker in ahead if broker in clocks}}


def _corrected_beside(
    clocks: Mapping[str, Clock], ahead: Mapping[str, tuple[int, int]], bounded: Collection[str]
) -> Mapping[str, Clock]:
    """The clocks, of which faults or records bound some. Elections correct the others where they contradict them.

    If they contradict any, a broker that logged no election has the clock of the metadata log.
    """
    known = [clocks[broker].offset - ahead[broker][0] for broker in sorted(bounded) if broker in ahead]
    if not known or max(known) - min(known) > SLACK_MS or any(clocks[broker].has_conflict for broker in bounded):
        return clocks
    shift = 0 if abs(known[0]) <= SLACK_MS else known[0]  # of the metadata log
    others = {broker: clock for broker, clock in clocks.items() if broker not in bounded}
    wrong = {
        name for name in others.keys() & ahead.keys() if abs(ahead[name][0] + shift - others[name].offset) > SLACK_MS
    }
    corrected = {name: _set_ahead(others[name], ahead[name][0] + shift, ahead[name][1] + shift) for name in wrong}
    if wrong:
        corrected |= {name: replace(others[name], offset=shift) for name in others.keys() - ahead.keys()}
    return {**clocks, **corrected}


def _set_ahead(clock: Clock, offset: int, most: int) -> Clock:
    """The clock with an offset by elections; it is at most `most`."""
    return replace(clock, offset=offset, low=most - SLACK_MS, high=most, by_records=True)


def ahead_of_elections(log_events: pl.DataFrame, metadata: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """How far each broker's clock is ahead of the metadata log's (ms), and the most that it can be ahead.

    That is a time zone, or the difference that two elections show. One election alone may have been logged late.
    """
    lines = lines_of_elections(log_events, metadata, (*BROKERS_LINES, *CONTROLLERS_LINES))
    late = lines.group_by("broker", "leader_epoch", "elected")
    late_by = late.agg(late=(pl.col("time") - pl.col("elected")).min()).sort("late").group_by("broker")
    found = {}
    for broker, lates, elected in late_by.agg("late", "elected").iter_rows():
        zone, most = round(lates[0] / QUARTER_MS) * QUARTER_MS, lates[0]
        # Elections that a broker logs together, as after a pause, differ in how late it is.
        apart = [late for late, at in zip(lates, elected, strict=True) if abs(at - elected[0]) > 2 * SLACK_MS]
        if abs(most - zone) <= SLACK_MS:
            found[broker] = zone, most
        elif apart and apart[0] - most <= SLACK_MS:
            found[broker] = most, most
    return found


def lines_of_elections(log_events: pl.DataFrame, metadata: pl.DataFrame, kinds: Sequence[str]) -> pl.DataFrame:
    """The dated lines of some kinds on leader epochs; `elected` is when the controller recorded the election (ms).

    A leader epoch that the metadata log only repeats was elected at an unknown time before.
    """
    epochs = metadata.drop_nulls(["leader_epoch", "time"]).group_by("leader_epoch")
    known = epochs.agg(elected=pl.col("time").min(), is_copy=pl.col("is_copy").any()).filter(~pl.col("is_copy"))
    fields = pl.col("fields").str
    epoch = pl.coalesce(fields.json_path_match("$.leader_epoch"), fields.json_path_match("$.leaderEpoch"))
    dated = log_events.filter(pl.col("kind").is_in(kinds) & pl.col("time").is_not_null(), snapshot=FINAL)
    return dated.with_columns(leader_epoch=epoch.cast(pl.Int32, strict=False)).join(known, on="leader_epoch")


def _sent_records(logs: ReplicaLogs, sends: pl.DataFrame) -> pl.DataFrame:
    """The records of the leader's last log that the history sent: offset, leader_epoch, invoked, completed."""
    held = logs.records.filter(pl.col("control").is_null(), snapshot=FINAL, broker=logs.leader or "")
    held = held.select("offset", "leader_epoch", "value").drop_nulls()
    acknowledged = pl.when("acknowledged").then("completed")
    sent = sends.select("value", "invoked", completed=acknowledged).drop_nulls("value")
    # A value that was sent twice may be in the log by either send.
    return held.join(sent.unique("value", keep="none"), on="value")


def _bounds(records: pl.DataFrame, log_events: pl.DataFrame, started: int) -> tuple[int | None, int | None]:
    """The least and the greatest offset of the brokers' clocks (ms); None if nothing bounds it."""
    lows: list[int] = []
    highs: list[int] = []
    is_change = pl.col("kind").is_in(BROKERS_LINES) & pl.col("time").is_not_null()
    changes = log_events.filter(is_change, snapshot=FINAL).sort("time")
    begun: set[int] = set()  # leader epochs
    for row in changes.iter_rows(named=True) if len(records) else ():
        fields = json.loads(row["fields"])
        epoch, end = fields.get("leader_epoch"), fields.get("offset")
        if not isinstance(epoch, int) or not isinstance(end, int):
            continue
        is_before = (pl.col("offset") < end) & (pl.col("leader_epoch") < epoch)
        if row["kind"] == "leader":
            is_before |= (pl.col("offset") < end) & (pl.col("leader_epoch") == epoch)
            later = records.filter(pl.col("offset") >= end, pl.col("leader_epoch") >= epoch)
            if epoch not in begun and (acked := least(later["completed"], None)) is not None:
                lows.append(row["time"] - started - acked // MS)
            begun.add(epoch)
        if (sent := greatest(records.filter(is_before)["invoked"], None)) is not None:
            highs.append(row["time"] - started - sent // MS)
    return max(lows, default=None), min(highs, default=None)
