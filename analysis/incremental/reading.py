"""Reads the lines appended to a history, and adds the rows that earlier calls carried over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.appended import Position, appended_blocks
from ...histories.bundle import Run
from ...histories.files import Block, Split
from ...histories.parsing import parse_blocks
from ..engines.local import Gathered, Gathering
from ..engines.threads import on_all_cores
from ..stages import Parts, Progress, pair_across_splits, pair_and_observe, pair_at_end
from .closing import is_late
from .key_set import Keys, KeySet, operation_keys
from .state import Carried


class Reading(NamedTuple):
    """The rows that a call read or that were carried over, and what the next call needs besides observations."""

    gathered: Gathered
    rows: Parts
    open_at: pl.Series  # places of the operations that may still complete
    open_values: frozenset[str]  # of sends that may still complete
    operations: KeySet  # all that were invoked so far
    contradiction: str  # why the carried rows do not suffice; empty if they do


def read_appended(run: Run, first: list[Position], carried: Carried, progress: Progress) -> Reading:
    """Reads each split from its position, and pairs unpaired events. Open operations count as info."""
    gathering, settings = Gathering(run), run.settings
    operations, contradiction = carried.operations, ""

    def take(parts: Parts) -> None:
        nonlocal contradiction
        for unit, table, rows in parts.observations:
            closed = carried.closed.get(unit)
            if closed is not None and is_late(closed, table, rows, settings):
                contradiction = "later events concern closed offsets"
        gathering.take(parts)

    def read(item: tuple[Split, Block]) -> tuple[Split, Block, Keys, list[Parts]]:
        split, block = item
        parsed = list(parse_blocks(split.reader, split.path, [block]))
        invoked = [operation_keys(events) for one in parsed for events in (one.sends, one.others)]
        return *item, np.concatenate(invoked), list(pair_and_observe(split.number, parsed, settings, block.first_line))

    for split, position in zip(run.splits, first, strict=True):
        gathering.results.add_lines(split.number, position.lines)
    total = sum(split.end - split.start for split in run.splits) >> 20
    done = 0
    for split, block, invoked, parts in on_all_cores(read, _blocks(run.splits, first)):
        progress("reading", done >> 20, total, "MiB")
        done += len(block.data)
        gathering.results.add_lines(split.number, block.lines)
        if carried.operations.holds_any(invoked):
            contradiction = "operation numbers are used again"
        operations = operations.with_keys(invoked)
        for one in parts:
            take(one)
    gathering.take(carried.rows)
    paired, unpaired = pair_across_splits(gathering.unpaired, settings)
    take(paired)
    rows = gathering.shared_rows(unpaired)
    take(pair_at_end(unpaired, settings))
    open_values = frozenset(unpaired.filter(f="send")["value"].drop_nulls())
    return Reading(gathering.gathered(), rows, unpaired["place"], open_values, operations, contradiction)


def _blocks(splits: Iterable[Split], first: Iterable[Position]) -> Iterator[tuple[Split, Block]]:
    for split, position in zip(splits, first, strict=True):
        for block in appended_blocks(split, position.lines):
            yield split, block
