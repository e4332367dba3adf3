"""Proves from the facts of its ranges that rules report nothing in a large partition, which memory need not hold.

The premises are those of premises.py. Each holds in the whole partition if it holds within each range (range_facts.py)
and between them, which the facts show. A test compares both with the rules, with ranges of a few records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MAX_INT64, MIN_INT64, OBSERVED
from ..partitions.common import Common
from ..partitions.generation_parts import topics_with_deletions
from ..partitions.marks import IS_COMMIT, IS_LOG_END, IS_MOVE, IS_OF_GROUP, POSITION
from ..partitions.offset_ranges import REST, range_of
from .groups import contradicting_groups
from .premises import (
    GROUPS,
    IS_ODD_MARK,
    IS_ODD_SEND,
    LOSS,
    MEMBERS,
    POLLS,
    PROVED,
    SENDS,
    UNREAD,
    has_unknown_deletion,
    is_maybe_expired,
)
from .range_facts import (
    ORDER,
    ORDERED_BY_TIME,
    HashedFacts,
    Hashes,
    OrderKey,
    RangeFacts,
    Rows,
    RunOfReads,
    as_one_partition,
)
from .screen import chosen_rules
from .summaries import final_reads_in, summary_of

MAX_REST = 200_000  # rows of a partition that belong to no range
BUCKETS = 64  # of hashes that are compared at a time


class Proof(NamedTuple):
    """The summary of a plainly valid partition; or None, and the rules that must judge it."""

    summary: dict[str, Any] | None
    unproved: frozenset[str]


def proof_of(topic: str, partition: int, ranges: Sequence[HashedFacts], rest: Rows, common: Common) -> Proof:
    """The proof of a partition from the facts of all its ranges."""
    unproved = unproved_rules(topic, ranges, rest, common)
    if unproved:
        return Proof(None, frozenset(unproved))
    return Proof(summary_of(topic, partition, [facts for facts, _ in ranges], rest, common), frozenset())


def ranges_of(numbers: Iterable[int], rest: Rows, settings: Settings) -> list[int]:
    """The ranges to prove, in order: those with records, and those of end offsets and commits."""
    return sorted({*numbers, *rest.marks.filter(_HAS_END).select(_range_of_end(settings)).to_series()} - {REST})


_HAS_END = IS_LOG_END | (IS_COMMIT & (pl.col("offset") > 0))


def _range_of_end(settings: Settings) -> pl.Expr:
    """The range to which an end offset or a commit belongs; a commit belongs to the record before it."""
    return range_of(pl.col("offset") - IS_COMMIT.cast(pl.Int64), settings.range_offsets)


def can_be_proved(topic: str, tables: Collection[str], rest: int, common: Common) -> bool:
    """Whether ranges can prove something of a partition.

    It has no brokers' files, transactions or deletions of its topic, and few rows in the `rest`, which is in no range.
    """
    settings = common.settings
    transactional = common.unplaced.filter(pl.col("txn"))["topic"].eq(topic).any()
    deleted = topic in topics_with_deletions([topic], common)
    is_plain = settings.dialect == "native" and {*tables} <= {*OBSERVED} and rest <= MAX_REST
    return is_plain and not (transactional or deleted or settings.is_compacted(topic))


def unproved_rules(topic: str, ranges: Sequence[HashedFacts], rest: Rows, common: Common) -> set[str]:
    """The rules that must judge the partition. `rest`: its rows that belong to no range."""
    settings, facts = common.settings, [fact for fact, _ in ranges]
    final = final_reads_in(facts, rest, common)
    is_unread = not any(fact.read for fact in facts)
    are_final_readers_known = bool(settings.final_readers()) or not settings.has_final_reads or is_unread
    # The earliest time at which an offset of each range, or of one behind it, was known.
    known = np.minimum.accumulate([fact.known_since for fact in reversed(facts)])[::-1]
    is_sent_before = (fact.invoked_until <= later for fact, later in zip(facts[:-1], known[1:], strict=True))
    premises = {
        PROVED: only_grows(rest, common) and _values_are_unique(ranges, rest),
        (*LOSS, *GROUPS): are_final_readers_known and not (final["start"] > 0).any(),
        UNREAD: _is_read(topic, facts, rest, bool(len(final)), common),
        ORDERED_BY_TIME: all(is_sent_before),
        SENDS: _sends_follow(facts),
        POLLS: _reads_follow(facts, rest.marks),
        MEMBERS: not rest.marks["group_generation"].is_not_null().any(),
    }
    unproved = chosen_rules(settings) - set(PROVED)
    unproved.update(rule for fact in facts for rule in fact.unproved)
    unproved.update(rule for rules, holds in premises.items() if not holds for rule in rules)
    if rest.marks.select(IS_OF_GROUP.any()).item() and not _groups_follow(facts, rest, unproved, final, settings):
        unproved.update(GROUPS)
    return unproved


def _groups_follow(
    facts: Sequence[RangeFacts], rest: Rows, unproved: set[str], final: pl.DataFrame, settings: Settings
) -> bool:
    """Whether groups handle what they commit, as far as the facts of other rules show it."""
    if unproved.intersection((*LOSS, *POLLS)):
        return False
    runs = [(settings.group_of(run.process), run.first) for fact in facts for run in fact.runs]
    first_read, unhandled = (
        as_one_partition(pl.DataFrame(rows, {"group": pl.String, "offset": pl.Int64}, orient="row"))
        for rows in (runs, [row for fact in facts for row in fact.unhandled])
    )
    return not any(map(len, contradicting_groups(as_one_partition(rest.marks), first_read, unhandled, final, settings)))


def only_grows(rest: Rows, common: Common) -> bool:
    """Whether nothing is deleted, and all that belongs to no range are indeterminate or failed sends, and marks."""
    if len(rest.reads):
        return False
    is_beyond = _HAS_END & (_range_of_end(common.settings) == REST)
    odd_sends = rest.sends.select((IS_ODD_SEND | pl.col("acknowledged")).any()).item()
    odd_marks = rest.marks.select((IS_ODD_MARK | is_beyond).any()).item()
    return not odd_sends and not odd_marks and not has_unknown_deletion(common.context)


def repeated_hashes(ranges: Sequence[HashedFacts], rest: Rows) -> Hashes | None:
    """The hashes of values that several sends may have: equal hashes of different values only cost time.

    None if they cannot be compared.
    """
    hashes = [np.sort(rest.sends["value"].hash().to_numpy()), *(found for _, found in ranges)]
    if len({fact.hash_check for fact, _ in ranges}) > 1:
        return None
    limits = np.arange(1, BUCKETS, dtype=np.uint64) * np.uint64(2**64 // BUCKETS)
    cuts = [[0, *np.searchsorted(part, limits).tolist(), len(part)] for part in hashes]
    repeated = []
    for bucket in range(BUCKETS):
        parts = [part[cut[bucket] : cut[bucket + 1]] for part, cut in zip(hashes, cuts, strict=True)]
        values = np.sort(np.concatenate(parts))
        repeated.append(values[1:][values[1:] == values[:-1]])
    return np.unique(np.concatenate(repeated))


def _values_are_unique(ranges: Sequence[HashedFacts], rest: Rows) -> bool:
    """Whether all sends have different values."""
    found = [value for fact, _ in ranges for value in fact.found]
    repeated = repeated_hashes(ranges, rest)
    return repeated is not None and not len(repeated) and len(found) == len(set(found))


def _is_read(topic: str, facts: Sequence[RangeFacts], rest: Rows, has_final: bool, common: Common) -> bool:
    """Whether the final reads returned all acknowledged records; without them, consumers read all but the last ones,
    and no open poll or retention may explain why these were not read.
    """
    if has_final:
        return all(fact.in_final for fact in facts)
    unread = [fact.unread.low for fact in facts if fact.unread]
    reads = [fact.read for fact in facts if fact.read]
    if not unread:
        return True
    if reads and min(unread) < max(read.offset for read in reads):
        return False
    until = max((read.last for read in reads), default=MIN_INT64)
    has_open_poll = common.context["kind"].is_in(["poll"]).any()
    return not has_open_poll and not maybe_expired(topic, facts, rest, until, common.settings)


def maybe_expired(topic: str, facts: Sequence[RangeFacts], rest: Rows, until: int, settings: Settings) -> bool:
    """Whether retention may have removed records by the last read (ns)."""
    stamps = [fact.stamped_since.low for fact in facts if fact.stamped_since]
    stamps += rest.sends["timestamp"].filter(rest.sends["timestamp"] >= 0).to_list()
    oldest = {
        "topic": [topic],
        "invoked": [min(fact.sent_since.low for fact in facts if fact.sent_since)],
        "timestamp": pl.Series([min(stamps, default=None)], dtype=pl.Int64),
        "until": [until],
    }
    return bool(pl.DataFrame(oldest).select(is_maybe_expired([topic], settings)).item())


def _sends_follow(facts: Sequence[RangeFacts]) -> bool:
    """Whether each process sent to all ranges in the order of their offsets."""
    last: dict[str, tuple[int, ...]] = {}
    for sent in (sent for fact in facts for sent in fact.sent_by):
        if sent.first <= last.get(sent.process, (MIN_INT64,)):
            return False
        last[sent.process] = sent.last
    return True


def _reads_follow(facts: Iterable[RangeFacts], marks: pl.DataFrame) -> bool:
    """Whether each run of reads begins at its consumer's position, if that is known, and is over before the next one.

    A process has a position after a run, and after an assignment or a seek to an offset.
    """
    for before, after in chain.from_iterable(map(pairwise, in_order_of_time(facts, marks))):
        is_jump = None not in (after.first, before.position) and after.first != before.position
        if is_jump or after.began <= before.ended:
            return False
    return True


def in_order_of_time(facts: Iterable[RangeFacts], marks: pl.DataFrame) -> Iterator[list[RunOfReads]]:
    """The runs of reads and the moves of each process, in order of time."""
    runs = [*(run for fact in facts for run in fact.runs), *_moves_of(marks)]
    runs.sort(key=lambda run: (run.process, run.began, run.ended))
    yield from (list(own) for _, own in groupby(runs, key=lambda run: run.process))


def _moves_of(marks: pl.DataFrame) -> Iterator[RunOfReads]:
    """The moves of consumers among the marks, as runs without reads."""
    moves = marks.filter(IS_MOVE)
    rows = moves.select("process", pl.col("completed").fill_null(MAX_INT64), *ORDER[1:], position=POSITION)
    for process, time, place, index, position in rows.iter_rows():
        key = OrderKey(time, place, index)
        yield RunOfReads(process, key, key, None, position)
