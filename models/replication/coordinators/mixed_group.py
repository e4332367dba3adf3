"""A group of KIP-848's protocol that members of the classic protocol are in, too, as during a rolling upgrade.

The coordinator assigns to all. A classic member's generation is its member epoch: its heartbeats tell it to join again
when its assignment is to change, JoinGroup moves it towards its target, and SyncGroup has its partitions. There is no
leader among the members (classicGroupJoinToConsumerGroup and the methods beside it in GroupMetadataManager).
convertible_group.py converts a classic group to this one, and back.

Simplification: a member that joined and does not sync is removed when its session ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..config import NEVER
from .consumer_group import ConsumerGroup, Member, Pending
from .group_members import Assigned, Group
from .group_requests import (
    HEARTBEAT,
    ILLEGAL_GENERATION,
    JOIN,
    LEAVE,
    REBALANCING,
    SYNC,
    UNKNOWN_MEMBER,
    CurrentRecord,
    EpochRecord,
    GroupRecord,
    GroupRequest,
    MemberRecord,
    TargetRecord,
)
from .reconciliation import UNRELEASED, UNREVOKED, CurrentAssignment

DOWNGRADES = ("downgrade", "bidirectional")


class MixedGroup(ConsumerGroup):
    """The requests of classic members. `downgrade` converts the group when the given member leaves."""

    def __init__(self, group: Group, downgrade: Callable[[str, GroupRequest | None], bool]) -> None:
        super().__init__(group)
        self._downgrade = downgrade

    def _session_of(self, client: str) -> int:
        return self._config.group_session if self._config.is_classic(client) else super()._session_of(client)

    def handle(self, request: GroupRequest) -> None:
        if not self._config.is_classic(request.client) or request.kind not in (JOIN, SYNC, HEARTBEAT):
            super().handle(request)
        elif request.kind == JOIN and not request.member:
            request.member = f"{request.client}-{self._process.loop.now}"
            self._move(request)
        elif error := self._refuse(request):
            self._group.respond(request, error)
        else:
            self._answer_member(request, self._members[request.member])

    def _answer_member(self, request: GroupRequest, member: Member) -> None:
        if request.kind == JOIN:
            member.revoke_by = NEVER
            self._move(request)
            return
        now = self._process.loop.now
        member.deadline = now + self._config.group_session
        is_behind = member.current.epoch < self._group.generation
        if request.kind == SYNC:
            # One that must give partitions up learns from SyncGroup which ones it keeps.
            error = REBALANCING if is_behind and member.current.state != UNREVOKED else ""
        else:
            error = REBALANCING if is_behind or self._can_move(member) else ""
        if error:
            member.revoke_by = min(member.revoke_by, now + self._config.max_poll_interval)
            self._group.respond(request, error)
        else:
            request.assignment = member.current.assigned
            self._wait(request)

    def _can_move(self, member: Member) -> bool:
        """Whether the member has something to give up, or may get all that it waits for."""
        if member.current.state == UNRELEASED:
            return not any(self._is_held(p) for p in member.target if p not in member.current.assigned)
        return member.current.state == UNREVOKED

    def _refuse(self, request: GroupRequest) -> str:
        if not self._config.is_classic(request.client):
            return super()._refuse(request)
        member = self._members.get(request.member)
        if member is None:
            return UNKNOWN_MEMBER
        if request.kind in (JOIN, LEAVE) or request.generation == member.current.epoch:
            return ""
        return ILLEGAL_GENERATION

    def refuse_fetch(self, request: GroupRequest) -> str:
        """The classic protocol refuses nobody."""
        return "" if self._config.is_classic(request.client) else super().refuse_fetch(request)

    # --- conversion from and to a classic group

    def replace(self, tombstones: list[GroupRecord]) -> None:
        """Begin without members, in place of a group with these tombstones."""
        self._conversion = tombstones

    def adopt(self, tombstones: list[GroupRecord], assigned: Sequence[Assigned]) -> None:
        """Take the members of a classic group, with its generation as their epoch (ConsumerGroup.fromClassicGroup).

        The records are written with the next change.
        """
        now, epoch = self._process.loop.now, self._group.generation
        values: list[GroupRecord] = [MemberRecord(0, name, time=now, client=client) for name, client, _ in assigned]
        values.append(EpochRecord(epoch, time=now))
        values += [TargetRecord(epoch, name, time=now, target=mine) for name, _, mine in assigned]
        values.append(EpochRecord(epoch, time=now, of_target=True))
        for name, _, mine in assigned:
            current = CurrentAssignment(epoch, epoch, assigned=mine)
            values.append(CurrentRecord(epoch, name, time=now, current=current))
        for record in values:
            self.replay(record)
        for member in self._members.values():
            member.deadline = now + self._session_of(member.client)
        self._conversion = [*tombstones, *values]

    def _remove(self, name: str, request: GroupRequest | None = None) -> bool:
        if not self._is_last_of_protocol(name) or self._config.migration_policy not in DOWNGRADES:
            return super()._remove(name, request)
        return self._downgrade(name, request)

    def _is_last_of_protocol(self, name: str) -> bool:
        """Whether only classic members remain without this one, which is not classic."""
        is_classic = {each: self._config.is_classic(member.client) for each, member in self._members.items()}
        return len(is_classic) > 1 and not is_classic.pop(name) and all(is_classic.values())

    def targets_without(self, leaving: str) -> list[Assigned]:
        """The members but one, each with its target."""
        return [(name, each.client, each.target) for name, each in self._members.items() if name != leaving]

    def dissolution(self) -> list[GroupRecord]:
        """The records that remove the members and the group (ConsumerGroup.createGroupTombstoneRecords)."""
        now = self._process.loop.now

        def of_each(kind: type[GroupRecord]) -> list[GroupRecord]:
            return [kind(0, name, time=now, is_tombstone=True) for name in self._members]

        of_target, of_group = (EpochRecord(0, time=now, is_tombstone=True, of_target=each) for each in (True, False))
        return [*of_each(CurrentRecord), *of_each(TargetRecord), of_target, *of_each(MemberRecord), of_group]

    def dissolve(self, request: GroupRequest | None, epochs: dict[str, int]) -> None:
        """It was converted, by a request that is answered once the conversion is replicated. `epochs` of its members
        are those since then."""
        self._members = {}
        self._pending.append(Pending(self._group.log_end, 0, epochs, request))

    def is_waiting(self) -> bool:
        """Whether anything waits for replication."""
        return bool(self._pending)
