"""Compares ISRs, a majority quorum and asynchronous copies under the same load and faults.

Kafka's replication design (cwiki) compares them: f+1 replicas tolerate f failures, a majority quorum needs 2f+1.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..replication.config import MS, SECOND
from ..replication.faults.fault import Fault
from ..replication.scenario import Scenario
from .truth import ack_latency, longest_silence, losses

# The designs: a name, the variant, and the number of replicas.
DESIGNS = (
    ("ISR, f+1 replicas", "kraft", 2),
    ("ISR", "kraft", 3),
    ("majority quorum, 2f+1 replicas", "majority-quorum", 3),
    ("asynchronous", "asynchronous", 2),
)
LOAD = {
    "min.insync.replicas": 1,
    "simulation.ops": 1000,
    "simulation.burst.records": 10,
    "simulation.send.interval.us": 1_000_000,
    "request.timeout.ms": 5000,
    "delivery.timeout.ms": 10_000,
}


def _slow(replicas: int) -> Fault:
    return Fault(2 * SECOND, "delay", (replicas,), 40 * SECOND, 150)


def _faults(replicas: int) -> dict[str, tuple[Fault, ...]]:
    """Broker 1 leads at first and crashes 100 ms after a send; the slow node is the last replica."""
    first = Fault(9150 * MS, "crash", (1,), 25 * SECOND)
    return {
        "a slow follower (150 ms each way)": (_slow(replicas),),
        "one failure: the leader, for 25 s": (first,),
        "two failures: its successor too, for 10 s": (first, Fault(20 * SECOND, "crash", (2,), 10 * SECOND)),
        "a slow follower, and the leader fails": (_slow(replicas), first),
    }


def rows() -> Iterator[tuple[str, ...]]:
    """Faults, design, replicas, acknowledged, refused or given up, longest silence, median, 99 %, lost."""
    for case in _faults(2):
        for name, variant, replicas in DESIGNS:
            options = {**LOAD, "simulation.brokers": replicas, "default.replication.factor": replicas}
            cluster = Scenario(name, variant, 1, options, {}, _faults(replicas)[case]).run()
            latency = ack_latency(cluster)
            acknowledged = sum(ack.count for ack in cluster.ledger.acks[0])
            yield (
                case,
                name,
                str(replicas),
                str(acknowledged),
                str(cluster.config.ops - acknowledged),
                f"{longest_silence(cluster) / SECOND:.1f} s",
                f"{latency['median']:.0f} ms",
                f"{latency['p99']:.0f} ms",
                str(sum(loss.ack.count for loss in losses(cluster))),
            )


INTRODUCTION = """\
Each design gets the same load and the same faults: 1000 records in bursts of ten, one burst a second from each of two
producers, with delivery.timeout.ms=10000 and min.insync.replicas=1. "Refused" counts records that were refused or given
up, "lost" those that are gone although they were acknowledged. The silence is the longest time without an
acknowledgement; median and 99 % are those of the time from a send to its acknowledgement."""


def table() -> str:
    """Introduction and table in Markdown, for docs/mechanisms.md."""
    head = "faults", "design", "replicas", "acknowledged", "refused", "longest silence", "median", "99 %", "lost"
    lines = [INTRODUCTION, "", f"| {' | '.join(head)} |", "|---|---|" + "--:|" * (len(head) - 2)]
    before = ""
    for faults, *rest in rows():
        lines.append(f"| {'' if faults == before else faults} | {' | '.join(rest)} |")
        before = faults
    return "\n".join(lines)
