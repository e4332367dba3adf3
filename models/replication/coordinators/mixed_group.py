"""A group of KIP-848's protocol that members of the classic protocol are in, too, as during a rolling upgrade.

The coordinator assigns to all. A classic member's generation is its member epoch: its heartbeats tell it to join again
when its assignment is to change, JoinGroup moves it towards its target, and SyncGroup has its partitions. There is no
leader among the members (classicGroupJoinToConsumerGroup and the methods beside it in GroupMetadataManager).

Simplifications: the group is of KIP-848's protocol from its first member to its last, whereas with
group.consumer.migration.policy Kafka converts a classic group when the first member of the new protocol joins, and back
when the last one leaves. A member that joined and does not sync is removed when its session ends.
"""

from __future__ import annotations

from ..config import NEVER
from .consumer_group import ConsumerGroup, Member
from .group_requests import (
    HEARTBEAT,
    ILLEGAL_GENERATION,
    JOIN,
    LEAVE,
    REBALANCING,
    SYNC,
    UNKNOWN_MEMBER,
    GroupRequest,
)
from .reconciliation import UNRELEASED, UNREVOKED


class MixedGroup(ConsumerGroup):
    """The requests of classic members."""

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
