"""Proves that rules report nothing in a partition, from the facts of its closed offsets and of the other ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.settings import Settings
from ..batches import Unit
from ..engines.local import Progress, facts_of_ranges, provable
from ..engines.store import ObservationStore
from ..partitions.common import Common
from ..partitions.offset_ranges import REST
from ..screening.premises import UNREAD
from ..screening.range_facts import HashedFacts, RangeFacts, Rows, rows_of
from ..screening.ranges import Proof, proof_of, ranges_of
from ..screening.screen import chosen_rules
from .closing import Closed, contradicts
from .reading import Reading

_NO_HASHES = np.empty(0, np.uint64)


class Proved(NamedTuple):
    """The proof of a partition, and the facts from which it follows."""

    proof: Proof
    facts: dict[int, RangeFacts]  # by range, of the offsets that are not closed
    rest: Rows
    undecided: frozenset[str]  # rules that cannot decide before the end of the run


def prove(reading: Reading, closed: Mapping[Unit, Closed], progress: Progress) -> dict[Unit, Proved] | None:
    """The proofs from ranges for each partition with records; None if rules must judge a partition with closed offsets.

    Polls without an outcome only excuse what is missing, so the proofs leave them out (`_undecided_rules`).
    """
    units, common = reading.gathered.units, reading.gathered.common
    certain = common._replace(context=common.context.filter(pl.col("kind") != "poll"))
    recorded = [unit for unit in provable(units, certain) if {"sends", "reads"} & units.tables_of(unit)]
    rests = {unit: rows_of(units.range_of(unit, REST)) for unit in recorded}
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
        proofs[unit] = Proved(proof, {number: hashed.facts for number, hashed in facts[unit].items()}, rest, undecided)
    return proofs if closed.keys() <= proofs.keys() else None


def _ranges(
    units: ObservationStore, unit: Unit, rest: Rows, closed: Mapping[Unit, Closed], settings: Settings
) -> list[int]:
    """The ranges to prove; not the closed ones, to which a retained commit may still refer."""
    below = closed[unit].below if unit in closed else 0
    numbers = ranges_of(units.ranges_of(unit), rest, settings)
    return [number for number in numbers if (number + 1) * settings.range_offsets > below]


def _sends(units: ObservationStore, unit: Unit, rest: Rows) -> pl.Series:
    """The values of all sends that are not closed."""
    tables = [units.range_of(unit, number) for number in units.ranges_of(unit)]
    return pl.concat([frame["value"] for own in tables for frame in own.get("sends", ())] + [rest.sends["value"]])


def _undecided_rules(proof: Proof, facts: list[RangeFacts], common: Common) -> frozenset[str]:
    """The rules that cannot decide yet: a poll without an outcome may have returned unread records."""
    is_final = proof.summary is not None and proof.summary["final"] is not None
    has_polls = bool((common.context["kind"] == "poll").any())
    is_open = has_polls and not is_final and any(fact.unread for fact in facts)
    return frozenset(UNREAD) & chosen_rules(common.settings) if is_open else frozenset()
