"""The parts of a partition that later calls do not need: ranges of offsets that are proved and read by everyone.

Their facts (screening/range_facts.py) are merged into one, their rows are dropped. A later row that concerns a closed
offset contradicts this (`contradiction`): then the whole history is judged again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MIN_INT64
from ..batches import Unit
from ..engines.store import ObservationStore
from ..extremes import greatest
from ..figures.merge import common_bins, latency_of, series_of
from ..partitions.common import Common
from ..partitions.marks import IS_COMMIT, IS_LOG_END
from ..screening.groups import group_of, groups_of, handlers_of
from ..screening.range_facts import (
    SAMPLE,
    Extent,
    OrderKey,
    RangeFacts,
    ReadUntil,
    Rows,
    RunOfReads,
    SentBy,
    Unhandled,
    as_one_partition,
)
from ..screening.ranges import Proof, in_order_of_time
from .key_set import KeySet, keys_of

LATENESS_NS = 10_000_000_000  # marks are dropped when they are older, as events of other processes may come later
_IS_EMPTY = pl.col("kind") == "empty"
_IDENTITY = ["at", "index", "kind"]  # of a mark


class Closed(NamedTuple):
    """The facts of the closed offsets of a partition, in bounded size."""

    below: int  # offset; all lower ones are closed
    facts: RangeFacts
    values: KeySet  # of the acknowledged sends
    dropped_until: int  # ns: the last completion of the dropped marks
    groups: list[str]  # the facts follow their records
    handlers: list[str]  # processes that record what they handle


def _groups(marks: pl.DataFrame, settings: Settings) -> list[str]:
    return groups_of(as_one_partition(marks), settings)["group"].sort().to_list()


def is_late(closed: Closed, table: str, rows: pl.DataFrame, settings: Settings) -> bool:
    """Whether new rows of a table concern closed offsets or the final reads, or are older than dropped marks."""
    refers = pl.col("offset") < closed.below
    is_final = pl.col("process").is_in(settings.final_readers())
    if table != "marks":
        return bool(rows.select((refers | is_final).any()).item())
    kind = pl.col("kind")
    below = pl.when(IS_COMMIT).then(pl.col("offset") <= closed.below).otherwise(refers)
    concerns = below & (kind.is_in(["handle", "end_offsets"]) | IS_COMMIT)
    is_old = (pl.col("completed") <= closed.dropped_until) & kind.is_in(["commit", "end_offsets"])
    return bool(rows.select((concerns | is_old | is_final).any()).item())


def contradicts(closed: Closed, sent: pl.Series, rest: Rows, common: Common) -> bool:
    """Whether new rows contradict closed ranges: a value `sent` again, another outcome of a send, or a new group."""
    possible = rest.sends.filter(pl.col("outcome") != "fail")["value"]
    return (
        closed.groups != _groups(rest.marks, common.settings)
        or closed.handlers != handlers_of(common.context)
        or not {*closed.facts.found} <= {*possible}
        or closed.values.holds_any(keys_of(sent))
    )


class Proved(NamedTuple):
    """The proof of a partition, and the facts from which it follows."""

    proof: Proof
    closed: Closed | None  # by earlier calls
    facts: dict[int, RangeFacts]  # by range, of the offsets that are not closed
    rest: Rows
    undecided: frozenset[str]  # rules that cannot decide before the end of the run


def close_ranges(
    units: ObservationStore,
    unit: Unit,
    proved: Proved,
    open_values: Collection[str],
    max_ranges: int,
    common: Common,
) -> tuple[Closed, pl.DataFrame] | None:
    """The closed offsets of a proved partition, and the marks that the next call needs; None: nothing is closed.

    A reader that is more than `max_ranges` behind keeps no further range open.
    """
    settings, facts, before, rest = common.settings, proved.facts, proved.closed, proved.rest
    below = _closed_end(proved, open_values, max_ranges, settings)
    if not below:
        return None
    newly = [number for number in sorted(facts) if (number + 1) * settings.range_offsets <= below]
    values = before.values if before else KeySet()
    for number in sorted({*newly} & {*units.range_numbers(unit)}):
        sends = units.tables_in_range(unit, number).get("sends", [])
        values = values.with_keys(keys_of(pl.concat([frame["value"] for frame in sends]))) if sends else values
    marks, until, counts = _without_closed_marks(rest.marks, below, settings)
    others = [facts[number] for number in facts if number not in newly]
    merged = _merge_facts(
        [*([before.facts] if before else []), *(facts[number] for number in newly)], others, rest.marks
    )
    merged = merged._replace(counts=_sum_counts([merged.counts, counts]))
    until = max(until, before.dropped_until if before else MIN_INT64)
    return Closed(below, merged, values, until, _groups(marks, settings), handlers_of(common.context)), marks


def _closed_end(proved: Proved, open_values: Collection[str], max_ranges: int, settings: Settings) -> int:
    """The offset below which a proved partition is closed: ranges that every group has read, handled and committed.

    Groups that are far behind do not count. The last range is never closed, nor a partition with final reads.
    """
    facts, before, marks, size = proved.facts, proved.closed, proved.rest.marks, settings.range_offsets
    below = before.below if before else 0
    is_of_final = marks["process"].is_in(settings.final_readers())
    if not facts or any(fact.final for fact in facts.values()) or is_of_final.any():
        return below
    read: dict[str, int] = {}
    known = [*([before.facts] if before else []), *facts.values()]
    for run in (run for fact in known for run in fact.runs):
        group = settings.group_of(run.process) or run.process
        read[group] = max(read.get(group, 0), run.position or 0)
    commits = marks.filter(IS_COMMIT).group_by(group_of(settings)).agg(pl.col("offset").max() - 1)
    limit = min([*read.values(), *commits["offset"]], default=max(facts) * size)
    for number in sorted(facts)[:-1]:
        fact, end = facts[number], (number + 1) * size
        is_done = end <= limit and not (fact.unhandled or (fact.unread and read))
        is_far_behind = number < max(facts) - max_ranges
        if not {*fact.found}.isdisjoint(open_values) or not (is_done or is_far_behind):
            break
        below = end
    return below


def _merge_facts(closed: Sequence[RangeFacts], others: Sequence[RangeFacts], marks: pl.DataFrame) -> RangeFacts:
    """The facts of adjacent ranges as those of one range, in bounded size; `others` are the facts of later ranges."""
    firsts: dict[str, OrderKey] = {}
    lasts: dict[str, OrderKey] = {}
    unhandled: dict[str, int] = {}
    for fact in closed:
        for sent in fact.sent_by:
            firsts.setdefault(sent.process, sent.first)
            lasts[sent.process] = sent.last
        for group, offset in fact.unhandled:
            unhandled[group] = min(offset, unhandled.get(group, offset))
    latencies = [took for fact in closed for took in fact.latencies]
    return RangeFacts(
        unproved=[],
        counts=_sum_counts(fact.counts for fact in closed),
        known_since=min(fact.known_since for fact in closed),
        invoked_until=max(fact.invoked_until for fact in closed),
        sent_by=[SentBy(process, first, lasts[process]) for process, first in firsts.items()],
        runs=_join_runs(closed, others, marks),
        found=[value for fact in closed for value in fact.found],
        unhandled=[Unhandled(group, offset) for group, offset in unhandled.items()],
        unread=_total_extent([fact.unread for fact in closed]),
        in_final=False,
        final=None,
        read=_furthest([fact.read for fact in closed if fact.read]),
        sent_since=_total_extent([fact.sent_since for fact in closed]),
        stamped_since=_total_extent([fact.stamped_since for fact in closed]),
        latencies=latencies[:: len(latencies) // SAMPLE + 1],
        figures=_figures([fact.figures for fact in closed if fact.figures]),
        hash_check=closed[-1].hash_check,
    )


def _join_runs(closed: Sequence[RangeFacts], others: Sequence[RangeFacts], marks: pl.DataFrame) -> list[RunOfReads]:
    """The closed runs, each with those that follow it without a move of the consumer or another run between them."""
    are_closed = {run for fact in closed for run in fact.runs}
    found: list[RunOfReads] = []
    for events in in_order_of_time([*closed, *others], marks):
        for is_closed, runs in groupby(events, key=are_closed.__contains__):
            if is_closed:
                own = list(runs)
                found.append(own[0]._replace(ended=own[-1].ended, position=own[-1].position))
    return found


def _sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def _total_extent(extents: Sequence[Extent | None]) -> Extent | None:
    """The extent of all numbers."""
    known = [extent for extent in extents if extent]
    return Extent(min(one.low for one in known), max(one.high for one in known)) if known else None


def _furthest(reads: Sequence[ReadUntil]) -> ReadUntil | None:
    """How far all these reads came."""
    if not reads:
        return None
    return ReadUntil(max(one.offset for one in reads), min(one.first for one in reads), max(one.last for one in reads))


def _figures(figures: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    if not figures:
        return None
    bins, span = common_bins(figures)
    counts = {"series": series_of(figures, bins), "latency": latency_of(figures, bins)}
    return {"bins": bins.to_json(), "span": [*span], **counts}


def _without_closed_marks(
    marks: pl.DataFrame, below: int, settings: Settings
) -> tuple[pl.DataFrame, int, dict[str, int]]:
    """The marks that later calls need; the last completion (ns) and the counts of the others.

    The others are old end offsets, empty polls, and old commits but the last of each group. Moves of consumers stay.
    """
    until = greatest(marks["completed"], MIN_INT64) - LATENESS_NS
    groups = marks.with_columns(group_of(settings))
    last = groups.filter(IS_COMMIT).sort("completed", "at", "index").unique("group", keep="last")
    is_below = (IS_LOG_END & (pl.col("offset") < below)) | (IS_COMMIT & (pl.col("offset") <= below)) | _IS_EMPTY
    is_closed = is_below & (pl.col("completed") <= until) & pl.col("group_generation").is_null()
    dropped = marks.filter(is_closed).join(last, on=_IDENTITY, how="anti")
    retained = marks.join(dropped, on=_IDENTITY, how="anti", maintain_order="left")
    commits = len(dropped.filter(kind="commit"))
    counts = {"end_offsets": len(dropped.filter(IS_LOG_END)), "groups": commits, "commits": commits}
    return retained, greatest(dropped.filter(~_IS_EMPTY)["completed"], MIN_INT64), counts
