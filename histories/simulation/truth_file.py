"""Writes truth.json: the losses, duplicates and other effects in a simulated run, with the causes of losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...models.exploration.group_truth import count_repeats, group_truth
from ...models.exploration.processing_truth import processing_truth
from ...models.exploration.truth import (
    LostAck,
    Repeat,
    ack_latency,
    adjacent_losses,
    divergences,
    find_repeats,
    longest_silence,
    losses,
    missing_everywhere,
    offset_regressions,
    transaction_truth,
)
from ...models.replication.acks import Ack
from ...models.replication.cluster import Cluster
from ...models.replication.config import Config
from ...models.replication.keys import Keys
from ...models.replication.scenario import Scenario
from .names import value

Label = Callable[[int, int, int, int], str]  # of a record: producer, partition, value number, offset
Divergence = dict[str, dict[str, Any]]  # topic-partition -> pair of brokers -> differing offsets


def divergence(cluster: Cluster) -> Divergence:
    """The ranges of offsets at which replicas of a partition differ."""
    result: Divergence = {}
    for partition, pairs in divergences(cluster).items():
        name = cluster.config.log_name(partition)
        result[name] = {
            f"{one}/{other}": {
                "conflicting_offsets": [list(r) for r in ranges],
                "log_end": {str(b): cluster.brokers[b].replicas[partition].log.end for b in (one, other)},
            }
            for (one, other), ranges in pairs.items()
        }
    return result


def truth(cluster: Cluster, scenario: Scenario, divergent: dict[str, Divergence]) -> dict[str, Any]:
    """The content of truth.json; `divergent` has the divergence at each snapshot."""
    gone = losses(cluster)
    config = cluster.config
    log_name, label = config.log_name, _labels(config)
    values: dict[str, list[list[Any]]] = {}
    nowhere = {
        log_name(p): _offsets_with_values(acks, p, label) for p, acks in enumerate(missing_everywhere(cluster)) if acks
    }
    for one in gone:
        values.setdefault(log_name(one.partition), []).extend(_offsets_with_values([one.ack], one.partition, label))
    read = sum(one.ack.count for one in gone if one.was_read)
    total = sum(len(v) for v in values.values())
    causes = list(dict.fromkeys(one.loss.cause for one in gone))
    logs = {p: log for p in range(config.data_partitions) if (log := cluster.leader_log(p)) is not None}
    repeats = [find_repeats(log, p) for p, log in logs.items()]
    duplicates = [one for found in repeats for one in found.duplicates]
    if config.compacts:
        duplicates = _with_values(config, duplicates)
    ledger = cluster.ledger
    acknowledged = sum(a.count for acks in ledger.acks[: config.partitions] for a in acks)
    acknowledges = config.acks != 0
    return {
        "name": scenario.name,
        "variant": scenario.variant,
        "seed": scenario.seed,
        "cause": ", ".join(causes) or "no fault, no loss",
        "causes": causes,
        "acknowledged": acknowledged,
        # Availability: records without acknowledgement, and the longest time without one; null for acks=0.
        "not_acknowledged": config.ops - acknowledged if acknowledges else None,
        "longest_silence_ms": longest_silence(cluster) / 1000 if acknowledges else None,
        "lost_acked": values,
        "lost_acked_count": total,
        "lost_but_read_before": read,
        "lost_never_read": total - read,
        "absent_without_leader": nowhere,
        "losses": _losses(config, gone, label),
        "divergent": divergent,
        "duplicates": [_repeat(config, one) for one in duplicates],
        "reordered": [_repeat(config, one) for found in repeats for one in found.reordered],
        # Values that leaders appended more than once, even if no copy remains; and acknowledgements out of order.
        "written_again": _written_again(cluster),
        "went_back": [
            [_offsets_with_values([before], p, label)[-1][1], _offsets_with_values([ack], p, label)[0][1]]
            for p in range(config.data_partitions)
            for ack, before in offset_regressions(ledger.acks[p])
        ],
        "log_start": {log_name(p): log.start for p, log in logs.items() if log.start > 0},
        "ack_latency_ms": ack_latency(cluster),
        "elections": ledger.elections,
        "unclean_elections": ledger.unclean_elections,
        "isr_shrinks": ledger.shrinks,
        "led_by_two": _led_by_two(cluster),
        **_consumers_truth(cluster),
        **_coordinators_truth(cluster),
        "final": cluster.final,
        "protocol_events": cluster.loop.processed,
    }


def _led_by_two(cluster: Cluster) -> list[dict[str, Any]]:
    """The leader epochs that two brokers led."""
    return [
        {
            "partition": cluster.config.log_name(rivals.partition),
            "leader_epoch": rivals.epoch,
            "brokers": sorted((str(rivals.first), str(rivals.second))),
        }
        for rivals in dict.fromkeys(cluster.ledger.rivals)
    ]


def _coordinators_truth(cluster: Cluster) -> dict[str, Any]:
    """The truth of the group, of transactions and of copies, where the run has them."""
    found = {
        "group": group_truth(cluster),
        "transactions": transaction_truth(cluster),
        "processing": processing_truth(cluster),
    }
    return {name: numbers for name, numbers in found.items() if numbers is not None}


def _consumers_truth(cluster: Cluster) -> dict[str, Any]:
    """Resets of consumers' positions, and the offsets that they handled."""
    log_name, ledger = cluster.config.log_name, cluster.ledger
    return {
        "consumer_resets": [
            {"process": reset.consumer, "partition": log_name(reset.partition), "from": reset.before, "to": reset.after}
            for reset in ledger.resets
        ],
        "handled": {
            name: {log_name(p): [list(r) for r in ranges] for p, ranges in sorted(parts.items())}
            for name, parts in sorted(ledger.handled_by.items())
        },
    }


def _labels(config: Config) -> Label:
    """A function that gives the label of a record: its value, or the offset of a tombstone."""
    keys = Keys(config) if config.compacts else None

    def label(producer: int, partition: int, number: int, offset: int) -> str:
        is_tombstone = keys is not None and keys.of(producer, partition, number).is_tombstone
        return f"tombstone@{offset}" if is_tombstone else value(producer, partition, number)

    return label


def _offsets_with_values(acks: list[Ack], partition: int, label: Label) -> list[list[Any]]:
    """(offset, value) of each record."""
    return [
        [ack.base + i, label(ack.producer, partition, ack.first + i, ack.base + i)]
        for ack in acks
        for i in range(ack.count)
    ]


def _written_again(cluster: Cluster) -> list[str]:
    return [
        value(producer, p, number)
        for p, by_producer in enumerate(cluster.ledger.rewritten)
        for producer, ranges in sorted(by_producer.items())
        for low, high in ranges
        for number in range(low, high)
    ]


def _losses(config: Config, gone: list[LostAck], label: Label) -> list[dict[str, Any]]:
    """The losses; adjacent ones with the same cause and epoch are one entry."""
    found: list[dict[str, Any]] = []
    for run in adjacent_losses(gone, lambda one: (one.loss.cause, one.loss.epoch)):
        one, end = run[0], run[-1].ack.end
        topic, number = config.topic_of(one.partition)
        found.append(
            {
                "topic": topic,
                "partition": number,
                "first_offset": one.ack.base,
                "last_offset": end - 1,
                "count": end - one.ack.base,
                "acks": "all" if config.acks == -1 else str(config.acks),
                "cause": one.loss.cause,
                "detail": one.loss.detail,
                "leader": str(one.loss.leader),
                "leader_epoch": one.loss.epoch,
                "time": one.loss.time * 1000,
                "read_before": any(other.was_read for other in run),
                "values": [
                    name for other in run for _, name in _offsets_with_values([other.ack], one.partition, label)
                ],
            }
        )
    return found


def _with_values(config: Config, repeats: list[Repeat]) -> list[Repeat]:
    """The repeated records one by one, without tombstones, which no value identifies."""
    keys = Keys(config)
    return [
        replace(one, first=one.first + i, count=1, offset=one.offset + i, earlier=one.earlier + i)
        for one in repeats
        for i in range(one.count)
        if not keys.of(one.producer, one.partition, one.first + i).is_tombstone
    ]


def _repeat(config: Config, one: Repeat) -> dict[str, Any]:
    topic, number = config.topic_of(one.partition)
    return {
        "topic": topic,
        "partition": number,
        "first_value": value(one.producer, one.partition, one.first),
        "count": one.count,
        "offset": one.offset,
        "earlier_offset": one.earlier if one.earlier >= 0 else None,
    }


def read_before_loss(known: dict[str, Any]) -> str:
    """How many of the lost records had been read, in words; `known` is a truth file's content with losses."""
    read, count = known["lost_but_read_before"], known["lost_acked_count"]
    return f"{'all' if read == count else f'{read:,}' if read else 'none'} of them had been read"


def handled_again(known: dict[str, Any]) -> int:
    """How often the group, or each consumer without one, handled a record again; `known` is a truth file's content."""
    if "group" in known:
        return int(known["group"]["handled_again"])
    return sum(count_repeats(ranges) for parts in known["handled"].values() for ranges in parts.values())
