"""What a scenario's run came to, held against what the scenario says."""

from __future__ import annotations

from dataclasses import dataclass

from ...models.replication.cluster import Cluster
from ...models.replication.invariants import INVARIANTS
from ...models.replication.scenario import Scenario
from ...models.replication.truth import lost

# A poll near a failing leader may well be stale; only scenarios about reads look at it.
SAID_ONLY = ("no-stale-read",)


@dataclass(frozen=True)
class Outcome:
    """Broken invariants with an example each, and the causes of the losses."""

    breaks: dict[str, str]
    causes: tuple[str, ...]

    def differs(self, scenario: Scenario) -> str:
        """How the outcome differs from what the scenario says, as a sentence; empty if it does not."""
        wrong: list[str] = []
        for name in scenario.breaks:
            if name not in self.breaks:
                wrong.append(f"{name} was to be broken and held")
        for name, text in self.breaks.items():
            if name not in scenario.breaks:
                wrong.append(f"{name} was to hold and is broken ({text})")
        if tuple(sorted(scenario.causes)) != tuple(sorted(self.causes)):
            wrong.append(f"causes were to be {', '.join(scenario.causes) or 'none'}, not {', '.join(self.causes)}")
        return "; ".join(wrong)


def outcome(cluster: Cluster, scenario: Scenario) -> Outcome:
    breaks: dict[str, str] = {}
    for name, (check, _) in INVARIANTS.items():
        if name in SAID_ONLY and name not in scenario.breaks:
            continue
        found = check(cluster)
        if found:
            breaks[name] = found[0].text
    return Outcome(breaks, tuple(dict.fromkeys(one.cause for one in lost(cluster))))
