"""Whether compaction had removed a record before a truncation took its offset.

An unclean election may give offsets of a compacted topic to other records. Some of the records there had been compacted
away before, as the old leader's log had a later record of their key. They are no loss.

For example, a and b are written with one key at offsets 5 and 8, the cleaner removes a, and the next leader's log ends
at offset 4. Then b is lost, and a is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ..extremes import greatest
from ..replicas.replica_logs import is_of_copy
from ..timelines.facts import MS, SECOND
from ..timelines.timeline import Timeline
from .absences import WRITTEN_BY, sends_above, sends_with_repeated_keys
from .cleanup_policies import compacted_until
from .later_epochs import began_of_later_epoch
from .partition import Partition

REMOVABLE = ("replaced_since", "expired")  # columns: ns; null: not


class Compacted(NamedTuple):
    """Whether compaction removed each send before a truncation, and since when it may have."""

    surely: pl.Series
    perhaps: pl.Series
    since: pl.Series  # ns; null: compaction may not remove it


def compacted_first(p: Partition, sends: pl.DataFrame) -> Compacted:
    """Whether compaction removed acknowledged sends before any sign of a truncation.

    sends: with the columns of `with_other_value` and `with_later_end`. Surely: a copy of a log that the cleaner had
    passed lacks it. Perhaps: a later record of its key was sent before the truncation is known, no logs of its
    leaders still have it, and a cleaner may have run in between.
    """
    never = pl.repeat(False, len(sends), eager=True)
    if not p.settings.is_compacted(p.topic):
        return Compacted(never, never, pl.repeat(None, len(sends), dtype=pl.Int64, eager=True))
    began = began_of_later_epoch(p, sends)
    dated = _with_removable_since(p, sends).with_columns(
        compactable=pl.min_horizontal(REMOVABLE), began=began, last_write=began.replace(_last_writes(p))
    )
    begun = pl.min_horizontal("other_begun", "later_end_begun", "began")
    known = pl.min_horizontal("other_known", "later_end_done", "last_write")
    surely = never
    for time, newest, lacked in _offsets_without_record(p):
        is_newer = pl.col("began") > pl.lit(newest, pl.Int64)
        is_from_before = (begun >= time).fill_null(False) | is_newer.fill_null(False)
        was_removable = (pl.col("compactable") < pl.min_horizontal("last_write", time)) & (pl.col("completed") <= time)
        is_gone = is_from_before & was_removable & pl.col("offset").is_in(lacked.implode())
        surely |= dated.select(is_gone.fill_null(False)).to_series()
    # The final reads or the last logs may show a truncation without its time.
    known_at_latest = known.fill_null(MAX_INT64)
    is_replaced = pl.col("replaced_since") < known_at_latest
    perhaps = dated.select((is_replaced | (pl.col("expired") < known)).fill_null(False)).to_series()
    if perhaps.any():
        held = held_by_leaders_until(p, sends)
        perhaps &= ~surely & ~are_held(held, dated.select(known_at_latest).to_series())
        if (cleanings := _cleanings(p)) is not None:
            above, others = pl.col("sent_above"), pl.min_horizontal("unplaced", "expired")
            by_next = dated.select(passed="next_offset", since=_not_before(held, above), until=known)
            by_others = dated.select(passed="offset", since=_not_before(held, others), until=known)
            perhaps &= _are_reached(by_next, cleanings) | _are_reached(by_others, cleanings)
    return Compacted(surely, perhaps, dated["compactable"])


def _not_before(held_until: pl.Series, since: pl.Expr) -> pl.Expr:
    """The later of both times: a record that was held then had not been removed before."""
    return pl.when(since.is_not_null()).then(pl.max_horizontal(since, held_until))


def last_write_before(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """The time (ns) until which the leader before a `began_of_later_epoch` may have written or deleted; else null."""
    return began_of_later_epoch(p, sends).replace(_last_writes(p))


def _last_writes(p: Partition) -> dict[int, int]:
    """For each term its beginning (ns), and when the leader before it may have written last: a dead one writes nothing.

    A leader that started again may have led on in its own epoch.
    """
    if p.timeline is None:
        return {}
    last: dict[int, int] = {}
    for term, following in pairwise(p.timeline.dated_terms):
        ends, began = p.timeline.ends_of_process(term.leader or ""), following.when
        died = max((time for time in ends if term.when <= time <= began), default=began)
        last[began] = began if p.timeline.starts_of(term.leader, died - 1, began) else died
    return last


def _with_removable_since(p: Partition, sends: pl.DataFrame) -> pl.DataFrame:
    """Adds since when (ns) the cleaner may remove a send: a later record of its key is there (`replaced_since`, the
    earlier of `sent_above` and `unplaced`), or it is a tombstone and delete.retention.ms has passed (`expired`).
    """
    until, times = compacted_until(p), pl.col("sent_above", "unplaced")
    replaced = _replaced_since(p).with_columns(pl.when(times <= until).then(times))
    limit = p.settings.delete_retention_ms(p.topic) * MS
    expired = pl.when(pl.col("value").is_in(p.tombstones.implode())).then(pl.col("invoked") + limit)
    joined = sends.join(replaced, on="value", how="left", maintain_order="left")
    return joined.with_columns(expired=expired, replaced_since=pl.min_horizontal("sent_above", "unplaced"))


def _replaced_since(p: Partition) -> pl.DataFrame:
    """Values with a known offset, and when (ns) the first record of their key was sent that may be behind them: one at
    `next_offset` or above (`sent_above`), or one without a known offset (`unplaced`).
    """
    keyed = sends_with_repeated_keys(p)
    unplaced = keyed.filter(pl.col("offset").is_null()).select("key", "invoked", end=WRITTEN_BY).sort("end")
    first = unplaced.select("key", "end", unplaced=pl.col("invoked").cum_min(reverse=True).over("key"))
    above = keyed.drop_nulls(["offset", "value"]).join(sends_above(keyed), on=["key", "offset"], how="left")
    dated = above.sort("invoked").join_asof(
        first, left_on="invoked", right_on="end", by="key", strategy="forward", check_sortedness=False
    )
    sent_above = pl.when(pl.col("written_above") >= pl.col("invoked")).then("sent_above")
    return dated.group_by("value").agg(sent_above.min(), pl.col("unplaced", "next_offset").min())


def _offsets_without_record(p: Partition) -> Iterator[tuple[int, int | None, pl.Series]]:
    """For each dated copy of a log: its time (ns), when its newest epoch began (ns; None: not known), and the offsets
    without a record that the cleaner had passed.
    """
    logs = p.replica_logs
    if logs is None:
        return
    incomplete = {one[:2] for one in logs.missing} | {*logs.damage.select("snapshot", "broker").rows()}
    for row in logs.extents.drop_nulls("cleaned").iter_rows(named=True):
        copy, time = (row["snapshot"], row["broker"]), logs.times.get(row["snapshot"])
        if time is None or copy in incomplete:
            continue
        below = p.entries.filter(pl.col("offset").is_between(row["start"], min(row["cleaned"], row["end"]) - 1))
        held = logs.records.filter(is_of_copy(*copy))
        newest = p.timeline.terms.get(greatest(held["leader_epoch"], -1)) if p.timeline is not None else None
        began = None if newest is None else newest.time
        yield time, began, below.join(held, on="offset", how="anti")["offset"].unique()


def _cleanings(p: Partition) -> list[tuple[int, int]] | None:
    """When (ns) a broker's cleaner took up the log, and the end of what it read of it; None if that is not known.

    The checkpoints of each broker show whether its cleaner did so at all. Its log then must have the first such line,
    which begins at offset 0: older lines may not have been collected.
    """
    logs, timeline = p.replica_logs, p.timeline
    if logs is None or timeline is None or not logs.replicas:
        return None
    has_checkpoint = logs.extents.filter(pl.col("high_watermark").is_not_null(), snapshot=logs.last)["broker"]
    cleaners = {*logs.extents.drop_nulls("cleaned")["broker"]}
    dated = [(fact.time, fact.offset) for fact in timeline.cleanings if fact.time is not None]
    are_complete = len(dated) == len(timeline.cleanings) and all(timeline.cleaned_from.get(b) == 0 for b in cleaners)
    if not {*logs.replicas} <= {*has_checkpoint} or not are_complete:
        return None
    return [(time, offset) for time, offset in dated if offset is not None]


def _are_reached(sends: pl.DataFrame, cleanings: list[tuple[int, int]]) -> pl.Series:
    """Whether a cleaning took up the log beyond the offset `passed` from `since` to `until` (ns; null: ever after).

    With a second of tolerance, as the clocks of brokers and clients may differ a little.
    """
    offsets = sends["passed"].fill_null(-1).to_numpy()
    begun = sends["since"].fill_null(MAX_INT64).to_numpy() - SECOND
    ended = sends["until"].fill_null(MAX_INT64 - SECOND).to_numpy() + SECOND
    reached = np.zeros(len(sends), bool)
    for time, end in cleanings:
        reached |= (begun <= time) & (time <= ended) & (offsets < end)
    return pl.Series(reached)


def are_held_by_leaders(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """Whether the logs of the leaders before a truncation have a record, in copies from after what may have removed it.

    See held_by_leaders_until.
    """
    return are_held(held_by_leaders_until(p, sends), last_write_before(p, sends))


def are_held(held_until: pl.Series, until: pl.Series) -> pl.Series:
    """Whether records were held at a time (ns; null: not known, so that any copy counts)."""
    return (held_until >= until.fill_null(MIN_INT64)).fill_null(False)


def held_by_leaders_until(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """When (ns) the last copies were made of the logs that have a record, of the leader that wrote it and all others
    before the `began_of_later_epoch`: each may have removed it. Null if one of them has no copy with it.

    MAX_INT64 for the logs at the end, and MIN_INT64 for copies without a time. A log does not have what is below its
    start, though its first segment may.
    """
    if p.timeline is None:
        return pl.repeat(None, len(sends), dtype=pl.Int64, eager=True)
    logs = p.timeline.replica_logs
    starts = logs.extents.select("snapshot", "broker", "start")
    records = logs.records.filter(pl.col("control").is_null()).join(starts, on=["snapshot", "broker"], how="left")
    times = {**logs.times, logs.last: MAX_INT64}
    copied = pl.col("snapshot").replace_strict(times, default=MIN_INT64, return_dtype=pl.Int64)
    copies = (
        records.filter(pl.col("offset") >= pl.col("start").fill_null(0))
        .group_by("offset", "value", "leader_epoch", "broker")
        .agg(copied=copied.max())
    )
    is_tombstone = pl.col("value").is_in(p.tombstones.implode())
    own = sends.select("offset", value=pl.when(~is_tombstone).then("value"))  # a log has no name of a tombstone
    own = own.with_columns(began=began_of_later_epoch(p, sends)).with_row_index("row")
    held = own.join(copies, on=["offset", "value"], nulls_equal=True)
    leaders = _leaders_before(p.timeline, held.select("leader_epoch", "began").unique())
    by_all = (
        held.join(leaders, on=["leader_epoch", "began", "broker"], nulls_equal=True)
        .filter(pl.col("offset").is_between("first", "last"))
        .group_by("row", "leader_epoch", "number")
        .agg(brokers=pl.len(), copied=pl.col("copied").min())
        .filter(pl.col("brokers") == pl.col("number"))
    )
    until = by_all.group_by("row").agg(held_until=pl.col("copied").max())
    return own.join(until, on="row", how="left", maintain_order="left")["held_until"]


def _leaders_before(timeline: Timeline, written: pl.DataFrame) -> pl.DataFrame:
    """The brokers that led from the epoch of a record until a later one began (ns), or began at or below its offset.

    There are `number` of them for the offsets from `first` to `last`. Only the first one if `began` is null.
    """
    rows: list[tuple[int, int | None, str | None, int, int, int]] = []
    for epoch, began in written.drop_nulls("leader_epoch").select("leader_epoch", "began").iter_rows():
        brokers: set[str | None] = set()
        last = MAX_INT64
        for term in [term for term in timeline.led_terms if term.epoch >= epoch]:
            is_over = bool(brokers) and (began is None or term.time == began)
            first = 0 if is_over else last + 1 if term.start is None or not brokers else min(term.start, last + 1)
            rows += [(epoch, began, broker, len(brokers), first, last) for broker in brokers if first <= last]
            last = min(last, first - 1)
            brokers = {*brokers, term.leader}
        rows += [(epoch, began, broker, len(brokers), 0, last) for broker in brokers]
    columns = {"began": pl.Int64, "broker": pl.String, "number": pl.UInt32, "first": pl.Int64, "last": pl.Int64}
    return pl.DataFrame(rows, {"leader_epoch": written["leader_epoch"].dtype, **columns}, orient="row")
