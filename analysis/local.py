"""The pipeline in polars alone, for a machine without Java."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from ..histories.bundle import Run
from ..histories.operations import PLACED_EVENTS
from ..histories.tables import CONTEXT, SENDS
from .kernel import Common, Tables, judge_unit, to_frame
from .results import Results
from .stages import Parts, Unit, close_waiting, read_evidence, read_split

Progress = Callable[..., None]  # what, done, of how many, unit


@dataclass
class Gathered:
    """A run that is read but not judged: the observations of each unit, and what all units share."""

    results: Results
    units: dict[Unit, Tables]
    common: Common


def judge_run(run: Run, progress: Progress = lambda *_: None) -> Results:
    """Reads every split, then judges partition by partition."""
    gathered = gather(run, progress)
    results, units = gathered.results, gathered.units
    order = sorted(units)
    for done, unit in enumerate(order):
        progress("judging", done, len(order), "partitions")
        findings, summaries = judge_unit(*unit, units.pop(unit), gathered.common, run.settings)
        results.add_judged(to_frame(findings), summaries)
    return results


def gather(run: Run, progress: Progress = lambda *_: None) -> Gathered:
    """Reads every split and every broker's file."""
    results = Results(run)
    units: dict[Unit, Tables] = {}
    context, unplaced, waiting = [], [], []
    shared: Tables = {}

    def take(parts: Parts) -> None:
        for unit, table, rows in parts.observations:
            units.setdefault(unit, {}).setdefault(table, []).append(rows)
        context.extend(parts.context)
        unplaced.extend(parts.unplaced)
        for table, rows in parts.shared:
            shared.setdefault(table, []).append(rows)
        waiting.extend(parts.waiting)
        results.add_counts(parts.counts)
        for rows in parts.quarantine:
            results.add_quarantine(rows)

    for done, split in enumerate(run.splits):
        progress("reading", done, len(run.splits))
        lines = 0
        for parts in read_split(split, run.settings):
            take(parts)
            lines += parts.counts.get("lines", 0)
        results.add_lines(split.number, lines)
    for done, part in enumerate(run.evidence):
        progress("reading brokers' files", done, len(run.evidence))
        take(read_evidence(part))
    take(close_waiting(_all(waiting, PLACED_EVENTS), run.settings))
    everywhere, nowhere = _all(context, CONTEXT).sort("completed", "at"), _all(unplaced, SENDS)
    common = Common(everywhere, nowhere, {table: pl.concat(frames) for table, frames in shared.items()})
    results.context = everywhere
    return Gathered(results, units, common)


def _all(frames: list[pl.DataFrame], schema: dict[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)
