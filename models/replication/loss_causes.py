"""Finds the cause of an acknowledged batch's loss from the truncations and the election of the leader without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .acks import Ack, Loss
from .partition_state import PartitionState
from .ports import ReplicaView
from .storage.batches import Batch
from .storage.replica_log import ReplicaLog


@dataclass(frozen=True, slots=True)
class Truncation:
    """Records that one broker truncated, and the new end of its log."""

    time: int
    broker: int
    batches: list[Batch]
    end: int
    reason: str


class RivalLeaders(NamedTuple):
    """Two brokers that led a partition in the same leader epoch."""

    partition: int
    epoch: int
    first: int
    second: int


def explain_loss(
    ack: Ack,
    leader: ReplicaView,
    elected: PartitionState,
    before: PartitionState,
    logs: dict[int, ReplicaLog],
    truncations: Sequence[Truncation],
    rivals: Iterable[RivalLeaders],
    now: int,
) -> Loss:
    """The cause of a loss.

    `elected` and `before` are the quorum's states with this leader and before its election; `logs` are by broker.
    """
    broker, acks = leader.broker, leader.config.acks
    cut: Truncation | None = None  # by which the leader lost the record
    has_others = False  # whether it truncated to its high watermark, and kept other records there
    without_power: set[int] = set()  # brokers whose disks lost the record with the power
    had = {node for node, log in logs.items() if ack.is_in(log)}
    for truncation in truncations:
        removes_it = any(ack.overlaps(batch) for batch in truncation.batches)
        if removes_it:
            (without_power if truncation.reason == "unclean-disk" else had).add(truncation.broker)
        if truncation.broker == broker and removes_it:
            cut = truncation
        elif truncation.broker == broker and truncation.reason == "high-watermark" and truncation.time > ack.time:
            has_others |= truncation.end > ack.base

    def loss(cause: str, detail: str) -> Loss:
        return Loss(cause, detail, now, broker, elected.epoch)

    if acks != 1:
        without_power |= _with_lost_tails(ack, truncations)
    if len(without_power.intersection(ack.isr)) > 1 and not had.difference(without_power).intersection(ack.isr):
        # No replica has it any more, so no other election would have saved it.
        return loss("correlated-failure", "all in-sync replicas with them lost their unflushed tails with the power")
    if any(_only_one_had(one, ack, had, elected.epoch) and _continues(leader, one, had, logs) for one in rivals):
        return loss("split-brain", "two brokers led one leader epoch, and only the other one had them")
    # With acks=1, a leader unaware of its replacement may alone have the batch. Then a clean election loses it, too.
    was_eligible = acks != 1 or not had.isdisjoint((*before.isr, *before.elr))
    if elected.is_unclean and not elected.was_last_known and was_eligible:
        return loss("unclean-election", "it was not in the ISR")
    if cut is not None and cut.reason == "unclean-disk":
        # The change that recalls the last known leader may be the one that empties the ELR.
        if elected.was_last_known or {*before.isr, *before.elr} <= {broker}:
            return loss("last-replica-standing", "its unflushed tail was lost with the power")
        return loss("unknown", "it was one of several in the ISR, and its unflushed tail was lost with the power")
    if cut is not None and cut.reason == "high-watermark":
        return loss("high-watermark-truncation", "it had truncated to its high watermark")
    if cut is not None:
        return loss("leader-epoch-divergence", "it had truncated to the leader's end offset for its last epoch")
    if acks == 1:
        return loss("single-ack-failover", "it had not fetched what the leader alone acknowledged")
    if has_others:
        return loss("high-watermark-truncation", "it had truncated to its high watermark, and kept other records")
    # Without fencing, a replica can join the ISR without all committed records (KAFKA-7128); and an asynchronous
    # leader does not wait for the ISR. Neither is a named cause.
    return loss("unknown", "a member of the ISR had never fetched the records")


def _with_lost_tails(ack: Ack, truncations: Sequence[Truncation]) -> set[int]:
    """The brokers whose logs ended at or below a batch by the power failure that took it from another broker's disk.

    An asynchronous leader acknowledges what its followers may not have fetched yet. If all lost their tails at once, no
    other election would have saved the batch, and no log shows which of them had it.
    """
    failures = [one for one in truncations if one.reason == "unclean-disk"]
    took = min((one.time for one in failures if any(ack.overlaps(batch) for batch in one.batches)), default=None)
    return set() if took is None else {one.broker for one in failures if one.time >= took and one.end <= ack.base}


def _only_one_had(rivals: RivalLeaders, ack: Ack, had: set[int], epoch: int) -> bool:
    """Whether one of two rival leaders had a batch of their epoch or an earlier one, and the other never had it."""
    return len(had.intersection((rivals.first, rivals.second))) == 1 and ack.epoch <= rivals.epoch <= epoch


def _continues(leader: ReplicaView, rivals: RivalLeaders, had: set[int], logs: dict[int, ReplicaLog]) -> bool:
    """Whether a leader is the rival without the batch, or its log ends with records that only that rival has."""
    holder, other = (rivals.first, rivals.second) if rivals.first in had else (rivals.second, rivals.first)
    if leader.broker in (holder, other):
        return leader.broker == other
    last = leader.log.end - 1
    own, others, holders = (log.at(last) if last >= 0 else None for log in (leader.log, logs[other], logs[holder]))
    if own is None or others is None or own.uid != others.uid:
        return False
    return holders is None or holders.uid != own.uid
