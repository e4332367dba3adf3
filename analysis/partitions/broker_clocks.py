"""The clocks of brokers and of the metadata log, as far as a partition shows them better than faults do (Clock).

Records: a leader logs the log end at which it begins to lead: what is behind it in the last log was acknowledged later,
and what is before it was sent earlier. A follower logs it when the leader changes: records of earlier epochs were sent
earlier. A leader that starts again in its epoch may have lost its log, and records behind its log end may be older.

Elections: where no records bound the clocks, elections in the metadata log do, as its times are in UTC.

Steps: if a broker's clock was set while it ran, no offset fits all its lines, and its times prove nothing. After a step
back, lines are earlier than those before them in the same file. After a step forward, the offset of the later lines
dates the earlier ones before the elections that they report.

The metadata log may be ahead of the history, as the clients' machine may have another time than the cluster. Two things
contradict equal clocks: a partition is created before its first record is acknowledged, and a broker registers after it
is restarted. The lines in which brokers begin epochs then show the difference, as far as the history bounds the
brokers' clocks.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import polars as pl

from ...histories.evidence.clock import QUARTER_MS, SLACK_MS, Clock, Fault
from ...histories.evidence.tables import FINAL
from ...histories.tables import MAX_INT64, MIN_INT64
from ...models.internal_topics import METADATA_TOPIC
from ..extremes import least
from ..replicas.leaders import longest_copy
from ..replicas.replica_logs import ReplicaLogs
from ..timelines.facts import MS
from .common import Common, Frames, evidence_in

BROKERS_LINES = ("leader", "follower")  # by which a broker logs a leader epoch
CONTROLLERS_LINES = ("partition-change", "partition-new")  # by which a controller of KRaft logs a leader epoch
MAX_WIDTH_MS = 15_000  # between the bounds of a difference of the metadata log that brokers' lines do not show


def broker_clocks(
    logs: ReplicaLogs, frames: Frames, common: Common, metadata: pl.DataFrame, log_events: pl.DataFrame
) -> Mapping[str, Clock]:
    """The clocks of the brokers, and that of the metadata log if it is ahead.

    `frames` are the tables of the partition; `metadata` and `log_events` also have the rows of all partitions.
    """
    started, sends = common.settings.started_ms, frames["sends"]
    own_events = evidence_in(frames, "log_events")
    elections = lines_of_elections(own_events, evidence_in(frames, "metadata"))
    clocks = clocks_by_records(common.clocks, logs, own_events, sends, started)
    clocks = without_steps(clocks, log_events, elections)
    ahead = ahead_of_elections(elections)
    of_metadata = metadata_clock(clocks, ahead, metadata, sends, common.faults, started)
    if of_metadata.offset:
        ahead = ahead_of_elections(elections.with_columns(pl.col("elected") - of_metadata.offset))
    clocks = clocks_by_elections(clocks, ahead)
    clocks = _contradicted_by_records(clocks, logs, own_events, sends, started)
    return {**clocks, METADATA_TOPIC: of_metadata} if of_metadata.offset else clocks


def clocks_by_records(
    clocks: Mapping[str, Clock], logs: ReplicaLogs, log_events: pl.DataFrame, sends: pl.DataFrame, started: int | None
) -> Mapping[str, Clock]:
    """The clocks, corrected by the time zone that fits the records, if times in UTC contradict these.

    If no time zone is the only one that fits, the clocks are in conflict. Faults of the history go first: then only the
    clocks of brokers without faults are corrected. `started` is the start of the run, ms since the epoch.
    """
    if started is None:
        return clocks
    if any(clock.low is not None or clock.offset for clock in clocks.values()):
        return _without_refuted_offset(clocks, logs, log_events, sends, started)
    low, high = _bounds(_sent_records(logs, sends), log_events, started)
    if (low is None or low <= SLACK_MS) and (high is None or high >= -SLACK_MS):
        return clocks
    return {name: _fitted(clock, low, high) for name, clock in clocks.items()}


def _fitted(clock: Clock, low: int | None, high: int | None) -> Clock:
    """The clock, which the bounds contradict, in the only time zone within them; in conflict if there is none."""
    first = -(-((low if low is not None else high or 0) - SLACK_MS) // QUARTER_MS) * QUARTER_MS
    is_only = low is not None and high is not None and first <= high + SLACK_MS < first + QUARTER_MS
    offset = first if is_only else 0
    return replace(clock, offset=offset, low=low, high=high, has_conflict=not is_only, by_records=True)


def _contradicted_by_records(
    clocks: Mapping[str, Clock], logs: ReplicaLogs, log_events: pl.DataFrame, sends: pl.DataFrame, started: int | None
) -> Mapping[str, Clock]:
    """The clocks; those that nothing bounds are corrected, or in conflict, if their brokers' own lines contradict them.

    Without a bounded clock, `clocks_by_records` has compared the lines of all brokers.
    """
    unbounded = [name for name, clock in clocks.items() if clock.low is None and not clock.has_conflict]
    if started is None or not unbounded or not any(clock.low is not None for clock in clocks.values()):
        return clocks
    records, found = _sent_records(logs, sends), dict(clocks)
    for name in unbounded:
        low, high = _bounds(records, log_events.filter(broker=name), started)
        if not _is_within(clocks[name].offset, low, high):
            found[name] = _fitted(clocks[name], high if low is None else low, high)
    return found


def _without_refuted_offset(
    clocks: Mapping[str, Clock], logs: ReplicaLogs, log_events: pl.DataFrame, sends: pl.DataFrame, started: int
) -> Mapping[str, Clock]:
    """The clocks; those that were only assumed to be as wrong as those of bounded brokers are not, if the records
    contradict that for one of them, and fit the history's clock.
    """
    assumed = {name: clock for name, clock in clocks.items() if clock.low is None and clock.offset}
    records = _sent_records(logs, sends) if assumed else pl.DataFrame()
    for name, clock in assumed.items():
        low, high = _bounds(records, log_events.filter(broker=name), started)
        if not _is_within(clock.offset, low, high) and _is_within(0, low, high):
            return {**clocks, **{other: replace(one, offset=0, by_records=True) for other, one in assumed.items()}}
    return clocks


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
    """The clocks; those that neither faults nor records bound are corrected where elections contradict them.

    If elections contradict any clock, a broker that logged no election gets the clock of the metadata log.
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


def ahead_of_elections(elections: pl.DataFrame) -> dict[str, tuple[int, int]]:
    """How far each broker's clock is ahead of the metadata log's (ms), and the most that it can be ahead.

    That is a time zone, or the difference that two elections show. One election alone may have been logged late. But
    no broker logs an epoch before its election: if all lines are earlier, the latest time at which it did is taken.
    `elections`: the result of `lines_of_elections`.
    """
    late = elections.group_by("broker", "leader_epoch", "elected")
    late_by = late.agg(late=(pl.col("time") - pl.col("elected")).min()).sort("late").group_by("broker")
    found = {}
    for broker, lates, elected in late_by.agg("late", "elected").iter_rows():
        zone, most = round(lates[0] / QUARTER_MS) * QUARTER_MS, lates[0]
        # Elections that a broker logs together, as after a pause, differ in how late it is.
        apart = [late for late, at in zip(lates, elected, strict=True) if abs(at - elected[0]) > 2 * SLACK_MS]
        if abs(most - zone) <= SLACK_MS:
            found[broker] = zone, most
        elif (apart and apart[0] - most <= SLACK_MS) or lates[-1] < -SLACK_MS:
            found[broker] = most, most
    return found


def lines_of_elections(log_events: pl.DataFrame, metadata: pl.DataFrame) -> pl.DataFrame:
    """The dated lines on leader epochs; `elected` is when the controller recorded the election (ms).

    A leader epoch that the metadata log only repeats was elected at an unknown time before.
    """
    epochs = metadata.drop_nulls(["leader_epoch", "time"]).group_by("leader_epoch")
    known = epochs.agg(elected=pl.col("time").min(), is_copy=pl.col("is_copy").any()).filter(~pl.col("is_copy"))
    fields = pl.col("fields").str
    epoch = pl.coalesce(fields.json_path_match("$.leader_epoch"), fields.json_path_match("$.leaderEpoch"))
    is_of_epoch = pl.col("kind").is_in([*BROKERS_LINES, *CONTROLLERS_LINES])
    dated = log_events.filter(is_of_epoch & pl.col("time").is_not_null(), snapshot=FINAL)
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
    changes = log_events.filter(is_change, snapshot=FINAL).sort("time") if len(records) else log_events.clear()
    offset, epoch_of = (records[name].to_numpy() for name in ("offset", "leader_epoch"))
    acked, sent = (
        records["completed"].fill_null(MAX_INT64).to_numpy(),
        records["invoked"].fill_null(MIN_INT64).to_numpy(),
    )
    begun: set[int] = set()  # leader epochs
    for kind, time, text in changes.select("kind", "time", "fields").iter_rows():
        fields = json.loads(text)
        epoch, end = fields.get("leader_epoch"), fields.get("offset")
        if not isinstance(epoch, int) or not isinstance(end, int):
            continue
        leads = kind == "leader"
        if leads and epoch not in begun:
            first_acked = acked[(offset >= end) & (epoch_of >= epoch)].min(initial=MAX_INT64)
            begun.add(epoch)
            if first_acked < MAX_INT64:
                lows.append(time - started - int(first_acked) // MS)
        last_sent = sent[(offset < end) & (epoch_of < epoch + leads)].max(initial=MIN_INT64)
        if last_sent > MIN_INT64:
            highs.append(time - started - int(last_sent) // MS)
    return max(lows, default=None), min(highs, default=None)


def without_steps(
    clocks: Mapping[str, Clock], log_events: pl.DataFrame, elections: pl.DataFrame
) -> Mapping[str, Clock]:
    """The clocks; those that were set while their brokers ran are in conflict.

    `log_events` are of one partition and of all. `elections`: the result of `lines_of_elections`.
    """
    stepped = _set_back(log_events) | _before_elections(clocks, elections)
    return {
        name: replace(clock, has_conflict=True, by_records=True, was_set=True)
        if name in stepped and not clock.has_conflict
        else clock
        for name, clock in clocks.items()
    }


def _set_back(log_events: pl.DataFrame) -> set[str]:
    """The brokers with two lines in a row that are earlier than a line before them in the same file.

    A single line may wait in a paused process. Files that were joined in the wrong order go back before their begin.
    """
    file = ("broker", "file")
    lines = log_events.filter(pl.col("time").is_not_null(), snapshot=FINAL).sort(*file, "line")
    time = pl.col("time")
    latest, earliest = time.cum_max().shift().over(file), time.cum_min().shift().over(file)
    went_back = lines.with_columns(back=(time < latest - SLACK_MS) & (time >= earliest))
    return {*went_back.filter(pl.col("back") & pl.col("back").shift().over(file))["broker"]}


def _before_elections(clocks: Mapping[str, Clock], elections: pl.DataFrame) -> set[str]:
    """The brokers with a bounded clock that logged some leader epochs, but not all, long before their elections.

    If all of them do, the metadata log may have another time than the history.
    """
    lines = elections.filter(pl.col("kind").is_in(BROKERS_LINES))
    early: dict[str, set[bool]] = {}
    for broker, late in lines.select("broker", pl.col("time") - pl.col("elected")).iter_rows():
        if broker in clocks and clocks[broker].low is not None:
            early.setdefault(broker, set()).add(late - clocks[broker].offset < -SLACK_MS)
    return {broker for broker, found in early.items() if found == {True, False}}


def metadata_clock(
    clocks: Mapping[str, Clock],
    ahead: Mapping[str, tuple[int, int]],
    metadata: pl.DataFrame,
    sends: pl.DataFrame,
    faults: Sequence[Fault],
    started: int | None,
) -> Clock:
    """The clock of the metadata log, of a topic-partition and of all brokers.

    `ahead`: how far the brokers' clocks are ahead of it by their lines (ahead_of_elections). `started`: the start of
    the run, ms since the epoch.
    """
    unknown = Clock(METADATA_TOPIC)
    if started is None or not len(metadata):
        return unknown
    records = longest_copy(metadata)
    low = _created_before_acknowledgements(records, sends, started)
    high = _registered_after_restarts(records, faults, started)
    is_behind, is_ahead = high is not None and high < -SLACK_MS, low is not None and low > SLACK_MS
    if is_behind == is_ahead:
        return unknown
    offset = _shown_by_brokers(clocks, ahead)
    if offset is None or not _is_within(offset, low, high):
        offset = low if low is not None and high is not None and low <= high <= low + MAX_WIDTH_MS else None
    if offset is None:
        return unknown
    return Clock(METADATA_TOPIC, offset, offset - SLACK_MS, offset + SLACK_MS, by_records=True)


def _is_within(offset: int, low: int | None, high: int | None) -> bool:
    return (low is None or offset >= low - SLACK_MS) and (high is None or offset <= high + SLACK_MS)


def _created_before_acknowledgements(records: pl.DataFrame, sends: pl.DataFrame, started: int) -> int | None:
    is_created = (pl.col("kind") == "partition") & ~pl.col("is_copy").fill_null(False)
    created = least(records.filter(is_created, pl.col("leader") >= 0)["time"], None)
    acked = least(sends.filter(pl.col("acknowledged"))["completed"], None)
    return None if created is None or acked is None else created - started - acked // MS


def _registered_after_restarts(records: pl.DataFrame, faults: Sequence[Fault], started: int) -> int | None:
    bounds = []
    registered = records.filter(pl.col("kind") == "register").sort("offset")
    for [broker], own in registered.group_by("broker_id", maintain_order=True):
        restarts = [
            f.invoked // MS for f in faults if (f.type, f.kind) == ("heal", "restart") and str(broker) in f.nodes
        ]
        if restarts and len(own) == len(restarts) + 1:  # the first start is before the history
            starts = zip(own["time"].to_list()[1:], restarts, strict=True)
            bounds += [time - started - restart for time, restart in starts]
    return min(bounds, default=None)


def _shown_by_brokers(clocks: Mapping[str, Clock], ahead: Mapping[str, tuple[int, int]]) -> int | None:
    """How far it is ahead (ms) by the lines of brokers with bounded clocks, else of all; None if they differ."""
    usable = {name: clock for name, clock in clocks.items() if name in ahead and not clock.has_conflict}
    bounded = {name for name, clock in usable.items() if clock.low is not None}
    shown = sorted(usable[name].offset - ahead[name][0] for name in bounded or usable)
    return shown[0] if shown and shown[-1] - shown[0] <= SLACK_MS else None
