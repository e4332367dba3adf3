"""How a member of KIP-848's protocol reaches its target: it gives partitions up, then gets those that others gave up.

These are the steps of Kafka's CurrentAssignmentBuilder, as functions of one member's state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

Partitions = tuple[int, ...]
# Kafka's MemberState.
STABLE = "STABLE"  # the member has reached its target
UNREVOKED = "UNREVOKED_PARTITIONS"  # it must give partitions up
UNRELEASED = "UNRELEASED_PARTITIONS"  # it waits until other members give partitions up
AWAY = -2  # the epoch of a static member that closed and will come back (LEAVE_GROUP_STATIC_MEMBER_EPOCH)


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """What the coordinator has given to a member: ConsumerGroupCurrentMemberAssignment."""

    epoch: int = 0
    previous: int = 0  # the epoch before the last change; the member still has it if the response was lost
    state: str = STABLE
    assigned: Partitions = ()
    revoking: Partitions = ()  # what the member must give up

    @property
    def held(self) -> Partitions:
        """The partitions that no other member may get."""
        return self.assigned + self.revoking


def is_fenced(current: CurrentAssignment, epoch: int, owned: Collection[int] | None) -> bool:
    """Whether a heartbeat with this epoch is refused (throwIfConsumerGroupMemberEpochIsInvalid).

    A member that did not get the last response has the previous epoch still.
    """
    has_previous = epoch == current.previous < current.epoch
    is_repeated = has_previous and owned is not None and set(owned) <= set(current.assigned)
    return epoch != current.epoch and not is_repeated


def reconcile(
    current: CurrentAssignment,
    target: Collection[int],
    target_epoch: int,
    owned: Collection[int] | None,
    is_held: Callable[[int], bool],
) -> CurrentAssignment:
    """The assignment after a member's heartbeat.

    `owned`: the partitions that the member owns; None: the heartbeat has no list, as it is giving up or taking some.
    `is_held`: whether a member, this one included, holds a partition.
    """
    if current.state == STABLE and current.epoch == target_epoch:
        return current
    epoch = current.epoch
    if current.state == UNREVOKED:
        if _owns_any(owned, current.revoking):
            return current
        epoch += 1
    retained = tuple(p for p in current.assigned if p in target)
    revoking = tuple(p for p in current.assigned if p not in target)
    if _owns_any(owned, revoking):
        return CurrentAssignment(epoch, current.epoch, UNREVOKED, retained, revoking)
    missing = [p for p in target if p not in retained]
    free = [p for p in missing if not is_held(p)]
    state = STABLE if len(free) == len(missing) else UNRELEASED
    return CurrentAssignment(target_epoch, current.epoch, state, tuple(sorted((*retained, *free))))


def _owns_any(owned: Collection[int] | None, revoking: Partitions) -> bool:
    return bool(revoking) and (owned is None or not set(owned).isdisjoint(revoking))
