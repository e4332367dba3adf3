"""Screens a batch of small partitions: which of them are plainly valid, and which rules must judge the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any, NamedTuple

import polars as pl

from ...histories.settings import Settings
from ...histories.tables import OBSERVED, no_rows
from ..batches import Unit, by_unit
from ..partitions.common import Common
from ..partitions.generation_parts import topics_with_deletions
from ..partitions.unit import Tables
from ..rules import RULES
from .many_partitions import ManyPartitions
from .premises import PREMISES, PROVED
from .summaries import summaries_of

MIN_PARTITIONS = 3  # fewer are judged as fast by themselves
MAX_DRAWN = 4  # plainly valid partitions of a run with figures of their own: one for each batch at least


class Screened(NamedTuple):
    """The summaries of plainly valid partitions; the rows of all others by unit and table, and unproved rules."""

    summaries: list[dict[str, Any]]
    left: list[tuple[Unit, str, pl.DataFrame]]
    unproved: dict[Unit, frozenset[str]]


def as_small(unit: Unit, table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table of a unit, with its topic and partition, as batches have them."""
    key = {"topic": pl.lit(unit.topic), "partition": pl.lit(unit.partition, pl.Int32)}
    return rows.with_columns(**key).select(list(OBSERVED[table]))


def screen_batch(small: Tables, apart: Collection[Unit], common: Common) -> Screened:
    """Screens the partitions with few rows of a batch (`small`, with columns topic and partition).

    Units that have rows `apart` from these are left as they are. Not screened are topics that were deleted, and topics
    with transactions that wrote to an unknown partition. The largest partitions are drawn.
    """
    if not small:
        return Screened([], [], {})
    tables = {name: pl.concat([no_rows(OBSERVED[name]), *small.get(name, ())]) for name in OBSERVED}
    summaries: list[dict[str, Any]] = []
    unproved: dict[Unit, frozenset[str]] = {}
    has_rows = sum(map(len, tables.values())) >= MIN_PARTITIONS
    keys = [frame.select("topic", "partition").unique().rows() for frame in tables.values()] if has_rows else []
    if len(units := {*chain.from_iterable(keys)}) >= MIN_PARTITIONS:
        transactional = common.unplaced.filter("txn")["topic"].drop_nulls()
        left_out = {*transactional, *topics_with_deletions({topic for topic, _ in units}, common)}
        screened = {name: rows.filter(~pl.col("topic").is_in(left_out)) for name, rows in tables.items()}
        many = ManyPartitions.of(screened, common)
        many = many.without(many.numbers_of(apart))
        drawn = -(-MAX_DRAWN // max(common.settings.batches, 1))
        if len(many.keys) >= MIN_PARTITIONS:
            summaries, unproved = _screen(many, many.largest(drawn))
    if summaries:
        key = {"topic": pl.String, "partition": pl.Int32}
        valid = pl.DataFrame([(one["topic"], one["partition"]) for one in summaries], schema=key, orient="row")
        tables = {name: rows.join(valid, on=[*key], how="anti", maintain_order="left") for name, rows in tables.items()}
    left = [(unit, name, own) for name, rows in tables.items() for unit, own in by_unit(rows)]
    return Screened(summaries, left, unproved)


def _screen(many: ManyPartitions, drawn: Iterable[int]) -> tuple[list[dict[str, Any]], dict[Unit, frozenset[str]]]:
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
    units = {number: Unit(topic, partition) for number, topic, partition in many.keys.iter_rows()}
    unproved = {units[number]: frozenset(rules) for number, rules in failed.items()}
    return [*summaries_of(many.without(failed))], unproved


def chosen_rules(settings: Settings) -> set[str]:
    """The rules that judge native histories and that the settings choose."""
    native = {name for name, rule in RULES.items() if "native" in rule.judges}
    return native & set(settings.rules) if settings.rules else native
