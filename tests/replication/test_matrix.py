"""Variant by invariant: the breaches that the literature reports are found, and no others.

A few runs a cell here; `python benchmarks/matrix.py 100000` takes as many as wanted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import invoke
from logjudge.histories.simulation.scenarios import load
from logjudge.histories.simulation.scenarios import names as scenarios
from logjudge.models.exploration import compare
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.matrix import CELLS, SETTINGS, Cell, space
from logjudge.models.exploration.matrix_text import differences, table
from logjudge.models.exploration.search import Explored, explore
from logjudge.models.exploration.truth import longest_silence
from logjudge.models.replication.config import SECOND
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario
from logjudge.models.replication.variants import VARIANTS

FEW_RUNS = 2  # at a time
CAMPAIGN_RUNS = 40  # of a cell in which nothing may break, or breaches are rare
ROWS = [(setting, variant) for setting, cells in CELLS.items() for variant in cells]


def explored(setting: str, variant: str, seeds: range) -> Explored:
    return explore(space(variant, setting), seeds, SETTINGS[setting].invariants, False)


def seeds_of(cell: Cell) -> range:
    """The seeds within which all that the cell names as broken is found; some of a sound cell."""
    if cell.near is not None:
        return range(cell.near, cell.near + CAMPAIGN_RUNS)
    return range(cell.runs if cell.broken else CAMPAIGN_RUNS)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("setting", "variant"), ROWS)
def test_cell(setting: str, variant: str) -> None:
    """A few seeds, and more until all that the cell names as broken was seen."""
    cell = CELLS[setting][variant]
    seeds, found = seeds_of(cell), Explored()
    for start in range(0, len(seeds), FEW_RUNS):
        found.add(explored(setting, variant, seeds[start : start + FEW_RUNS]))
        if set(cell.broken) <= set(found.first):
            break
    assert differences(setting, variant, found) == []


@pytest.mark.campaign
@pytest.mark.parametrize(("setting", "variant"), ROWS)
def test_cell_in_more_runs(setting: str, variant: str) -> None:
    assert differences(setting, variant, explored(setting, variant, seeds_of(CELLS[setting][variant]))) == []


def test_every_variant_names_what_it_breaks_and_its_source() -> None:
    """No more and no less than the matrix and the scenarios show."""
    shown: dict[str, set[str]] = {variant: set() for variant in VARIANTS}
    for cells in CELLS.values():
        for variant, cell in cells.items():
            shown[variant].update(cell.broken)
    for scenario in map(load, scenarios()):
        shown[scenario.variant].update(scenario.breaks)
    for name, variant in VARIANTS.items():
        assert variant.summary
        assert variant.source
        assert sorted(variant.breaks) == sorted(shown[name])


def test_the_page_has_the_matrix() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms.md"
    assert table() in page.read_text(encoding="utf-8")


def test_the_page_has_the_designs_side_by_side() -> None:
    page = Path(__file__).parents[2] / "docs" / "mechanisms.md"
    assert compare.table() in page.read_text(encoding="utf-8")
    assert invoke("scenarios", "compare").output == compare.table() + "\n"


def test_designs_differ_as_the_literature_has_it() -> None:
    """A slow node costs the ISR latency, two failures of three cost the majority its availability, and asynchronous
    copies cost records."""
    found = {(row[0], row[1], int(row[2])): row for row in compare.rows()}
    slow, _, two, both = dict.fromkeys(row[0] for row in found.values())
    isr, pair = ("ISR", 3), ("ISR, f+1 replicas", 2)
    most, lazy = ("majority quorum, 2f+1 replicas", 3), ("asynchronous", 2)
    milliseconds = {key: int(row[6].removesuffix(" ms")) for key, row in found.items()}
    assert milliseconds[slow, *isr] > 250 > 50 > milliseconds[slow, *most]
    assert int(found[two, *isr][4]) == 0 < int(found[two, *most][4])
    assert [int(found[both, *design][8]) > 0 for design in (isr, pair, most, lazy)] == [False, False, False, True]


def test_the_silence_of_a_run_is_its_longest_time_without_an_acknowledgement() -> None:
    options = {"simulation.brokers": 1, "default.replication.factor": 1, "simulation.ops": 2000}
    options |= {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500}
    crash = Fault(2 * SECOND, "crash", (1,), 3 * SECOND)
    assert 3 * SECOND < longest_silence(Scenario("silent", "kraft", 1, options, {}, (crash,)).run()) < 4 * SECOND
    assert longest_silence(Scenario("calm", "kraft", 1, options).run()) < SECOND
    refused = {**options, "delivery.timeout.ms": 2000, "request.timeout.ms": 1000}
    long = Fault(2 * SECOND, "crash", (1,), 60 * SECOND)
    assert longest_silence(Scenario("refused", "kraft", 1, refused, {}, (long,)).run()) > 50 * SECOND


@pytest.mark.parametrize("seed", [1726, 16871])
def test_what_breaks_kip_101_with_clean_elections_is_mended_by_kip_279(seed: int) -> None:
    """The next leader has no entry for the epoch of a short-lived leader: the case of KIP-279."""
    schedule = space("kip-101", "clean").scenario(seed)
    names = ("no-divergence", "no-committed-loss")
    assert breaches(schedule.run(), names)
    assert not breaches(replace(schedule, variant="kip-279").run(), names)


@pytest.mark.parametrize(("faults", "seed"), [(64933, 64937), (20963, 20963)])
def test_what_breaks_kip_279_with_clean_elections_is_mended_by_fencing(faults: int, seed: int) -> None:
    """A follower that joins too early (KAFKA-7128), and one that missed elections (KAFKA-6880)."""
    schedule = replace(space("kip-279", "clean").scenario(faults), seed=seed)
    names = ("no-divergence", "no-acknowledged-loss", "no-committed-loss")
    assert breaches(schedule.run(), names)
    assert not breaches(replace(schedule, variant="kip-320").run(), names)
