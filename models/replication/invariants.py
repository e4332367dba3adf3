"""What must hold in every run, one function each: the breaches of a finished run, as sentences.

`no-acknowledged-loss` and `no-committed-loss` correspond to the StrongIsr of hachikuji's TLA+ specification.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .ledger import Breach, offsets
from .truth import Lost, divergent, lost, neighbours, repeats

if TYPE_CHECKING:
    from .cluster import Cluster


def no_acknowledged_loss(cluster: Cluster) -> list[Breach]:
    """Every acknowledged record stands at its offset in the final leader's log (or below its log start)."""
    runs = neighbours(lost(cluster), lambda one: (one.leader, one.epoch, one.cause, one.detail, one.ack.acks))
    return [
        Breach(
            "no-acknowledged-loss",
            min(one.time for one in run),
            run[0].partition,
            _gone(run),
            run[0].ack.base,
            run[-1].ack.end,
        )
        for run in runs
    ]


def _gone(run: list[Lost]) -> str:
    """What neighbouring losses of one cause took, in a sentence."""
    base, end, one = run[0].ack.base, run[-1].ack.end, run[0]
    verb, them = ("is", "it") if end == base + 1 else ("are", "them")
    return (
        f"{offsets(base, end)}, acknowledged with acks={'all' if one.ack.acks == -1 else one.ack.acks}, {verb} gone: "
        f"broker {one.leader} led epoch {one.epoch} without {them} ({one.cause}: {one.detail})"
    )


def no_divergence(cluster: Cluster) -> list[Breach]:
    """At the end all replicas of an ISR hold the same record at each offset that they share. A replica out
    of the ISR has not finished to truncate and to catch up."""
    states = cluster.quorum.states
    return [
        Breach(
            "no-divergence",
            cluster.loop.now,
            partition,
            f"brokers {one} and {other} differ at {offsets(ranges[0][0], ranges[0][1] + 1)}",
            ranges[0][0],
            ranges[0][1] + 1,
        )
        for partition, pairs in divergent(cluster).items()
        for (one, other), ranges in pairs.items()
        if states[partition].leader > 0 and one in states[partition].isr and other in states[partition].isr
    ]


def no_duplicates(cluster: Cluster) -> list[Breach]:
    """No value stands twice in the final log."""
    return _repeats(cluster, "no-duplicates", 0)


def no_reordering(cluster: Cluster) -> list[Breach]:
    """Each producer's values stand in the order in which it sent them."""
    return _repeats(cluster, "no-reordering", 1)


def _repeats(cluster: Cluster, name: str, which: int) -> list[Breach]:
    found: list[Breach] = []
    for partition in range(cluster.config.partitions):
        log = cluster.leader_log(partition)
        if log is None:
            continue
        for one in repeats(log, partition)[which]:
            end = one.first + one.count
            values = f"value {one.first}" if one.count == 1 else f"values {one.first} to {end - 1}"
            stand = "stands" if one.count == 1 else "stand"
            what = f"again, first at {one.earlier}" if one.earlier >= 0 else "behind later ones"
            where = offsets(one.offset, one.offset + one.count)
            text = f"p{one.producer}'s {values}, at {where}, {stand} {what}"
            found.append(Breach(name, cluster.loop.now, partition, text, one.offset, one.offset + one.count))
    return found


def no_consumer_loss(cluster: Cluster) -> list[Breach]:
    """Every consumer has handled every record of the final log; without commits, polled it."""
    found: list[Breach] = []
    ledger = cluster.ledger
    ranges = ledger.read_by if cluster.config.commit == "none" else ledger.handled_by
    for consumer in cluster.consumers:
        for partition, ends in enumerate(cluster.logs()):
            if ends is None or not consumer.alive:
                continue
            missed = _first_gap(ranges.get(consumer.name, {}).get(partition, []), *ends)
            if missed is not None:
                text = f"{consumer.name} never handled {offsets(*missed)}"
                found.append(Breach("no-consumer-loss", cluster.loop.now, partition, text, *missed))
    return found


def _first_gap(ranges: list[tuple[int, int]], start: int, end: int) -> tuple[int, int] | None:
    at = start
    for low, high in sorted(ranges):
        if low > at:
            return at, min(low, end)
        at = max(at, high)
    return (at, end) if at < end else None


def _seen(name: str) -> Callable[[Cluster], list[Breach]]:
    def check(cluster: Cluster) -> list[Breach]:
        return [breach for breach in cluster.ledger.breaches if breach.invariant == name]

    return check


INVARIANTS: dict[str, tuple[Callable[[Cluster], list[Breach]], str]] = {
    "no-acknowledged-loss": (no_acknowledged_loss, "an acknowledged record stays in the log"),
    "no-committed-loss": (
        _seen("no-committed-loss"),
        "a new leader holds every record that was below a leader's high watermark",
    ),
    "no-divergence": (no_divergence, "in the end all replicas hold the same records"),
    "one-leader-per-epoch": (_seen("one-leader-per-epoch"), "one broker leads in a leader epoch"),
    "no-duplicates": (no_duplicates, "no value stands twice in a log"),
    "no-reordering": (no_reordering, "a producer's values keep their order"),
    "no-false-shrink": (
        _seen("no-false-shrink"),
        "no follower that catches up in time is taken out of the ISR",
    ),
    "no-stale-read": (_seen("no-stale-read"), "a poll returns what was acknowledged before it"),
    "no-consumer-loss": (no_consumer_loss, "a consumer handles every record"),
}
