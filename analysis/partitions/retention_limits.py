"""Which records retention may have deleted: their ages, and the limits by run.json, the metadata log and brokers' logs.

A log start proves that records were deleted, but not that a setting permits it: a broker with a wrong clock deletes
young records, and segments that were removed by hand move the log start, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from ...histories.evidence.clock import SLACK_MS
from ...histories.tables import MAX_INT64, MIN_INT64
from ...models.arrays import Ints
from ..extremes import earliest_start_above, least
from ..replicas.tiered import SETTING as TIERED
from ..timelines.facts import MS
from .observations import Observations

TIMESTAMP_TYPE, APPEND_TIME = "message.timestamp.type", "logappendtime"
MAX_TIMESTAMP_MS = MAX_INT64 // MS  # larger timestamps would overflow as ns


def first_not_permitted(p: Observations, starts: Iterable[tuple[int, int | None]]) -> int:
    """The lowest offset below one of these log starts that nothing known permits to be deleted; MAX_INT64: none.

    `starts` have an offset, and the latest time (ns) at which the log started there; None: not known. run.json has to
    set retention.ms, as brokers may have another default than Kafka.
    """
    dated = [(offset, time) for offset, time in starts if time is not None]
    sent = p.sends.filter(pl.col("acknowledged") & pl.col("offset").is_not_null())
    limit = age_limit(p) if dated and len(sent) else None
    if limit is None:
        return MAX_INT64
    # An offset was gone at the earliest time at which the log started behind it.
    records = record_times(p, sent).join(sent.unique("offset").select("offset", "invoked"), on="offset")
    gone = pl.Series(earliest_start_above(records["offset"].to_numpy(), dated))
    is_young = gone < records["time"].clip(MIN_INT64, MAX_INT64 - limit) + limit
    # Else it is the start of an earlier log, which was truncated below.
    is_young &= (gone >= records["invoked"] - SLACK_MS * MS).fill_null(True)
    return max(least(records.filter(is_young)["offset"], MAX_INT64), requested_below(p))


def requested_below(p: Observations) -> int:
    """The highest offset below which a client deleted, by the brokers' logs; 0: none."""
    shown = p.timeline.deletions if p.timeline is not None else []
    return max((one.value for one in shown if one.kind == "request"), default=0)


def age_limit(p: Observations) -> int | None:
    """The age (ns) below which no record of the topic may be deleted unless a client requests it; None: not known."""
    about = p.settings.topic(p.topic)
    has_tiered_logs = p.replica_logs is not None and p.replica_logs.is_tiered
    is_tiered = has_tiered_logs or str(about.get(TIERED, "")).lower() == "true"
    policy = str(about.get("cleanup.policy", "delete"))
    if "retention.ms" not in about or "delete" not in policy or is_tiered or p.settings.is_undated:
        return None
    limit = p.settings.retention_ms(p.topic)
    limits = [MAX_INT64 // MS if limit is None else limit]
    shown = p.timeline.deletions if p.timeline is not None else []
    if p.settings.limited_in_size(p.topic) or any(one.kind == "size" for one in shown):
        return None
    limits += [one.value for one in shown if one.kind == "age"]
    return max(0, min(limits) - SLACK_MS) * MS


def earliest_expiry(p: Observations, sends: pl.DataFrame) -> Ints:
    """The earliest time (ns) at which retention.ms may remove each send; MIN_INT64: at any time.

    A record is as old as its send, or the oldest timestamp of its own or of a poll at its offset: that may be of
    another record, which was written there later.
    """
    limit, started = age_limit(p), p.settings.started_ms
    if limit is None:
        return np.full(len(sends), MIN_INT64, np.int64)
    times = [pl.col("invoked")]
    if started is not None:
        polled = p.reads.filter(pl.col("timestamp") >= 0).group_by("offset").agg(polled=pl.col("timestamp").min())
        sends = sends.join(polled, on="offset", how="left", maintain_order="left")
        stamps = pl.col("polled"), pl.when(pl.col("timestamp") >= 0).then("timestamp")
        times += [(stamp.clip(0, MAX_TIMESTAMP_MS) - started) * MS for stamp in stamps]
    oldest = pl.min_horizontal(*times).clip(MIN_INT64, MAX_INT64 - limit)
    return np.asarray(sends.select((oldest + limit).fill_null(MIN_INT64)).to_series().to_numpy())


def record_times(p: Observations, sends: pl.DataFrame) -> pl.DataFrame:
    """Offset and time (ns of the run) of records as retention.ms sees them: their timestamps (KIP-32).

    Polls return the broker's timestamp. The timestamp of a send only counts with CreateTime; where the topic may have
    had either type, the earlier of it and the send counts. A record without a timestamp gets the time of its send
    (`is_stamped` is false).
    """
    started = p.settings.started_ms
    unstamped = sends.select("offset", time="invoked", is_stamped=pl.lit(False))
    if started is None or p.settings.is_undated:
        return unstamped
    earlier = pl.min_horizontal("timestamp", pl.col("invoked") // MS + started)
    timestamp = pl.when(pl.col("is_append_time").is_null()).then(earlier).otherwise("timestamp")
    with_type = sends.with_columns(is_append_time=_is_append_time(p, sends)).filter(pl.col("timestamp") >= 0)
    of_sends = with_type.filter(~pl.col("is_append_time").fill_null(False)).select("offset", timestamp=timestamp)
    stamps = [p.reads.filter(pl.col("timestamp") >= 0).select("offset", "timestamp"), of_sends]
    stamped = pl.concat(stamps).drop_nulls().unique("offset", keep="first", maintain_order=True)
    time = (pl.col("timestamp").clip(0, MAX_TIMESTAMP_MS) - started) * MS
    times = stamped.select("offset", time=time, is_stamped=pl.lit(True))
    return pl.concat([times, unstamped.join(times, on="offset", how="anti")])


def _type_spans(p: Observations) -> list[tuple[int, int, bool | None]]:
    """From when until when (ns) the topic had LogAppendTime or not; None: it may have had either type of timestamps.

    run.json has the type of one moment, the metadata log its changes.
    """
    changes = [one for one in p.timeline.settings if one.name == TIMESTAMP_TYPE] if p.timeline is not None else []
    values = [str(p.settings.topic(p.topic).get(TIMESTAMP_TYPE, "")).lower(), *(one.value for one in changes)]
    types: list[bool | None] = [value == APPEND_TIME for value in values]
    if changes and types[0] == types[1]:
        types[0] = None  # run.json may have the type after the change
    times = [one.fact.time for one in changes if one.fact.time is not None]
    if len(times) < len(changes):
        return [(MIN_INT64, MAX_INT64, None)]
    return [*zip([MIN_INT64, *times], [*times, MAX_INT64], types, strict=True)]


def _is_append_time(p: Observations, sends: pl.DataFrame) -> pl.Series:
    """Whether the topic had LogAppendTime while each send was in flight; null: it may have had either type.

    Brokers apply a change a little later.
    """
    since = pl.col("invoked").fill_null(MIN_INT64).clip(MIN_INT64, MAX_INT64) - SLACK_MS * MS
    until = pl.col("completed").fill_null(MAX_INT64).clip(MIN_INT64, MAX_INT64) + SLACK_MS * MS

    def may_be(type_: bool) -> pl.Expr:
        spans = [(begun, ended) for begun, ended, is_append_time in _type_spans(p) if is_append_time in (type_, None)]
        return pl.any_horizontal(pl.lit(False), *((since < ended) & (until >= begun) for begun, ended in spans))

    return sends.select(pl.when(may_be(True) != may_be(False)).then(may_be(True))).to_series()
