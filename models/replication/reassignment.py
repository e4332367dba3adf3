"""Moving a partition to other brokers: KIP-455's adding and removing replicas, and the steps of ZooKeeper's controller.

KRaft (ReplicationControlManager.changePartitionReassignment): the replicas become the target, followed by those to
remove. When the target is in the ISR (before 3.8: what is added of it), the others leave in one change, in a new leader
epoch.

ZooKeeper (KafkaController.onPartitionReassignment): of the original set ORS and the target set TRS, the replicas RS
become ORS + TRS, with AR to add and RR to remove, in a new leader epoch. When TRS is in the ISR, a leader outside of
TRS is replaced, and then RR leaves. Simplification: replicas are moved without a throttle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .eras import Era
from .partition_state import NO_LEADER, PartitionState


def begin(state: PartitionState, target: Sequence[int], era: Era) -> PartitionState:
    """The state in which a partition begins to move to the target, also while another move is under way."""
    removing = tuple(sorted(set(state.replicas) - set(target)))
    adding = tuple(sorted(set(target) - set(state.replicas)))
    epoch = state.epoch + 1 if era.zookeeper and state.leader != NO_LEADER else state.epoch
    return replace(
        state, replicas=(*target, *removing), adding=adding, removing=removing, epoch=epoch, version=state.version + 1
    )


def finish(state: PartitionState, live: Sequence[int], era: Era) -> list[PartitionState]:
    """The changes that end a move; none while a required replica is out of the ISR, or no target replica can lead."""
    if not (state.adding or state.removing):
        return []
    isr = tuple(r for r in state.isr if r not in state.removing)
    replicas = tuple(r for r in state.replicas if r not in state.removing)
    required = replicas if era.moves_into_full_isr else state.adding
    if not isr or not set(required) <= set(isr):
        return []
    moved = _led_within(state, replicas, isr, live)
    if moved is None:
        return []
    if not era.zookeeper:
        return [_after_move(state, moved.leader, replicas, isr)]
    led = replace(moved, epoch=state.epoch + 1, version=state.version + 1)
    return [led, _after_move(led, led.leader, replicas, isr)]


def revert(state: PartitionState, live: Sequence[int]) -> PartitionState | None:
    """The state after a move was cancelled: added replicas leave, the others stay (PartitionReassignmentRevert).

    None if nothing moves, or no other replica can lead.
    """
    if not (state.adding or state.removing):
        return None
    isr = tuple(r for r in state.isr if r not in state.adding)
    replicas = tuple(r for r in state.replicas if r not in state.adding)
    remaining = _led_within(state, replicas, isr, live) if isr else None
    return None if remaining is None else _after_move(state, remaining.leader, replicas, isr)


def _led_within(
    state: PartitionState, replicas: Sequence[int], isr: Sequence[int], live: Sequence[int]
) -> PartitionState | None:
    """The state with a leader in the ISR: its own, or else the first live one of `replicas`. None if none is live."""
    if state.leader in isr or state.leader == NO_LEADER:
        return state
    candidates = [r for r in replicas if r in isr and r in live]
    return replace(state, leader=candidates[0], is_unclean=False) if candidates else None


def _after_move(state: PartitionState, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionState:
    """The state after the move, with only these replicas.

    If others left, it has a new leader epoch, so that an old leader cannot commit with them
    (PartitionChangeBuilder.triggerLeaderEpochBumpForReplicaReassignmentIfNeeded).
    """
    have_left = replicas != state.replicas
    return replace(
        state,
        leader=leader,
        replicas=replicas,
        isr=isr,
        adding=(),
        removing=(),
        elr=tuple(r for r in state.elr if r in replicas),
        epoch=state.epoch + 1 if have_left or leader != state.leader else state.epoch,
        version=state.version + 1,
    )
