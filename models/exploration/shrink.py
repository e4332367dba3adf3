"""Shrinks a scenario that breaks an invariant to the smallest that still does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..replication.config import MS, SECOND, ConfigError
from ..replication.faults.fault import Fault
from ..replication.scenario import Scenario
from .invariants import INVARIANTS

MIN_CHANGE = 100 * MS  # of the time or the duration of a fault
Fails = Callable[[Scenario], bool]  # whether a run of the scenario breaks the invariant
Simplification = Callable[[Scenario, Fails], Scenario | None]  # None: nothing simpler fails


def shrink(scenario: Scenario, invariant: str, max_runs: int = 1000) -> tuple[Scenario, int]:
    """A minimal scenario that still breaks the invariant, and the number of runs needed to find it.

    It is minimal with respect to SIMPLIFICATIONS, unless `max_runs` ended the search.
    """
    runs = 0

    def fails(candidate: Scenario) -> bool:
        nonlocal runs
        if runs >= max_runs:
            return False
        runs += 1
        try:
            return bool(INVARIANTS[invariant].check(candidate.run()))
        except ConfigError:
            return False  # for example a fault of a broker that was removed

    best = scenario
    progress = True
    while progress and runs < max_runs:
        progress = False
        for simplify in SIMPLIFICATIONS:
            if (smaller := simplify(best, fails)) is not None:
                best, progress = smaller, True
    return best, runs


def _fewer_faults(scenario: Scenario, fails: Fails) -> Scenario | None:
    """Delta debugging in its simplest form: remove chunks of faults, large ones first."""
    faults = scenario.faults
    size = len(faults) // 2 or 1
    changed = False
    while size >= 1:
        start = 0
        while start < len(faults) and len(faults) > 1:
            fewer = faults[:start] + faults[start + size :]
            if fails(scenario.with_faults(fewer)):
                faults, changed = fewer, True
            else:
                start += size
        size //= 2
    return scenario.with_faults(faults) if changed else None


def _with_options(scenario: Scenario, options: dict[str, Any]) -> Scenario:
    return replace(scenario, options={**scenario.options, **options})


def _smaller_clusters(scenario: Scenario) -> Iterator[Scenario]:
    """Without consumers, with one producer, one partition, and one broker less."""
    config = scenario.config()
    if config.consumers:
        yield _with_options(scenario, {"simulation.consumers": 0})
    if config.producers > 1:
        yield _with_options(scenario, {"simulation.producers": 1})
    if config.partitions > 1:
        yield _with_options(scenario, {"num.partitions": 1})
    if config.brokers > 1:
        fewer = config.brokers - 1
        factor = min(config.replication_factor, fewer)
        yield _with_options(scenario, {"simulation.brokers": fewer, "default.replication.factor": factor})


def _earlier(scenario: Scenario, fails: Fails) -> Scenario | None:
    """Move each fault and all later ones to an earlier time, as far as possible."""
    best: Scenario | None = None
    for index in range(len(scenario.faults)):
        faults = (best or scenario).faults
        least = faults[index - 1].at if index else 0
        shift = faults[index].at - least
        while shift >= MIN_CHANGE:
            moved = tuple(replace(f, at=f.at - shift) if n >= index else f for n, f in enumerate(faults))
            if moved[index].at >= least and fails(candidate := scenario.with_faults(moved)):
                best, faults = candidate, moved
            else:
                shift //= 2
    return best


def _shorter(scenario: Scenario) -> Iterator[Scenario]:
    """Halve the duration of a fault, or its amount."""
    for index, fault in enumerate(scenario.faults):
        if fault.lasts >= MIN_CHANGE:
            yield _with_fault(scenario, index, replace(fault, lasts=fault.lasts // 2))
        if fault.amount >= 2:
            yield _with_fault(scenario, index, replace(fault, amount=fault.amount // 2))


def _fewer_ops(scenario: Scenario) -> Iterator[Scenario]:
    ops = scenario.config().ops
    for fewer in (ops // 4, ops // 2, ops * 3 // 4, ops - 1):
        if 0 < fewer < ops:
            yield _with_options(scenario, {"simulation.ops": fewer})


def _fewer_nodes(scenario: Scenario) -> Iterator[Scenario]:
    for index, fault in enumerate(scenario.faults):
        for node in fault.nodes if len(fault.nodes) > 1 else ():
            fewer = tuple(n for n in fault.nodes if n != node)
            yield _with_fault(scenario, index, replace(fault, nodes=fewer))


def _rounder_times(scenario: Scenario, fails: Fails) -> Scenario | None:
    """Round times, for the reader, to the coarsest unit from a second to a millisecond that keeps the breach."""
    best: Scenario | None = None
    for index in range(len(scenario.faults)):
        for field_name in ("at", "lasts"):
            current = best or scenario
            value = getattr(current.faults[index], field_name)
            for step in (SECOND, 100 * MS, 10 * MS, MS):
                rounded = round(value / step) * step
                if rounded == value or (field_name == "lasts" and rounded == 0):
                    break
                fault = replace(current.faults[index], **{field_name: rounded})
                if fails(candidate := _with_fault(current, index, fault)):
                    best = candidate
                    break
    return best


def _first_of(candidates: Callable[[Scenario], Iterator[Scenario]]) -> Simplification:
    """Takes the first candidate that still fails."""
    return lambda scenario, fails: next(filter(fails, candidates(scenario)), None)


SIMPLIFICATIONS: tuple[Simplification, ...] = (
    *(_fewer_faults, _first_of(_smaller_clusters), _first_of(_fewer_nodes), _earlier, _first_of(_fewer_ops)),
    *(_first_of(_shorter), _rounder_times),
)


def _with_fault(scenario: Scenario, index: int, fault: Fault) -> Scenario:
    return scenario.with_faults((*scenario.faults[:index], fault, *scenario.faults[index + 1 :]))
