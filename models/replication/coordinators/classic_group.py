"""A group of the classic protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (GroupMetadataManager, ClassicGroup).

In a rebalance all members join. The coordinator chooses a leader among them, and begins a generation. The leader
computes the assignment and sends it with SyncGroup. The coordinator stores the assignment and sends each member its
part.

Simplification: a new member gets its id with its first JoinGroup, as before KIP-394.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from .. import errors
from .assignors import Claim
from .group_members import Group, GroupMembers
from .group_requests import (
    COMMIT,
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    TXN_COMMIT,
    AssignedMember,
    GroupRecord,
    GroupRequest,
    error_for_client,
)

EMPTY, PREPARING, COMPLETING = "Empty", "PreparingRebalance", "CompletingRebalance"
STABLE, DEAD = "Stable", "Dead"


@dataclass(slots=True, eq=False)
class Member:
    """A member of the group, in the coordinator's view."""

    client: str
    owned: Claim
    deadline: int  # when its session ends
    join: GroupRequest | None = None  # the requests that wait for other members
    sync: GroupRequest | None = None
    assignment: tuple[int, ...] = ()

    def delayed(self) -> list[GroupRequest]:
        """The member's requests that wait for other members."""
        return [request for request in (self.join, self.sync) if request is not None]


class ClassicGroup(GroupMembers):
    """The group's generation and its members."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._state, self._leader = EMPTY, ""
        self._members: dict[str, Member] = {}  # by member id
        self._static: dict[str, str] = {}  # group.instance.id -> member (KIP-345)
        self._last_assignment: tuple[AssignedMember, ...] = ()  # the last assignment in the log
        self._earliest_end = 0  # when a rebalance may complete
        self._latest_end = 0  # when it completes without the members that did not join

    # --- loading

    def replay(self, record: GroupRecord) -> None:
        if record.is_tombstone:
            self._group.generation, self._leader, self._last_assignment = 0, "", ()
        elif record.assignment is not None:
            self._group.generation, self._leader = record.generation, record.member
            self._last_assignment, self._group.empty_since = record.assignment, record.time

    def begin_sessions(self) -> int:
        session = self._process.loop.now + self._config.group_session
        self._members = {
            each.name: Member(each.client, Claim(each.partitions), session, assignment=each.partitions)
            for each in self._last_assignment
        }
        instances = {self._config.instance_of(each.client): each.name for each in self._last_assignment}
        self._static = {instance: name for instance, name in instances.items() if instance}
        self._state = STABLE if self._members else EMPTY
        if len(self._members) > self._config.classic_group_size:
            self.prepare_rebalance()  # the last members to join again are refused
        return len(self._members)

    def delayed(self) -> list[GroupRequest]:
        return [request for member in self._members.values() for request in member.delayed()]

    # --- requests

    def handle(self, request: GroupRequest) -> None:
        if request.kind == JOIN:
            self._join(request)
        elif error := self._refusal(request):
            self._group.respond(request, error)
        elif request.kind == LEAVE:
            self._remove(request.member)
            self._group.respond(request)
        elif request.generation != self._group.generation:
            self._group.respond(request, errors.ILLEGAL_GENERATION)
        else:
            self._handle_in_generation(request, self._members[request.member])

    def _handle_in_generation(self, request: GroupRequest, member: Member) -> None:
        if request.kind != TXN_COMMIT:
            member.deadline = self._process.loop.now + self._config.group_session
        if request.kind == SYNC:
            self._sync(request, member)
        elif request.kind == HEARTBEAT:
            self._group.respond(request, errors.REBALANCE_IN_PROGRESS if self._state == PREPARING else "")
        elif request.kind == COMMIT and self._state == COMPLETING:
            self._group.respond(request, errors.REBALANCE_IN_PROGRESS)
        else:
            self._group.commit(request)

    def _refusal(self, request: GroupRequest) -> str:
        """The error for an unknown member, or if another member has its group.instance.id; empty: none."""
        if self._static.get(request.instance, request.member) != request.member:
            return errors.FENCED_INSTANCE_ID
        return "" if request.member in self._members else errors.UNKNOWN_MEMBER_ID

    def _join(self, request: GroupRequest) -> None:
        now, name = self._process.loop.now, request.member
        if not self._has_room(name):
            self._drop_member(name)
            self._group.respond(request, errors.GROUP_MAX_SIZE_REACHED)
            return
        if name and (error := self._refusal(request)):
            self._group.respond(request, error)
            return
        if not name and request.instance in self._static:
            self._replace_static(request)
            return
        is_new = not name
        name = name or f"{request.instance or request.client}-{now}"
        if request.instance:
            self._static[request.instance] = name
        owned = Claim(request.owned or (), request.owned_since)
        member = self._members.setdefault(name, Member(request.client, owned, now))
        request.member = name
        needs_rebalance = is_new or member.owned.partitions != owned.partitions or name == self._leader
        member.owned, member.join = owned, request
        if self._state in (STABLE, COMPLETING) and not needs_rebalance:
            self._respond_joined(name, member)
            return
        if self._state != PREPARING:
            self.prepare_rebalance()
        self._try_complete_join()

    def _has_room(self, name: str) -> bool:
        """Whether group.max.size leaves room for a member that joins (acceptJoiningMember).

        A static member's new process needs room, too, as its member id is new. In a rebalance the members that have
        joined are counted.
        """
        limit = self._config.classic_group_size
        if self._state in (EMPTY, DEAD):
            return True
        if self._state == PREPARING:
            joined = [each for each, member in self._members.items() if member.join is not None]
            return name in joined or len(joined) < limit
        return name in self._members or len(self._members) < limit

    def _replace_static(self, request: GroupRequest) -> None:
        """Give the place of a static member's old process to the new one.

        If the group is stable, no rebalance begins (updateStaticMemberThenRebalanceOrCompleteJoin). Simplification: if
        the new member id cannot be stored, the new process gets an error, joins again, and replaces itself.
        """
        now, old = self._process.loop.now, self._static[request.instance]
        name = self._static[request.instance] = request.member = f"{request.instance}-{now}"
        former = self._members.pop(old)
        for waiting in former.delayed():
            self._group.respond(waiting, errors.FENCED_INSTANCE_ID)
        if self._leader == old:
            self._leader = name
        self._members[name] = Member(request.client, Claim(), now, request, assignment=former.assignment)
        if self._state != STABLE:
            if self._state == COMPLETING:
                self.prepare_rebalance()
            self._try_complete_join()
            return
        self._process.report("static-member-replaced", old, name, self._group.generation)
        record = self._record({each: member.assignment for each, member in self._members.items()})

        def stored(error: str, base: int) -> None:  # noqa: ARG001
            member = self._members.get(name)
            if member is None or member.join is not request or self._state != STABLE:
                return
            if error:
                member.join = None
                self._group.respond(request, error_for_client(error))
            else:
                self._respond_joined(name, member)

        self._group.write([record], stored)

    def prepare_rebalance(self) -> None:
        """Begin a rebalance: wait until all members have joined again."""
        now, config = self._process.loop.now, self._config
        self._earliest_end = now + (config.group_delay if self._state in (EMPTY, DEAD) else 0)
        self._latest_end = now + config.max_poll_interval
        is_completing = self._state == COMPLETING
        self._state = PREPARING
        for member in self._members.values():
            if is_completing:
                member.assignment = ()
            if member.sync is not None:
                self._group.respond(member.sync, errors.REBALANCE_IN_PROGRESS)
                member.sync = None

    def _try_complete_join(self) -> None:
        """Begin the next generation, if all members have joined or the rebalance timeout is over.

        Dynamic members that have not joined are removed. Static members stay.
        """
        now = self._process.loop.now
        missing = [name for name, member in self._members.items() if member.join is None]
        if self._state != PREPARING or now < self._earliest_end or (missing and now < self._latest_end):
            return
        if self._static and self._members and len(missing) == len(self._members):
            self._latest_end = now + self._config.max_poll_interval
            return
        for name in missing if not self._static else ():
            del self._members[name]
        self._group.generation += 1
        if not self._members:
            self._state, self._group.empty_since = EMPTY, now
            self._group.write([GroupRecord(self._group.generation, "", (), time=now)], lambda *_: None)
            return
        self._state = COMPLETING
        joined = {name: member for name, member in self._members.items() if member.join is not None}
        self._leader = self._leader if self._leader in joined else min(joined)
        for name, member in joined.items():
            self._respond_joined(name, member)

    def _respond_joined(self, name: str, member: Member) -> None:
        request = member.join
        assert request is not None
        member.join = None
        member.deadline = self._process.loop.now + self._config.group_session
        request.generation = self._group.generation
        request.members = {n: m.owned for n, m in self._members.items()} if name == self._leader else {}
        self._group.respond(request)

    def _sync(self, request: GroupRequest, member: Member) -> None:
        if self._state == PREPARING:
            self._group.respond(request, errors.REBALANCE_IN_PROGRESS)
        elif self._state == STABLE:
            request.assignment = member.assignment
            self._group.respond(request)
        else:
            member.sync = request
            if request.member == self._leader:
                record = self._record(request.assignments)
                self._group.write([record], partial(self._on_stored, record))

    def _record(self, assignments: Mapping[str, tuple[int, ...]]) -> GroupRecord:
        """The record of the generation, with the partitions of each member."""
        assigned = tuple(
            AssignedMember(name, member.client, assignments.get(name, ())) for name, member in self._members.items()
        )
        return GroupRecord(self._group.generation, self._leader, assigned, time=self._process.loop.now)

    def _on_stored(self, record: GroupRecord, error: str, base: int) -> None:  # noqa: ARG002
        """Send the members their partitions, once the generation is stored."""
        if not error:
            self._group.ledger.on_generation(record.generation)
        if self._state != COMPLETING or self._group.generation != record.generation:
            return
        if error:
            self.prepare_rebalance()
            return
        self._state = STABLE
        for assigned in record.assignment or ():
            member = self._members.get(assigned.name)
            if member is None:
                continue
            member.assignment = assigned.partitions
            if member.sync is not None:
                member.sync.assignment = member.assignment
                self._group.respond(member.sync)
                member.sync = None

    def is_empty(self) -> bool:
        return self._state == EMPTY

    def delete_group(self) -> list[GroupRecord]:
        self._state, self._group.generation, self._leader = DEAD, 0, ""
        return self.tombstones()

    # --- conversion from and to a group of KIP-848's protocol

    def assignments(self) -> list[AssignedMember]:
        """The members with their partitions of the last assignment.

        They have none if a rebalance began before that was stored (resetAndPropagateAssignmentWithError).
        """
        return [AssignedMember(name, member.client, member.assignment) for name, member in self._members.items()]

    def size(self) -> int:
        """The number of members."""
        return len(self._members)

    def epochs(self) -> dict[str, int]:
        """The generation, by member."""
        return dict.fromkeys(self._members, self._group.generation)

    def tombstones(self) -> list[GroupRecord]:
        """The records that remove the group."""
        return [GroupRecord(0, time=self._process.loop.now, is_tombstone=True)]

    def interrupt(self) -> None:
        """Let the members that wait for others join again (completeAllJoinFutures, completeAllSyncFutures)."""
        for member in self._members.values():
            for request in member.delayed():
                self._group.respond(request, errors.REBALANCE_IN_PROGRESS)
                member.deadline = self._process.loop.now + self._config.group_session
            member.join = member.sync = None

    def dissolve(self) -> None:
        """Remove all members, as the group was converted."""
        self.interrupt()
        self._members, self._state = {}, DEAD

    def adopt(self, assigned: Sequence[AssignedMember]) -> GroupRecord:
        """Take the members of a group of KIP-848's protocol. Returns the group's record."""
        self._last_assignment = tuple(sorted(assigned))
        self._leader = self._last_assignment[0].name
        self.begin_sessions()
        return self._record({each.name: each.partitions for each in assigned})

    def _drop_member(self, name: str) -> None:
        self._members.pop(name, None)
        self._static = {instance: member for instance, member in self._static.items() if member != name}

    def _remove(self, name: str) -> None:
        self._drop_member(name)
        if self._state in (STABLE, COMPLETING):
            self.prepare_rebalance()
        self._try_complete_join()

    def tick(self, now: int) -> None:
        for name in list(self._members):
            # Removing one member may complete the rebalance. That removes the others that did not join.
            member = self._members.get(name)
            if member is not None and member.join is None and now >= member.deadline:
                self._process.report("session-ended", name, self._group.generation)
                self._remove(name)
        self._try_complete_join()
