"""Screens many small partitions: which of them are plainly valid, and which rules must judge the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import polars as pl

from ...histories.settings import Settings
from ..partitions.common import Common
from ..partitions.generation_parts import topics_with_deletions
from ..rules import RULES
from .many_partitions import ManyPartitions
from .premises import PREMISES, PROVED
from .summaries import summaries_of

MIN_PARTITIONS = 3  # fewer are judged as fast by themselves
MAX_DRAWN = 4  # plainly valid partitions of a run with figures of their own: one for each batch at least
Frames = Mapping[str, pl.DataFrame]
TopicPartition = tuple[str, int]


class Screened(NamedTuple):
    """The summaries of plainly valid partitions, and the rules that must judge each of the others."""

    summaries: list[dict[str, Any]]
    unproved: dict[TopicPartition, frozenset[str]]

    @property
    def valid(self) -> set[TopicPartition]:
        """The plainly valid partitions."""
        return {(summary["topic"], summary["partition"]) for summary in self.summaries}


def screen(many: ManyPartitions, drawn: Iterable[int]) -> Screened:
    """Checks all PREMISES. A rule is `unproved` in a partition if one of its premises fails there.

    `drawn` partitions are not summarised here, as they need figures of their own.
    """
    failed: dict[int, set[str]] = {number: set() for number in drawn}
    for premise in PREMISES:
        for rows in premise.contradictions(many):
            for number in rows["tp"].unique():
                failed.setdefault(number, set()).update(premise.rules)
    if rest := chosen_rules(many.settings) - set(PROVED):
        failed = {number: {*rest, *failed.get(number, ())} for number in many.keys["tp"]}
    names = {number: (topic, partition) for number, topic, partition in many.keys.iter_rows()}
    unproved = {names[number]: frozenset(rules) for number, rules in failed.items()}
    return Screened([*summaries_of(many.without(failed))], unproved)


def chosen_rules(settings: Settings) -> set[str]:
    """The rules that judge native histories and that the settings choose."""
    native = {name for name, rule in RULES.items() if "native" in rule.judges}
    return native & set(settings.rules) if settings.rules else native


def screen_batch(tables: Frames, apart: Collection[TopicPartition], common: Common) -> Screened:
    """Screens the partitions of a batch, but not those that have tables `apart`. The largest ones are drawn.

    Topics that were deleted, or whose transactions wrote to an unknown partition, are not screened.
    """
    topics = {topic for frame in tables.values() for topic in frame["topic"].unique()}
    if len(topics) < MIN_PARTITIONS:
        keys = {key for frame in tables.values() for key in frame.select("topic", "partition").unique().rows()}
        if len(keys) < MIN_PARTITIONS:
            return Screened([], {})
    transactional = common.unplaced.filter("txn")["topic"].drop_nulls()
    left_out = {*transactional, *topics_with_deletions(topics, common)}
    screened = {name: rows.filter(~pl.col("topic").is_in(left_out)) for name, rows in tables.items()}
    many = ManyPartitions.of(screened, common)
    many = many.without(many.numbers_of(apart))
    drawn = -(-MAX_DRAWN // max(common.settings.batches, 1))
    return screen(many, many.largest(drawn)) if len(many.keys) >= MIN_PARTITIONS else Screened([], {})
