"""How the load of a dead broker spreads under each replica assignment (Kafka's replication design, Replica Placement).

Each run has the same load, and one broker dies.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..replication.cluster import Cluster
from ..replication.config import SECOND
from ..replication.events import ClusterEvent
from ..replication.faults.fault import Fault
from ..replication.scenario import Scenario

BROKERS, DEAD = 5, 1
DIES, RETURNS = 20 * SECOND, 70 * SECOND
MEASURED = range(35 * SECOND, 65 * SECOND)  # by then its session has ended, and clients know the new leaders
LOAD = {
    "simulation.brokers": BROKERS,
    "num.partitions": 20,
    "simulation.ops": 8000,
    "simulation.send.interval.us": 20_000,
    "simulation.consumers": 0,
    "auto.leader.rebalance.enable": False,
}


@dataclass(frozen=True)
class Spread:
    """For each broker: how many partitions it led before and after the death, and how many records it then appended."""

    assignment: str
    before: dict[int, int]
    after: dict[int, int]
    records: dict[int, int]

    @property
    def busiest(self) -> float:
        """The records of the busiest survivor, as a multiple of their mean."""
        return max(self.records.values()) * len(self.records) / sum(self.records.values())


def spread(assignment: str) -> Spread:
    """Run one assignment."""
    events: list[ClusterEvent] = []
    fault = Fault(DIES, "crash", (DEAD,), RETURNS - DIES)
    scenario = Scenario(assignment, "kraft", 1, {**LOAD, "simulation.assignment": assignment}, {}, (fault,))
    cluster = scenario.run(listener=events.append)
    leaders = {(d[0].partition, d[0].epoch): (time, node) for time, node, kind, d in events if kind == "leader"}
    survivors = [broker for broker in cluster.broker_ids if broker != DEAD]
    return Spread(
        assignment,
        _count_led(cluster, leaders, DIES, list(cluster.broker_ids)),
        _count_led(cluster, leaders, MEASURED.start, survivors),
        _records(cluster, leaders, survivors),
    )


Leaders = dict[tuple[int, int], tuple[int, int]]  # partition, leader epoch -> since when, broker


def _count_led(cluster: Cluster, leaders: Leaders, time: int, brokers: list[int]) -> dict[int, int]:
    """The number of partitions that each broker led at a time."""
    latest: dict[int, int] = {}
    for (partition, _), (since, node) in sorted(leaders.items()):
        if since <= time:
            latest[partition] = node
    assert len(latest) == cluster.config.partitions
    count = Counter(latest.values())
    return {broker: count[broker] for broker in brokers}


def _records(cluster: Cluster, leaders: Leaders, brokers: list[int]) -> dict[int, int]:
    """The records that each broker appended as leader while the dead one was away."""
    count: Counter[int] = Counter()
    for partition in range(cluster.config.partitions):
        log = cluster.leader_log(partition)
        assert log is not None
        for batch in log.batches():
            if batch.time in MEASURED:
                count[leaders[partition, batch.epoch][1]] += batch.count
    return {broker: count[broker] for broker in brokers}


INTRODUCTION = """\
Five brokers have 20 partitions with three replicas, and broker 1 dies. For each assignment of replicas: how many
partitions each survivor led before and after, and the records that it took in 30 s while broker 1 was dead."""


def table(found: list[Spread]) -> str:
    """Markdown, for docs/mechanisms.md."""
    survivors = list(found[0].records)
    head = ["assignment", "", *(f"broker {broker}" for broker in survivors), "busiest / mean"]
    lines = [f"| {' | '.join(head)} |", "|---|---|" + "--:|" * (len(head) - 2)]
    for one in found:
        led = [f"{one.before[broker]} → {one.after[broker]}" for broker in survivors]
        lines.append(f"| {one.assignment} | partitions led | {' | '.join(led)} | |")
        taken = [str(one.records[broker]) for broker in survivors]
        lines.append(f"| | records in 30 s | {' | '.join(taken)} | {one.busiest:.2f} |")
    return "\n".join(lines)
