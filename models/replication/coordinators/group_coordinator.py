"""A broker's group coordinator: active while the broker leads the group's partition of `__consumer_offsets`.

The next leader replays the partition first (GroupCoordinator and GroupMetadataManager of the classic protocol).
Simplifications: there is one group; a new member gets its id at once, as before KIP-394; clients find the coordinator
in the metadata, instead of with FindCoordinator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ..brokers.part import Parts
from ..brokers.produce import ProduceHandler
from ..requests import INVALID_STATE, NOT_LEADER, OLD_PRODUCER
from ..storage.batches import Batch
from ..storage.transactions import MARKER, is_commit
from .group_ledger import GroupLedger
from .group_offsets import UNWRITTEN, GroupOffsets
from .group_requests import (
    COMMIT,
    FENCED_INSTANCE,
    FETCH,
    HEARTBEAT,
    ILLEGAL_GENERATION,
    JOIN,
    LEAVE,
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    REBALANCING,
    SYNC,
    TXN_COMMIT,
    UNKNOWN_MEMBER,
    UNSTABLE,
    GroupRecord,
    GroupRequest,
)
from .log_coordinator import LogCoordinator
from .transaction_requests import CONCURRENT, FENCED

OF_TRANSACTION = (OLD_PRODUCER, INVALID_STATE, CONCURRENT, FENCED)  # errors that say why a transaction cannot go on
EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"
DEAD = "Dead"


@dataclass(slots=True, eq=False)
class Member:
    """A member of the group, in the coordinator's view."""

    client: str
    owned: tuple[int, ...]
    deadline: int  # when its session ends
    join: GroupRequest | None = None  # requests that wait
    sync: GroupRequest | None = None
    assignment: tuple[int, ...] = ()


class GroupCoordinator(LogCoordinator[GroupRecord]):
    """The group on this broker."""

    def __init__(self, parts: Parts, produces: ProduceHandler, records: list[GroupRecord], ledger: GroupLedger) -> None:
        super().__init__(parts, produces, parts[-1].group_log, records)
        self.ledger = ledger

    def _drop_state(self) -> None:
        self._state, self._generation, self._leader = EMPTY, 0, ""
        self._members: dict[str, Member] = {}
        self._static: dict[str, str] = {}  # group.instance.id -> member (KIP-345)
        self._empty_since, self._due_expiry = 0, 0
        self._offsets = GroupOffsets()
        self._assigned_last: tuple[tuple[str, str, tuple[int, ...]], ...] = ()  # the last assignment in the log
        self._earliest = 0  # when a rebalance may complete
        self._latest = 0  # when it completes without the members that did not join

    # --- election and loading

    def _replay(self, batch: Batch, records: Sequence[GroupRecord]) -> None:
        if batch.producer == MARKER:
            self._offsets.end_transaction(batch.pid, is_commit(batch))
        for at, record in enumerate(records, batch.base):
            if record.is_tombstone and record.offset is None:
                self._generation, self._leader, self._assigned_last = 0, "", ()
            elif record.assignment is not None:
                self._generation, self._leader = record.generation, record.member
                self._assigned_last, self._empty_since = record.assignment, record.time
            if record.offset is not None and batch.pid >= 0:
                self._offsets.add_pending(batch.pid, record, at)
            elif record.offset is not None:
                self._offsets.commit(record, at)

    def _loaded(self) -> None:
        now = self._process.loop.now
        self._due_expiry = now + self._config.offsets_check
        session = now + self._config.group_session
        self._members = {
            name: Member(client, mine, session, assignment=mine) for name, client, mine in self._assigned_last
        }
        instances = ((self._config.instance_of(client), name) for name, client, _ in self._assigned_last)
        self._static = {instance: name for instance, name in instances if instance}
        self._state = STABLE if self._members else EMPTY
        self._process.report("group-loaded", self._generation, len(self._members), self._offsets.committed())

    def _refuse_parked(self) -> None:
        for request in self.parked():
            self._respond(request, NOT_COORDINATOR)

    def parked(self) -> list[GroupRequest]:
        """The requests that wait for other members."""
        found = [request for member in self._members.values() for request in (member.join, member.sync)]
        return [request for request in found if request is not None]

    # --- requests

    def handle(self, request: GroupRequest) -> None:
        """Respond to a member, now or once the others have joined."""
        if not self._is_coordinator():
            self._respond(request, NOT_COORDINATOR)
        elif self._is_loading:
            self._respond(request, LOADING)
        elif request.kind == JOIN:
            self._join(request)
        elif request.kind == FETCH:
            request.offsets = self._offsets.committed()
            self._respond(request, "" if self._offsets.are_stable(request.stable) else UNSTABLE)
        elif request.kind == TXN_COMMIT and not request.member:
            self._commit_in_transaction(request)  # before KIP-447
        elif error := self._refusal(request):
            self._respond(request, error)
        else:
            member = self._members[request.member]
            if request.kind == LEAVE:
                self._remove(request.member)
                self._respond(request)
            elif request.generation != self._generation:
                self._respond(request, ILLEGAL_GENERATION)
            else:
                if request.kind != TXN_COMMIT:
                    member.deadline = self._process.loop.now + self._config.group_session
                {
                    SYNC: self._sync,
                    HEARTBEAT: self._heartbeat,
                    COMMIT: self._commit,
                    TXN_COMMIT: self._commit_in_transaction,
                }[request.kind](request, member)

    def _refusal(self, request: GroupRequest) -> str:
        """Why the member of a request is refused: another one has its group.instance.id, or it is not known."""
        if self._static.get(request.instance, request.member) != request.member:
            return FENCED_INSTANCE
        return "" if request.member in self._members else UNKNOWN_MEMBER

    def _join(self, request: GroupRequest) -> None:
        now, name = self._process.loop.now, request.member
        if name and (error := self._refusal(request)):
            self._respond(request, error)
            return
        if not name and request.instance in self._static:
            self._replace_static(request)
            return
        is_new = not name
        name = name or f"{request.instance or request.client}-{now}"
        if request.instance:
            self._static[request.instance] = name
        member = self._members.setdefault(name, Member(request.client, request.owned, now))
        request.member = name
        changed = is_new or member.owned != request.owned or name == self._leader
        member.owned, member.join = request.owned, request
        if self._state in (STABLE, COMPLETING) and not changed:
            self._joined(name, member)
            return
        if self._state != PREPARING:
            self._prepare()
        self._try_complete()

    def _replace_static(self, request: GroupRequest) -> None:
        """A static member's new process gets the place of the old one, without a rebalance if the group is stable
        (GroupCoordinator.updateStaticMemberAndRebalance).

        Simplification: if the new member id cannot be stored, the member is refused and replaced again.
        """
        now, old = self._process.loop.now, self._static[request.instance]
        name = self._static[request.instance] = request.member = f"{request.instance}-{now}"
        former = self._members.pop(old)
        for waiting in (former.join, former.sync):
            if waiting is not None:
                self._respond(waiting, FENCED_INSTANCE)
        self._leader = name if self._leader == old else self._leader
        self._members[name] = Member(request.client, (), now, request, assignment=former.assignment)
        if self._state != STABLE:
            if self._state == COMPLETING:
                self._prepare()
            self._try_complete()
            return
        self._process.report("static-member-replaced", old, name, self._generation)
        shares = tuple((each, member.client, member.assignment) for each, member in self._members.items())
        record = GroupRecord(self._generation, self._leader, shares, time=now)

        def stored(error: str, base: int) -> None:  # noqa: ARG001
            member = self._members.get(name)
            if member is None or member.join is not request or self._state != STABLE:
                return
            if error:
                member.join = None
                self._respond(request, NOT_COORDINATOR if error == NOT_LEADER else NOT_AVAILABLE)
            else:
                self._joined(name, member)

        self._write([record], stored)

    def _prepare(self) -> None:
        """Begin a rebalance: wait until all members have joined again."""
        now, config = self._process.loop.now, self._config
        self._earliest = now + (config.group_delay if self._state in (EMPTY, DEAD) else 0)
        self._latest = now + config.max_poll_interval
        self._state = PREPARING
        for member in self._members.values():
            if member.sync is not None:
                self._respond(member.sync, REBALANCING)
                member.sync = None

    def _try_complete(self) -> None:
        """Begin the next generation, if all members have joined or the time is over. Static members stay without."""
        now = self._process.loop.now
        waits = [name for name, member in self._members.items() if member.join is None]
        if self._state != PREPARING or now < self._earliest or (waits and now < self._latest):
            return
        if self._static and self._members and len(waits) == len(self._members):
            self._latest = now + self._config.max_poll_interval
            return
        for name in waits if not self._static else ():
            del self._members[name]
        self._generation += 1
        if not self._members:
            self._state, self._empty_since = EMPTY, now
            self._write([GroupRecord(self._generation, "", (), time=now)], lambda *_: None)
            return
        self._state = COMPLETING
        joined = {name: member for name, member in self._members.items() if member.join is not None}
        if self._leader not in joined:
            self._leader = min(joined)
        for member in self._members.values():
            member.assignment = ()
        for name, member in joined.items():
            self._joined(name, member)

    def _joined(self, name: str, member: Member) -> None:
        request = member.join
        assert request is not None
        member.join = None
        member.deadline = self._process.loop.now + self._config.group_session
        request.generation = self._generation
        request.members = {n: m.owned for n, m in self._members.items()} if name == self._leader else {}
        self._respond(request)

    def _sync(self, request: GroupRequest, member: Member) -> None:
        if self._state == PREPARING:
            self._respond(request, REBALANCING)
        elif self._state == STABLE:
            request.assignment = member.assignment
            self._respond(request)
        else:
            member.sync = request
            if request.member == self._leader:
                shares = tuple(
                    (name, each.client, request.assignments.get(name, ())) for name, each in self._members.items()
                )
                now = self._process.loop.now
                record = GroupRecord(self._generation, self._leader, shares, time=now)
                self._write([record], partial(self._assigned, record))

    def _assigned(self, record: GroupRecord, error: str, base: int) -> None:  # noqa: ARG002
        """Send the members their partitions, once the generation is stored."""
        if not error:
            self.ledger.on_generation(record.generation, self._process.loop.now)
        if self._state != COMPLETING or self._generation != record.generation:
            return
        if error:
            self._prepare()
            return
        self._state = STABLE
        for name, _client, mine in record.assignment or ():
            member = self._members.get(name)
            if member is not None:
                member.assignment = mine
                if member.sync is not None:
                    member.sync.assignment = mine
                    self._respond(member.sync)
                    member.sync = None

    def _heartbeat(self, request: GroupRequest, _: Member) -> None:
        self._respond(request, REBALANCING if self._state == PREPARING else "")

    def _commit(self, request: GroupRequest, _: Member) -> None:
        if self._state == COMPLETING:
            self._respond(request, REBALANCING)
            return
        records = self._offset_records(request)
        self._write(records, partial(self._committed, records, request))

    def _offset_records(self, request: GroupRequest) -> list[GroupRecord]:
        now, offsets = self._process.loop.now, sorted(request.offsets.items())
        return [GroupRecord(request.generation, request.member, None, offset, now) for offset in offsets]

    def _committed(self, records: list[GroupRecord], request: GroupRequest, error: str, base: int) -> None:
        if not error:
            for at, record in enumerate(records, base):
                self._offsets.commit(record, at)
                self.ledger.on_commit(record, self._process.loop.now)
        self._respond(request, NOT_COORDINATOR if error == NOT_LEADER else NOT_AVAILABLE if error else "")

    # --- transactions

    def _commit_in_transaction(self, request: GroupRequest, _: Member | None = None) -> None:
        """TxnOffsetCommit. The leader of the log, which is this broker, checks the producer's epoch."""
        records = self._offset_records(request)
        self._offsets.expect(request.producer[0], request.offsets)
        self._write(records, partial(self._wrote_pending, records, request), *request.producer)

    def _wrote_pending(self, records: list[GroupRecord], request: GroupRequest, error: str, base: int) -> None:
        pid = request.producer[0]
        if error:
            self._offsets.give_up(pid, request.offsets)
            known = NOT_COORDINATOR if error == NOT_LEADER else NOT_AVAILABLE
            self._respond(request, error if error in OF_TRANSACTION else known)
            return
        for at, record in enumerate(records, base):
            self._offsets.add_pending(pid, record, at)
            if record.member:
                self.ledger.on_commit(record, self._process.loop.now)
        self._respond(request)

    def end_transaction(self, pid: int, commit: bool) -> None:
        """A marker was written to the group's log (handleTxnCompletion)."""
        if self._is_coordinator() and not self._is_loading:
            self._offsets.end_transaction(pid, commit)

    def _remove(self, name: str) -> None:
        del self._members[name]
        self._static = {instance: member for instance, member in self._static.items() if member != name}
        if self._state in (STABLE, COMPLETING):
            self._prepare()
        self._try_complete()

    def _tick_loaded(self, now: int) -> None:
        """End expired sessions and rebalances, and remove expired offsets."""
        for name in [n for n, m in self._members.items() if m.join is None and now >= m.deadline]:
            self._process.report("session-ended", name, self._generation)
            self._remove(name)
        self._try_complete()
        if now >= self._due_expiry:
            self._due_expiry = now + self._config.offsets_check
            self._expire_offsets(now)

    def _expire_offsets(self, now: int) -> None:
        """Remove the offsets of a group that has been empty for offsets.retention.minutes, then the group (KIP-211).

        Before 2.1 an offset expired so long after its commit, also while the group had members. Simplification: the
        tombstones are written with acks=all.
        """
        limit = now - self._config.offsets_retention
        is_empty = self._state == EMPTY
        gone: list[int] = []
        if self._rules.era.expires_active_offsets:
            gone = self._offsets.expired(limit)
        elif is_empty and self._empty_since <= limit:
            gone = self._offsets.expired(now)
        records = [GroupRecord(0, "", None, (partition, 0), now, is_tombstone=True) for partition in gone]
        for record in records:
            self._offsets.commit(record, UNWRITTEN)
        if is_empty and self._generation and not self._offsets.committed():
            self._state, self._generation, self._leader = DEAD, 0, ""
            self.ledger.deaths += 1
            records.append(GroupRecord(0, "", None, None, now, is_tombstone=True))
        if records:
            self._process.report("offsets-expired", tuple(gone), self._state == DEAD)
            self._write(records, lambda *_: None)
