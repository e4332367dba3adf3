"""What weakens every verdict on a history: lines that cannot be read, and broken assumptions about its events."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from ..histories.bundle import Run
from .engines.local import Gathered, gather
from .kernel import judge_unit, to_frame
from .partitions.unit import OBSERVED
from .verdict.document import verdict_of
from .wording import plural, some

# Assumptions about events need the summary of each partition, but no rule: the cheapest one is judged.
RULE = "inconsistent-offsets"
# Reported line by line, or about rules instead of events.
LEFT_TO_OTHERS = ("lines well formed", "evidence sufficient")


@dataclass(frozen=True)
class Lint:
    """The problems of one history."""

    malformed: pl.DataFrame  # source, line (from 1), byte, reason; sorted by file and line
    warnings: tuple[str, ...]


def lint(run: Run) -> Lint:
    """Read a history as `check` does, and return its problems; brokers' files are not read.

    Raises InputError if the history has no operation.
    """
    settings = replace(run.settings, rules=(RULE,))
    gathered = gather(replace(run, settings=settings, evidence=()))
    silent = processes_without_completion(gathered)
    results = gathered.results
    for unit in sorted(gathered.units):
        judged = judge_unit(*unit, gathered.units[unit], gathered.common, settings)
        results.add_judged(to_frame(judged.findings), judged.summaries)
    results.refuse_unusable()
    broken = [
        one["says"]
        for one in verdict_of(results)["assumptions"]
        if not one["holds"] and one["name"] not in LEFT_TO_OTHERS
    ]
    if silent:
        count = plural(len(silent), "process", "processes")
        broken.append(f"no operation of {count} ever completes ({some(silent)}): are completions recorded?")
    return Lint(results.quarantine(), tuple(broken))


def processes_without_completion(gathered: Gathered) -> list[str]:
    """The processes with operations, none of which has a completion; sorted."""
    frames = [frame for tables in gathered.units.values() for name in OBSERVED for frame in tables.get(name, ())]
    frames += [gathered.common.unplaced, gathered.common.context.filter(pl.col("invoked").is_not_null())]
    completions = pl.concat(
        [frame.select("process", completed=pl.col("completed").is_not_null()) for frame in frames if len(frame)]
        or [pl.DataFrame(schema={"process": pl.String, "completed": pl.Boolean})]
    )
    by_process = completions.group_by("process").agg(pl.col("completed").any())
    return by_process.filter(~pl.col("completed"))["process"].drop_nulls().sort().to_list()
