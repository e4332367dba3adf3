"""Judges a run of transactions on lists or registers (Elle's workloads): one pass, in this process.

    splits → events and steps → transactions → versions of each key → dependencies → windows of time → cycles

Everything is polars until the windows; only what may be in a cycle becomes a graph. This process holds the whole
history: about three times the size of its file. engines/spark/transactions.py does the same in many tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polars as pl

from ..histories.bundle import Run
from ..histories.files import Block, blocks
from ..histories.readers import READERS
from ..histories.readers import transaction_lines as lines
from ..histories.tables import PLACES_OF_SPLIT
from .results import Results
from .rules.anomalies import findings_of_anomalies, severities_under
from .rules.cycles import MAX_PERMITTED, CyclesByType
from .run_rules import of_run
from .stages import QUARANTINED, Progress
from .transactions.anomalies import Anomaly
from .transactions.cycles import cycles_of, join_cycles
from .transactions.keys import judge_keys, without_repeated
from .transactions.txn_history import TxnHistory, history_of, outcome_counts
from .transactions.version_edges import Versions, dependencies_of, edges_of
from .verdict.consequences import with_configured_severity

MAX_COMPONENTS = MAX_PERMITTED  # of a type of cycle: each has one finding, and the last has the count of the others


class Placed(NamedTuple):
    """The events of a block, by their place in the run."""

    events: pl.DataFrame  # transaction_lines.EVENTS, with `place` for `line`
    steps: pl.DataFrame  # STEPS, likewise
    left_out: pl.DataFrame  # QUARANTINED
    lines: int  # of the split so far


def placed_events(split: int, reader: str, path: str, source: Iterable[Block]) -> Iterator[Placed]:
    """The events of the blocks of a split."""
    for block in source:
        parsed = READERS[reader].parse(block.data, path)
        first = split * PLACES_OF_SPLIT + block.first_line
        place = (pl.col("line") + first).alias("place")
        left_out = parsed.quarantine.select(place, "reason")
        if block.damage:
            row = {"place": [first + max(block.lines - 1, 0)], "reason": [block.damage]}
            left_out = pl.concat([left_out, pl.DataFrame(row, schema=QUARANTINED)])
        events, steps = (frame.select(place, pl.exclude("line")) for frame in (parsed.events, parsed.steps))
        yield Placed(events, steps, left_out, block.first_line + block.lines)


def judge_transactions(run: Run, progress: Progress) -> Results:
    """Judges one run. Findings and counts are those of verdict.json."""
    results = Results(run)
    history = _read_history(run, results, progress)
    progress("judging", 0, 1, "histories")
    results.add_counts({"keys": len(history.keys)})
    history, repeated = without_repeated(history)
    results.add_repeated_keys(repeated, len(repeated))
    judged = judge_keys(history, run.settings)
    results.add_counts(judged.counts)

    def cycles_under(versions: Versions) -> CyclesByType:
        edges, too_large = edges_of(versions)
        if too_large:
            results.add_counts({"keys too large": too_large})
        found = cycles_of(dependencies_of(edges, history), MAX_COMPONENTS, is_exact=True)
        return join_cycles([found], MAX_COMPONENTS)

    cycles = cycles_under(judged.versions)
    guesses = (cycles_under(guess()) for guess in judged.guesses)
    try_orders(judged.anomalies, cycles, guesses if judged.guesses else None, results)
    add_findings(history, judged.anomalies, cycles, results)
    return results


def try_orders(
    anomalies: list[Anomaly], cycles: CyclesByType, guesses: Iterable[CyclesByType] | None, results: Results
) -> None:
    """Counts the order of versions as not known if there is no breach so far, but one under each guessed order."""
    severity = severities_under(results.run.settings.model)
    if guesses is not None and not any(severity[one] == "violation" for one in (*cycles, *(a.type for a in anomalies))):
        is_broken = all(any(severity[name] == "violation" for name in guessed) for guessed in guesses)
        results.add_counts({"orders not known": is_broken})


def add_findings(history: TxnHistory, anomalies: Iterable[Anomaly], cycles: CyclesByType, results: Results) -> None:
    """Adds the findings of a run. `history` has at least the transactions that these name."""
    settings = results.run.settings
    found = findings_of_anomalies(history, anomalies, cycles, settings)
    chosen = [one for one in found if not settings.rules or one[0].rule in settings.rules]
    weighed = [(with_configured_severity(finding, settings), drawing) for finding, drawing in chosen]
    results.add_of_run(*of_run(weighed))


def _read_history(run: Run, results: Results, progress: Progress) -> TxnHistory:
    empty = (pl.DataFrame(schema=table).rename({"line": "place"}) for table in (lines.EVENTS, lines.STEPS))
    events, steps = ([frame] for frame in empty)
    for done, split in enumerate(run.splits):
        progress("reading", done, len(run.splits), "splits")
        number = 0
        for placed in placed_events(split.number, split.reader, split.path, blocks(split)):
            events.append(placed.events)
            steps.append(placed.steps)
            number = placed.lines
            results.add("quarantine", placed.left_out)
        results.add_lines(split.number, number)
    history = history_of(pl.concat(events), pl.concat(steps), is_whole=not results.left_out)
    results.add_counts({"events": sum(map(len, events)), **outcome_counts(history.txns)})
    return history
