"""Condenses a large partition with unproved rules to the rows from which these rules report what they report of all.

Most offsets of a faulty partition are plain (suspects.py), and no finding is about them. But they can be witnesses: the
record that was known when a later one was sent, or one that separates two runs of lost records. So of each stretch of
plain offsets a few are retained, with all of their rows, and the rules judge the partition as if there were no others:

- lost-write, unseen: a plain record was in the final reads, or in any reads, so it is neither lost nor doubtful. It
  separates two runs if it was invoked before a neighbour was gone (the first one invoked), and it contradicts an end
  offset if it was acknowledged above (the last one invoked).
- inconsistent-offsets, duplicate, phantom-read, aborted-read: all rows of a value or an offset are retained together.
  A plain record separates two runs of offsets if it was known before (the first one known).
- realtime-order, stale-end-offset: the witness of a contradiction is the highest record known at its time.
- nonmonotonic-send: both sends are retained. Other plain sends of the producer are in order.
- poll-skip, nonmonotonic-poll: all offsets of a jump are retained. Where a consumer read plain records that are not,
  its position behind them is (`passed`).
- consumer-loss and others about groups: every group handled a plain record, or need not have; commits are retained,
  and the offsets over which a committed offset went back.
- What bounds the reads or the log: the first and the last row of each process, by offset and by time.

`borders_of` and `wanted_of` return None where this does not hold, and the rules judge all rows: of logs with
transactions, deletions or compaction, of final reads by an ordinary consumer, of clocks that are an hour off, of a
group that passed over a record that was there, and of interleaved reads of one process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np
import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MAX_INT64, MIN_INT64
from ..partitions.foreign_clock import HOUR_NS, UNITS
from ..partitions.marks import IS_COMMIT, IS_OF_GROUP
from ..partitions.unit import Common
from .groups import group_of
from .premises import GROUPS, PROVED
from .range_facts import Key, RangeFacts, Rows, RunOfReads
from .range_summary import final_reads_in, latency_in
from .ranges import Facts, maybe_expired, moves_of, only_grows, repeated_hashes
from .retained import Wanted
from .screen import chosen_rules
from .suspects import Borders, Clock, Spans, Suspects, clocks_of, jump_between

MAX_POLLS = 10_000  # of unknown outcome
MAX_OFFSETS = 10_000_000  # that are retained


def borders_of(
    topic: str,
    ranges: Mapping[int, Facts],
    rest: Rows,
    unproved: Collection[str],
    common: Common,
    settings: Settings,
) -> Borders | None:
    """What each range must know of the others; None if the partition cannot be condensed."""
    facts = {number: ranges[number][0] for number in sorted(ranges)}
    every = list(facts.values())
    unplaced = common.unplaced.filter(topic=topic)
    last_read = max((fact.read[2] for fact in every if fact.read), default=MIN_INT64)
    final = final_reads_in(every, rest, common, settings) if settings.final else None
    is_read_by_others = settings.final and not settings.final_processes() and any(fact.read for fact in every)
    has_odd_rest = not only_grows(rest, common.context, settings) or bool(unplaced["txn"].any())
    has_other_rules = bool(chosen_rules(settings) - set(PROVED))
    is_split = any(fact.counts["reads"] and not fact.runs for fact in every)  # into too many runs
    hashes = repeated_hashes([*ranges.values()], rest)
    if has_odd_rest or is_read_by_others or has_other_rules or is_split or hashes is None:
        return None
    if any(fact.sent_since for fact in every) and maybe_expired(topic, every, rest, last_read, settings):
        return None
    spans = _jumps([run for fact in every for run in fact.runs], [*moves_of(rest.marks)])
    polls = _polls(facts, common.context)
    clocks = clocks_of(rest.marks.select("process", "invoked", "invoked_at").drop_nulls())
    if spans is None or polls is None or clocks is None:
        return None
    known = np.array([fact.known_since for fact in every] + [MAX_INT64])
    above = np.minimum.accumulate(known[::-1])[::-1][1:]
    sent_by: dict[str, list[tuple[int, Key, Key]]] = defaultdict(list)
    for number, fact in facts.items():
        for process, first, last in fact.sent_by:
            sent_by[process].append((number, first, last))
    limits = _limits(every, rest.marks, settings)
    has_final = final is not None and len(final) > 0
    final_ends = [fact.final[0] + 1 for fact in every if fact.final]
    has_polls = bool((common.context["kind"] == "poll").any())
    is_certain = final is not None and not (final["start"] > 0).any() and not has_polls
    return Borders(
        numbers=[*facts],
        has_final=has_final,
        lost_below=max(final_ends, default=0) if is_certain else 0,
        known_above=above.tolist(),
        sent_by=dict(sent_by),
        judges_groups=bool(limits) and not {*GROUPS}.isdisjoint(unproved),
        limits=limits,
        spans=[*spans, *_lowered_commits(rest.marks, settings)],
        polls=polls,
        repeated=hashes.view(np.int64),
        others=unplaced["value"].drop_nulls().unique().to_list(),
        clocks=clocks,
        latency=latency_in(every, rest),
    )


def _lowered_commits(marks: pl.DataFrame, settings: Settings) -> Spans:
    """The offsets over which a group's committed offset went back: whether a member read them again is its cause."""
    is_assigned = IS_OF_GROUP & (pl.col("kind") == "assign") & pl.col("offset").is_not_null()
    claims = marks.filter(IS_COMMIT | is_assigned).with_columns(group_of(settings)).sort("completed", "at", "index")
    before = claims.with_columns(before=pl.col("offset").cum_max().over("group"))
    lowered = before.filter(pl.col("offset") < pl.col("before"))
    return [(max(offset - 1, 0), before) for offset, before in lowered.select("offset", "before").unique().iter_rows()]


def _limits(facts: Iterable[RangeFacts], marks: pl.DataFrame, settings: Settings) -> dict[str, int]:
    """The offset below which each group with commits or assignments must have handled all records."""
    active = marks.filter(IS_OF_GROUP).with_columns(group_of(settings))
    limits = dict.fromkeys(active["group"].unique().sort().to_list(), 0)
    claims = active.filter(IS_COMMIT | ((pl.col("kind") == "assign") & pl.col("offset").is_not_null()))
    firsts: dict[str, int] = {}
    alone = {*active["process"]}
    for run in (run for fact in facts for run in fact.runs if run.first is not None):
        group = settings.group_of(run.process)
        if group or run.process in alone:
            firsts[group] = min(firsts.get(group, MAX_INT64), run.first or 0)
    for group, offset in [*claims.select("group", "offset").iter_rows(), *firsts.items()]:
        if group in limits:
            limits[group] = max(limits[group], offset)
    return limits


def _jumps(runs: Iterable[RunOfReads], moves: Iterable[RunOfReads]) -> Spans | None:
    """The offsets of jumps between runs of reads; None if two runs of a process overlap in time."""
    events = sorted([*runs, *moves], key=lambda event: (event.process, event.began, event.ended))
    spans: Spans = []
    for _, of_process in groupby(events, key=lambda event: event.process):
        before: RunOfReads | None = None  # the event that ended last
        last: RunOfReads | None = None  # the run that did
        for event in of_process:
            if event.first is not None:
                if last is not None and event.began <= last.ended:
                    return None
                last = event
                if before is not None and before.position is not None and before.position != event.first:
                    spans += [jump_between(before.position, event.first), (before.position - 1, before.position)]
            if before is None or event.ended >= before.ended:
                before = event
    return spans


def _polls(facts: Mapping[int, RangeFacts], context: pl.DataFrame) -> dict[int, list[tuple[str, Key]]] | None:
    """By range the polls of unknown outcome whose process read there just before or afterwards; None: too many."""
    polls = context.filter(kind="poll").select("process", "invoked").drop_nulls().unique()
    if len(polls) > MAX_POLLS:
        return None
    read: dict[str, dict[int, tuple[Key, Key]]] = defaultdict(dict)
    for number, fact in facts.items():
        for run in fact.runs:
            began, ended = read[run.process].get(number, (run.began, run.ended))
            read[run.process][number] = min(began, run.began), max(ended, run.ended)
    found: dict[int, list[tuple[str, Key]]] = defaultdict(list)
    for process, invoked in polls.iter_rows():
        for number in _beside(read.get(process, {}), (invoked, MAX_INT64, MAX_INT64)):
            found[number].append((process, (invoked, MAX_INT64, MAX_INT64)))
    return dict(found)


def _beside(spans: Mapping[int, tuple[Key, Key]], key: Key) -> set[int]:
    """The spans that contain a key, or are the last before it or the first behind it."""
    around = {number for number, (began, ended) in spans.items() if began <= key <= ended}
    before = [(ended, number) for number, (_, ended) in spans.items() if ended < key]
    behind = [(began, number) for number, (began, _) in spans.items() if began > key]
    return around | {edge[1] for edge in (max(before, default=None), min(behind, default=None)) if edge}


def wanted_of(found: Mapping[int, Suspects | None], borders: Borders) -> Wanted | None:
    """What each range retains, from the suspects of all; None if the partition cannot be condensed."""
    suspects = {number: of_range for number, of_range in sorted(found.items()) if of_range is not None}
    every = list(suspects.values())
    if len(every) < len(found) or _has_other_clock(every, borders.clocks):
        return None
    values = [*dict.fromkeys(value for one in every for value in one.values), *borders.others]
    missed = {value for one in every for value in one.missed}
    if borders.judges_groups and (any(one.has_stale_end for one in every) or not missed.isdisjoint(values)):
        return None
    missed_hashes = pl.Series("value", sorted(missed), dtype=pl.String).hash().to_numpy().view(np.int64)
    if borders.judges_groups and np.isin(missed_hashes, borders.repeated).any():
        return None
    spans = [*borders.spans, *(span for one in every for span in one.spans)]
    spans = [(max(first, 0), min(end, MAX_INT64)) for first, end in spans]
    if sum(end - first for first, end in spans) + sum(len(one.offsets) for one in every) > MAX_OFFSETS:
        return None
    offsets = np.concatenate([np.empty(0, np.int64), *(one.offsets for one in every)])
    offsets = np.concatenate([offsets, *(np.arange(first, end) for first, end in spans)])
    sends: dict[int, list[tuple[str, Key]]] = defaultdict(list)
    for one in every:
        for number, keys in one.sends.items():
            sends[number] += keys
    return Wanted(
        offsets=np.unique(np.concatenate([offsets - 1, offsets, offsets + 1])),
        values=values,
        hashes=borders.repeated,
        keys=[*dict.fromkeys(key for one in every for key in one.keys)],
        times=_highest_before({number: one.plain_since for number, one in suspects.items()}, every),
        sends=dict(sends),
        polls=borders.polls,
        latency=borders.latency,
    )


def _has_other_clock(suspects: Sequence[Suspects], of_marks: list[Clock]) -> bool:
    """Whether a process may have another clock than the others, or one that was set back (foreign_clock.py)."""
    clocks = sorted([*of_marks, *(clock for one in suspects for clock in one.clocks)], key=_place)
    for _, own in groupby(clocks, key=lambda clock: (clock.process, clock.split)):
        same = list(own)
        begins = [clock.places[0] for clock in same]
        latest = np.maximum.accumulate([clock.times[1] for clock in same])
        for clock in same:
            before = int(np.searchsorted(begins, clock.places[1], "left")) - 1
            if before >= 0 and latest[before] - clock.times[0] >= HOUR_NS and len(same) > 1:
                return True
    last: dict[str, tuple[int, int, int]] = {}
    for process, *times in (item for one in suspects for item in one.last_times):
        plain, odd, until = last.get(process, (MIN_INT64, MAX_INT64, MIN_INT64))
        last[process] = max(times[0], plain), min(times[1], odd), max(times[2], until)
    low = max((plain for plain, _, _ in last.values()), default=0) / 2
    high = max((max(plain, until) for plain, _, until in last.values()), default=0) * 1.1
    return any(
        low <= plain * factor <= high or (odd <= until and odd * factor <= high and low <= until * factor)
        for plain, odd, until in last.values()
        for factor in UNITS.values()
    )


def _place(clock: Clock) -> tuple[str, int, int]:
    return clock.process, clock.split, clock.places[0]


def _highest_before(plain_since: Mapping[int, int], suspects: Iterable[Suspects]) -> dict[int, list[int]]:
    """The times of contradictions, by the highest range with a plain record that was known before."""
    left = np.unique([time for one in suspects for time in one.times])
    found: dict[int, list[int]] = {}
    for number in sorted(plain_since, reverse=True):
        is_here = left > plain_since[number]
        if is_here.any():
            found[number] = left[is_here].tolist()
            left = left[~is_here]
    return found
