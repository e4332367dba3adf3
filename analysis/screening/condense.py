"""Condenses a large partition with unproved rules to the rows from which these rules report what they report of all.

Most offsets of a faulty partition are plain (suspects.py), and no finding is about them. But they can be witnesses: the
record that was known when a later one was sent, or one that separates two runs of lost records. So of each stretch of
plain offsets a few are retained, with all of their rows, and the rules judge the partition as if there were no others:

- lost-write, unseen: a plain record was in the final reads, or in any reads, so it is neither lost nor doubtful. It
  separates two runs if it was invoked before a neighbour was gone (the first one invoked). It contradicts an end offset
  if it was acknowledged above (the last one invoked).
- inconsistent-offsets, duplicate, phantom-read, aborted-read: all rows of a value or an offset are retained together.
  A plain record separates two runs of offsets if it was known before (the first one known).
- realtime-order, stale-end-offset: the witness of a contradiction is the highest record known at its time.
- nonmonotonic-send: both sends are retained. Other plain sends of the producer are in order.
- poll-skip, nonmonotonic-poll: all offsets of a jump are retained. Where a consumer read plain records that are not,
  its position after them is (`positions`).
- consumer-loss and others about groups: every group handled a plain record, or need not have; commits are retained,
  the offsets over which a committed offset went back, and the record below each automatic commit.
- What bounds the reads or the log: the first and the last row of each process, by offset and by time.

This does not hold for logs with transactions, deletions or compaction, final reads by an ordinary consumer, clocks that
differ, a group that skipped a record that was there, and interleaved reads of one process. Then `borders_of` or
`wanted_of` returns None, and the rules judge all rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MAX_INT64, MIN_INT64
from ..partitions.common import Common
from ..partitions.marks import IS_COMMITTED, IS_OF_GROUP
from ..partitions.observations import last_heal
from .clocks import clocks_of, has_other_unit, was_set_back
from .groups import group_of
from .premises import GROUPS, PROVED
from .range_facts import HashedFacts, OrderKey, RangeFacts, Rows, RunOfReads, SentBy
from .ranges import in_order_of_time, maybe_expired, only_grows, repeated_hashes
from .retained import Wanted
from .screen import chosen_rules
from .summaries import final_reads_in, latency_in
from .suspects import Borders, Operation, Operations, Span, Spans, Suspects, jump_between

MAX_POLLS = 10_000  # of unknown outcome
MAX_OFFSETS = 10_000_000  # that are retained


def borders_of(
    topic: str, ranges: Mapping[int, HashedFacts], rest: Rows, unproved: Collection[str], common: Common
) -> Borders | None:
    """What each range needs of the others; None if the partition cannot be condensed."""
    settings = common.settings
    facts = {number: ranges[number].facts for number in sorted(ranges)}
    every = [*facts.values()]
    hashes = repeated_hashes([*ranges.values()], rest)
    if hashes is None or not _can_be_condensed(topic, every, rest, common):
        return None
    spans = _jumps(every, rest.marks)
    polls = _open_polls(facts, common.context)
    clocks = clocks_of(rest.marks)
    if spans is None or polls is None or clocks is None:
        return None
    final = final_reads_in(every, rest, common) if settings.has_final_reads else None
    limits = _limits(every, rest.marks, settings)
    unplaced = common.unplaced.filter(topic=topic)
    return Borders(
        has_final=final is not None and len(final) > 0,
        lost_below=0 if final is None else _lost_below(every, final, common.context),
        known_above=_known_above(facts),
        sent_by=_sent_by(facts),
        judges_groups=bool(limits) and not {*GROUPS}.isdisjoint(unproved),
        limits=limits,
        spans=[*spans, *_lowered_commits(rest.marks, settings), *_automatic_commits(rest.marks)],
        polls=polls,
        repeated=hashes.view(np.int64),
        unplaced_values=unplaced["value"].drop_nulls().unique().to_list(),
        clocks=clocks,
        latency=latency_in(every, rest),
    )


def _can_be_condensed(topic: str, facts: Sequence[RangeFacts], rest: Rows, common: Common) -> bool:
    """Whether the partition has only what the module's docstring allows, as far as its facts show it."""
    settings = common.settings
    if common.context["kind"].is_in(["unreadable", "lone completions"]).any():
        return False  # which operations may be missing depends on all reads
    if not only_grows(rest, common) or common.unplaced.filter("txn", topic=topic).height:
        return False
    if chosen_rules(settings) - set(PROVED):  # a new rule may need other rows
        return False
    if settings.has_final_reads and not settings.final_readers() and any(fact.read for fact in facts):
        return False  # an ordinary consumer's reads may be the final ones
    if any(fact.counts["reads"] and not fact.runs for fact in facts):
        return False  # there are too many runs
    healed_at, final = last_heal(common.context), settings.final_readers()
    runs = [run for fact in facts for run in fact.runs if run.first is not None]
    if any(run.process in final and run.began.time < healed_at for run in runs):
        return False  # where they went on after the heal depends on all of their reads
    last_read = max((fact.read.last for fact in facts if fact.read), default=MIN_INT64)
    return not any(fact.sent_since for fact in facts) or not maybe_expired(topic, facts, rest, last_read, settings)


def _lost_below(facts: Sequence[RangeFacts], final: pl.DataFrame, context: pl.DataFrame) -> int:
    """The offset below which a record is lost that the final reads lack; 0 if an open poll may have returned it."""
    if (final["start"] > 0).any() or (context["kind"] == "poll").any():
        return 0
    return max((fact.final.offset + 1 for fact in facts if fact.final), default=0)


def _known_above(facts: Mapping[int, RangeFacts]) -> dict[int, int]:
    """By range the time (ns) since when a record or an end above it was known."""
    found, since = {}, MAX_INT64
    for number in sorted(facts, reverse=True):
        found[number] = since
        since = min(since, facts[number].known_since)
    return found


def _sent_by(facts: Mapping[int, RangeFacts]) -> dict[str, dict[int, SentBy]]:
    """By process and range, its first and last send."""
    sent_by: dict[str, dict[int, SentBy]] = defaultdict(dict)
    for number, fact in facts.items():
        for sent in fact.sent_by:
            sent_by[sent.process][number] = sent
    return dict(sent_by)


def _lowered_commits(marks: pl.DataFrame, settings: Settings) -> Spans:
    """The offsets over which a group's committed offset went back: whether a member read them again is its cause."""
    committed = marks.filter(IS_COMMITTED).with_columns(group_of(settings)).sort("completed", "at", "index")
    greatest = pl.col("offset").cum_max().over("group").alias("greatest")
    lowered = committed.select("offset", greatest).filter(pl.col("offset") < pl.col("greatest")).unique()
    return [Span(max(offset - 1, 0), greatest) for offset, greatest in lowered.iter_rows()]


def _automatic_commits(marks: pl.DataFrame) -> Spans:
    """The offset below each automatic commit: the time of its poll bounds that of the commit."""
    offsets = marks.filter("auto", kind="commit")["offset"].drop_nulls().unique()
    return [Span(offset - 1, offset) for offset in offsets if offset > 0]


def _limits(facts: Iterable[RangeFacts], marks: pl.DataFrame, settings: Settings) -> dict[str, int]:
    """The offset below which each group with commits or assignments must have handled all records."""
    members = marks.filter(IS_OF_GROUP).select("process", group_of(settings))
    processes = {*members["process"]}
    first_read: dict[str, int] = {}
    for run in (run for fact in facts for run in fact.runs):
        group = settings.group_of(run.process)
        if run.first is not None and (group or run.process in processes):
            first_read[group] = min(first_read.get(group, MAX_INT64), run.first)
    committed = marks.filter(IS_COMMITTED).group_by(group_of(settings)).agg(pl.col("offset").max())
    limits = dict(committed.iter_rows())
    groups = members["group"].unique().sort()
    return {group: max(limits.get(group, 0), first_read.get(group, 0)) for group in groups}


def _jumps(facts: Iterable[RangeFacts], marks: pl.DataFrame) -> Spans | None:
    """The offsets of jumps between runs of reads; None if two runs of a process overlap in time."""
    spans: Spans = []
    for events in in_order_of_time(facts, marks):
        before: RunOfReads | None = None  # the event that ended last
        last: RunOfReads | None = None  # the run that did
        for event in events:
            if event.first is not None:
                if last is not None and event.began <= last.ended:
                    return None
                last = event
                if before is not None and before.position is not None and before.position != event.first:
                    spans += [jump_between(before.position, event.first), Span(before.position - 1, before.position)]
            if before is None or event.ended >= before.ended:
                before = event
    return spans


def _open_polls(facts: Mapping[int, RangeFacts], context: pl.DataFrame) -> Operations | None:
    """Polls of unknown outcome, in the ranges where their process read just before or afterwards; None: too many."""
    polls = context.filter(kind="poll").select("process", "invoked").drop_nulls().unique()
    if len(polls) > MAX_POLLS:
        return None
    read: dict[str, dict[int, RunOfReads]] = defaultdict(dict)  # by process and range: from its first run to its last
    for number, fact in facts.items():
        for run in fact.runs:
            known = read[run.process].get(number, run)
            began, ended = min(known.began, run.began), max(known.ended, run.ended)
            read[run.process][number] = known._replace(began=began, ended=ended)
    found: Operations = defaultdict(list)
    for process, invoked in polls.iter_rows():
        key = OrderKey(invoked, MAX_INT64, MAX_INT64)
        for number in _neighbouring_ranges(read.get(process, {}), key):
            found[number].append(Operation(process, key))
    return dict(found)


def _neighbouring_ranges(runs: Mapping[int, RunOfReads], key: OrderKey) -> set[int]:
    """The ranges that were read at a key, last before it, or first after it."""
    found = {number for number, run in runs.items() if run.began <= key <= run.ended}
    before = [(run.ended, number) for number, run in runs.items() if run.ended < key]
    after = [(run.began, number) for number, run in runs.items() if run.began > key]
    return found.union(number for _, number in (*sorted(before)[-1:], *sorted(after)[:1]))


def wanted_of(found: Mapping[int, Suspects | None], borders: Borders) -> Wanted | None:
    """What each range retains, from the suspects of all; None if the partition cannot be condensed."""
    suspects = {number: one for number, one in sorted(found.items()) if one is not None}
    every = [*suspects.values()]
    if len(every) < len(found) or has_other_unit(times for one in every for times in one.last_times):
        return None
    if was_set_back([*borders.clocks, *(clock for one in every for clock in one.clocks)]):
        return None
    values = [*dict.fromkeys(value for one in every for value in one.values), *borders.unplaced_values]
    if borders.judges_groups and _has_unclear_groups(every, values, borders):
        return None
    spans = [*borders.spans, *(span for one in every for span in one.spans)]
    spans = [Span(max(first, 0), min(end, MAX_INT64)) for first, end in spans]
    if sum(end - first for first, end in spans) + sum(len(one.offsets) for one in every) > MAX_OFFSETS:
        return None
    jumped = (np.arange(first, end) for first, end in spans)
    offsets = np.concatenate([np.empty(0, np.int64), *(one.offsets for one in every), *jumped])
    sends: Operations = defaultdict(list)
    for one in every:
        for number, keys in one.sends.items():
            sends[number] += keys
    return Wanted(
        offsets=np.unique(np.concatenate([offsets - 1, offsets, offsets + 1])),
        values=values,
        hashes=borders.repeated,
        keys=[*dict.fromkeys(key for one in every for key in one.keys)],
        times=_highest_before(suspects),
        sends=dict(sends),
        polls=borders.polls,
        latency=borders.latency,
    )


def _has_unclear_groups(suspects: Sequence[Suspects], values: Collection[str], borders: Borders) -> bool:
    """Whether a group's commit may be beyond the end, or it missed a value that may also be at another offset."""
    missed = {value for one in suspects for value in one.missed}
    hashes = pl.Series("value", sorted(missed), dtype=pl.String).hash().to_numpy().view(np.int64)
    has_stale_end = any(one.has_stale_end for one in suspects)
    return has_stale_end or not missed.isdisjoint(values) or bool(np.isin(hashes, borders.repeated).any())


def _highest_before(suspects: Mapping[int, Suspects]) -> dict[int, list[int]]:
    """The times of contradictions, by the highest range with a plain record that was known before."""
    left = np.unique([time for one in suspects.values() for time in one.times])
    found: dict[int, list[int]] = {}
    for number in sorted(suspects, reverse=True):
        is_here = left > suspects[number].plain_since
        if is_here.any():
            found[number] = left[is_here].tolist()
            left = left[~is_here]
    return found
