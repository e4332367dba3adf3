"""One call on a growing history: it proves the appended part together with the closed ranges, or judges them.

A call reports the same findings as a call on the whole history so far. Where the state is not enough for that, the call
judges the whole history.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...histories.appended import Position, end_of_lines, position_at, refuse_rewritten
from ...histories.bundle import Run
from ...histories.files import Split
from ...histories.settings import Settings
from ...histories.tables import OBSERVED
from ..batches import Unit
from ..engines.local import facts_of_ranges, judge_run, judge_units, provable
from ..engines.store import ObservationStore
from ..partitions.common import Common
from ..partitions.offset_ranges import MAX_RANGES, REST
from ..results import Results
from ..rules import RULES
from ..screening.premises import UNREAD
from ..screening.range_facts import HashedFacts, RangeFacts, Rows, rows_of
from ..screening.ranges import Proof, proof_of, ranges_of
from ..screening.screen import chosen_rules
from ..stages import Progress
from .closing import Closed, Proved, close_ranges, contradicts
from .reading import Reading, read_appended
from .state import Carried, State

MAX_CARRIED_ROWS = 4_000_000  # of a state; if more are not closed, the next call judges the whole history
RANGE_OFFSETS = 1 << 12  # of a range, at least; about one range of each partition stays open
MAX_RANGES_BEHIND = 16  # that stay open for a slow reader; fewer if there are many partitions
BYTES_PER_EVENT = 64  # of a history, at least; bounds the number of offsets in a partition
_NO_HASHES = np.empty(0, np.uint64)
PENDING = (
    "not yet decided: a poll without a known outcome may have returned acknowledged records that no poll has returned"
)


class Call(NamedTuple):
    """The results of a call, the state for the next one, and how much of the history it read."""

    results: Results
    state: State
    read: int  # bytes
    whole: str  # why it read the whole history; empty if it did not


def judge_appended(run: Run, state: State | None, file: str, progress: Progress = lambda *_: None) -> Call:
    """Judges a run whose history grows. Raises InputError for the state of another run; `file` is its name."""
    paths = {shown: Path(split.path) for shown, split in zip(run.shown, run.splits, strict=True)}
    positions = state.positions if state else {}
    refuse_rewritten(paths, positions, file)
    if whole := _why_never_in_steps(run):
        return Call(judge_run(run, progress), State("", {}, None), run.bytes, whole)
    ordered = [*positions, *(name for name in paths if name not in positions)]
    ends = {name: end_of_lines(paths[name], positions.get(name, Position()).bytes) for name in ordered}
    run = _with_ranges(run, sum(ends.values()))
    basis = _basis(run.settings)
    carried = state.carried if state and state.basis == basis else None
    whole = "" if carried else _why_not_continued(state)

    def read(carried: Carried, first: list[Position]) -> tuple[Reading, dict[Unit, Proved] | None]:
        splits = tuple(
            Split(number, str(paths[name]), "native", "", position.bytes, ends[name])
            for number, (name, position) in enumerate(zip(ordered, first, strict=True))
        )
        reading = read_appended(replace(run, splits=splits), first, carried, progress)
        return reading, None if reading.contradiction else prove(reading, carried.closed, progress)

    first = [positions.get(name, Position()) if carried else Position() for name in ordered]
    reading, proofs = read(carried or Carried(), first)
    if proofs is None:
        whole = reading.contradiction or "rules must judge closed offsets"
        first = [Position() for _ in ordered]
        reading, proofs = read(Carried(), first)
    proofs = proofs or {}
    results = reading.gathered.results
    following = _carry_over(reading, proofs)
    _judge(reading, proofs, progress)
    reached = {
        name: position_at(paths[name], ends[name], results.lines_of(number)) for number, name in enumerate(ordered)
    }
    read_bytes = run.bytes - sum(position.bytes for position in first)
    return Call(results, State(basis, reached, following), read_bytes, whole)


def _why_never_in_steps(run: Run) -> str:
    if run.evidence:
        return "brokers' files are judged with the whole history"
    if run.settings.dialect != "native" or any(split.reader != "native" or split.compression for split in run.splits):
        return "only uncompressed JSON lines are judged in steps"
    return ""


def _why_not_continued(state: State | None) -> str:
    if state is None:
        return "no earlier call"
    return "the version or the settings changed" if state.carried else "the state has no rows of earlier calls"


def _basis(settings: Settings) -> str:
    """A hash of versions and settings. A state is only valid for calls with the same ones."""
    versions = f"logjudge {version('logjudge')}, polars {pl.__version__}"
    comparable = replace(settings, range_offsets=0)  # these grow with the history
    return hashlib.sha256(f"{versions}\n{comparable.to_json()}".encode()).hexdigest()


def _with_ranges(run: Run, size: int) -> Run:
    """The run with the size to judge, and ranges large enough that MAX_RANGES cover all offsets (offset_ranges.py)."""
    offsets = min(RANGE_OFFSETS, run.settings.range_offsets)
    while offsets * MAX_RANGES < size // BYTES_PER_EVENT:
        offsets *= 2
    return replace(run, bytes=size, settings=replace(run.settings, batches=0, range_offsets=offsets))


def _judge(reading: Reading, proofs: Mapping[Unit, Proved], progress: Progress) -> None:
    """Adds the summaries of proved partitions to the results, and judges the others."""
    gathered = reading.gathered
    unproved: dict[Unit, frozenset[str]] = {}
    for unit, proved in proofs.items():
        if proved.proof.summary is None:
            unproved[unit] = proved.proof.unproved | proved.undecided
            continue
        unjudged = {rule: [PENDING] for rule in RULES if rule in proved.undecided}
        gathered.results.add_summaries([{**proved.proof.summary, "unjudged": unjudged}])
        gathered.units.drop(unit)
    judge_units(gathered, unproved, {}, progress)


def _carry_over(reading: Reading, proofs: Mapping[Unit, Proved]) -> Carried | None:
    """The rows and closed ranges that the next call needs; None if there are too many rows."""
    units, common = reading.gathered.units, reading.gathered.common
    is_over = ~pl.col("at").is_in(reading.open_at.implode())
    rows = reading.rows
    closed: dict[Unit, Closed] = {}
    max_ranges = MAX_CARRIED_ROWS // 4 // (common.settings.range_offsets * max(len(proofs), 1))
    max_ranges = max(1, min(MAX_RANGES_BEHIND, max_ranges))
    count = 0
    for unit in sorted(units):
        proved, below = proofs.get(unit), 0
        rest = units.tables_in_range(unit, REST)
        if proved is not None and proved.proof.summary is not None:
            found = close_ranges(units, unit, proved, reading.open_values, max_ranges, common)
            if found is not None:
                closed[unit], marks = found
                rest, below = {**rest, "marks": [marks]}, closed[unit].below
        above = [number for number in units.range_numbers(unit) if (number + 1) * common.settings.range_offsets > below]
        for tables in (rest, *(units.tables_in_range(unit, number) for number in above)):
            retained = [(unit, name, frame.filter(is_over)) for name in OBSERVED for frame in tables.get(name, ())]
            count += sum(len(frame) for _, _, frame in retained)
            rows.observations.extend(retained)
        if count > MAX_CARRIED_ROWS:
            return None
    return Carried(rows, closed, reading.operations)


def not_yet(report: dict[str, Any], results: Results) -> list[str]:
    """The rules of a report that cannot decide before the end of the run: they wait for a poll or for final reads."""
    pending = {rule for summary in results.records for rule, why in summary["unjudged"].items() if PENDING in why}
    is_read = all(item["holds"] is True for item in report["assumptions"] if item["name"] == "final reads complete")
    pending.update(() if is_read else (name for name, rule in RULES.items() if rule.needs_final))
    return [name for name, rule in report["rules"].items() if name in pending and rule["verdict"] == "unknown"]


def prove(reading: Reading, closed: Mapping[Unit, Closed], progress: Progress) -> dict[Unit, Proved] | None:
    """The proofs from ranges for each partition with records; None if rules must judge a partition with closed offsets.

    Polls without an outcome only excuse what is missing, so the proofs leave them out (`_undecided_rules`).
    """
    units, common = reading.gathered.units, reading.gathered.common
    certain = replace(common, context=common.context.filter(pl.col("kind") != "poll"))
    recorded = [unit for unit in provable(units, certain) if {"sends", "reads"} & units.table_names(unit)]
    rests = {unit: rows_of(units.tables_in_range(unit, REST)) for unit in recorded}
    ranges = {unit: _ranges(units, unit, rests[unit], closed, common.settings) for unit in recorded}
    facts = facts_of_ranges(units, ranges, rests, certain, progress)
    proofs: dict[Unit, Proved] = {}
    for unit in recorded:
        before, rest = closed.get(unit), rests[unit]
        whole = [*([HashedFacts(before.facts, _NO_HASHES)] if before else []), *facts[unit].values()]
        proof = proof_of(*unit, whole, rest, certain)
        if before and (proof.summary is None or contradicts(before, _sends(units, unit, rest), rest, common)):
            return None
        undecided = _undecided_rules(proof, [hashed.facts for hashed in whole], common)
        own = {number: hashed.facts for number, hashed in facts[unit].items()}
        proofs[unit] = Proved(proof, before, own, rest, undecided)
    return proofs if closed.keys() <= proofs.keys() else None


def _ranges(
    units: ObservationStore, unit: Unit, rest: Rows, closed: Mapping[Unit, Closed], settings: Settings
) -> list[int]:
    """The ranges to prove; not the closed ones, to which a retained commit may still refer."""
    below = closed[unit].below if unit in closed else 0
    numbers = ranges_of(units.range_numbers(unit), rest, settings)
    return [number for number in numbers if (number + 1) * settings.range_offsets > below]


def _sends(units: ObservationStore, unit: Unit, rest: Rows) -> pl.Series:
    """The values of all sends that are not closed."""
    tables = [units.tables_in_range(unit, number) for number in units.range_numbers(unit)]
    return pl.concat([frame["value"] for own in tables for frame in own.get("sends", ())] + [rest.sends["value"]])


def _undecided_rules(proof: Proof, facts: list[RangeFacts], common: Common) -> frozenset[str]:
    """The rules that cannot decide yet: a poll without an outcome may have returned unread records."""
    is_final = proof.summary is not None and proof.summary["final"] is not None
    has_polls = bool((common.context["kind"] == "poll").any())
    is_open = has_polls and not is_final and any(fact.unread for fact in facts)
    return frozenset(UNREAD) & chosen_rules(common.settings) if is_open else frozenset()
