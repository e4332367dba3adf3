"""The invariants of every run, one function each, which returns the breaches of a finished run.

`no-acknowledged-loss` and `no-committed-loss` correspond to the StrongIsr of hachikuji's TLA+ specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..replication.acks import Ranges
from ..replication.clients.consumer import Consumer
from ..replication.cluster import Cluster
from ..replication.ledger import Breach, offsets
from .compaction_truth import compacted_ranges, newest_value_stays
from .group_invariants import no_commit_loss, no_fenced_commit, one_owner
from .processing_invariants import at_least_once, committed_offsets, exactly_once
from .transaction_invariants import (
    atomic_transactions,
    hidden_ranges,
    no_aborted_read,
    no_hanging_transaction,
    one_producer_epoch,
)
from .truth import LostAck, adjacent_losses, divergences, find_repeats, losses


def no_acknowledged_loss(cluster: Cluster) -> list[Breach]:
    """Every acknowledged record is at its offset in the final leader's log (or below its log start)."""
    runs = adjacent_losses(losses(cluster), lambda one: replace(one.loss, time=0))
    return [
        Breach(
            "no-acknowledged-loss",
            min(one.loss.time for one in run),
            run[0].partition,
            _loss_sentence(run, cluster.config.acks),
            run[0].ack.base,
            run[-1].ack.end,
        )
        for run in runs
    ]


def _loss_sentence(run: list[LostAck], acks: int) -> str:
    """A sentence about adjacent losses with one cause."""
    ack, end, loss = run[0].ack, run[-1].ack.end, run[0].loss
    verb, them = ("is", "it") if end == ack.base + 1 else ("are", "them")
    return (
        f"{offsets(ack.base, end)}, acknowledged with acks={'all' if acks == -1 else acks}, {verb} gone: "
        f"broker {loss.leader} led epoch {loss.epoch} without {them} ({loss.cause}: {loss.detail})"
    )


def no_divergence(cluster: Cluster) -> list[Breach]:
    """At the end all replicas of an ISR have the same record at each offset that they share.

    A replica outside of the ISR may still have to truncate and catch up.
    """
    found: list[Breach] = []
    for partition, pairs in divergences(cluster).items():
        state = cluster.quorum.states[partition]
        for (one, other), [(first, last), *_] in pairs.items():
            if state.leader > 0 and {one, other} <= {*state.isr}:
                text = f"brokers {one} and {other} differ at {offsets(first, last + 1)}"
                found.append(Breach("no-divergence", cluster.loop.now, partition, text, first, last + 1))
    return found


def _repeats(cluster: Cluster, name: str) -> list[Breach]:
    """Values that are in a final log twice (no-duplicates), or after later ones of their producer (no-reordering)."""
    found: list[Breach] = []
    for partition in range(cluster.config.data_partitions):
        log = cluster.leader_log(partition)
        if log is None:
            continue
        repeats = find_repeats(log, partition)
        for one in repeats.duplicates if name == "no-duplicates" else repeats.reordered:
            end = one.first + one.count
            values = f"value {one.first}" if one.count == 1 else f"values {one.first} to {end - 1}"
            at = f"at {offsets(one.offset, one.offset + one.count)}"
            where = f"at offset {one.earlier} and again {at}" if one.earlier >= 0 else f"{at}, after later values"
            verb = "is" if one.count == 1 else "are"
            text = f"p{one.producer}'s {values} {verb} {where}"
            found.append(Breach(name, cluster.loop.now, partition, text, one.offset, one.offset + one.count))
    return found


def no_consumer_loss(cluster: Cluster) -> list[Breach]:
    """Every consumer has handled (without commits: polled) every record of the final log.

    At the end of the run its application may still handle the records of its last poll: these are not lost.
    """
    live = [consumer for consumer in cluster.consumers if consumer.alive]
    if cluster.config.has_group:
        ranges = cluster.log_ranges()
        if not live or not all(consumer.has_caught_up(ranges) for consumer in live):
            return []
        found = _first_gaps(cluster, "no member of the group", cluster.group.handled, live)
        if cluster.config.poison != "crash":
            return found
        # Each member crashes at the poison record, so the group stays behind. Only what it commits past is lost.
        committed = committed_offsets(cluster) or {}
        return [breach for breach in found if breach.base < committed.get(breach.partition, 0)]
    ledger = cluster.ledger
    handled = ledger.read_by if cluster.config.commit == "none" else ledger.handled_by
    return [
        breach
        for consumer in live
        for breach in _first_gaps(cluster, f"{consumer.name} never", handled.get(consumer.name, {}), [consumer])
    ]


def _first_gaps(
    cluster: Cluster, subject: str, handled: Mapping[int, Ranges], consumers: Iterable[Consumer]
) -> list[Breach]:
    """The first offsets of each partition that were neither handled nor are being handled by these consumers."""
    found: list[Breach] = []
    under_way = [(partition, batch) for consumer in consumers for partition, batch in consumer.under_way]
    for partition, ends in enumerate(cluster.log_ranges()[: cluster.config.partitions]):
        if ends is None:
            continue
        hidden = [*hidden_ranges(cluster, partition), *compacted_ranges(cluster, partition)]
        current = [(batch.base, batch.end) for at, batch in under_way if at == partition]
        gap = _first_gap([*handled.get(partition, ()), *current, *hidden], *ends)
        if gap is not None:
            text = f"{subject} handled {offsets(*gap)}"
            found.append(Breach("no-consumer-loss", cluster.loop.now, partition, text, *gap))
    return found


def _first_gap(ranges: Ranges, start: int, end: int) -> tuple[int, int] | None:
    at = start
    for low, high in sorted(ranges):
        if low > at:
            return at, min(low, end)
        at = max(at, high)
    return (at, end) if at < end else None


def _recorded_breaches(name: str) -> Callable[[Cluster], list[Breach]]:
    def check(cluster: Cluster) -> list[Breach]:
        return [breach for breach in cluster.ledger.breaches if breach.invariant == name]

    return check


class Invariant(NamedTuple):
    """A property of every finished run."""

    check: Callable[[Cluster], list[Breach]]
    text: str


LOSS_INVARIANTS = ("no-acknowledged-loss", "no-committed-loss")
INVARIANTS: dict[str, Invariant] = {
    "no-acknowledged-loss": Invariant(no_acknowledged_loss, "an acknowledged record stays in the log"),
    "no-committed-loss": Invariant(
        _recorded_breaches("no-committed-loss"),
        "a new leader holds every record that was below a leader's high watermark",
    ),
    "no-divergence": Invariant(no_divergence, "in the end all replicas hold the same records"),
    "one-leader-per-epoch": Invariant(_recorded_breaches("one-leader-per-epoch"), "one broker leads in a leader epoch"),
    "no-duplicates": Invariant(lambda cluster: _repeats(cluster, "no-duplicates"), "no value is in a log twice"),
    "no-reordering": Invariant(
        lambda cluster: _repeats(cluster, "no-reordering"), "a producer's values keep their order"
    ),
    "no-false-shrink": Invariant(
        _recorded_breaches("no-false-shrink"), "no follower that catches up in time is removed from the ISR"
    ),
    "no-stale-read": Invariant(_recorded_breaches("no-stale-read"), "a poll returns what was acknowledged before it"),
    "no-consumer-loss": Invariant(no_consumer_loss, "a consumer handles every record"),
    "newest-value-stays": Invariant(newest_value_stays, "a key of a compacted topic keeps its newest value"),
    "one-owner": Invariant(
        one_owner,
        "in a generation of a group, or with KIP-848 among members that are not fenced, a partition has one owner",
    ),
    "no-fenced-commit": Invariant(no_fenced_commit, "members of an older generation or member epoch commit nothing"),
    "no-commit-loss": Invariant(no_commit_loss, "a group's acknowledged commit stays"),
    "atomic-transactions": Invariant(
        atomic_transactions, "a transaction is visible in all of its partitions or in none"
    ),
    "no-aborted-read": Invariant(no_aborted_read, "read_committed consumers read committed transactions alone"),
    "no-hanging-transaction": Invariant(
        no_hanging_transaction, "no transaction holds the last stable offset back for ever"
    ),
    "exactly-once": Invariant(
        exactly_once, "a group that copies records commits one copy of each record that it handles"
    ),
    "at-least-once": Invariant(at_least_once, "a group that copies records leaves out none that it handles"),
    "one-producer-epoch": Invariant(one_producer_epoch, "once a producer epoch is granted, no older one writes"),
}


def breaches(cluster: Cluster, names: Iterable[str]) -> dict[str, list[Breach]]:
    """The breaches of these invariants in a finished run."""
    found = {name: INVARIANTS[name].check(cluster) for name in names}
    return {name: some for name, some in found.items() if some}
