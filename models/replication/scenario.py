"""Everything that determines a run: variant, seed, configuration and faults. The same scenario is the same
run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .cluster import Cluster
from .config import Config, ConfigError, check_heartbeats, configure
from .faults import Fault, check
from .history import History
from .state import Fact
from .variants import VARIANTS

LAG = "replica.lag.max.messages"


@dataclass(frozen=True)
class Scenario:
    """`options` have Kafka's names and units; those that the variant itself sets come first."""

    name: str
    variant: str
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    per_broker: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    title: str = ""
    story: str = ""
    source: str = ""
    picture: str = "swimlane"  # the plot that shows it best
    breaks: tuple[str, ...] = ()  # the invariants that this run breaks; it keeps all others
    causes: tuple[str, ...] = ()  # the causes of its acknowledged losses

    def config(self) -> Config:
        if self.variant not in VARIANTS:
            raise ConfigError(f"there is no variant {self.variant!r}; there are {', '.join(VARIANTS)}")
        config = configure(Config(), self.options, self.per_broker)
        if LAG in self.options and self.variant != "lag-max-messages":
            raise ConfigError(f"{LAG} is a rule of the variant lag-max-messages alone, not of {self.variant}")
        if not VARIANTS[self.variant].zookeeper:
            check_heartbeats(config)
        for fault in self.faults:
            check(fault, config)
        return config

    def run(
        self,
        history: History | None = None,
        tell: Callable[[Fact], None] | None = None,
        snapshot: Callable[[Cluster, str], None] | None = None,
        prepare: Callable[[Cluster], None] | None = None,
    ) -> Cluster:
        """Run it; `prepare` sees the cluster before its first event."""
        rules = VARIANTS[self.variant]()
        cluster = Cluster(rules, self.config(), self.seed, self.faults, history, tell, snapshot)
        if prepare is not None:
            prepare(cluster)
        return cluster.run()

    def with_faults(self, faults: tuple[Fault, ...]) -> Scenario:
        return replace(self, faults=faults)
