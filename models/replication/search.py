"""Looks for a schedule that breaks an invariant, and shrinks it to the shortest that still does.

The engine knows scenarios, seeds and invariants, and how to make a scenario smaller. A seed draws the faults and
everything that the run itself draws, so a range of seeds is a piece of work that any process can do.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .cluster import Cluster
from .config import MS, SECOND, ConfigError
from .deeds import Witness
from .faults import Fault
from .invariants import INVARIANTS
from .ledger import Breach
from .scenario import Scenario
from .schedule import QUICK, demanded, draw
from .state import Fact
from .story import tell
from .variants import VARIANTS

# Faults that a replicated log must survive: disks keep what they were given, and clocks may lie.
SURVIVABLE = (
    "crash",
    "bounce",
    "pause",
    "partition",
    "one-way",
    "delay",
    "loss",
    "slow-disk",
    "clock-skew",
    "controller-crash",
    "controller-pause",
    "preferred-election",
    "rolling",
)
FAULTS_AFTER = 1500 * MS  # the first records are written by then
FAULTS_SPAN = 6 * SECOND
EARLIEST = 100 * MS  # a fault is not moved or shortened by less


@dataclass(frozen=True)
class Space:
    """What is searched: every seed is one scenario of it."""

    variant: str
    kinds: tuple[str, ...] = SURVIVABLE
    options: dict[str, Any] = field(default_factory=dict)
    most_faults: int = 3
    per_broker: dict[int, dict[str, Any]] = field(default_factory=dict)

    def scenario(self, seed: int) -> Scenario:
        options = {**QUICK, **VARIANTS[self.variant].options, **demanded(self.kinds), **self.options}
        bare = Scenario(f"{self.variant}-{seed}", self.variant, seed, options, self.per_broker)
        count = 1 + seed % self.most_faults
        faults = draw(seed, bare.config(), self.kinds, count, FAULTS_AFTER, FAULTS_SPAN)
        return bare.with_faults(tuple(faults))


@dataclass
class Explored:
    """What a range of seeds showed. `first` has the lowest seed that broke each invariant."""

    runs: int = 0
    events: int = 0
    states: set[int] = field(default_factory=set)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)  # invariant -> how many seeds broke it
    unfinished: int = 0  # runs that ended with a partition without a leader

    def add(self, other: Explored) -> None:
        self.runs += other.runs
        self.events += other.events
        self.unfinished += other.unfinished
        self.states |= other.states
        for name, count in other.broken.items():
            self.broken[name] = self.broken.get(name, 0) + count
        for name, found in other.first.items():
            if name not in self.first or found[0] < self.first[name][0]:
                self.first[name] = found


def breaches(cluster: Cluster, names: Iterable[str]) -> dict[str, list[Breach]]:
    """The breaches of these invariants in a finished run."""
    found = {name: INVARIANTS[name][0](cluster) for name in names}
    return {name: some for name, some in found.items() if some}


def explore(space: Space, seeds: range, invariants: Sequence[str], stop: bool) -> Explored:
    """Run these seeds; with `stop`, no further than the first breach."""
    explored = Explored()
    for seed in seeds:
        cluster = space.scenario(seed).run(prepare=_watch)
        explored.runs += 1
        explored.events += cluster.loop.processed
        explored.unfinished += not cluster.final
        explored.states |= cluster.states_seen
        for name, some in breaches(cluster, invariants).items():
            explored.broken[name] = explored.broken.get(name, 0) + 1
            explored.first.setdefault(name, (seed, some[0].text))
        if stop and explored.first:
            break
    return explored


def explore_payload(payload: bytes) -> bytes:
    """`explore` in another process: a pickled number and arguments in, the number and what came of them out."""
    number, arguments = pickle.loads(payload)
    return pickle.dumps((number, explore(*arguments)))


def _watch(cluster: Cluster) -> None:
    cluster.track_states = True


# --- shrinking


def shrink(scenario: Scenario, invariant: str, patience: int = 1000) -> tuple[Scenario, int]:
    """A scenario that still breaks the invariant and that none of the simplifications makes smaller, and how many runs
    that took; after `patience` runs no simplification succeeds any more."""
    runs = 0

    def fails(candidate: Scenario) -> bool:
        nonlocal runs
        if runs >= patience:
            return False
        runs += 1
        try:
            return bool(INVARIANTS[invariant][0](candidate.run()))
        except ConfigError:
            return False  # such as a fault of a broker that is gone

    best = scenario
    progress = True
    while progress and runs < patience:
        progress = False
        for simplify in SIMPLIFICATIONS:
            smaller = simplify(best, fails)
            if smaller is not None:
                best, progress = smaller, True
    return best, runs


Fails = Callable[[Scenario], bool]


def _fewer_faults(scenario: Scenario, fails: Fails) -> Scenario | None:
    """Delta debugging in its simplest form: leave out chunks of faults, large ones first."""
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


def _with(scenario: Scenario, name: str, value: Any) -> Scenario:
    return replace(scenario, options={**scenario.options, name: value})


def _smaller_cluster(scenario: Scenario, fails: Fails) -> Scenario | None:
    """Without consumers, with one producer, one partition, and one broker less."""
    config = scenario.config()
    fewer = [
        {"simulation.consumers": 0} if config.consumers else {},
        {"simulation.producers": 1} if config.producers > 1 else {},
        {"num.partitions": 1} if config.partitions > 1 else {},
        {
            "simulation.brokers": config.brokers - 1,
            "default.replication.factor": min(config.replication_factor, config.brokers - 1),
        }
        if config.brokers > 1
        else {},
    ]
    for options in fewer:
        candidate = replace(scenario, options={**scenario.options, **options})
        if options and fails(candidate):
            return candidate
    return None


def _earlier(scenario: Scenario, fails: Fails) -> Scenario | None:
    """All faults, and then each with those after it, by as much as possible, halved and halved again."""
    best: Scenario | None = None
    for index in range(len(scenario.faults)):
        faults = (best or scenario).faults
        least = faults[index - 1].at if index else 0
        shift = faults[index].at - least
        while shift >= EARLIEST:
            moved = tuple(replace(f, at=f.at - shift) if n >= index else f for n, f in enumerate(faults))
            if moved[index].at >= least and fails(candidate := scenario.with_faults(moved)):
                best, faults = candidate, moved
            else:
                shift //= 2
    return best


def _shorter(scenario: Scenario, fails: Fails) -> Scenario | None:
    """Halve how long a fault lasts, and its amount."""
    for index, fault in enumerate(scenario.faults):
        for field_name, least in (("lasts", EARLIEST), ("amount", 2)):
            value = getattr(fault, field_name)
            if value >= least and fails(
                candidate := _replaced(scenario, index, replace(fault, **{field_name: value // 2}))
            ):
                return candidate
    return None


def _fewer_ops(scenario: Scenario, fails: Fails) -> Scenario | None:
    ops = scenario.config().ops
    for fewer in (ops // 4, ops // 2, ops * 3 // 4, ops - 1):
        if 0 < fewer < ops and fails(candidate := _with(scenario, "simulation.ops", fewer)):
            return candidate
    return None


def _fewer_nodes(scenario: Scenario, fails: Fails) -> Scenario | None:
    for index, fault in enumerate(scenario.faults):
        for node in fault.nodes if len(fault.nodes) > 1 else ():
            fewer = replace(fault, nodes=tuple(n for n in fault.nodes if n != node))
            candidate = _replaced(scenario, index, fewer)
            if fails(candidate):
                return candidate
    return None


def _rounder_times(scenario: Scenario, fails: Fails) -> Scenario | None:
    """Times in round numbers read better: whole seconds if they do, else tenths, else hundredths."""
    best: Scenario | None = None
    for index in range(len(scenario.faults)):
        for field_name in ("at", "lasts"):
            current = best or scenario
            value = getattr(current.faults[index], field_name)
            for step in (SECOND, 100 * MS, 10 * MS, MS):
                rounded = round(value / step) * step
                if rounded == value or (field_name == "lasts" and rounded == 0):
                    break
                candidate = _replaced(current, index, replace(current.faults[index], **{field_name: rounded}))
                if fails(candidate):
                    best = candidate
                    break
    return best


SIMPLIFICATIONS = (
    _fewer_faults,
    _smaller_cluster,
    _fewer_nodes,
    _earlier,
    _fewer_ops,
    _shorter,
    _rounder_times,
)


def _replaced(scenario: Scenario, index: int, fault: Fault) -> Scenario:
    return scenario.with_faults((*scenario.faults[:index], fault, *scenario.faults[index + 1 :]))


def story(scenario: Scenario) -> tuple[list[str], Cluster]:
    """Run a scenario once more and tell it, with what it says it breaks."""
    facts: list[Fact] = []
    witness = Witness()
    cluster = scenario.run(witness, facts.append, prepare=witness.attend)
    found = [breach for some in breaches(cluster, scenario.breaks).values() for breach in some]
    return tell(cluster, facts, witness, found), cluster
