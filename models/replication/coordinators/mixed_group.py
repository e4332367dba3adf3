"""A group of KIP-848's protocol with members of both protocols, as during a rolling upgrade.

The coordinator assigns the partitions of all members; no member is the leader. A classic member keeps to its requests,
which the coordinator maps to KIP-848's (classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroupHeartbeatToConsumerGroup):

- Its generation is its member epoch.
- The response to a heartbeat is REBALANCE_IN_PROGRESS if its assignment is to change.
- JoinGroup is one step of its reconciliation, and SyncGroup returns the partitions of that step.

convertible_group.py converts a classic group to such a group, and back.

Simplification: a member that joins and does not sync is removed when its session ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .. import errors
from ..config import NEVER
from .consumer_group import ConsumerGroup, Member, Pending
from .group_members import Group
from .group_requests import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    AssignedMember,
    CurrentRecord,
    EpochRecord,
    GroupRecord,
    GroupRequest,
    MemberRecord,
    TargetRecord,
)
from .reconciliation import UNRELEASED, UNREVOKED, CurrentAssignment, reconcile

DOWNGRADES = ("downgrade", "bidirectional")


@dataclass(slots=True)
class Downgrade:
    """What a classic group begins with, when the last member of KIP-848's protocol leaves or is replaced."""

    removal: list[GroupRecord]  # the records that remove the group of KIP-848's protocol
    members: list[AssignedMember]  # the classic members, each with its target
    request: GroupRequest | None  # to respond to once the conversion is replicated
    begins_rebalance: bool


class MixedGroup(ConsumerGroup):
    """Handles the requests of classic members. `downgrade` converts the group; it returns whether that was appended."""

    def __init__(self, group: Group, downgrade: Callable[[Downgrade], bool]) -> None:
        super().__init__(group)
        self._downgrade = downgrade

    def _session_of(self, client: str) -> int:
        return self._config.group_session if self._config.is_classic(client) else super()._session_of(client)

    def handle(self, request: GroupRequest) -> None:
        if not self._config.is_classic(request.client) or request.kind not in (JOIN, SYNC, HEARTBEAT):
            super().handle(request)
        elif request.kind == JOIN and self._is_full_for(request.member):
            self._group.respond(request, errors.GROUP_MAX_SIZE_REACHED)
        elif request.kind == JOIN and not request.member:
            request.member = f"{request.client}-{self._process.loop.now}"
            self._join(request)
        elif error := self._refuse(request):
            self._group.respond(request, error)
        else:
            self._respond_member(request, self._members[request.member])

    def _join(self, request: GroupRequest) -> None:
        """Admit a new process. If it replaces the last member of KIP-848's protocol, the group may become classic."""
        replaced = self._static_member(request.instance)
        is_of_consumer = replaced and not self._config.is_classic(self._members[replaced].client)
        if is_of_consumer and self._allows_downgrade(replaced, len(self._members)):
            self._downgrade(self._downgrade_by_replacement(replaced, request))
        else:
            self._move(request, is_joining=True)

    def _respond_member(self, request: GroupRequest, member: Member) -> None:
        if request.kind == JOIN:
            member.revoke_by = NEVER
            self._move(request, is_joining=False)
            return
        now = self._process.loop.now
        member.deadline = now + self._config.group_session
        is_behind = member.current.epoch < self._group.generation
        if request.kind == SYNC:
            # A member that must give partitions up syncs first: the response has those that it keeps.
            must_rejoin = is_behind and member.current.state != UNREVOKED
        else:
            must_rejoin = is_behind or self._can_move(member)
        if must_rejoin:
            member.revoke_by = min(member.revoke_by, now + self._config.max_poll_interval)
            self._group.respond(request, errors.REBALANCE_IN_PROGRESS)
        else:
            request.assignment = member.current.assigned
            self._wait(request)

    def _can_move(self, member: Member) -> bool:
        """Whether the member has partitions to give up, or all partitions that it waits for are free."""
        if member.current.state == UNRELEASED:
            return not any(self._is_held(p) for p in member.target if p not in member.current.assigned)
        return member.current.state == UNREVOKED

    def _refuse(self, request: GroupRequest) -> str:
        if not self._config.is_classic(request.client):
            return super()._refuse(request)
        is_of_instance = request.instance and request.kind in (JOIN, SYNC, HEARTBEAT, LEAVE)
        if is_of_instance and self._static_member(request.instance) not in ("", request.member):
            return errors.FENCED_INSTANCE_ID
        member = self._members.get(request.member)
        if member is None:
            return errors.UNKNOWN_MEMBER_ID
        if request.kind in (JOIN, LEAVE) or request.generation == member.current.epoch:
            return ""
        return errors.ILLEGAL_GENERATION

    def refuse_fetch(self, request: GroupRequest) -> str:
        return "" if self._config.is_classic(request.client) else super().refuse_fetch(request)

    def _may_replace(self, member: Member) -> bool:
        """A classic static member may be replaced while its process runs, as in a classic group."""
        return self._config.is_classic(member.client) or super()._may_replace(member)

    def _leave(self, request: GroupRequest) -> None:
        """Remove a classic static member at once. Only an administrator requests that; its client does not."""
        if self._config.is_classic(request.client):
            self._remove(request.member, request)
        else:
            super()._leave(request)

    # --- upgrade

    def begin_empty(self, tombstones: list[GroupRecord]) -> None:
        """Begin without members, in place of a group with these tombstones."""
        self._conversion = tombstones

    def adopt(self, tombstones: list[GroupRecord], assigned: Sequence[AssignedMember]) -> None:
        """Take the members of a classic group, with its generation as their epoch (ConsumerGroup.fromClassicGroup).

        The number of partitions is recorded, too, so replacing a static member does not raise the epoch (KAFKA-18687).
        The records are written with the next change.
        """
        now, epoch = self._process.loop.now, self._group.generation
        records: list[GroupRecord] = [
            MemberRecord(0, each.name, time=now, client=each.client, instance=self._config.instance_of(each.client))
            for each in assigned
        ]
        records.append(EpochRecord(epoch, time=now, partitions=self._group.count_partitions()))
        records += [TargetRecord(epoch, each.name, time=now, target=each.partitions) for each in assigned]
        records.append(EpochRecord(epoch, time=now, of_target=True))
        for each in assigned:
            current = CurrentAssignment(epoch, epoch, assigned=each.partitions)
            records.append(CurrentRecord(epoch, each.name, time=now, current=current))
        for record in records:
            self.replay(record)
        for member in self._members.values():
            member.deadline = now + self._session_of(member.client)
        self._conversion = [*tombstones, *records]

    # --- downgrade

    def _allows_downgrade(self, leaving: str, size: int) -> bool:
        """Whether the group without the member `leaving` may become a classic group of this size.

        The other members must be classic, and not more than group.max.size: else the group stays until enough left.
        """
        others = [member.client for name, member in self._members.items() if name != leaving]
        is_permitted = self._config.migration_policy in DOWNGRADES and size <= self._config.classic_group_size
        return is_permitted and all(map(self._config.is_classic, others))

    def _remove(self, name: str, request: GroupRequest | None = None) -> bool:
        """Remove a member, and convert the group if only classic members remain (consumerGroupFenceMembers)."""
        size = len(self._members) - 1
        if size == 0 or not self._allows_downgrade(name, size):
            return super()._remove(name, request)
        tombstones = self._all_tombstones(list(self._members))
        return self._downgrade(Downgrade(tombstones, self._targets_without(name), request, begins_rebalance=True))

    def _downgrade_by_replacement(self, replaced: str, request: GroupRequest) -> Downgrade:
        """The downgrade in which a classic process takes the place of a static member of KIP-848's protocol.

        The new process gets the target of the old one, so no rebalance begins, unless the topic has new partitions
        (KAFKA-19546).
        """
        old = self._members[replaced]
        current = replace(old.current, epoch=0, previous=0)
        is_changed = self._group.count_partitions() != self._partitions
        if not is_changed:
            current = reconcile(current, old.target, self._target_epoch, request.owned, self._is_held)
        request.generation = current.epoch
        joined = CurrentRecord(current.epoch, request.member, time=self._process.loop.now, current=current)
        members = [*self._targets_without(replaced), AssignedMember(request.member, request.client, old.target)]
        tombstones = self._all_tombstones([member.name for member in members])
        removal = [*self._replacement(replaced, request), joined, *tombstones]
        return Downgrade(removal, members, request, begins_rebalance=is_changed)

    def _targets_without(self, leaving: str) -> list[AssignedMember]:
        """The members except for one, each with its target."""
        others = {name: member for name, member in self._members.items() if name != leaving}
        return [AssignedMember(name, member.client, member.target) for name, member in others.items()]

    def _all_tombstones(self, names: Sequence[str]) -> list[GroupRecord]:
        """The records that remove these members and the group (ConsumerGroup.createGroupTombstoneRecords)."""
        now = self._process.loop.now

        def of_each(kind: type[GroupRecord]) -> list[GroupRecord]:
            return [kind(0, name, time=now, is_tombstone=True) for name in names]

        of_target, of_group = self.tombstones()
        return [*of_each(CurrentRecord), *of_each(TargetRecord), of_target, *of_each(MemberRecord), of_group]

    def dissolve(self, request: GroupRequest | None, epochs: dict[str, int]) -> None:
        """Forget the members of a converted group; once replicated, respond to the request with these epochs."""
        self._members = {}
        self._pending.append(Pending(self._group.log_end, 0, epochs, request, is_downgrade=True))

    def is_waiting(self) -> bool:
        """Whether anything waits for replication."""
        return bool(self._pending)
