"""A scenario determines one run: variant, seed, configuration and faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .cluster import Cluster
from .config import Config, ConfigError
from .events import Listener
from .faults.check import MOVES, check_fault
from .faults.fault import Fault
from .options import check_heartbeats, configure
from .ports import NO_HISTORY, History
from .run import Run
from .variants import VARIANTS

LAG_MAX_MESSAGES = "replica.lag.max.messages"
# `Scenario.defaults`: the version of Kafka with the defaults of settings that a scenario leaves out. With those of one
# version for all, variants differ only in their rules.
LATEST, OWN_VERSION = "4.1", "version"


@dataclass(frozen=True)
class Scenario:
    """One run. `options` have Kafka's names and units."""

    name: str
    variant: str
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    per_broker: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    title: str = ""
    story: str = ""
    source: str = ""
    theme: str = ""  # the heading under which the catalogue lists it
    picture: str = "swimlane"  # the plot on its page
    breaks: tuple[str, ...] = ()  # the invariants that this run breaks; all others hold
    causes: tuple[str, ...] = ()  # the causes of its acknowledged losses
    defaults: str = LATEST
    trace: tuple[int, int] | None = None  # its page shows the messages between these times (microseconds)

    def config(self) -> Config:
        """The configuration. Raises ConfigError if the scenario cannot be run."""
        if self.variant not in VARIANTS:
            raise ConfigError(f"unknown variant {self.variant!r}; known are {', '.join(VARIANTS)}")
        era = VARIANTS[self.variant].era
        base = configure(Config(), era.defaults) if self.defaults == OWN_VERSION else Config()
        config = configure(base, self.options, self.per_broker)
        if LAG_MAX_MESSAGES in self.options and self.variant != "lag-max-messages":
            raise ConfigError(f"{LAG_MAX_MESSAGES} only exists in the variant lag-max-messages, not in {self.variant}")
        if config.transactional and era.zookeeper:
            raise ConfigError(f"transactions are simulated with KRaft only, not with the variant {self.variant}")
        if config.static_members != "none" and era.zookeeper:
            raise ConfigError(f"static members exist since 2.3 (KIP-345), not in the variant {self.variant}")
        if config.has_member_epochs and "group.protocol" in era.absent:
            raise ConfigError(f"group.protocol=consumer exists since 3.7 (KIP-848), not in the variant {self.variant}")
        if not era.zookeeper:
            check_heartbeats(config)
        for fault in self.faults:
            check_fault(fault, config)
            if fault.kind in MOVES and not VARIANTS[self.variant].reassigns:
                raise ConfigError(f"the variant {self.variant} has no reassignment of partitions")
            if fault.kind == "delete-records" and fault.kind in era.absent:
                raise ConfigError(f"delete-records exists since 0.11 (KIP-107), not in the variant {self.variant}")
        return config

    def run(
        self,
        history: History = NO_HISTORY,
        listener: Listener | None = None,
        snapshot: Callable[[Cluster, str], None] | None = None,
        prepare: Callable[[Cluster], None] | None = None,
    ) -> Cluster:
        """Run it; `prepare` gets the cluster before its first event."""
        rules = VARIANTS[self.variant]()
        cluster = Cluster(rules, self.config(), self.seed, history, listener)
        if prepare is not None:
            prepare(cluster)
        return Run(cluster, self.faults, history, snapshot).run()

    def with_faults(self, faults: tuple[Fault, ...]) -> Scenario:
        """The same scenario with other faults."""
        return replace(self, faults=faults)
