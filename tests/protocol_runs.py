"""Short runs of the protocol, and the details of their events."""

from __future__ import annotations

from typing import Any

from logjudge.models.exploration.schedule import QUICK
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario


def run(variant: str, options: dict[str, Any], *faults: Fault, seed: int = 1) -> tuple[Cluster, list[ClusterEvent]]:
    events: list[ClusterEvent] = []
    scenario = Scenario("test", variant, seed, {**QUICK, **options}, {}, tuple(faults))
    return scenario.run(listener=events.append), events


def details(events: list[ClusterEvent], kind: str) -> list[tuple[Any, ...]]:
    return [event.details for event in events if event.kind == kind]
