"""The outcome of a scenario's run, compared with the expectation in its file."""

from __future__ import annotations

from dataclasses import dataclass

from ...models.exploration.invariants import INVARIANTS
from ...models.exploration.truth import losses
from ...models.replication.cluster import Cluster
from ...models.replication.scenario import Scenario

# A poll near a failing leader may well be stale, so this invariant is only checked where the scenario names it.
ONLY_IF_EXPECTED = ("no-stale-read",)


@dataclass(frozen=True)
class Outcome:
    """Broken invariants with an example each, and the causes of the losses."""

    breaks: dict[str, str]
    causes: tuple[str, ...]

    def difference(self, scenario: Scenario) -> str:
        """The difference of the outcome from the scenario's expectation, as a sentence; empty if there is none."""
        held = [name for name in scenario.breaks if name not in self.breaks]
        wrong = [f"{name} held, though the scenario expects a breach" for name in held]
        unexpected = [(name, text) for name, text in self.breaks.items() if name not in scenario.breaks]
        wrong += [f"{name} is broken unexpectedly ({text})" for name, text in unexpected]
        if sorted(scenario.causes) != sorted(self.causes):
            found, expected = (", ".join(causes) or "none" for causes in (self.causes, scenario.causes))
            wrong.append(f"the causes are {found}, expected {expected}")
        return "; ".join(wrong)


def outcome(cluster: Cluster, scenario: Scenario) -> Outcome:
    """The broken invariants and the causes of losses of a finished run."""
    breaks: dict[str, str] = {}
    for name, invariant in INVARIANTS.items():
        if name in ONLY_IF_EXPECTED and name not in scenario.breaks:
            continue
        if found := invariant.check(cluster):
            breaks[name] = found[0].text
    return Outcome(breaks, tuple(dict.fromkeys(one.loss.cause for one in losses(cluster))))
