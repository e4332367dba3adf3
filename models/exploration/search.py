"""Searches for a schedule that breaks an invariant.

A seed determines the faults and everything random in the run, so any process can search a range of seeds.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..replication.cluster import Cluster
from ..replication.config import MS, SECOND
from ..replication.scenario import Scenario
from ..replication.variants import VARIANTS
from .invariants import breaches
from .schedule import QUICK, draw, required_options

# Faults that a replicated log must survive: disks lose nothing, and clocks may be wrong.
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


@dataclass(frozen=True)
class Space:
    """A search space: every seed determines one scenario."""

    variant: str
    kinds: tuple[str, ...] = SURVIVABLE
    options: dict[str, Any] = field(default_factory=dict)
    max_faults: int = 3

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed."""
        options = {**QUICK, **VARIANTS[self.variant].options, **required_options(self.kinds), **self.options}
        bare = Scenario(f"{self.variant}-{seed}", self.variant, seed, options)
        count = 1 + seed % self.max_faults
        faults = draw(seed, bare.config(), self.kinds, count, FAULTS_AFTER, FAULTS_SPAN)
        return bare.with_faults(tuple(faults))

    def settings(self) -> str:
        """The settings of all seeds beside the short timeouts of QUICK, with the origin of those that are not defaults.

        Every variant has the defaults of Kafka 4.1, so that variants differ only in their rules.
        """
        origins: tuple[tuple[str, dict[str, Any]], ...] = (
            ("set by the variant", VARIANTS[self.variant].options),
            ("set by --faults unclean", required_options(self.kinds)),
            ("set by --set", self.options),
        )
        config = self.scenario(0).config()
        shown: dict[str, tuple[Any, str]] = {
            "min.insync.replicas": (config.min_insync_replicas, ""),
            "unclean.leader.election.enable": (config.unclean_election, ""),
        }
        for origin, options in origins:
            shown |= {name: (value, f" ({origin})") for name, value in options.items()}
        texts = (f"{name}={str(value).lower()}{origin}" for name, (value, origin) in shown.items())
        return f"defaults of Kafka 4.1 for every variant, short timeouts, {', '.join(texts)}"


@dataclass
class Explored:
    """The result of a range of seeds. `first` has the lowest seed that broke each invariant, and the breach."""

    runs: int = 0
    events: int = 0
    states: set[int] = field(default_factory=set)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    broken: Counter[str] = field(default_factory=Counter)  # invariant -> how many seeds broke it
    unfinished: int = 0  # runs that ended with a partition without a leader

    def add(self, other: Explored) -> None:
        """Merge the result of other seeds."""
        self.runs += other.runs
        self.events += other.events
        self.unfinished += other.unfinished
        self.states |= other.states
        self.broken.update(other.broken)
        self.first |= {name: min(self.first.get(name, found), found) for name, found in other.first.items()}


def explore(space: Space, seeds: range, invariants: Sequence[str], stop: bool) -> Explored:
    """Run these seeds; with `stop`, only up to the first breach."""
    explored = Explored()
    for seed in seeds:
        cluster = space.scenario(seed).run(prepare=_track_states)
        first = {name: (seed, some[0].text) for name, some in breaches(cluster, invariants).items()}
        unfinished = int(not cluster.final)
        explored.add(Explored(1, cluster.loop.processed, cluster.states_seen, first, Counter(first.keys()), unfinished))
        if stop and explored.first:
            break
    return explored


def explore_payload(payload: bytes) -> bytes:
    """`explore` in another process: pickled number and arguments in, pickled number and result out."""
    number, arguments = pickle.loads(payload)
    return pickle.dumps((number, explore(*arguments)))


def _track_states(cluster: Cluster) -> None:
    cluster.track_states = True
