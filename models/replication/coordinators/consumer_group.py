"""A group of KIP-848's protocol, group.protocol=consumer: the coordinator assigns, and each member has its own epoch.

Members only send ConsumerGroupHeartbeat. When a member joins or leaves, the coordinator raises the group's epoch. At
the next heartbeat of any member it computes a new target assignment. Each member then moves towards its target on its
own (reconciliation.py), and keeps handling the partitions that do not move.

As in Kafka's coordinator runtime, a record changes the state when it is appended, and a response waits until all
records before it are replicated. mixed_group.py admits members of the classic protocol.

Simplifications:

- A member that has reached its target sends its partitions in each heartbeat, and each response has its partitions. In
  Kafka both do so only after a change or an error.
- There are no regular expressions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from .. import errors
from ..config import NEVER
from .assignors import SERVER_ASSIGNORS, Claim
from .group_members import Group, GroupMembers
from .group_requests import (
    HEARTBEAT,
    LEAVE,
    TXN_COMMIT,
    CurrentRecord,
    EpochRecord,
    GroupRecord,
    GroupRequest,
    MemberRecord,
    TargetRecord,
)
from .reconciliation import AWAY, UNREVOKED, CurrentAssignment, Partitions, is_fenced, reconcile


@dataclass(slots=True, eq=False)
class Member:
    """A member in the coordinator's view."""

    client: str
    instance: str = ""  # group.instance.id
    current: CurrentAssignment = field(default_factory=CurrentAssignment)
    target: Partitions = ()
    deadline: int = NEVER  # when its session ends
    revoke_by: int = NEVER  # when it is fenced, unless it has given up its partitions by then


@dataclass(slots=True, eq=False)
class Pending:
    """A response that waits until the log is replicated up to `end`.

    `target_epoch` and `epochs` are the epochs of the target assignment and of the members from then on.
    """

    end: int
    target_epoch: int
    epochs: dict[str, int]
    request: GroupRequest | None
    is_downgrade: bool = False  # the group becomes classic, with these epochs


class ConsumerGroup(GroupMembers):
    """The group's epoch, its target assignment, and its members."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._members: dict[str, Member] = {}
        self._target_epoch = 0
        self._partitions = 0  # of the topic, at the group's epoch
        self._changed_at = 0  # the log's end after the last change
        self._pending: deque[Pending] = deque()
        self._conversion: list[GroupRecord] = []  # records of a conversion; the next change writes them

    # --- the state, from the records of the log

    def replay(self, record: GroupRecord) -> None:
        now, name = self._process.loop.now, record.member
        if isinstance(record, MemberRecord):
            if record.is_tombstone:
                self._members.pop(name, None)  # compaction may have removed the value
            else:
                self._members[name] = Member(record.client, record.instance)
        elif isinstance(record, EpochRecord):
            if record.of_target:
                self._target_epoch = record.generation
            else:
                self._group.generation, self._partitions = record.generation, record.partitions
                self._group.empty_since = record.time
        elif isinstance(record, TargetRecord) and not record.is_tombstone:
            self._members[name].target = record.target
        elif isinstance(record, CurrentRecord) and not record.is_tombstone:
            member = self._members[name]
            member.current = record.current
            is_revoking = record.current.state == UNREVOKED and record.current.epoch != AWAY
            member.revoke_by = now + self._config.max_poll_interval if is_revoking else NEVER

    def begin_sessions(self) -> int:
        for member in self._members.values():
            member.deadline = self._process.loop.now + self._session_of(member.client)
        self._changed_at = self._group.log_end
        self._wait(None)
        return len(self._members)

    # --- changes

    def _change(self, records: list[GroupRecord], request: GroupRequest | None = None) -> bool:
        """Append records and apply them; respond to the request once they are replicated.

        Returns whether the records were appended.
        """
        if not self._group.write([*self._conversion, *records], lambda *_: self.respond_replicated()):
            if request is not None:
                self._group.respond(request, errors.COORDINATOR_NOT_AVAILABLE)
            return False
        self._conversion = []
        for record in records:
            self.replay(record)
        self._changed_at = self._group.log_end
        self._wait(request)
        return True

    def _wait(self, request: GroupRequest | None) -> None:
        """Respond to a request once everything that it depends on is replicated."""
        epochs = {name: member.current.epoch for name, member in self._members.items()}
        self._pending.append(Pending(self._changed_at, self._target_epoch, epochs, request))
        self.respond_replicated()

    def respond_replicated(self) -> None:
        """Send the responses to requests with a replicated effect."""
        while self._pending and self._pending[0].end <= self._group.replicated_end:
            done = self._pending.popleft()
            self._group.ledger.on_members(done.epochs, self._group.leader_epoch, done.is_downgrade)
            if done.target_epoch:
                self._group.ledger.on_generation(done.target_epoch)
            if done.request is not None:
                self._group.respond(done.request)

    def delayed(self) -> list[GroupRequest]:
        return [pending.request for pending in self._pending if pending.request is not None]

    # --- requests

    def handle(self, request: GroupRequest) -> None:
        if request.kind == HEARTBEAT and self._is_full_for(request.member):
            self._group.respond(request, errors.GROUP_MAX_SIZE_REACHED)
        elif error := self._refuse(request):
            self._group.respond(request, error)
        elif request.kind == HEARTBEAT:
            self._move(request, is_joining=request.generation == 0)
        elif request.kind == LEAVE:
            self._leave(request)
        else:
            self._group.commit(request)

    def _is_full_for(self, name: str) -> bool:
        """Whether group.consumer.max.size leaves no room for a member (throwIfConsumerGroupIsFull)."""
        return len(self._members) >= self._config.consumer_group_size and name not in self._members

    def _refuse(self, request: GroupRequest) -> str:
        """The error for an unknown member, or for a request in another epoch than the member's; empty: none."""
        member, is_heartbeat = self._members.get(request.member), request.kind == HEARTBEAT
        is_joining = is_heartbeat and request.generation == 0
        if request.instance and (is_heartbeat or request.kind == LEAVE):
            owner = self._static_member(request.instance)
            if is_joining and owner and not self._may_replace(self._members[owner]):
                return errors.UNRELEASED_INSTANCE_ID
            if not is_joining and owner not in ("", request.member):
                return errors.FENCED_INSTANCE_ID
        if is_joining:
            return ""
        if member is None:
            return errors.UNKNOWN_MEMBER_ID
        if is_heartbeat:
            return errors.FENCED_MEMBER_EPOCH if is_fenced(member.current, request.generation, request.owned) else ""
        if request.kind == LEAVE or request.generation == member.current.epoch:
            return ""
        return errors.ILLEGAL_GENERATION if request.kind == TXN_COMMIT else errors.STALE_MEMBER_EPOCH

    def refuse_fetch(self, request: GroupRequest) -> str:
        return self._refuse(request)

    def _session_of(self, client: str) -> int:  # noqa: ARG002
        """How long a member may be silent."""
        return self._config.consumer_session

    def _move(self, request: GroupRequest, is_joining: bool) -> None:
        """Update the member, the target assignment, and the member's own assignment.

        These are steps 1 to 3 of GroupMetadataManager.consumerGroupHeartbeat.
        """
        now, name = self._process.loop.now, request.member
        records: list[GroupRecord] = []
        count, epoch = self._group.count_partitions(), self._group.generation
        away = self._static_member(request.instance) if is_joining else ""
        is_new = name not in self._members and not away
        member = self._members.get(away or name) or Member(request.client, request.instance)
        if away:
            records += self._replacement(away, request)
            member = replace(member, current=replace(member.current, epoch=0, previous=0))
        self._group.ledger.on_heartbeat(name, request.sent, member.current.epoch)
        if is_new:
            records.append(MemberRecord(0, name, time=now, client=request.client, instance=request.instance))
        if is_new or count != self._partitions:
            epoch += 1
            records.append(EpochRecord(epoch, time=now, partitions=count))
        target, target_epoch = member.target, self._target_epoch
        if epoch > target_epoch:
            former = {each: known.target for each, known in self._members.items() if each != away} | {name: target}
            claims = {each: Claim(partitions) for each, partitions in former.items()}
            targets = SERVER_ASSIGNORS[self._config.remote_assignor](count, claims)
            changed = [each for each in sorted(targets) if is_new or targets[each] != former[each]]
            records += [TargetRecord(epoch, each, time=now, target=targets[each]) for each in changed]
            records.append(EpochRecord(epoch, time=now, partitions=count, of_target=True))
            target, target_epoch = targets[name], epoch
        current = reconcile(member.current, target, target_epoch, request.owned, self._is_held)
        if current != member.current:
            records.append(CurrentRecord(current.epoch, name, time=now, current=current))
        request.generation, request.assignment = current.epoch, current.assigned
        if not records:
            self._wait(request)
        elif not self._change(records, request):
            return
        self._members[name].deadline = now + self._session_of(member.client)

    def _is_held(self, partition: int) -> bool:
        return any(partition in member.current.held for member in self._members.values())

    # --- static members

    def _static_member(self, instance: str) -> str:
        """The member with this group.instance.id; empty: there is none."""
        return next((name for name, member in self._members.items() if instance and member.instance == instance), "")

    def _may_replace(self, member: Member) -> bool:
        """Whether a new process may take the place of a static member: it closed (throwIfInstanceIdIsUnreleased)."""
        return member.current.epoch == AWAY

    def _replacement(self, away: str, request: GroupRequest) -> list[GroupRecord]:
        """The records that give the place of a static member's old process to the new one (replaceMember)."""
        now, old = self._process.loop.now, self._members[away]
        self._process.report("static-member-replaced", away, request.member, self._group.generation)
        return [
            *self._tombstones(away),
            MemberRecord(0, request.member, time=now, client=request.client, instance=request.instance),
            TargetRecord(self._target_epoch, request.member, time=now, target=old.target),
            CurrentRecord(0, request.member, time=now, current=replace(old.current, epoch=0, previous=0)),
        ]

    # --- members that leave

    def _leave(self, request: GroupRequest) -> None:
        """A member leaves. A static one keeps its partitions until its session ends."""
        if not request.instance:
            self._remove(request.member, request)
            return
        name, now = request.member, self._process.loop.now
        self._process.report("static-member-away", name)
        current = replace(self._members[name].current, epoch=AWAY, revoking=())
        self._change([CurrentRecord(AWAY, name, time=now, current=current)], request)

    def _remove(self, name: str, request: GroupRequest | None = None) -> bool:
        """Remove a member and raise the group's epoch; returns whether the records were appended."""
        raised = EpochRecord(self._group.generation + 1, time=self._process.loop.now, partitions=self._partitions)
        return self._change([*self._tombstones(name), raised], request)

    def _tombstones(self, name: str) -> list[GroupRecord]:
        now = self._process.loop.now
        return [kind(0, name, time=now, is_tombstone=True) for kind in (CurrentRecord, TargetRecord, MemberRecord)]

    def tick(self, now: int) -> None:
        """Fence members at the end of their sessions, and members that did not give up their partitions in time."""
        self.respond_replicated()
        for name, member in list(self._members.items()):
            if name in self._members and now >= min(member.deadline, member.revoke_by):
                epoch, is_late = member.current.epoch, now < member.deadline
                if self._remove(name):
                    self._process.report("member-fenced", name, epoch, is_late)

    def is_empty(self) -> bool:
        return not self._members

    def delete_group(self) -> list[GroupRecord]:
        self._group.generation = self._target_epoch = 0
        return self.tombstones()

    def tombstones(self) -> list[GroupRecord]:
        """The records that remove the group without members."""
        now = self._process.loop.now
        return [EpochRecord(0, time=now, is_tombstone=True, of_target=each) for each in (True, False)]
