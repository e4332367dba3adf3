"""The pipeline in polars alone, for a machine without Java."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from ...histories.bundle import Run
from ...histories.files import TEXT_BLOCK_BYTES, Block, Split, blocks
from ...histories.pairing import PLACED_EVENTS
from ...histories.settings import Settings
from ...histories.tables import CONTEXT, SENDS, no_rows
from ..batches import MAX_SMALL_ROWS, WHOLE, Unit, batch_of, batches_of
from ..kernel import Judged, judge_unit
from ..partitions.common import Common, common_of
from ..partitions.offset_ranges import REST
from ..partitions.unit import Tables
from ..results import Results, to_frame
from ..rules import DIALECTS
from ..run_rules import judge_pieces, judge_whole_run
from ..screening.condense import borders_of, wanted_of
from ..screening.range_facts import HashedFacts, Rows, range_facts, rows_of
from ..screening.ranges import Proof, can_be_proved, proof_of, ranges_of
from ..screening.retained import Condensed, OtherRows, concat_parts, condense_range, with_others
from ..screening.screen import as_small, screen_batch
from ..screening.suspects import Suspects, suspects_of_range
from ..stages import (
    REFERRING_TABLES,
    Parts,
    Progress,
    choose_batches,
    decode_batches,
    lookups_of,
    pair_at_end,
    read_block,
    read_evidence,
    read_split,
)
from ..transactions.pieces import expected_of_operations
from ..txn_run import judge_transactions
from .dependency_store import DependencyStore
from .store import BatchStore, ObservationStore
from .threads import on_all_cores

SMALL_BYTES = 1 << 20  # of a run's files, if none were compressed
WORTH_PROVING = 10_000  # rows of a partition, from which on ranges prove it in less time than its rules take


@dataclass
class Gathered:
    """A run that is read but not judged: the observations of each unit, and those that all units share."""

    results: Results
    units: ObservationStore
    small: BatchStore
    common: Common


class Gathering:
    """Collects the Parts of a run that is being read."""

    def __init__(self, run: Run) -> None:
        self.results = Results(run)
        self.units = ObservationStore(run.settings.range_offsets)
        self.headers: dict[Unit, list[pl.DataFrame]] = {}
        self._small = BatchStore()
        self._unpaired: list[pl.DataFrame] = []
        self._shared: Tables = {}  # of no partition

    def take(self, parts: Parts) -> None:
        """Adds the Parts of one task."""
        for unit, table, rows in parts.observations:
            self.units.add(unit, table, rows)
        for batch, table, rows in parts.small:
            self._small.add(batch, table, rows)
        clients = [("context", rows) for rows in parts.context] + [("unplaced", rows) for rows in parts.unplaced]
        for table, rows in [*clients, *parts.shared]:
            self._shared.setdefault(table, []).append(rows)
        self._unpaired.extend(parts.unpaired)
        self.results.add_counts(parts.counts)
        for unit, rows in parts.headers:
            self.headers.setdefault(unit, []).append(rows)
        for kind, frames in (("quarantine", parts.quarantine), ("damage", parts.damage)):
            for rows in frames:
                self.results.add(kind, rows)

    @property
    def unpaired(self) -> pl.DataFrame:
        """The events without a counterpart so far."""
        return pl.concat([no_rows(PLACED_EVENTS), *self._unpaired])

    def shared_rows(self, unpaired: pl.DataFrame) -> Parts:
        """The rows taken so far that belong to no partition, with these unpaired events."""
        return Parts(
            context=[pl.concat([no_rows(CONTEXT), *self._shared.get("context", ())]).unique(maintain_order=True)],
            unplaced=[pl.concat([no_rows(SENDS), *self._shared.get("unplaced", ())])],
            unpaired=[unpaired],
            quarantine=[rows for kind, _, rows in self.results.contents() if kind == "quarantine"],
            counts=self.results.counts.copy(),
        )

    def gathered(self) -> Gathered:
        """The rows taken so far."""
        self._move_small()
        common = common_of(self._shared, self.results.run.settings)
        self.results.context = common.context
        return Gathered(self.results, self.units, self._small, common)

    def _move_small(self) -> None:
        """Moves units with few rows to their batches."""
        batches = self.results.run.settings.batches
        if not batches:
            return
        few = [unit for unit in self.units if unit != WHOLE and self.units.row_count(unit) <= MAX_SMALL_ROWS]
        for unit in few:
            for table, frames in self.units.pop(unit).items():
                for rows in frames:
                    self._small.add(batch_of(unit, batches), table, as_small(unit, table, rows))


def is_transactional(run: Run) -> bool:
    """Whether a run has transactions on lists or registers."""
    return run.settings.dialect in DIALECTS


def judge_run(run: Run, progress: Progress = lambda *_: None) -> Results:
    """Reads every split, then judges partition by partition; a small run on one thread, where its queries are cheap."""
    if run.expanded_bytes > SMALL_BYTES:
        return _judge_run(run, progress)
    [results] = on_all_cores(lambda small: _judge_run(small, progress), [run])
    return results


def _judge_run(run: Run, progress: Progress) -> Results:
    if is_transactional(run):
        return judge_transactions(run, progress)
    run = run.with_settings(batches=batches_of(run))
    gathered = gather(run, progress)
    results, units, common = gathered.results, gathered.units, gathered.common
    unproved = screen_small(gathered)
    condensed: dict[Unit, Sequence[OtherRows]] = {}
    for unit, proof, ranges, rest in _prove_large(units, common, progress):
        if proof.summary is not None:
            results.add_summaries([proof.summary])
            units.drop(unit)
            continue
        unproved[unit] = proof.unproved
        condensed[unit] = _condense(units, unit, ranges, rest, proof.unproved, common)
    judge_units(gathered, unproved, condensed, progress)
    return results


def screen_small(gathered: Gathered) -> dict[Unit, Collection[str]]:
    """Adds the summaries of plainly valid small partitions to the results, and the rows of the others to the units.

    Returns the rules that must judge each of the others.
    """
    unproved: dict[Unit, Collection[str]] = {}
    apart = list(gathered.units)
    for screened in on_all_cores(lambda small: screen_batch(small, apart, gathered.common), gathered.small):
        for unit, table, rows in screened.left:
            gathered.units.add(unit, table, rows)
        gathered.results.add_summaries(screened.summaries)
        unproved |= screened.unproved
    return unproved


def judge_units(
    gathered: Gathered,
    unproved: Mapping[Unit, Collection[str]],
    condensed: Mapping[Unit, Sequence[OtherRows]],
    progress: Progress,
) -> None:
    """Judges all units of a run, and adds findings and summaries to its results.

    `unproved`: by unit, the rules that judge it; all rules judge a unit without an entry. `condensed`: by condensed
    unit, what its other rows add to the summary.
    """
    results, units, common = gathered.results, gathered.units, gathered.common
    order = sorted(units)
    # A Jepsen history is one unit, so all cores share the partitions within it.
    map_units, map_within = (map, on_all_cores) if common.settings.dialect == "jepsen" else (on_all_cores, map)
    whole, between = Judged(), DependencyStore(common.settings)

    def judge(unit: Unit) -> Judged:
        judged = judge_unit(*unit, units.pop(unit), common, map_within, unproved.get(unit))
        while judged.dependencies:  # those of a large unit would wait in memory for the other units that are judged
            between.add(judged.dependencies.pop())
        return _with_others(judged, condensed.get(unit, ()))

    for done, judged in enumerate(map_units(judge, order)):
        progress("judging", done, len(order), "partitions")
        results.add("findings", to_frame(judged.findings))
        results.add_summaries(judged.summaries)
        whole.unexpected.extend(judged.unexpected)
        whole.expected.extend(judged.expected)
    if whole.unexpected:
        found = [expected_of_operations(whole.unexpected, one) for one in whole.expected]
        results.add_of_run(*judge_pieces(whole.unexpected, found, results.losses(), common.settings))
    if len(between):
        results.add_of_run(*judge_whole_run(between.find_cycles(), common.settings))


def judge_stored(
    units: ObservationStore,
    unit: Unit,
    common: Common,
    unproved: Collection[str] | None = None,
    others: Sequence[OtherRows] = (),
) -> Judged:
    """Judges the only unit of a store in this thread. Its ranges first prove a large unit, unless `unproved` is given.

    `unproved`: the rules that its ranges left to judge. `others`: what the other rows of a condensed unit add.
    """
    if unproved is None:
        for _, proof, ranges, rest in _prove_large(units, common):
            if proof.summary is not None:
                return Judged(summaries=[proof.summary])
            unproved = proof.unproved
            others = _condense(units, unit, ranges, rest, unproved, common)
    tables = units.pop(unit)
    if others:
        tables = {name: [rows] for name, rows in concat_parts([tables]).items()}
    return _with_others(judge_unit(*unit, tables, common, unproved=unproved), others)


def _with_others(judged: Judged, others: Sequence[OtherRows]) -> Judged:
    """The judgement of a unit, with the other rows of a condensed one in the summary."""
    return replace(judged, summaries=[with_others(one, others) for one in judged.summaries]) if others else judged


def _prove_large(
    units: ObservationStore, common: Common, progress: Progress = lambda *_: None
) -> Iterator[tuple[Unit, Proof, dict[int, HashedFacts], Rows]]:
    """Large units, each with its proof, the facts of its ranges, and its rows in no range."""
    min_rows = min(WORTH_PROVING, common.settings.large_rows)
    large = [unit for unit in provable(units, common) if units.row_count(unit) > min_rows]
    rests = {unit: rows_of(units.tables_in_range(unit, REST)) for unit in large}
    ranges = {unit: ranges_of(units.range_numbers(unit), rests[unit], common.settings) for unit in large}
    facts = facts_of_ranges(units, ranges, rests, common, progress)

    def proof(unit: Unit) -> Proof:
        return proof_of(*unit, [*facts[unit].values()], rests[unit], common)

    for unit, found in zip(large, on_all_cores(proof, large), strict=True):
        yield unit, found, facts.pop(unit), rests[unit]


def provable(units: ObservationStore, common: Common) -> list[Unit]:
    """The units for which ranges can prove rules, in order."""
    return [
        unit
        for unit in sorted(units)
        if can_be_proved(unit.topic, units.table_names(unit), units.row_count(unit, REST), common)
    ]


def facts_of_ranges(
    units: ObservationStore,
    ranges: Mapping[Unit, Iterable[int]],
    rests: Mapping[Unit, Rows],
    common: Common,
    progress: Progress,
) -> dict[Unit, dict[int, HashedFacts]]:
    """The facts of these ranges of units, on all cores; `rests` are their rows in no range."""
    items = [(unit, number) for unit, numbers in ranges.items() for number in numbers]

    def facts_of(item: tuple[Unit, int]) -> HashedFacts:
        unit, number = item
        return range_facts(units.tables_in_range(unit, number), rests[unit], number, common)

    facts: dict[Unit, dict[int, HashedFacts]] = {unit: {} for unit in ranges}
    for done, ((unit, number), found) in enumerate(zip(items, on_all_cores(facts_of, items), strict=True)):
        progress("judging", done, len(items), "ranges")
        facts[unit][number] = found
    return facts


def _condense(
    units: ObservationStore,
    unit: Unit,
    ranges: Mapping[int, HashedFacts],
    rest: Rows,
    unproved: Collection[str],
    common: Common,
) -> Sequence[OtherRows]:
    """Replaces the rows of a unit by those from which the rules judge it, unless they need all rows.

    Returns what the other rows of each range add to the summary.
    """
    borders = borders_of(unit.topic, ranges, rest, unproved, common)
    if borders is None:
        return ()

    def suspects(number: int) -> Suspects | None:
        return suspects_of_range(units.tables_in_range(unit, number), rest, number, unit.topic, borders, common)

    found = dict(zip(ranges, on_all_cores(suspects, ranges), strict=True))
    wanted = wanted_of(found, borders)
    if wanted is None:
        return ()

    def retained(number: int) -> Condensed:
        return condense_range(units.tables_in_range(unit, number), number, wanted, common)

    parts = list(on_all_cores(retained, ranges))
    tables = concat_parts([units.tables_in_range(unit, REST), *(part.tables for part in parts)])
    units.drop(unit)
    for name, rows in tables.items():
        units.add(unit, name, rows)
    return [part.others for part in parts]


def gather(run: Run, progress: Progress = lambda *_: None, offset: int | None = None) -> Gathered:
    """Reads every split and every broker's file.

    Of large logs only the records that the history refers to are read, and the one at `offset`.
    """
    gathering = Gathering(run)
    for number, all_parts in on_all_cores(lambda item: _read_block(*item, run.settings), _readings(run.splits)):
        progress("reading", number, len(run.splits))
        for parts in all_parts:
            gathering.take(parts)
        gathering.results.add_lines(number, sum(parts.counts.get("lines", 0) for parts in all_parts))
    for done, parts in enumerate(on_all_cores(read_evidence, run.evidence)):
        progress("reading brokers' files", done, len(run.evidence))
        gathering.take(parts)
    gathering.take(pair_at_end(gathering.unpaired, run.settings))
    for unit, frames in gathering.headers.items():
        observed = gathering.units.get(unit, {})
        lookups = [lookups_of(table, frame) for table in REFERRING_TABLES for frame in observed.get(table, [])]
        lookups.append(lookups_of("marks", pl.DataFrame({"offset": [offset]}, schema={"offset": pl.Int64})))
        chosen = choose_batches(unit, frames, lookups if run.splits else None, run.settings)
        gathering.take(chosen)
        for parts in on_all_cores(lambda job: decode_batches(*job), chosen.jobs):
            gathering.take(parts)
    return gathering.gathered()


def _readings(splits: Iterable[Split]) -> Iterator[tuple[Split, Block | None]]:
    """Splits, each to be read by one thread; a great compressed one in blocks that this thread decompresses."""
    for split in splits:
        if split.is_shared:
            yield from ((split, block) for block in blocks(split, TEXT_BLOCK_BYTES))
        else:
            yield split, None


def _read_block(split: Split, block: Block | None, settings: Settings) -> tuple[int, list[Parts]]:
    """The split's number, and the Parts of the split or of one block of it."""
    return split.number, list(read_block(split, block, settings) if block else read_split(split, settings))
